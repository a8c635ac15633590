//! Tests of the services through their one interface.

mod commands;
mod model;
mod null;
mod sections;
mod support;
