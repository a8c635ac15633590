//! The client's host: one thread that drives a client core over encrypted connections to every
//! replica, and a cheap handle by which any number of threads and tasks submit operations.
//!
//! ```no_run
//! # fn example(config: pentarchy_client::ClientConfig) -> Result<(), Box<dyn std::error::Error>> {
//! let client = pentarchy_client::Client::connect(config)?;
//! let result = client.call("put a 1")?;
//! # Ok(()) }
//! ```
//!
//! All operations that are submitted while the thread is busy leave in one envelope under one
//! authentication, so throughput comes from having many outstanding, not from many clients.
//!
//! | module | what it holds |
//! | --- | --- |
//! | [`Client`] | the handle |
//! | [`ClientConfig`] | what it is connected with |
//! | [`Pending`], [`Completions`] | two ways to wait: for one result, or for whatever comes next |
//! | [`ServiceProxy`] | the calls of BFT-SMaRt, with replies judged by a [`Comparator`] |
//! | [`ClientEvent`] | what the service tells it unasked |
//! | [`RequestError`] | why there is no result |
//! | [`links`], [`numbers`] | parts of the host, for who writes another one |

#![forbid(unsafe_code)]

mod completion;
mod config;
mod convincing;
mod error;
mod fetching;
mod follows;
mod handle;
mod host;
mod inbox;
mod judged;
mod judging;
pub mod links;
pub mod numbers;
mod proxy;
mod said;
mod waiting;

pub use completion::{Completions, Pending};
pub use config::{ClientConfig, ClientEvent, OUTSTANDING_DEFAULT, OnEvent};
pub use error::{ConnectError, RequestError};
pub use follows::{Follows, NextGroup};
pub use handle::Client;
pub use judging::{Comparator, Extractor};
pub use proxy::{Kind, PATIENCE, ReplyListener, RequestId, ServiceProxy};
pub use waiting::GIVE_UP_TIME;
