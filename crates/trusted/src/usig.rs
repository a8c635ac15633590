//! The trusted code: a counter that certifies each position at most once.
//!
//! The safety of the whole group rests on the few screens of this file, and on what it calls: two
//! primitives, and the digest of group, configuration and epoch. It depends on no state but its
//! own, certifies without the allocator, and panics on no input. What it promises, for one device
//! in one life (incarnation), under one key:
//!
//! 1. *Uniqueness.* No two certificates of one epoch name the same position with different digests.
//! 2. *Order.* Fresh certificates are issued at ascending positions only.
//! 3. *Memory.* Each certificate names the highest position with an index of at least
//!    [`Position::COMMITMENT`] that was certified before it. Who leaves a view by a certificate
//!    cannot hide what it committed to there, nor anywhere before.
//! 4. *Binding.* A certificate is for one group, configuration, epoch, member and life of its
//!    device. Epochs ascend; within each, positions begin anew.
//!
//! Repeating the last few requests gives the same certificates again, so that a host that crashed
//! before it had stored an answer can ask again. This cannot break 1 or 2, as nothing new is said.

use ed25519_dalek::{Signer, SigningKey};
use hmac::{Hmac, KeyInit, Mac};
pub use pentarchy_core::counter::REPEATABLE;
use pentarchy_core::counter::{Certificate, Instance, Memory, Position, Refused, Statement, Ui};
use pentarchy_core::digest::{Digest, Domain, EpochId};
use pentarchy_core::ids::{Incarnation, MemberId, View};
use pentarchy_core::mutant;
use sha2::Sha256;
use zeroize::Zeroizing;

/// Where a fresh device stands, as its last position and as its last commitment: view 0 is open
/// from the beginning.
pub const START: Position = Position::new(View(0), Position::COMMITMENT);

/// Keeps certificates apart from all else that is sealed under the same key.
const TAG: &[u8; 16] = b"pentarchy usig 1";
/// All that is sealed beside certificates.
const SESSION_TAG: &[u8; 16] = b"pentarchy sess 1";
const STATEMENT_BYTES: usize = 16 + 32 + 4 + 8 + 16 + 16 + 32;

/// The group, configuration and epoch to which certificates are bound. How the order is split is no
/// part of it: of all that a device certifies, only the digests name a lane.
#[must_use]
pub fn context_of(epoch: &EpochId) -> Digest {
    context(&Domain::new(epoch))
}

/// The same, from the domain of an epoch.
#[must_use]
pub fn context(domain: &Domain) -> Digest {
    domain.statement("usig").finish()
}

/// The bytes that a certificate seals: fixed-width fields, so that equal bytes mean equal claims.
#[must_use]
pub fn statement(
    context: &Digest,
    member: MemberId,
    claim: &Claim,
    digest: &Digest,
) -> [u8; STATEMENT_BYTES] {
    let mut bytes = [0; STATEMENT_BYTES];
    bytes[..16].copy_from_slice(TAG);
    bytes[16..48].copy_from_slice(&context.0);
    bytes[48..52].copy_from_slice(&member.0.to_le_bytes());
    bytes[52..60].copy_from_slice(&claim.incarnation.0.to_le_bytes());
    bytes[60..68].copy_from_slice(&claim.position.view.0.to_le_bytes());
    bytes[68..76].copy_from_slice(&claim.position.index.to_le_bytes());
    bytes[76..84].copy_from_slice(&claim.committed.view.0.to_le_bytes());
    bytes[84..92].copy_from_slice(&claim.committed.index.to_le_bytes());
    bytes[92..].copy_from_slice(&digest.0);
    bytes
}

/// What a certificate claims about its position.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Claim {
    /// The life of the device.
    pub incarnation: Incarnation,
    /// The position that is given away.
    pub position: Position,
    /// The last commitment before it.
    pub committed: Position,
}

impl Claim {
    /// The claim of an identifier.
    #[must_use]
    pub const fn of(ui: &Ui) -> Self {
        Self { incarnation: ui.incarnation, position: ui.position, committed: ui.committed }
    }
}

/// The key that all devices of a group share. It makes and checks; it must never leave a device.
#[derive(Clone)]
pub struct GroupKey(Hmac<Sha256>);

impl GroupKey {
    /// The key made of the group's secret.
    #[must_use]
    pub fn new(secret: &[u8; 32]) -> Self {
        // HMAC pads keys shorter than a block with zeros; a whole block cannot be refused.
        let mut block = Zeroizing::new([0; 64]);
        block[..32].copy_from_slice(secret);
        Self(Hmac::new((&*block).into()))
    }

    pub(crate) fn seal(&self, statement: &[u8]) -> [u8; 32] {
        self.0.clone().chain_update(statement).finalize().into_bytes().into()
    }

    /// The secret with which the devices agree on keys with clients. No certificate is equal to it,
    /// as no certificate's statement is equal to its tag.
    pub(crate) fn session_secret(&self) -> Zeroizing<[u8; 32]> {
        Zeroizing::new(self.seal(SESSION_TAG))
    }

    /// Whether a device with this key sealed the statement. Takes equally long for every guess.
    #[must_use]
    pub fn is_sealed(&self, statement: &[u8], seal: &[u8; 32]) -> bool {
        self.0.clone().chain_update(statement).verify(&(*seal).into()).is_ok()
    }
}

/// The key with which a device certifies.
pub enum Key {
    /// HMAC-SHA-256 under the group's key: fast, checked by devices only.
    Group(GroupKey),
    /// Ed25519 under the device's own key: checked by anyone.
    Own(SigningKey),
}

impl Key {
    fn seal(&self, statement: &[u8]) -> Certificate {
        match self {
            Self::Group(key) => Certificate::Mac(key.seal(statement)),
            Self::Own(key) => Certificate::Signature(key.sign(statement).to_bytes()),
        }
    }
}

/// Whether the USIG of this member, in whatever life it names, gave this MAC to the digest. Takes
/// equally long for every guess at the seal.
#[must_use]
pub fn is_certified(
    key: &GroupKey,
    context: &Digest,
    member: MemberId,
    ui: &Ui,
    digest: &Digest,
) -> bool {
    let Certificate::Mac(seal) = &ui.certificate else { return false };
    // There is one in each replica, so no seal names it.
    ui.instance == Instance::FIRST
        && key.is_sealed(&statement(context, member, &Claim::of(ui), digest), seal)
}

/// One device in one life. Whoever makes it must see to it that no other device was ever made with
/// the same key, member and incarnation.
pub struct Device {
    epoch: EpochId,
    /// Of the epoch.
    context: Digest,
    member: MemberId,
    incarnation: Incarnation,
    key: Key,
    /// The highest position that was certified.
    last: Position,
    /// The highest of those that are commitments.
    committed: Position,
    /// The newest first.
    recent: [Option<(Claim, Digest)>; REPEATABLE],
}

impl Device {
    /// A device that has certified nothing, in an epoch of a group.
    #[must_use]
    pub fn new(epoch: EpochId, member: MemberId, incarnation: Incarnation, key: Key) -> Self {
        let context = context_of(&epoch);
        let (last, committed, recent) = (START, START, [None; REPEATABLE]);
        Self { epoch, context, member, incarnation, key, last, committed, recent }
    }

    /// Goes over to a later epoch, where every position is free again. There is no way back.
    ///
    /// # Errors
    /// [`Refused::Spent`] if the device was in a later one, or in this one under another
    /// configuration, or is of another group.
    pub fn begin_epoch(&mut self, epoch: &EpochId) -> Result<(), Refused> {
        if epoch.group == self.epoch.group && epoch.epoch > self.epoch.epoch {
            self.epoch = *epoch;
            self.context = context_of(epoch);
            (self.last, self.committed, self.recent) = (START, START, [None; REPEATABLE]);
        }
        if *epoch == self.epoch { Ok(()) } else { Err(Refused::Spent) }
    }

    /// The life of this device.
    #[must_use]
    pub const fn incarnation(&self) -> Incarnation {
        self.incarnation
    }

    /// Certifies the digest at the position, or repeats that it did.
    ///
    /// # Errors
    /// [`Refused::Spent`] if the position is not above all before, and not a remembered repetition.
    pub fn create(&mut self, position: Position, digest: &Digest) -> Result<Ui, Refused> {
        if position <= self.last && !mutant!("trusted.certifies-twice") {
            let same = |(claim, of): &&(Claim, Digest)| claim.position == position && of == digest;
            let (claim, _) = self.recent.iter().flatten().find(same).ok_or(Refused::Spent)?;
            return Ok(self.certify(claim, digest));
        }
        let Self { incarnation, committed, .. } = *self;
        let claim = Claim { incarnation, position, committed };
        let ui = self.certify(&claim, digest);
        // Only now, as there is something to show for the position, the counter moves.
        self.recent.rotate_right(1);
        self.recent[0] = Some((claim, *digest));
        self.last = position;
        if position.index >= Position::COMMITMENT {
            self.committed = position;
        }
        Ok(ui)
    }

    /// All that the device remembers of its epoch.
    #[must_use]
    pub fn memory(&self) -> Memory {
        let recent = self.recent.iter().flatten().map(|(claim, digest)| {
            let Claim { position, committed, .. } = *claim;
            Statement { position, committed, digest: *digest }
        });
        Memory { last: self.last, committed: self.committed, recent: recent.collect() }
    }

    /// Takes over the memory of a device of the same life, in the epoch in which both are. Only
    /// before this one has certified anything there, so nothing of its own is forgotten. Whoever
    /// calls this answers for the memory being the newest: 1 and 3 above rest on that.
    ///
    /// # Errors
    /// [`Refused::Spent`] if the device has certified something in this epoch, or if none could
    /// have this memory.
    pub fn restore(&mut self, memory: &Memory) -> Result<(), Refused> {
        let fresh = (self.last, self.committed) == (START, START);
        if !fresh || !is_possible(memory) {
            return Err(Refused::Spent);
        }
        (self.last, self.committed) = (memory.last, memory.committed);
        let incarnation = self.incarnation;
        for (place, statement) in self.recent.iter_mut().zip(&memory.recent) {
            let Statement { position, committed, digest } = *statement;
            *place = Some((Claim { incarnation, position, committed }, digest));
        }
        Ok(())
    }

    /// Both primitives are deterministic: equal claims get equal certificates.
    fn certify(&self, claim: &Claim, digest: &Digest) -> Ui {
        let certificate = self.key.seal(&statement(&self.context, self.member, claim, digest));
        let Claim { incarnation, position, committed } = *claim;
        let instance = Instance::FIRST;
        Ui { incarnation, instance, position, committed, certificate }
    }
}

/// Whether a device can have come to remember this: positions fall from the last one on, and each
/// names the last commitment before it.
fn is_possible(memory: &Memory) -> bool {
    let Memory { last, committed, recent } = memory;
    // The position above, and the commitment that a device remembers that certified what comes.
    let (mut above, mut remembers) = (None, *committed);
    let in_order = recent.iter().all(|it| {
        let falls = above.is_none_or(|above| it.position < above);
        let commits = it.position.index >= Position::COMMITMENT;
        let then = if commits { it.position } else { it.committed };
        let good = falls && it.committed < it.position && then == remembers;
        (above, remembers) = (Some(it.position), it.committed);
        good
    });
    let newest = recent.first().map_or(START, |newest| newest.position);
    recent.len() <= REPEATABLE && newest == *last && in_order && remembers >= START
}
