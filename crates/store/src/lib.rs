//! An ordered map of bytes to bytes, as a service whose state may be larger than memory.
//!
//! The pairs are in a store on disk ([`redb`]), of which a cache of a fixed size is in memory. What
//! makes them durable is the group's log and the snapshots of its replicas, as for every service.
//! So the store's file is scratch: it is made anew at each start, has no name, is never synced, and
//! is filled section by section from the snapshot to go on from.
//!
//! | module | what it holds |
//! | --- | --- |
//! | [`operation`] | what clients ask and are told, as bytes |
//! | [`store`] | the service |
//! | [`scratch`] | the file |
//!
//! Operations, in [`operation::Operation`]'s encoding (integers little-endian, `bytes` with their
//! length as a `u32` before them):
//!
//! ```text
//! operation := 0 key:bytes                                  get
//!            | 1 key:bytes value:bytes                      put
//!            | 2 key:bytes                                  delete
//!            | 3 start:bytes end:option limit:u32           scan: start <= key < end
//! option    := 0 | 1 bytes
//! answer    := 0                                            done
//!            | 1 value:bytes                                found
//!            | 2                                            there is no such key
//!            | 3 count:u32 (key:bytes value:bytes){count} next:option
//!            | 4 reason:u8                                  refused: nothing was done
//! ```
//!
//! A scan's answer is bounded, in pairs and in bytes, and names the key with which to go on.

#![forbid(unsafe_code)]

pub mod operation;
pub mod scratch;
mod section;
pub mod store;

pub use operation::{Answer, Operation, Refusal};
pub use store::{Limits, Store};
