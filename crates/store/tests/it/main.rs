//! The store as a service.

mod failing;
mod model;
mod support;
