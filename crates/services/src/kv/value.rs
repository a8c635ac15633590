//! What a key holds: one of five kinds.

use super::hash::Hash;
use super::list::List;
use super::set::Set;
use super::sorted::Sorted;
use alloc::vec::Vec;

/// A value. A collection is never empty while it is in the store.
#[derive(Clone, PartialEq, Debug)]
pub enum Value {
    String(Vec<u8>),
    List(List),
    Hash(Hash),
    Set(Set),
    Sorted(Sorted),
}

/// A type that a value can have.
pub trait Kind: Default {
    fn of(value: &Value) -> Option<&Self>;
    fn of_mut(value: &mut Value) -> Option<&mut Self>;
    fn wrap(self) -> Value;
}

macro_rules! kinds {
    ($($variant:ident $kind:ty),*) => {
        $(impl Kind for $kind {
            fn of(value: &Value) -> Option<&Self> {
                match value {
                    Value::$variant(inner) => Some(inner),
                    _ => None,
                }
            }
            fn of_mut(value: &mut Value) -> Option<&mut Self> {
                match value {
                    Value::$variant(inner) => Some(inner),
                    _ => None,
                }
            }
            fn wrap(self) -> Value {
                Value::$variant(self)
            }
        })*
    };
}

kinds![String Vec<u8>, List List, Hash Hash, Set Set, Sorted Sorted];

impl Value {
    pub const fn type_name(&self) -> &'static str {
        match self {
            Self::String(_) => "string",
            Self::List(_) => "list",
            Self::Hash(_) => "hash",
            Self::Set(_) => "set",
            Self::Sorted(_) => "zset",
        }
    }

    /// Memory that the value takes, as the limit counts it: by its content, never by what an
    /// allocator did, so that all replicas count alike. No less than its encoding.
    pub const fn cost(&self) -> u64 {
        match self {
            Self::String(string) => string.len() as u64,
            Self::List(list) => list.cost(),
            Self::Hash(hash) => hash.cost(),
            Self::Set(set) => set.cost(),
            Self::Sorted(sorted) => sorted.cost(),
        }
    }

    /// Whether it is a collection that no key may hold, as it has no elements.
    pub fn is_void(&self) -> bool {
        match self {
            Self::String(_) => false,
            Self::List(list) => list.is_empty(),
            Self::Hash(hash) => hash.len() == 0,
            Self::Set(set) => set.len() == 0,
            Self::Sorted(sorted) => sorted.len() == 0,
        }
    }
}
