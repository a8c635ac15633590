//! A group that Olympus serves, and what asks it.

use pentarchy_core::auth::Signature;
use pentarchy_core::configuration::{
    Access, Administrators, Configuration, Facts, MemberEntry, RequestMeans,
};
use pentarchy_core::digest::{Digest, Hasher};
use pentarchy_core::ids::{ClientId, GroupId, Incarnation, MemberId, Millis, Slot};
use pentarchy_core::membership::{Base, Life, PillarConfig};
use pentarchy_core::protocol::{Authority, FaultModel, Tuning};
use pentarchy_core::quorum::{Count, QuorumRule, ReadRule};
use pentarchy_core::service::{Context, Service};
use pentarchy_core::wire::Wire;
use pentarchy_services::olympus::{Answer, CheckSignatures, Olympus, Operation, Terms};

/// Slots of a report.
pub const WINDOW: u64 = 6;

/// Signatures that nobody forges who does not mean to.
pub struct Keys;

pub fn sign(key: &[u8; 32], statement: &Digest) -> Signature {
    let half = Hasher::new("test").bytes(key).digest(statement).finish();
    let mut signature = [0; 64];
    signature[..32].copy_from_slice(&half.0);
    Signature(signature)
}

impl CheckSignatures for Keys {
    fn signed(&self, key: &[u8; 32], statement: &Digest, signature: &Signature) -> bool {
        sign(key, statement) == *signature
    }
}

/// The modes in which a chain runs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mode {
    /// Members lie; f of 2f + 1 are witnesses.
    Byzantine,
    /// Members lose their logs and stop.
    Crash,
    /// The same, and the tail reads under a lease.
    Leased,
}

impl Mode {
    pub fn lies(self) -> bool {
        self == Self::Byzantine
    }

    pub fn members(self, f: usize) -> usize {
        if self.lies() { 2 * f + 1 } else { f + 1 }
    }

    pub fn terms(self) -> Terms {
        Terms { leases: self == Self::Leased }
    }
}

pub fn identity(member: usize) -> [u8; 32] {
    [member as u8 + 1; 32]
}

/// A key that the member signs with, the first, second and so on.
pub fn signing(member: usize, count: u64) -> [u8; 32] {
    let mut key = [member as u8 + 1; 32];
    key[..8].copy_from_slice(&(1000 + count).to_le_bytes());
    key
}

pub fn life(number: u64) -> Life {
    Life::mac(Incarnation(number))
}

/// Who may change the pool.
pub const ADMINISTRATORS: [[u8; 32]; 2] = [[201; 32], [202; 32]];

pub fn configuration(mode: Mode, f: usize, threshold: u8) -> Configuration {
    let n = mode.members(f);
    let entry = |member: usize| MemberEntry {
        id: MemberId(member as u32),
        identity: identity(member),
        signing: signing(member, 0),
        sealed: None,
        address: format!("host-{member}:7000"),
    };
    let per_fault = if mode.lies() { 2 } else { 1 };
    Configuration {
        group: GroupId([5; 16]),
        number: 0,
        protocol: "toy".to_owned(),
        facts: Facts {
            fault_model: if mode.lies() { FaultModel::Byzantine } else { FaultModel::FailStop },
            group_size: Count::per_fault_and_one(per_fault),
            quorum: QuorumRule::All,
            replies: Count::per_fault_and_one(1),
            reads: ReadRule::AllButFaulty,
            pillars: false,
            speculative: false,
            replies_itself: true,
            authority: Authority::Service,
            counter: None,
        },
        f: f as u16,
        lane: PillarConfig::default(),
        tuning: Tuning { checkpoint_slots: 2, window_slots: WINDOW, ..Tuning::default() },
        requests: RequestMeans::Signature,
        secret: None,
        administrators: Administrators { threshold, keys: ADMINISTRATORS.to_vec() },
        access: Access::Open,
        members: (0..n).map(entry).collect(),
        next_member: MemberId(n as u32),
    }
}

pub fn olympus(mode: Mode, f: usize) -> Olympus<Keys> {
    let lives = vec![life(1); mode.members(f)];
    Olympus::new(&configuration(mode, f, 1), &lives, mode.terms(), Keys).expect("a group")
}

/// Has an operation ordered at this agreed time.
pub fn ask(olympus: &mut Olympus<Keys>, client: [u8; 32], time: u64, asked: &Operation) -> Answer {
    ask_bytes(olympus, client, time, &asked.to_bytes())
}

pub fn ask_bytes(
    olympus: &mut Olympus<Keys>,
    client: [u8; 32],
    time: u64,
    operation: &[u8],
) -> Answer {
    let context = Context::new(Slot(1), 0, Millis(time), ClientId(client), Digest::default());
    Answer::from_bytes(&olympus.execute(&context, operation).into()).expect("an answer")
}

/// Names a state: nothing else leads to it than these batches.
pub fn state_after(batches: &[Digest]) -> Base {
    let slot = Slot(batches.len() as u64);
    if batches.is_empty() {
        return Base::default();
    }
    let mut hasher = Hasher::new("state");
    batches.iter().for_each(|batch| {
        hasher.digest(batch);
    });
    Base { slot, state: hasher.finish() }
}

pub fn batch(number: u64) -> Digest {
    Digest::of(&number.to_le_bytes())
}
