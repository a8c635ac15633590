//! Byzantine fault-tolerant replication, to build services on.
//!
//! A service is a deterministic state machine ([`Service`], or [`SmallService`] if its state is
//! small). A group of `2f + 1` replicas runs it, so that clients get correct answers while up to
//! `f` of the replicas fail in any way whatsoever. `examples/counter.rs` is a whole program:
//!
//! ```
//! # use pentarchy::{Context, LocalCluster, Malformed, SmallService, Whole};
//! # #[derive(Default)]
//! # struct Counter(u64);
//! # impl SmallService for Counter {
//! #     fn execute(&mut self, _: &Context, _: &[u8]) -> Vec<u8> {
//! #         self.0 += 1;
//! #         self.query(b"")
//! #     }
//! #     fn query(&self, _: &[u8]) -> Vec<u8> {
//! #         self.0.to_string().into_bytes()
//! #     }
//! #     fn save(&self) -> Vec<u8> {
//! #         self.0.to_le_bytes().to_vec()
//! #     }
//! #     fn load(&mut self, bytes: &[u8]) -> Result<(), Malformed> {
//! #         self.0 = u64::from_le_bytes(bytes.try_into().map_err(|_| Malformed)?);
//! #         Ok(())
//! #     }
//! # }
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let cluster = LocalCluster::builder().start(|| Box::new(Whole::new(Counter::default())))?;
//! let client = cluster.client()?;
//! assert_eq!(client.call("increment")?, "1");
//! # Ok(()) }
//! ```
//!
//! | item | what it is |
//! | --- | --- |
//! | [`Service`], [`SmallService`], [`Context`] | what to write |
//! | [`Client`] | `call` waits, `submit` gives a future, `query` reads fast; many at a time |
//! | [`ServiceProxy`], [`Replier`] | the calls of BFT-SMaRt, and replies that differ |
//! | [`Event`], [`ClientEvent`] | what a service tells clients unasked, and what they hear |
//! | [`LocalCluster`] | a cluster inside this process |
//! | [`config`], [`generate`], [`node`] | the parts of a cluster over several hosts |
//! | [`services`] | services that are there already |
//! | [`store`] | one whose state may be larger than memory |
//! | [`metrics`], [`logging`] | what operators see |

#![forbid(unsafe_code)]

pub mod logging;
pub mod metrics;

#[doc(inline)]
pub use pentarchy_cluster::*;
pub use pentarchy_services as services;
pub use pentarchy_store as store;
