//! A machine on its own: what clients and peers may do to it over their links, without a socket.

mod admission;
mod bench;
mod chain;
mod disk;
mod inheriting;
mod keys;
mod links;
mod members;
mod resuming;
mod stopping;
mod succession;
mod vouching;
mod wedging;
