//! Commands for which there is nothing to do here, and that say so.

use super::super::encoder::Encoder;
use super::super::shared::Shared;
use super::session::Session;
use super::{fail, is};
use pentarchy_services::kv::Error;

pub fn debug(_: &mut Session, _: &Shared, _: &[&[u8]], out: &mut Encoder<'_>) {
    fail(out, &Error::other("DEBUG is not supported by this gateway"));
}

pub fn shutdown(_: &mut Session, _: &Shared, _: &[&[u8]], out: &mut Encoder<'_>) {
    let why =
        "SHUTDOWN is not supported: stop the gateway's and the replicas' processes themselves";
    fail(out, &Error::other(why));
}

pub fn latency(_: &mut Session, _: &Shared, args: &[&[u8]], out: &mut Encoder<'_>) {
    if is(args[1], "RESET") {
        out.int(0);
    } else {
        out.array(0);
    }
}

pub fn slowlog(_: &mut Session, _: &Shared, args: &[&[u8]], out: &mut Encoder<'_>) {
    if is(args[1], "GET") {
        out.array(0);
    } else if is(args[1], "LEN") {
        out.int(0);
    } else {
        out.ok();
    }
}

pub fn memory(_: &mut Session, _: &Shared, args: &[&[u8]], out: &mut Encoder<'_>) {
    let word = String::from_utf8_lossy(&args[1][..args[1].len().min(64)]).to_ascii_uppercase();
    let why = format!("MEMORY {word} is not supported: the keys lie in the replicas' memory");
    fail(out, &Error::other(why));
}
