//! Execution and state transfer, over a toy service.

mod executor;
mod toy;
mod transfer;
