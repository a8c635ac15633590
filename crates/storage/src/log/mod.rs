//! An append-only log in segments, with group commit and a bounded size.
//!
//! Records are appended in memory and made durable together, by one write and one sync
//! ([`Log::commit`]). A record counts as durable when a commit that covers it returned, and never
//! before. After the first failed operation nothing is acknowledged any more, whatever later ones
//! would return: a disk that failed to sync has forgotten what it was to write.
//!
//! One group of records is under way at a time. The next is written when the one before is durable.
//! Recovery rests on that (`recovery.rs`), and on each group naming the digest of the one before.

mod group;
mod recovery;
mod segment;

pub use group::Record;
pub use segment::{SEGMENT_BYTES_MAX, SEGMENT_BYTES_MIN, VERSION};

use crate::block::BLOCK_BYTES;
use crate::disk::{DiskError, File, Folder, remove_unfinished};
use crate::error::StorageError;
use crate::identity::Identity;
use group::Draft;
use pentarchy_core::limits::{
    BATCH_BYTES_MAX, MESSAGE_BYTES_MAX, PROPOSALS_IN_FLIGHT, WINDOW_BYTES,
};
use pentarchy_core::mutant;
use recovery::{End, Scan, Segment, scan};
use segment::{Header, Listed, Spare, Tip};
use std::collections::VecDeque;
use std::sync::Arc;

/// Sizes of a log, and how the states beside it are kept.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Bytes of one segment: a multiple of 512 from [`SEGMENT_BYTES_MIN`] to
    /// [`SEGMENT_BYTES_MAX`]; anything else is brought there. Bounds a record, and what a commit
    /// writes.
    pub segment_bytes: u64,
    /// Bytes of all segments together. At least two segments are allowed.
    pub bytes_max: u64,
    /// Bytes beyond that for what a checkpoint writes, which makes room; at least a segment. Has to
    /// hold what a core keeps again when a checkpoint becomes stable, and what waited until then;
    /// what is [kept](crate::kept::Kept) of several parts of one has as much for each.
    pub reserve_bytes: u64,
    /// A state of which at most so many bytes changed is kept in the log; others are in files. None
    /// is in the log if this is 0.
    pub state_bytes_max: usize,
    /// When the log has grown by so much since the last state in files, another one goes there, as
    /// recovery reads the log from there on. At most an eighth of the bound.
    pub growth_bytes_max: u64,
    /// Whether the states beside the log have their content in files only, and not in memory.
    pub cold_states: bool,
    /// Random, new each time: see `block.rs` for what it keeps apart.
    pub seed: [u8; 32],
}

/// What [`Options::reserve_bytes`] is by default. A core keeps the batches of its window again,
/// perhaps those of a view change too, and a few of the largest messages: with
/// [`WINDOW_BYTES`] and what a primary has under way beside that, twice 32 MiB and 16 MiB. As much
/// as half of it may have waited.
pub const RESERVE_BYTES: u64 = 128 << 20;

const _: () = assert!(
    2 * (WINDOW_BYTES + PROPOSALS_IN_FLIGHT as usize * BATCH_BYTES_MAX) + 4 * MESSAGE_BYTES_MAX
        < RESERVE_BYTES as usize * 3 / 4
);

/// Files of segments that went which are kept for the next ones: as many as go at once when states
/// are in files every [`GROWTH_BYTES_MAX`].
const SPARES_MAX: usize = 4;

/// What [`Options::state_bytes_max`] is by default.
const STATE_BYTES_MAX: usize = 1 << 20;

/// What [`Options::growth_bytes_max`] is by default.
const GROWTH_BYTES_MAX: u64 = 64 << 20;

impl Options {
    /// Segments of 32 MiB, up to 1 GiB and the reserve, and in it states of which up to 1 MiB
    /// changed, with one in files at least every 64 MiB.
    #[must_use]
    pub const fn new(seed: [u8; 32]) -> Self {
        let (segment_bytes, bytes_max, reserve_bytes) = (32 << 20, 1 << 30, RESERVE_BYTES);
        let (state_bytes_max, growth_bytes_max) = (STATE_BYTES_MAX, GROWTH_BYTES_MAX);
        Self {
            segment_bytes,
            bytes_max,
            reserve_bytes,
            state_bytes_max,
            growth_bytes_max,
            cold_states: false,
            seed,
        }
    }

    fn blocks(&self) -> u64 {
        self.segment_bytes.clamp(SEGMENT_BYTES_MIN, SEGMENT_BYTES_MAX) / BLOCK_BYTES as u64
    }

    fn segments_max(&self) -> u64 {
        (self.bytes_max / (self.blocks() * BLOCK_BYTES as u64)).max(2)
    }

    fn segments_beyond(&self) -> u64 {
        self.segments_max() + self.reserve_bytes.div_ceil(self.blocks() * BLOCK_BYTES as u64).max(1)
    }
}

/// What there was.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Recovered {
    /// The lowest record that is there, or the next one if there is none.
    pub first: u64,
    /// One above the highest.
    pub next: u64,
    /// Groups since the log began.
    pub groups: u64,
    /// Segments that are there.
    pub segments: usize,
    /// Bytes of segments that were read.
    pub bytes: u64,
    /// Bytes of blocks that an interrupted write left, which nobody was told were durable.
    pub torn_bytes: u64,
}

impl Recovered {
    fn of(scan: &Scan) -> Self {
        Self {
            first: scan.segments[0].first,
            next: scan.last.tip.record,
            groups: scan.groups - 1,
            segments: scan.segments.len(),
            bytes: scan.bytes,
            torn_bytes: scan.torn_bytes,
        }
    }
}

/// Reads a log without changing anything, and shows each record. `owner` may be left open.
///
/// # Errors
/// [`StorageError`]; records that were shown before it mean nothing.
pub fn read(
    folder: &dyn Folder,
    owner: Option<&Identity>,
    mut show: impl FnMut(Record),
) -> Result<Recovered, StorageError> {
    look(folder, owner, VERSION, &mut show)
}

/// The same also of a log of an older format: the caller knows which of its records mean what they
/// mean now.
///
/// # Errors
/// As [`read`].
pub fn read_older(
    folder: &dyn Folder,
    owner: Option<&Identity>,
    mut show: impl FnMut(Record),
) -> Result<Recovered, StorageError> {
    look(folder, owner, segment::FRAMED_SINCE, &mut show)
}

fn look(
    folder: &dyn Folder,
    owner: Option<&Identity>,
    oldest: u32,
    show: &mut dyn FnMut(Record),
) -> Result<Recovered, StorageError> {
    // Whoever only looks does not know what a checkpoint has made superfluous.
    let scan = scan(folder, owner, (None, oldest), show)?;
    Ok(Recovered::of(&scan))
}

/// The format of a log, as the first bytes of its oldest segment say; none if there is none.
///
/// # Errors
/// [`DiskError`]
pub fn format(folder: &dyn Folder) -> Result<Option<u32>, DiskError> {
    let names = folder.list()?;
    let Some(oldest) = names.iter().find(|name| segment::number(name).is_some()) else {
        return Ok(None);
    };
    let (file, mut bytes) = (folder.open(oldest)?, [0; segment::FORMAT_BYTES]);
    file.read_at(&mut bytes, 0)?;
    Ok(segment::format(&bytes))
}

/// Removes a log, durably.
///
/// # Errors
/// [`DiskError`]
pub fn remove(folder: &mut dyn Folder) -> Result<(), DiskError> {
    for name in folder.list()?.iter().filter(|name| segment::number(name).is_some()) {
        folder.remove(name)?;
    }
    folder.sync()
}

/// The log of one replica.
pub struct Log {
    folder: Box<dyn Folder>,
    options: Options,
    /// Oldest first.
    segments: VecDeque<Listed>,
    /// Files for the next ones; at most [`SPARES_MAX`].
    spares: VecDeque<Spare>,
    /// The segment that a new file was last prepared for.
    expected: u64,
    header: Header,
    file: Box<dyn File>,
    /// The block of the present segment at which the next group begins.
    place: u64,
    /// Behind what is durable.
    tip: Tip,
    draft: Draft,
    buffer: Vec<u8>,
    failed: Option<Arc<DiskError>>,
}

impl Log {
    /// Makes an empty log in a folder that has none.
    ///
    /// # Errors
    /// [`StorageError`]
    pub fn create(
        mut folder: Box<dyn Folder>,
        identity: Identity,
        options: Options,
    ) -> Result<Self, StorageError> {
        remove_unfinished(&mut *folder)?;
        let names = folder.list()?;
        if let Some(file) = names.into_iter().find(|name| segment::number(name).is_some()) {
            return Err(StorageError::Unexpected { file });
        }
        let header = Header::new(1, identity, options.blocks(), Tip::START, &options.seed);
        let file = header.create(&mut *folder)?;
        let segments = VecDeque::from([header.listed()]);
        Ok(Self::at(folder, options, segments, (header, file), 1, Tip::START))
    }

    fn at(
        folder: Box<dyn Folder>,
        options: Options,
        segments: VecDeque<Listed>,
        (header, file): (Header, Box<dyn File>),
        place: u64,
        tip: Tip,
    ) -> Self {
        Self {
            folder,
            options,
            segments,
            spares: VecDeque::new(),
            expected: 0,
            header,
            file,
            place,
            tip,
            draft: Draft::default(),
            buffer: Vec::new(),
            failed: None,
        }
    }

    /// Opens a log that was made before, and shows each record that is there. All of them are
    /// durable when this returns. `first` is the lowest record that the caller needs, if it knows
    /// without having read the log.
    ///
    /// # Errors
    /// [`StorageError`]; records that were shown before it mean nothing.
    pub fn open(
        mut folder: Box<dyn Folder>,
        identity: Identity,
        options: Options,
        first: Option<u64>,
        mut show: impl FnMut(Record),
    ) -> Result<(Self, Recovered), StorageError> {
        remove_unfinished(&mut *folder)?;
        let scan = scan(&*folder, Some(&identity), (first, VERSION), &mut show)?;
        let recovered = Recovered::of(&scan);
        folder.sync()?;
        if let Some(before) = &scan.before {
            let mut file = settle(&*folder, before)?;
            before.header.seal(&mut *file, before.last.end, &before.tip)?;
        }
        let file = settle(&*folder, &scan.last)?;
        let Segment { header, tip, last, .. } = scan.last;
        let log = Self::at(folder, options, scan.segments.into(), (header, file), last.end, tip);
        Ok((log, recovered))
    }

    /// Appends a record and gives its number. It is not durable before a [commit](Self::commit); a
    /// full group is committed on the way.
    ///
    /// # Errors
    /// [`StorageError`]; with [`StorageError::Full`] and [`StorageError::TooLarge`] the log remains
    /// as it is.
    pub fn append(&mut self, kind: u8, body: &[u8]) -> Result<u64, StorageError> {
        self.append_within(self.options.segments_max(), kind, body)
    }

    /// The same, for a record that belongs to a checkpoint, which makes room: it may use the
    /// [reserve](Options::reserve_bytes).
    ///
    /// # Errors
    /// As [`Self::append`].
    pub fn append_beyond(&mut self, kind: u8, body: &[u8]) -> Result<u64, StorageError> {
        self.append_within(self.options.segments_beyond(), kind, body)
    }

    fn append_within(
        &mut self,
        segments_max: u64,
        kind: u8,
        body: &[u8],
    ) -> Result<u64, StorageError> {
        self.check()?;
        let (bytes, bytes_max) = (Draft::default().bytes_with(body.len()), self.group_bytes_max());
        if bytes > bytes_max {
            return Err(StorageError::TooLarge { bytes, bytes_max });
        }
        if self.draft.bytes_with(body.len()) > bytes_max {
            self.commit()?;
        }
        let is_full = self.segments.len() as u64 >= segments_max;
        if is_full && self.draft.bytes_with(body.len()) > self.header.room(self.place) {
            return Err(StorageError::Full { bytes_max: self.options.bytes_max });
        }
        let number = self.next();
        self.draft.push(kind, body);
        Ok(number)
    }

    /// Bytes of the largest group: what an empty segment can take, be it this one or a new one.
    fn group_bytes_max(&self) -> u64 {
        let fresh = Header { blocks: self.options.blocks(), ..self.header };
        fresh.room(1).min(self.header.room(1))
    }

    /// Makes all that was appended durable, and gives the number of the next record: all below it
    /// are durable now.
    ///
    /// # Errors
    /// [`StorageError`]; from then on every operation fails.
    pub fn commit(&mut self) -> Result<u64, StorageError> {
        self.check()?;
        if self.draft.records() > 0 {
            let written = self.write();
            self.latch(written)?;
        }
        Ok(self.tip.record)
    }

    fn write(&mut self) -> Result<(), DiskError> {
        if self.draft.bytes() > self.header.room(self.place) {
            self.begin_segment()?;
        }
        self.buffer.clear();
        let tip = self.draft.put(&self.header, self.place, &self.tip, &mut self.buffer);
        self.file.write_at(&self.buffer, self.place * BLOCK_BYTES as u64)?;
        let synced = if mutant!("log.sync-forgotten") { Ok(()) } else { self.file.sync() };
        if !mutant!("log.failed-sync-ignored") {
            synced?;
        }
        let early = self.header.blocks / 8;
        let was_below = self.place < early;
        self.place += (self.buffer.len() / BLOCK_BYTES) as u64;
        if was_below && self.place >= early && self.spares.is_empty() {
            self.expected = self.header.number + 1;
            Header::expect(&mut *self.folder, self.expected, self.options.blocks());
        }
        self.tip = tip;
        self.draft.clear();
        Ok(())
    }

    /// The next segment is there as a whole before this one says that there is one.
    fn begin_segment(&mut self) -> Result<(), DiskError> {
        let (number, identity) = (self.header.number + 1, self.header.identity);
        let blocks = self.options.blocks();
        let mut header = Header::new(number, identity, blocks, self.tip, &self.options.seed);
        if mutant!("log.sealed-too-early") {
            self.header.seal(&mut *self.file, self.place, &self.tip)?;
        }
        // What was prepared meanwhile is to be used, and not to lie about.
        let is_prepared = self.expected == number;
        let spare = if is_prepared { None } else { self.spares.pop_front() };
        let file = match spare {
            Some(spare) => header.create_over(&mut *self.folder, &spare)?,
            None => header.create(&mut *self.folder)?,
        };
        self.header.seal(&mut *self.file, self.place, &self.tip)?;
        self.segments.push_back(header.listed());
        (self.header, self.file, self.place) = (header, file, 1);
        Ok(())
    }

    /// Removes segments that hold nothing but records below this number, which a durable snapshot
    /// covers.
    ///
    /// # Errors
    /// [`StorageError`]; from then on every operation fails.
    pub fn truncate_below(&mut self, record: u64) -> Result<(), StorageError> {
        self.check()?;
        while self.segments.get(1).is_some_and(|next| next.first <= record) {
            // Durable one by one, so that a crash leaves no hole between those that are left.
            let removed = self.remove_first();
            self.latch(removed)?;
        }
        Ok(())
    }

    fn remove_first(&mut self) -> Result<(), DiskError> {
        let Listed { number, blocks, life, .. } = self.segments[0];
        let spare = Spare { number, life };
        let is_kept = self.spares.len() < SPARES_MAX && blocks == self.options.blocks();
        if is_kept {
            spare.keep(&mut *self.folder)?;
        } else {
            self.folder.remove(&segment::name(number))?;
        }
        if !mutant!("log.segments-removed-at-once") {
            self.folder.sync()?;
        }
        self.segments.pop_front();
        self.spares.extend(is_kept.then_some(spare));
        Ok(())
    }

    /// The number of the next record.
    #[must_use]
    pub const fn next(&self) -> u64 {
        self.tip.record + self.draft.records()
    }

    /// All records below this are durable.
    #[must_use]
    pub const fn durable(&self) -> u64 {
        self.tip.record
    }

    /// The lowest record that is there.
    #[must_use]
    pub fn first(&self) -> u64 {
        self.segments[0].first
    }

    /// Bytes of the segments that there are.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.segments.len() as u64 * self.options.blocks() * BLOCK_BYTES as u64
    }

    /// Whether there is no room for another segment, but in the reserve.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.segments.len() as u64 >= self.options.segments_max()
    }

    /// Whether three quarters of the bound are in use.
    #[must_use]
    pub fn is_nearly_full(&self) -> bool {
        self.segments.len() as u64 * 4 >= self.options.segments_max() * 3
    }

    /// Bytes that they may have, without the reserve.
    #[must_use]
    pub fn bytes_max(&self) -> u64 {
        self.options.segments_max() * self.options.blocks() * BLOCK_BYTES as u64
    }

    /// What may change of a state that is kept in here.
    #[must_use]
    pub fn state_bytes_max(&self) -> usize {
        self.options.state_bytes_max.min(self.group_bytes_max() as usize / 2)
    }

    /// By how much it may grow since the last state in files.
    #[must_use]
    pub fn growth_bytes_max(&self) -> u64 {
        self.options.growth_bytes_max.min(self.bytes_max() / 8)
    }

    /// Where the next group begins, in bytes from the beginning of the first segment.
    #[must_use]
    pub const fn position(&self) -> u64 {
        ((self.header.number - 1) * self.header.blocks + self.place) * BLOCK_BYTES as u64
    }

    /// Segments that there are.
    #[must_use]
    pub fn segments(&self) -> usize {
        self.segments.len()
    }

    fn check(&self) -> Result<(), StorageError> {
        match &self.failed {
            None => Ok(()),
            Some(cause) => Err(StorageError::Failed { cause: cause.clone() }),
        }
    }

    fn latch(&mut self, outcome: Result<(), DiskError>) -> Result<(), StorageError> {
        outcome.map_err(|error| {
            let error = Arc::new(error);
            self.failed = Some(error.clone());
            StorageError::Disk(error)
        })
    }
}

/// Makes what was read of an open end durable: the system may have it in memory only, if it was
/// written by a process that ended at a sync that failed, and takes away what was torn.
fn settle(folder: &dyn Folder, segment: &Segment) -> Result<Box<dyn File>, DiskError> {
    let mut file = folder.open(&segment::name(segment.header.number))?;
    segment.header.write_again(&mut *file)?;
    file.write_at(&segment.last_bytes, segment.last.start * BLOCK_BYTES as u64)?;
    if let End::Open { torn: 1.., upto } = segment.end {
        // First the marks: if this is interrupted too, what is left must look torn again.
        for place in segment.last.end..upto {
            file.write_at(&[0], (place + 1) * BLOCK_BYTES as u64 - 1)?;
        }
        file.sync()?;
        let zeros = vec![0; (upto - segment.last.end) as usize * BLOCK_BYTES];
        file.write_at(&zeros, segment.last.end * BLOCK_BYTES as u64)?;
    }
    file.sync()?;
    Ok(file)
}
