//! `COMMAND` and its subcommands.

use super::super::encoder::Encoder;
use super::super::shared::Shared;
use super::session::Session;
use super::{TABLE, fail, is, lookup};
use pentarchy_services::kv::{CommandInfo, Error, registry};

/// All commands, those answered here last.
fn all() -> impl Iterator<Item = &'static CommandInfo> {
    registry::all().chain(TABLE.iter().map(|entry| &entry.info))
}

fn count() -> usize {
    registry::all().count() + TABLE.len()
}

fn find(name: &[u8]) -> Option<&'static CommandInfo> {
    registry::lookup(name).or_else(|| lookup(name).map(|entry| &entry.info))
}

pub fn command(_: &mut Session, _: &Shared, args: &[&[u8]], out: &mut Encoder<'_>) {
    let Some(word) = args.get(1) else { return info(out, &[]) };
    let names = &args[2..];
    if is(word, "COUNT") {
        out.int(i64::try_from(count()).unwrap_or(i64::MAX));
    } else if is(word, "INFO") {
        info(out, names);
    } else if is(word, "DOCS") {
        docs(out, names);
    } else if names.is_empty() {
        // LIST is what is left.
        out.set(count());
        all().for_each(|info| out.text(info.name));
    } else {
        fail(out, &Error::other("syntax error"));
    }
}

fn info(out: &mut Encoder<'_>, names: &[&[u8]]) {
    if names.is_empty() {
        out.array(count());
        all().for_each(|info| describe(out, info));
        return;
    }
    out.array(names.len());
    for name in names {
        match find(name) {
            Some(info) => describe(out, info),
            None => out.nil_array(),
        }
    }
}

fn describe(out: &mut Encoder<'_>, info: &CommandInfo) {
    out.array(10);
    out.text(info.name);
    out.int(info.arity.into());
    out.set(info.flags.len());
    info.flags.iter().for_each(|flag| out.status(flag));
    out.int(info.keys.first.into());
    out.int(info.keys.last.into());
    out.int(info.keys.step.into());
    // ACL categories, tips, key specifications, subcommands: none are kept.
    out.set(0);
    out.array(0);
    out.array(0);
    out.array(0);
}

fn docs(out: &mut Encoder<'_>, names: &[&[u8]]) {
    let named: Vec<_> = names.iter().filter_map(|name| find(name)).collect();
    let infos = if names.is_empty() { all().collect() } else { named };
    out.map(infos.len());
    for info in infos {
        out.text(info.name);
        out.map(3);
        out.text("summary");
        out.text(info.summary);
        out.text("since");
        out.text(info.since);
        out.text("group");
        out.text(info.group);
    }
}
