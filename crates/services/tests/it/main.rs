//! Tests of the services through their one interface.

mod commands;
mod expiry;
mod model;
mod null;
mod olympus;
mod sections;
mod session;
mod support;
mod work;
