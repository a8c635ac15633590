//! Asking a store.

use pentarchy_core::Bytes;
use pentarchy_core::digest::Digest;
use pentarchy_core::ids::{ClientId, Millis, Slot};
use pentarchy_core::service::{Context, Service};
use pentarchy_core::wire::Wire;
use pentarchy_store::{Answer, Limits, Operation, Store};

pub fn store(limits: Limits) -> Store {
    let folder = tempfile::tempdir().expect("a folder");
    Store::create(folder.path(), limits).expect("it is made")
}

pub fn run(store: &mut Store, operation: &Operation) -> Answer {
    let context = Context::new(Slot(1), 0, Millis(0), ClientId::default(), Digest::default());
    let told = store.execute(&context, &operation.to_bytes());
    Answer::from_bytes(&told.into()).expect("answers decode")
}

pub fn put(store: &mut Store, key: &[u8], value: &[u8]) -> Answer {
    run(store, &Operation::Put(key.to_vec(), value.to_vec()))
}

pub fn ask(store: &Store, operation: &Operation) -> Answer {
    Answer::from_bytes(&Bytes::from(store.query(&operation.to_bytes()))).expect("answers decode")
}

/// All sections that are not empty.
pub fn state(store: &Store) -> Vec<(u32, Vec<u8>)> {
    let sections = (0..store.sections()).map(|index| (index, store.section(index)));
    sections.filter(|(_, bytes)| !bytes.is_empty()).collect()
}
