//! `PUBLISH` and `PUBSUB`.

use super::super::command::Args;
use super::super::error::Error;
use super::super::glob;
use super::super::reply::ReplyWriter;
use super::super::work::Work;
use super::operation::{Notice, Topic};
use super::table::Sessions;
use alloc::collections::BTreeSet;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use bytes::Bytes;

type Outcome = Result<(), Error>;

/// Tells every gateway with a subscriber once, and counts the subscriptions.
pub fn publish(
    sessions: &mut Sessions,
    work: &Work,
    args: &Args<'_>,
    out: &mut ReplyWriter,
) -> Outcome {
    let channel = Bytes::copy_from_slice(args[1]);
    let mut receivers = 0u64;
    let mut gateways = BTreeSet::new();
    let exact = sessions.subscribers.get(&(Topic::Channel, channel.clone()));
    let mut matching: Vec<&Clients> = exact.into_iter().collect();
    for (pattern, clients) in patterns(sessions) {
        if glob::matches_within(pattern, &channel, work)? {
            matching.push(clients);
        }
    }
    for (client, count) in matching.into_iter().flatten() {
        receivers += u64::from(*count);
        gateways.insert(*client);
    }
    if !gateways.is_empty() {
        let payload = Bytes::copy_from_slice(args[2]);
        let body = Notice::Message { channel, payload }.encode();
        gateways.into_iter().for_each(|client| sessions.tell(client, body.clone()));
    }
    out.int(i64::try_from(receivers).unwrap_or(i64::MAX));
    Ok(())
}

type Clients = alloc::collections::BTreeMap<pentarchy_core::ids::ClientId, u32>;

fn patterns(sessions: &Sessions) -> impl Iterator<Item = (&Bytes, &Clients)> {
    let from = (Topic::Pattern, Bytes::new());
    sessions.subscribers.range(from..).map(|((_, name), clients)| (name, clients))
}

/// `PUBSUB CHANNELS`, `NUMSUB` and `NUMPAT`.
pub fn pubsub(sessions: &Sessions, work: &Work, args: &Args<'_>, out: &mut ReplyWriter) -> Outcome {
    let is = |name: &str| args[1].eq_ignore_ascii_case(name.as_bytes());
    match &args[2..] {
        [] if is("NUMPAT") => out.count(patterns(sessions).count()),
        names if is("NUMSUB") => {
            out.array(2 * names.len());
            for name in names {
                let entry = (Topic::Channel, Bytes::copy_from_slice(name));
                let clients = sessions.subscribers.get(&entry);
                let count: u64 = clients.into_iter().flatten().map(|(_, n)| u64::from(*n)).sum();
                out.bulk(name);
                out.int(i64::try_from(count).unwrap_or(i64::MAX));
            }
        }
        rest @ ([] | [_]) if is("CHANNELS") => {
            let pattern = glob::pattern(rest.first().copied().unwrap_or(b"*"))?;
            let channels = sessions.subscribers.keys();
            let channels = channels.take_while(|(topic, _)| *topic == Topic::Channel);
            let mut names = Vec::new();
            for (_, name) in channels {
                if rest.is_empty() || glob::matches_within(pattern, name, work)? {
                    names.push(name);
                }
            }
            out.array(names.len());
            names.into_iter().for_each(|name| out.bulk(name));
        }
        _ => {
            let word = String::from_utf8_lossy(&args[1][..args[1].len().min(128)]);
            let why = format!(
                "unknown subcommand or wrong number of arguments for '{word}'. Try PUBSUB HELP."
            );
            return Err(Error::other(why));
        }
    }
    Ok(())
}
