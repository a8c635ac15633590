//! `OBJECT`: what Redis would say of how a value is kept. Here it is kept in another way, so the
//! answers follow from the value's size alone.

use super::arguments::{Outcome, is};
use super::command::Args;
use super::error::Error;
use super::number::parse_i64;
use super::reply::ReplyWriter;
use super::store::Store;
use super::value::Value;
use alloc::format;
use alloc::string::String;

const NO_FREQUENCY: Error = Error::err(
    "An LFU maxmemory policy is not selected, access frequency not tracked. Please note that \
     when switching between policies at runtime LRU and LFU data will take some time to adjust.",
);

/// Redis's defaults for what is kept in one piece.
const ITEMS_COMPACT: usize = 128;
const ITEM_BYTES_COMPACT: usize = 64;
const INTEGERS_COMPACT: usize = 512;
const LIST_BYTES_COMPACT: u64 = 8 << 10;
const STRING_BYTES_COMPACT: usize = 44;

pub fn object(store: &Store, args: &Args<'_>, out: &mut ReplyWriter) -> Outcome {
    let known = ["ENCODING", "REFCOUNT", "IDLETIME", "FREQ"];
    let Some(name) = known.into_iter().find(|name| is(args[1], name)) else {
        let name = String::from_utf8_lossy(&args[1][..args[1].len().min(128)]);
        let name = name.replace(['\r', '\n'], " ");
        return Err(Error::other(format!("unknown subcommand '{name}'. Try OBJECT HELP.")));
    };
    if args.len() != 3 {
        return Err(Error::wrong_arity(&format!("object|{}", name.to_ascii_lowercase())));
    }
    match (store.get(args[2]), name) {
        (None, _) => out.nil(),
        (Some(value), "ENCODING") => out.bulk(encoding(value).as_bytes()),
        (Some(_), "REFCOUNT") => out.int(1),
        (Some(_), "IDLETIME") => out.int(0),
        (Some(_), _) => return Err(NO_FREQUENCY),
    }
    Ok(())
}

fn encoding(value: &Value) -> &'static str {
    let short = |bytes: &[u8]| bytes.len() <= ITEM_BYTES_COMPACT;
    let (compact, yes, no) = match value {
        Value::String(string) if parse_i64(string).is_some() => return "int",
        Value::String(string) => (string.len() <= STRING_BYTES_COMPACT, "embstr", "raw"),
        Value::List(list) => (list.cost() <= LIST_BYTES_COMPACT, "listpack", "quicklist"),
        Value::Hash(hash) => {
            let compact = hash.len() <= ITEMS_COMPACT
                && hash.iter().all(|(field, value)| short(field) && short(value));
            (compact, "listpack", "hashtable")
        }
        Value::Set(set) => {
            let compact = set.len() <= INTEGERS_COMPACT
                && set.iter().all(|member| parse_i64(member).is_some());
            (compact, "intset", "hashtable")
        }
        Value::Sorted(sorted) => {
            let compact =
                sorted.len() <= ITEMS_COMPACT && sorted.iter().all(|(member, _)| short(member));
            (compact, "listpack", "skiplist")
        }
    };
    if compact { yes } else { no }
}
