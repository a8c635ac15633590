//! `SENTINEL` and `ROLE`: how clients find a gateway that serves.
//!
//! Libraries that know Redis Sentinel take a list of addresses, ask each in turn for the address of
//! a master, and ask again when they have lost it. A gateway answers that with its own address, so
//! with all gateways in the list a client that loses one goes on at another. Gateways need not know
//! of each other: each can serve every client.

use super::super::encoder::Encoder;
use super::super::shared::Shared;
use super::is;
use super::session::Session;
use pentarchy_services::kv::Error;
use std::net::SocketAddr;

/// The name under which all gateways serve the group's store.
pub const MASTER: &str = "pentarchy";

pub fn sentinel(session: &mut Session, shared: &Shared, args: &[&[u8]], out: &mut Encoder<'_>) {
    let (is_named, serves) = (args.get(2).is_none_or(|name| is(name, MASTER)), shared.serves());
    if is(args[1], "GET-MASTER-ADDR-BY-NAME") {
        if !is_named || !serves {
            return out.nil_array();
        }
        out.array(2);
        out.text(&session.local().ip().to_string());
        out.text(&session.local().port().to_string());
    } else if is(args[1], "MASTERS") {
        out.array(1);
        describe(session.local(), serves, out);
    } else if !is_named {
        super::fail(out, &Error::other("No such master with that name"));
    } else if is(args[1], "MASTER") {
        describe(session.local(), serves, out);
    } else {
        // The other sentinels, or replicas to read from: a client has them in its list.
        out.array(0);
    }
}

fn describe(address: SocketAddr, serves: bool, out: &mut Encoder<'_>) {
    let (ip, port) = (address.ip().to_string(), address.port().to_string());
    let fields = [
        ("name", MASTER),
        ("ip", &ip),
        ("port", &port),
        ("flags", if serves { "master" } else { "master,s_down,o_down" }),
        ("num-slaves", "0"),
        ("num-other-sentinels", "0"),
        ("quorum", "1"),
    ];
    out.map(fields.len());
    for (field, value) in fields {
        out.text(field);
        out.text(value);
    }
}

/// A gateway takes writes, and has no replicas of Redis's kind.
pub fn role(_: &mut Session, _: &Shared, _: &[&[u8]], out: &mut Encoder<'_>) {
    out.array(3);
    out.text("master");
    out.int(0);
    out.array(0);
}
