//! What the group says of itself and of changes, for people and for programs.

use super::DIGITS;
use super::erasing::{Erasing, Former};
use crate::cli::backup::utc;
use pentarchy::administration::differences;
use pentarchy_core::change::{Awaiting, Change, Shown};
use pentarchy_core::configuration::{Access, Configuration, MemberEntry, RequestMeans};
use pentarchy_core::ids::{ClientId, MemberId};
use serde_json::{Value, json};

/// How many members are ready for a change, and which are missing.
pub fn waits_for(pending: &Awaiting) -> String {
    let members = &pending.change.next.members;
    let missing = members.iter().map(|member| member.id).filter(|id| !pending.ready.contains(id));
    let missing: Vec<_> = missing.map(|MemberId(id)| id.to_string()).collect();
    let ready = format!("ready: {} of {} members", pending.ready.len(), members.len());
    match missing.is_empty() {
        true => ready,
        false => format!("{ready}; missing: {}", missing.join(", ")),
    }
}

/// The members, for people.
pub fn table_of(configuration: &Configuration) -> String {
    let mut table = pentarchy_console::table::new(&HEADS);
    for member in &configuration.members {
        table.add_row(cells(member));
    }
    pentarchy_console::table::text(&table)
}

/// What is shown of each member.
const HEADS: [&str; 4] = ["member", "address", "identity", "signs by"];

fn cells(member: &MemberEntry) -> [String; 4] {
    let MemberEntry { id, address, identity, signing, .. } = member;
    let [identity, signing] = [identity, signing].map(|key| hex::encode(&key[..4]));
    [id.0.to_string(), address.clone(), identity, signing]
}

/// The same of a group that runs, with what each member says of its former keys.
fn table_with(configuration: &Configuration, erasing: &Erasing) -> String {
    let mut table = pentarchy_console::table::new(&[&HEADS[..], &["former keys"]].concat());
    for member in &configuration.members {
        let former = erasing.by(member.id).map(Former::word);
        table.add_row(cells(member).into_iter().chain(former));
    }
    pentarchy_console::table::text(&table) + &erasing.names()
}

/// What `list` prints for people.
pub fn list(shown: &Shown, erasing: &Erasing) -> String {
    let configuration = &shown.configuration;
    let administrators = &configuration.administrators;
    let mut text = format!(
        "configuration {}, epoch {}: {} with f = {}; {} of {} administrators together change it\
         \n\n{}",
        configuration.number,
        shown.epoch.0,
        configuration.protocol,
        configuration.f,
        administrators.threshold,
        administrators.keys.len(),
        table_with(configuration, erasing),
    );
    for key in &administrators.keys {
        text += &format!("\nadministrator {}", hex::encode(key));
    }
    text += &match clients_of(&configuration.access) {
        None => format!("\nclients {}", OPEN),
        Some(keys) => format!("\nclients: {} listed, see `pentarchy clients list`", keys.len()),
    };
    if let Some(pending) = &shown.pending {
        text += &format!(
            "\n\nconfiguration {} is pending; {}: {}\n  void at {}",
            configuration.number + 1,
            waits_for(pending),
            what_is_new(configuration, &pending.change),
            utc(pending.change.expires)
        );
    }
    for proposed in &shown.proposed {
        let (by, needed) = (proposed.by.len(), administrators.threshold);
        text += &format!(
            "\n\n{by} of {needed} administrators propose {}: {}\n  void at {}",
            &hex::encode(proposed.change.digest().0)[..DIGITS],
            what_is_new(configuration, &proposed.change),
            utc(proposed.change.expires)
        );
        for ClientId(key) in &proposed.by {
            text += &format!("\n  administrator {} proposes it", hex::encode(key));
        }
    }
    text
}

/// What a change alters, for who has to decide.
fn what_is_new(current: &Configuration, change: &Change) -> String {
    let next = &change.next;
    let mut parts = vec!["signing keys"];
    parts.extend(differences(current, change));
    let mut text = format!("other {}", parts.join(", "));
    let is_in = |it: &Configuration, of: &MemberEntry| {
        it.members.iter().any(|member| (member.id, member.identity) == (of.id, of.identity))
    };
    for member in current.members.iter().filter(|member| !is_in(next, member)) {
        text += &format!("\n  member {} leaves", member.id.0);
    }
    for member in next.members.iter().filter(|member| !is_in(current, member)) {
        let (id, address, key) = (member.id.0, &member.address, hex::encode(member.identity));
        text += &format!("\n  member {id} joins at {address}, with the identity key {key}");
    }
    let (old, new) = (&current.administrators, &next.administrators);
    for key in old.keys.iter().filter(|key| !new.keys.contains(key)) {
        text += &format!("\n  administrator {} leaves", hex::encode(key));
    }
    for key in new.keys.iter().filter(|key| !old.keys.contains(key)) {
        text += &format!("\n  administrator {} joins", hex::encode(key));
    }
    if new != old {
        let (needed, all) = (new.threshold, new.keys.len());
        text += &format!("\n  from then on, {needed} of {all} administrators have to agree");
    }
    text += &who_is_admitted(&current.access, &next.access);
    if next.protocol != current.protocol {
        let requests = match next.requests {
            RequestMeans::Signature => "signatures",
            RequestMeans::Macs => "MACs",
            RequestMeans::Session(_) => "sessions",
        };
        text += &format!("\n  protocol {}, with {requests} of clients", next.protocol);
    }
    if next.f != current.f {
        text += &format!("\n  f = {}", next.f);
    }
    text
}

/// What the commands print of a group without a list.
pub const OPEN: &str = "open: anyone who has a key may be a client";

/// The clients that are listed, if only those may be clients.
pub fn clients_of(access: &Access) -> Option<Vec<String>> {
    match access {
        Access::Open => None,
        Access::Only(clients) => Some(clients.iter().map(|it| hex::encode(it.0)).collect()),
    }
}

/// What a change alters about who may be a client.
fn who_is_admitted(current: &Access, next: &Access) -> String {
    let (before, Some(then)) = (clients_of(current).unwrap_or_default(), clients_of(next)) else {
        return if current == next { String::new() } else { format!("\n  {}", OPEN) };
    };
    let leave = before.iter().filter(|key| !then.contains(key));
    let leave = leave.map(|key| format!("\n  client {key} leaves"));
    let join = then.iter().filter(|key| !before.contains(key));
    let mut text: String = leave.chain(join.map(|key| format!("\n  client {key} joins"))).collect();
    if *current == Access::Open {
        text += "\n  from then on, nobody else may be a client";
    }
    text
}

/// A member, for programs.
fn member(entry: &MemberEntry) -> Value {
    json!({
        "member": entry.id.0,
        "address": entry.address,
        "identity": hex::encode(entry.identity),
        "signing": hex::encode(entry.signing),
    })
}

/// The same for programs.
pub fn json_of(shown: &Shown, erasing: &Erasing) -> String {
    let present = |entry: &MemberEntry| {
        let (mut it, former) = (member(entry), erasing.by(entry.id));
        it["has_begun"] = json!(former.and_then(Former::has_begun));
        it["has_former_key"] = json!(former.and_then(Former::is_there));
        it
    };
    let keys_of =
        |it: &Configuration| -> Vec<_> { it.administrators.keys.iter().map(hex::encode).collect() };
    let pending = shown.pending.as_ref().map(|pending| {
        json!({
            "change": hex::encode(pending.change.digest().0),
            "expires_ms": pending.change.expires.0,
            "protocol": pending.change.next.protocol,
            "f": pending.change.next.f,
            "members": pending.change.next.members.iter().map(member).collect::<Vec<_>>(),
            "threshold": pending.change.next.administrators.threshold,
            "administrators": keys_of(&pending.change.next),
            "clients": clients_of(&pending.change.next.access),
            "ready": pending.ready.iter().map(|id| id.0).collect::<Vec<_>>(),
        })
    });
    let proposed = shown.proposed.iter().map(|proposed| {
        json!({
            "change": hex::encode(proposed.change.digest().0),
            "expires_ms": proposed.change.expires.0,
            "differs_in": differences(&shown.configuration, &proposed.change),
            "protocol": proposed.change.next.protocol,
            "f": proposed.change.next.f,
            "members": proposed.change.next.members.iter().map(member).collect::<Vec<_>>(),
            "threshold": proposed.change.next.administrators.threshold,
            "administrators": keys_of(&proposed.change.next),
            "clients": clients_of(&proposed.change.next.access),
            "by": proposed.by.iter().map(|by| hex::encode(by.0)).collect::<Vec<_>>(),
        })
    });
    let configuration = &shown.configuration;
    json!({
        "configuration": configuration.number,
        "digest": hex::encode(configuration.digest().0),
        "epoch": shown.epoch.0,
        "protocol": configuration.protocol,
        "f": configuration.f,
        "threshold": configuration.administrators.threshold,
        "administrators": keys_of(configuration),
        "clients": clients_of(&configuration.access),
        "members": configuration.members.iter().map(present).collect::<Vec<_>>(),
        "begun": erasing.begun(),
        "erased": erasing.erased(),
        "unready": erasing.unready().map(|ids| ids.iter().map(|id| id.0).collect::<Vec<_>>()),
        "pending": pending,
        "proposed": proposed.collect::<Vec<_>>(),
    })
    .to_string()
}
