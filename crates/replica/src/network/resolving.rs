//! Addresses of members that a change of the configuration brings. The system may take seconds to
//! look a name up, and the replica's thread must not wait for that: a thread of its own does.

use pentarchy_core::ids::MemberId;
use std::io;
use std::net::{SocketAddr, ToSocketAddrs as _};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Weak};
use std::thread::{Builder, sleep};
use std::time::Duration;

/// Between two attempts at names that nobody knows.
const AGAIN: Duration = Duration::from_secs(2);

/// Looks names up until it is dropped, or all are found.
pub struct Resolving {
    found: Receiver<(MemberId, SocketAddr)>,
    /// The thread ends when nobody has it any more.
    _wanted: Arc<()>,
}

impl Resolving {
    /// Looks up where these members are, each as `host:port`. There are no more of them than a
    /// group has members.
    pub fn start(mut names: Vec<(MemberId, String)>) -> io::Result<Self> {
        let (tell, found) = channel();
        let wanted = Arc::new(());
        let is_wanted = Arc::downgrade(&wanted);
        Builder::new().name("resolver".to_owned()).spawn(move || {
            while !names.is_empty() && Weak::strong_count(&is_wanted) > 0 {
                names.retain(|(member, name)| match resolve(name) {
                    Some(address) => tell.send((*member, address)).is_err(),
                    None => true,
                });
                if !names.is_empty() {
                    sleep(AGAIN);
                }
            }
        })?;
        Ok(Self { found, _wanted: wanted })
    }

    /// Those that were found since the last time.
    pub fn found(&self) -> impl Iterator<Item = (MemberId, SocketAddr)> {
        self.found.try_iter()
    }
}

fn resolve(name: &str) -> Option<SocketAddr> {
    name.to_socket_addrs().ok()?.next()
}
