//! `ONCE key seconds command [argument ...]`: a command that is executed at most once for its key,
//! however often and through whichever gateways a client sends it.
//!
//! A client that loses its gateway does not know whether the replicas executed its last command.
//! With a key of the client's choice, it can send that again elsewhere: the first of them to be
//! ordered is executed, and its reply kept under the key; each later one gets this reply. A command
//! that fails has changed nothing, and is not remembered. Redis has nothing like it.

use super::super::Kv;
use super::super::VALUE_BYTES_MAX;
use super::super::command::Args;
use super::super::error::Error;
use super::super::expiry::Expiry;
use super::super::reply::{ERROR_TAG, Reply};
use super::super::store::Store;
use super::registry::Run;
use alloc::vec::Vec;
use pentarchy_core::digest::{Digest, Hasher};
use pentarchy_core::service::Context;

/// What the value of such a key begins with. The digest of the command follows, and the reply.
const MARK: &[u8] = b"once\0";

/// Work for each byte of a reply that was kept: a byte may be a whole reply in an array.
const CHECK_WORK: u64 = 4;

const USED: Error = Error::err("the key of ONCE holds something else than a reply");
const OTHER: Error = Error::err("the key of ONCE was used for another command");
const NESTED: Error = Error::err("ONCE takes no other ONCE");
const NOT_KEPT: Error = Error::err(
    "executed before, but the reply was too large to be kept: read what the command changed",
);

impl Kv {
    /// Executes the command in it, unless its key has a reply already.
    pub(super) fn run_once(&mut self, context: &Context, args: &Args<'_>) -> Vec<u8> {
        let known = known(&self.store, args);
        match known.and_then(|known| known.map_or_else(|| self.execute_once(context, args), Ok)) {
            Ok(reply) => reply,
            Err(error) => Reply::from(&error).encode(),
        }
    }

    fn execute_once(&mut self, context: &Context, args: &Args<'_>) -> Result<Vec<u8>, Error> {
        let (key, command): (_, Args<'_>) = (args[1], args[3..].iter().copied().collect());
        if super::entry(command[0]).is_some_and(|entry| entry.run == Run::Once) {
            return Err(NESTED);
        }
        let deadline = Expiry::seconds(args[2]).deadline(&self.store, "once")?;
        if self.store.is_full(0) {
            return Err(Error::OUT_OF_MEMORY);
        }
        let reply = self.run_one(context, &command);
        if reply.first() == Some(&ERROR_TAG) {
            return Ok(reply);
        }
        let mut kept = [MARK, &name(&command).0].concat();
        // What is too large leaves no trace but that it was executed.
        if kept.len() + reply.len() <= VALUE_BYTES_MAX {
            kept.extend_from_slice(&reply);
        }
        self.store.set_string_until(key, &kept, Some(deadline));
        Ok(reply)
    }
}

/// The reply that is kept under the key, if there is one.
fn known(store: &Store, args: &Args<'_>) -> Result<Option<Vec<u8>>, Error> {
    let Some(kept) = store.string(args[1])? else { return Ok(None) };
    let rest = kept.strip_prefix(MARK).and_then(|rest| rest.split_first_chunk());
    let (of, reply) = rest.ok_or(USED)?;
    let command: Args<'_> = args[3..].iter().copied().collect();
    if Digest(*of) != name(&command) {
        return Err(OTHER);
    }
    if reply.is_empty() {
        return Err(NOT_KEPT);
    }
    // Anybody can write a string like it. To look at it takes longer than to copy it.
    store.work.spend(CHECK_WORK.saturating_mul(reply.len() as u64))?;
    Reply::decode(reply).map_err(|_| USED)?;
    Ok(Some(reply.to_vec()))
}

/// Names a command by its words.
fn name(command: &Args<'_>) -> Digest {
    let hasher = &mut Hasher::new("pentarchy once");
    command.iter().fold(hasher, |hasher, word| hasher.bytes(word)).finish()
}
