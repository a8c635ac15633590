//! The trusted counter: what keeps a faulty replica from telling two stories.
//!
//! The protocols of this project tolerate `f` faults with only `2f + 1` replicas because each
//! replica owns a small device that behaves even if everything else of the replica does not. Its
//! whole behaviour is in [`usig`] and, if clients authenticate their requests to the devices, in
//! [`session`]; both fit on a few screens so that they can be reviewed as a whole. The rest of the
//! crate is not trusted to be more than available: where a device keeps its identity
//! ([`identity`]), how others check its certificates ([`check`]), and how it is reached
//! ([`backend`]).

#![forbid(unsafe_code)]

pub mod backend;
pub mod check;
pub mod identity;
pub mod session;
pub mod usig;

pub use backend::in_process::InProcess;
pub use check::Check;
pub use identity::DeviceIdentity;
pub use session::Sessions;
