//! What several protocols share.

pub mod awaited_finality;
pub mod bodies;
pub mod certificate;
pub mod checkpoint;
pub mod checks;
pub mod clock;
pub mod confirming_client;
pub mod counters;
pub mod extent;
pub mod forward_to;
pub mod frame;
pub mod lies;
pub mod message;
pub mod pace;
pub mod parts;
pub mod peers;
pub mod primary_monitor;
pub mod record;
pub mod reply_quota;
pub mod request_queue;
pub mod slots_to_fill;
pub mod timer;
pub mod usig;
pub mod view_requests;
pub mod voted_bytes;
pub mod voting_client;
