//! What is done to a log, and what must be true of what comes back.

use pentarchy_core::ids::{GroupId, Incarnation, ReplicaId};
use pentarchy_sim::disk::SimDisk;
use pentarchy_sim::rng::Rng;
use pentarchy_storage::disk::Folder;
use pentarchy_storage::error::StorageError;
use pentarchy_storage::identity::Identity;
use pentarchy_storage::log::{Log, Options, Record, Recovered};

pub fn identity() -> Identity {
    Identity { group: GroupId([7; 16]), replica: ReplicaId(2), incarnation: Incarnation(5) }
}

pub fn options(seed: u64) -> Options {
    let mut options = Options::new([seed as u8; 32]);
    (options.segment_bytes, options.bytes_max) = (8 * 512, 6 * 8 * 512);
    options.reserve_bytes = 4 * 8 * 512;
    options.state_bytes_max = 0;
    options
}

pub fn folder(disk: &SimDisk) -> Box<dyn Folder> {
    disk.root().folder("log").expect("no folder needs to be made")
}

/// Kind and body of record `number` in a run: whoever knows the number knows the record.
pub fn record(run: u64, number: u64) -> Record {
    let mut rng = Rng::new(run ^ number.rotate_left(32));
    let size = if rng.percent(10) { rng.below(1800) } else { rng.below(300) };
    let body: Vec<u8> = (0..size).map(|_| rng.next_u64() as u8).collect();
    Record { number, kind: rng.next_u64() as u8, body: body.into() }
}

/// What a run knows about its log.
#[derive(Clone, Copy, Debug)]
pub struct Model {
    /// Decides on all records.
    pub run: u64,
    /// Whether there is a log at all.
    pub created: bool,
    /// One above the last record that was appended at any time.
    pub appended: u64,
    /// One above the last that was acknowledged as durable.
    pub durable: u64,
    /// The lowest that is needed.
    pub needed: u64,
}

impl Model {
    pub const fn new(run: u64) -> Self {
        Self { run, created: false, appended: 1, durable: 1, needed: 1 }
    }

    /// Makes or opens the log, and checks what is there. An error is not checked.
    pub fn open(&mut self, disk: &SimDisk) -> Result<Log, StorageError> {
        if !self.created {
            // Who was not told that there is a log makes a new one.
            disk.paths().iter().for_each(|path| disk.tamper(path, None));
            let log = Log::create(folder(disk), identity(), options(self.run))?;
            self.created = true;
            return Ok(log);
        }
        let mut records = Vec::new();
        let show = |record| records.push(record);
        let opened =
            Log::open(folder(disk), identity(), options(self.run), Some(self.needed), show);
        let (log, recovered) = opened?;
        self.check(&records, &recovered);
        assert_eq!(log.next(), recovered.next);
        // What is opened again is durable.
        (self.appended, self.durable) = (recovered.next, recovered.next);
        Ok(log)
    }

    /// What comes back is a prefix of what was appended, whole, and ends behind all that was
    /// acknowledged.
    pub fn check(&self, records: &[Record], recovered: &Recovered) {
        assert!(recovered.first <= self.needed, "{recovered:?} {self:?}");
        assert!(recovered.next >= self.durable, "acknowledged and lost: {recovered:?} {self:?}");
        assert!(recovered.next <= self.appended, "never appended: {recovered:?} {self:?}");
        assert_eq!(records.len() as u64, recovered.next - recovered.first);
        for (number, found) in (recovered.first..).zip(records) {
            assert_eq!(*found, record(self.run, number));
        }
    }

    /// Appends, commits and truncates; stops at the first error.
    pub fn work(&mut self, log: &mut Log, rng: &mut Rng, steps: u64) -> Result<(), StorageError> {
        for _ in 0..steps {
            for _ in 0..rng.range(1, 6) {
                let Record { number, kind, body } = record(self.run, log.next());
                self.appended = self.appended.max(number + 1);
                match log.append(kind, &body) {
                    Err(StorageError::Full { .. }) => {
                        self.durable = log.commit()?;
                        self.needed = self.durable;
                        log.truncate_below(self.needed)?;
                        assert_eq!(log.segments(), 1);
                    }
                    appended => assert_eq!(appended?, number),
                }
            }
            self.durable = self.durable.max(log.durable());
            if rng.percent(80) {
                self.durable = log.commit()?;
                assert_eq!(self.durable, log.next());
            }
            if rng.percent(10) {
                self.needed = rng.range(self.needed, self.durable);
                log.truncate_below(self.needed)?;
            }
        }
        Ok(())
    }
}
