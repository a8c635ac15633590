//! What clients ask of the service, and whether an answer is right.

use super::case::{Case, KeyChoice, Service};
use bytes::{Bytes, BytesMut};
use fastrand::Rng;
use pentarchy_services::kv::{Reply, command};
use std::sync::Arc;

/// Of the keys' distribution: the exponent of Gray et al., *Quickly generating billion-record
/// synthetic databases*, that is usual for key-value stores.
const ZIPF_EXPONENT: f64 = 0.99;

/// The operations of one client, in an order that its seed decides.
pub struct Operations {
    kind: Kind,
    reads: u8,
    random: Rng,
}

#[derive(Clone)]
enum Kind {
    Null { operation: Bytes, reply: usize },
    Kv { keys: Arc<Keys>, value: Bytes, read: Bytes, written: Bytes },
}

/// One operation.
pub struct Operation {
    /// What the service is sent.
    pub bytes: Bytes,
    /// It may go the fast way of reads.
    pub is_read: bool,
}

/// From what a case's clients make their operations.
#[derive(Clone)]
pub struct Recipe {
    kind: Kind,
    reads: u8,
}

impl Recipe {
    /// For this case.
    pub fn new(case: &Case) -> Self {
        let kind = match case.service {
            Service::Null => {
                Kind::Null { operation: case.payload.operation(), reply: case.payload.reply }
            }
            Service::Kv { keys, choice } => {
                let value = Bytes::from(vec![b'v'; case.payload.request]);
                let read = Reply::Bulk(value.clone()).encode().into();
                let written = Reply::Ok.encode().into();
                Kind::Kv { keys: Arc::new(Keys::new(keys, choice)), value, read, written }
            }
        };
        Self { kind, reads: case.reads }
    }

    /// The operations of the client with this number.
    pub fn client(&self, number: u64) -> Operations {
        Operations {
            kind: self.kind.clone(),
            reads: self.reads,
            random: Rng::with_seed(number.wrapping_add(1)),
        }
    }

    /// Operations that bring the service into the state in which it is measured.
    pub fn first(&self) -> impl Iterator<Item = Bytes> {
        let count = match &self.kind {
            Kind::Null { .. } => 1,
            Kind::Kv { keys, .. } => keys.count,
        };
        (0..count).map(|key| match &self.kind {
            Kind::Null { operation, .. } => operation.clone(),
            Kind::Kv { value, .. } => set(key, value),
        })
    }
}

impl Operations {
    /// The next one.
    pub fn next(&mut self) -> Operation {
        let is_read = self.reads > 0 && self.random.u8(0..100) < self.reads;
        let bytes = match &self.kind {
            Kind::Null { operation, .. } => operation.clone(),
            Kind::Kv { keys, value, .. } => {
                let key = keys.choose(&mut self.random);
                if is_read { get(key) } else { set(key, value) }
            }
        };
        Operation { bytes, is_read }
    }

    /// Whether this is the right result of a read, or of something else.
    pub fn is_right(&self, is_read: bool, result: &Bytes) -> bool {
        match &self.kind {
            Kind::Null { reply, .. } => result.len() == *reply,
            Kind::Kv { read, .. } if is_read => result == read,
            Kind::Kv { written, .. } => result == written,
        }
    }
}

fn name(key: usize) -> [u8; 12] {
    let mut name = *b"key:00000000";
    let mut rest = key;
    for digit in name[4..].iter_mut().rev() {
        *digit = b'0' + (rest % 10) as u8;
        rest /= 10;
    }
    name
}

fn set(key: usize, value: &[u8]) -> Bytes {
    let mut bytes = BytesMut::with_capacity(32 + value.len());
    command::encode([&b"SET"[..], &name(key), value].into_iter(), &mut bytes);
    bytes.freeze()
}

fn get(key: usize) -> Bytes {
    let mut bytes = BytesMut::with_capacity(32);
    command::encode([&b"GET"[..], &name(key)].into_iter(), &mut bytes);
    bytes.freeze()
}

/// The keys, and how often each is chosen.
struct Keys {
    count: usize,
    /// How probable it is that a key up to this one is chosen; empty if all are alike.
    cumulative: Vec<f64>,
}

impl Keys {
    fn new(count: usize, choice: KeyChoice) -> Self {
        let cumulative = match choice {
            KeyChoice::Uniform => Vec::new(),
            KeyChoice::Zipf => {
                let weights = (1..=count).scan(0.0, |sum, rank| {
                    *sum += (rank as f64).powf(-ZIPF_EXPONENT);
                    Some(*sum)
                });
                let sums: Vec<f64> = weights.collect();
                let all = sums.last().copied().unwrap_or(1.0);
                sums.into_iter().map(|sum| sum / all).collect()
            }
        };
        Self { count, cumulative }
    }

    fn choose(&self, random: &mut Rng) -> usize {
        if self.cumulative.is_empty() {
            return random.usize(0..self.count);
        }
        let point = random.f64();
        self.cumulative.partition_point(|upto| *upto <= point).min(self.count - 1)
    }
}

#[cfg(test)]
mod tests {
    use super::super::case::tests::case;
    use super::*;
    use pentarchy_cluster::{ClientId, Context, Millis, Service as _, Slot};
    use pentarchy_core::digest::Digest;
    use pentarchy_services::kv::Kv;

    fn kv(choice: KeyChoice, reads: u8) -> Recipe {
        let service = Service::Kv { keys: 1000, choice };
        Recipe::new(&Case { service, reads, ..case("16/16") })
    }

    #[test]
    fn the_store_itself_gives_the_answers_that_are_expected() {
        let recipe = kv(KeyChoice::Uniform, 50);
        let mut store = Kv::new(1 << 20);
        let context = Context::new(Slot(1), 0, Millis(1), ClientId([1; 32]), Digest::default());
        for operation in recipe.first() {
            assert_eq!(store.execute(&context, &operation), Reply::Ok.encode());
        }
        let mut operations = recipe.client(0);
        let mut reads = 0;
        for _ in 0..1000 {
            let Operation { bytes, is_read } = operations.next();
            let result =
                if is_read { store.query(&bytes) } else { store.execute(&context, &bytes) };
            let result = Bytes::from(result);
            assert!(operations.is_right(is_read, &result), "{bytes:?}: {result:?}");
            assert!(!operations.is_right(!is_read, &result));
            reads += usize::from(is_read);
        }
        assert!((400..600).contains(&reads), "{reads} of 1000, where half should be");
    }

    #[test]
    fn zipf_prefers_few_keys_and_uniform_none() {
        let most = |choice| {
            let (keys, mut random) = (Keys::new(1000, choice), Rng::with_seed(7));
            let mut counts = vec![0; 1000];
            (0..100_000).for_each(|_| counts[keys.choose(&mut random)] += 1);
            assert!(counts.iter().filter(|count| **count > 0).count() > 900);
            counts[0]
        };
        // The first of 1,000 keys has the weight 1 of a sum of 7.7.
        assert!((12_000..14_000).contains(&most(KeyChoice::Zipf)));
        assert!((50..200).contains(&most(KeyChoice::Uniform)));
    }

    #[test]
    fn clients_differ_and_the_null_service_is_asked_for_the_payload() {
        let recipe = kv(KeyChoice::Zipf, 0);
        let [mut a, mut b, mut again] = [0, 1, 0].map(|number| recipe.client(number));
        let take = |operations: &mut Operations| {
            (0..20).map(|_| operations.next().bytes).collect::<Vec<_>>()
        };
        let first = take(&mut a);
        assert_ne!(first, take(&mut b));
        assert_eq!(first, take(&mut again));
        let mut null = Recipe::new(&case("64/8")).client(0);
        assert_eq!(null.next().bytes.len(), 64);
        assert!(null.is_right(false, &Bytes::from_static(b"12345678")));
        assert!(!null.is_right(false, &Bytes::new()));
    }
}
