//! Execution, state transfer and epochs, over a toy service.

mod epochs;
mod executor;
mod roster;
mod toy;
mod transfer;
mod tree;
