//! `CLIENT` and its subcommands.

use super::super::encoder::Encoder;
use super::super::server::Shared;
use super::session::Session;
use super::{fail, is, unknown_subcommand, with_arity};
use pentarchy_services::kv::Error;

pub fn client(session: &mut Session, shared: &Shared, args: &[&[u8]], out: &mut Encoder<'_>) {
    let word = args[1];
    if is(word, "SETNAME") {
        with_arity(args, 3, "client|setname", out, |out| {
            done(out, session.set_name(args[2], shared));
        });
    } else if is(word, "GETNAME") {
        with_arity(args, 2, "client|getname", out, |out| match &session.name[..] {
            [] => out.nil(),
            name => out.bulk(name),
        });
    } else if is(word, "SETINFO") {
        with_arity(args, 4, "client|setinfo", out, |out| {
            done(out, session.set_library(args[2], args[3], shared));
        });
    } else if is(word, "ID") {
        with_arity(args, 2, "client|id", out, |out| {
            out.int(i64::try_from(session.id).unwrap_or(i64::MAX));
        });
    } else if is(word, "INFO") {
        with_arity(args, 2, "client|info", out, |out| out.prose(&session.line()));
    } else if is(word, "LIST") {
        with_arity(args, 2, "client|list", out, |out| {
            let lines = shared.descriptions().concat();
            out.prose(&String::from_utf8_lossy(&lines));
        });
    } else if is(word, "NO-EVICT") || is(word, "NO-TOUCH") {
        // Nothing is ever evicted and no access time is kept, so either answer is true.
        let name = format!("client|{}", String::from_utf8_lossy(word).to_ascii_lowercase());
        with_arity(args, 3, &name, out, |out| {
            let understood = is(args[2], "ON") || is(args[2], "OFF");
            done(out, if understood { Ok(()) } else { Err(Error::other("syntax error")) });
        });
    } else if is(word, "KILL") {
        fail(out, &Error::other("CLIENT KILL is not supported by this gateway"));
    } else {
        unknown_subcommand(out, "CLIENT", word);
    }
}

fn done(out: &mut Encoder<'_>, outcome: Result<(), Error>) {
    match outcome {
        Ok(()) => out.ok(),
        Err(error) => fail(out, &error),
    }
}
