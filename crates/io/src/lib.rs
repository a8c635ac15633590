//! Bytes in and out: encrypted channels over TCP, readiness, clocks, backoff.
//!
//! | module | what it holds |
//! | --- | --- |
//! | [`channel`] | the encrypted channel, without a socket |
//! | [`frame`] | cutting a byte stream into frames and frames into messages |
//! | [`connection`] | a channel over a non-blocking TCP stream, with a bounded outbound queue |
//! | [`hello`] | the first message inside a channel |
//! | [`buffers`] | large buffers that are used again |
//! | [`poll`] | waiting for readiness |
//! | [`calls`] | how many system calls all of that took |
//! | [`clock`] | time that never goes back |
//! | [`backoff`] | when to dial again |
//! | [`costs`] | how much was encrypted and decrypted |
//! | [`ports`] | ports on this machine that no other process of this project gets |

#![forbid(unsafe_code)]

pub mod backoff;
pub mod buffers;
pub mod calls;
pub mod channel;
pub mod clock;
pub mod connection;
pub mod costs;
mod error;
pub mod frame;
pub mod hello;
pub mod poll;
pub mod ports;
