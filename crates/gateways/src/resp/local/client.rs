//! `CLIENT` and its subcommands.

use super::super::encoder::Encoder;
use super::super::inbox::Closing;
use super::super::shared::{Peer, Shared};
use super::session::{Replies, Session};
use super::{fail, is};
use pentarchy_services::kv::Error;
use pentarchy_services::kv::number::parse_i64;
use std::collections::BTreeSet;

pub fn client(session: &mut Session, shared: &Shared, args: &[&[u8]], out: &mut Encoder<'_>) {
    let word = args[1];
    if is(word, "SETNAME") {
        done(out, session.set_name(args[2], shared));
    } else if is(word, "GETNAME") {
        match &session.name[..] {
            [] => out.nil(),
            name => out.bulk(name),
        }
    } else if is(word, "SETINFO") {
        done(out, session.set_library(args[2], args[3], shared));
    } else if is(word, "ID") {
        out.int(id_of(session));
    } else if is(word, "INFO") {
        out.prose(&session.line());
    } else if is(word, "LIST") {
        list(shared, args, out);
    } else if is(word, "NO-EVICT") || is(word, "NO-TOUCH") {
        // Nothing is ever evicted and no access time is kept, so either answer is true.
        let understood = is(args[2], "ON") || is(args[2], "OFF");
        done(out, if understood { Ok(()) } else { Err(Error::other("syntax error")) });
    } else if is(word, "REPLY") {
        reply(session, args[2], out);
    } else if is(word, "KILL") {
        kill(session, shared, args, out);
    } else if is(word, "GETREDIR") {
        out.int(-1);
    } else if is(word, "UNPAUSE") {
        // Nobody is ever paused.
        out.ok();
    } else {
        // What Redis has and this has not.
        let name = String::from_utf8_lossy(word).to_ascii_uppercase();
        fail(out, &Error::other(format!("CLIENT {name} is not supported by this gateway")));
    }
}

fn id_of(session: &Session) -> i64 {
    i64::try_from(session.id).unwrap_or(i64::MAX)
}

fn list(shared: &Shared, args: &[&[u8]], out: &mut Encoder<'_>) {
    let ids: Option<BTreeSet<u64>> = match &args[2..] {
        [] => None,
        [word, ids @ ..] if is(word, "ID") && !ids.is_empty() => {
            let ids = ids.iter().map(|id| parse_i64(id).and_then(|id| id.try_into().ok()));
            match ids.collect::<Option<_>>() {
                Some(ids) => Some(ids),
                None => return fail(out, &Error::other("Invalid client ID")),
            }
        }
        [word, kind] if is(word, "TYPE") && is(kind, "NORMAL") => None,
        _ => return fail(out, &Error::other("syntax error")),
    };
    let wanted = |id: u64| ids.as_ref().is_none_or(|ids| ids.contains(&id));
    let lines = shared.descriptions(wanted).concat();
    out.prose(&String::from_utf8_lossy(&lines));
}

fn reply(session: &mut Session, word: &[u8], out: &mut Encoder<'_>) {
    if is(word, "ON") {
        session.replies = Replies::All;
        out.ok();
    } else if is(word, "OFF") {
        session.replies = Replies::None;
    } else if is(word, "SKIP") {
        if session.replies != Replies::None {
            session.replies = Replies::SkipNext;
        }
    } else {
        fail(out, &Error::other("syntax error"));
    }
}

/// Which connections are to be closed.
#[derive(Default)]
struct Filter {
    id: Option<u64>,
    address: Option<String>,
    local: Option<String>,
    /// Not the one that asks.
    skip_me: bool,
}

impl Filter {
    fn parse(words: &[&[u8]]) -> Result<Self, Error> {
        let mut filter = Self { skip_me: true, ..Self::default() };
        for pair in words.chunks(2) {
            let &[name, value] = pair else { return Err(Error::other("syntax error")) };
            if is(name, "ID") {
                let id = parse_i64(value).and_then(|id| u64::try_from(id).ok());
                let id = id.filter(|id| *id > 0);
                let wrong = "client-id should be greater than 0";
                filter.id = Some(id.ok_or_else(|| Error::other(wrong))?);
            } else if is(name, "ADDR") {
                filter.address = Some(String::from_utf8_lossy(value).into_owned());
            } else if is(name, "LADDR") {
                filter.local = Some(String::from_utf8_lossy(value).into_owned());
            } else if is(name, "SKIPME") && (is(value, "YES") || is(value, "NO")) {
                filter.skip_me = is(value, "YES");
            } else if (is(name, "TYPE") && is(value, "NORMAL"))
                || (is(name, "USER") && value == b"default")
            {
                // All are.
                continue;
            } else {
                return Err(Error::other("syntax error"));
            }
        }
        Ok(filter)
    }

    fn matches(&self, id: u64, peer: &Peer) -> bool {
        self.id.is_none_or(|wanted| wanted == id)
            && self.address.as_ref().is_none_or(|wanted| *wanted == peer.address.to_string())
            && self.local.as_ref().is_none_or(|wanted| *wanted == peer.local.to_string())
    }
}

fn kill(session: &mut Session, shared: &Shared, args: &[&[u8]], out: &mut Encoder<'_>) {
    // The old form names an address, may close the one that asks, and says if there is none.
    let old = args.len() == 3;
    let filter = if old {
        let address = Some(String::from_utf8_lossy(args[2]).into_owned());
        Ok(Filter { address, ..Filter::default() })
    } else {
        Filter::parse(&args[2..])
    };
    let filter = match filter {
        Ok(filter) => filter,
        Err(error) => return fail(out, &error),
    };
    let mut killed = 0;
    for (id, peer) in shared.peers() {
        if filter.matches(id, &peer) && !(filter.skip_me && id == session.id) {
            killed += 1;
            if id == session.id {
                // Its own reply still leaves.
                session.quits = true;
            } else {
                peer.inbox.close(Closing::Killed);
            }
        }
    }
    match killed {
        0 if old => fail(out, &Error::other("No such client")),
        _ if old => out.ok(),
        killed => out.int(killed),
    }
}

fn done(out: &mut Encoder<'_>, outcome: Result<(), Error>) {
    match outcome {
        Ok(()) => out.ok(),
        Err(error) => fail(out, &error),
    }
}
