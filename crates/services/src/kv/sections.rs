//! The encoding of a section: the keys of one bucket in their order.
//!
//! ```text
//! section := count:u32 entry{count}
//! entry   := key:bytes 0 string:bytes
//!          | key:bytes 1 count:u32 bytes{count}       bytes := length:u32 byte{length}
//! ```

use super::KEY_BYTES_MAX;
use super::list::{End, List};
use super::store::{BUCKETS, Store, Value};
use alloc::vec::Vec;
use bytes::Bytes;
use pentarchy_core::limits::OPERATION_BYTES_MAX;
use pentarchy_core::wire::{Malformed, Reader, Writer};

const STRING: u8 = 0;
const LIST: u8 = 1;

/// # Panics
/// If there is no such section, or it has 2^32 entries, which the store's limit rules out.
pub fn encode(store: &Store, bucket: usize) -> Vec<u8> {
    let entries = store.bucket(bucket);
    let mut to = Writer::default();
    to.u32(count(entries.len()));
    for (key, value) in entries {
        to.bytes(key);
        match value {
            Value::String(string) => {
                to.u8(STRING);
                to.bytes(string);
            }
            Value::List(list) => {
                to.u8(LIST);
                to.u32(count(list.len()));
                list.iter().for_each(|item| to.bytes(item));
            }
        }
    }
    to.into_vec()
}

fn count(length: usize) -> u32 {
    u32::try_from(length).expect("the store's limit is below 2^32 bytes")
}

/// Replaces a bucket. After an error the bucket holds a part, and the state must not be used.
pub fn restore(store: &mut Store, bucket: usize, bytes: &[u8]) -> Result<(), Malformed> {
    if bucket >= BUCKETS {
        return Err(Malformed);
    }
    let bytes = Bytes::copy_from_slice(bytes);
    let mut from = Reader::new(&bytes);
    store.clear_bucket(bucket);
    for _ in 0..from.u32()? {
        let key = from.bytes(KEY_BYTES_MAX)?;
        let value = value(&mut from)?;
        if !store.push(bucket, &key, value) {
            return Err(Malformed);
        }
    }
    from.finish()
}

fn value(from: &mut Reader<'_>) -> Result<Value, Malformed> {
    match from.u8()? {
        STRING => Ok(Value::String(from.bytes(OPERATION_BYTES_MAX)?.to_vec())),
        LIST => {
            let mut list = List::default();
            for _ in 0..from.u32()? {
                list.push(End::Right, &from.bytes(OPERATION_BYTES_MAX)?);
            }
            Ok(Value::List(list))
        }
        _ => Err(Malformed),
    }
}
