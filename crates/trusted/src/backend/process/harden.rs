//! What a process can give up by itself, so that less can be done to it and by it.

use rustix::process::{DumpableBehavior, Resource, Rlimit, set_dumpable_behavior, setrlimit};
use std::io;

/// Before there is a secret. Nobody may read this memory: no other process of the same user by
/// attaching to it or through `/proc`, and no dump after a crash. Nor does it become more by
/// starting something.
pub fn close_memory() -> io::Result<()> {
    set_dumpable_behavior(DumpableBehavior::NotDumpable)?;
    give_up(Resource::Core)?;
    rustix::thread::set_no_new_privs(true)?;
    Ok(())
}

/// Once the secret is read: it opens nothing, connects to nothing and writes nothing any more.
pub fn close_doors() -> io::Result<()> {
    give_up(Resource::Nofile)?;
    give_up(Resource::Fsize)?;
    Ok(())
}

fn give_up(resource: Resource) -> io::Result<()> {
    Ok(setrlimit(resource, Rlimit { current: Some(0), maximum: Some(0) })?)
}
