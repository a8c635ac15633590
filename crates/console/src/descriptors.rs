//! How many files and connections the process may have open.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Raises the process's limit of open files as far as the system lets it do so by itself: what
/// systems start with is often less than the connections that replicas and gateways serve.
pub fn raise() {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    if current == maximum {
        return;
    }
    let all = Rlimit { current: maximum, maximum };
    if let Err(error) = setrlimit(Resource::Nofile, all) {
        tracing::debug!(%error, ?current, "cannot raise the limit of open files");
    }
}
