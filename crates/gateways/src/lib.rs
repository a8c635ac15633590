//! Front ends that speak foreign protocols and are clients of a replicated service.
//!
//! A gateway votes: it is the client that compares the replicas' answers. Whoever speaks to it
//! trusts it as they would trust one server, so it belongs beside the application that uses it.
//!
//! | module | what it holds |
//! | --- | --- |
//! | [`resp`] | Redis: RESP2 and RESP3 in front of [`pentarchy_services::kv`] |

#![forbid(unsafe_code)]

pub mod resp;
