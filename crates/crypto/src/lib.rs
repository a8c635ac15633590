//! Keys, and everything that is signed, certified or checked with them.
//!
//! A node has one Ed25519 key. It signs statements with it ([`authenticator`], [`request_auth`]),
//! and by conversion to X25519 the same key opens its channels ([`keys`]). What others made is
//! checked by [`verifier`]. The trusted counters are another crate: here they are only called.
//!
//! | module | what it holds |
//! | --- | --- |
//! | [`keys`] | a node's key pair and the secret that the group's trusted devices share |
//! | [`secret_file`] | text files that only their owner can read |
//! | [`authenticator`] | makes the tag that a message asks for |
//! | [`member_keys`] | keys that members share in pairs, and the MACs under them |
//! | [`verifier`] | checks tags and envelopes, one at a time or in batches |
//! | [`request_auth`] | how a client authenticates an envelope, and how a replica checks it |
//! | [`signing_keys`] | the keys by which a member signs, one for each configuration |
//! | [`session`] | keys that a client shares with its group's trusted devices |
//! | [`sealed`] | a secret on its way to one member |
//! | [`seen`] | what was found genuine before |
//! | [`costs`] | how much of all this was done |

#![forbid(unsafe_code)]

mod agreed;
pub mod authenticator;
pub mod costs;
pub mod keys;
pub mod member_keys;
pub mod request_auth;
pub mod sealed;
pub mod secret_file;
pub mod seen;
pub mod session;
pub mod signing_keys;
pub mod verifier;
