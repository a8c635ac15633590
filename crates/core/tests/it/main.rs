//! Execution, state transfer and epochs, over a toy service.

mod changing;
mod cold;
mod configuration;
mod epochs;
mod executor;
mod golden;
mod governed;
mod links;
mod possession;
mod readiness;
mod roster;
mod speculation;
mod toy;
mod transfer;
mod tree;
