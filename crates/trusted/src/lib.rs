//! The trusted counter: what keeps a faulty replica from telling two stories.
//!
//! The protocols of this project tolerate `f` faults with only `2f + 1` replicas because each
//! replica owns a small device that behaves even if everything else of the replica does not. Its
//! whole behaviour is in [`usig`] or, for Hybster, in [`trinx`], and, if clients authenticate
//! their requests to the devices, in [`session`]; each fits on a few screens so that it can be
//! reviewed as a whole. The rest of the crate is not trusted to be more than available: where a
//! device keeps its identity ([`identity`]), how others check its certificates ([`check`]), how it
//! is reached ([`backend`]), and how a TrInX instance passes for a single counter
//! ([`order_counter`]).

#![forbid(unsafe_code)]

pub mod backend;
pub mod check;
pub mod identity;
pub mod order_counter;
mod scope;
pub mod session;
pub mod trinx;
pub mod usig;

pub use backend::in_process::InProcess;
pub use backend::process::CounterProcess;
pub use backend::trinx_in_process::TrinxInProcess;
pub use check::Check;
pub use identity::DeviceIdentity;
pub use order_counter::{OrderCheck, OrderCounter};
pub use session::Sessions;
