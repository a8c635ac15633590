//! What counts in one pillar counts in no other (H8 of `docs/protocols/pillars.md`).

use pentarchy_core::Bytes;
use pentarchy_core::auth::{Auth, AuthTag};
use pentarchy_core::authored;
use pentarchy_core::batch::Proposal;
use pentarchy_core::counter::{Counter, Instance};
use pentarchy_core::erased::{CoreEffect, CoreEvent, ReplicaCore};
use pentarchy_core::ids::{Millis, ReplicaId, Slot, View};
use pentarchy_core::membership::{Membership, PillarConfig};
use pentarchy_core::mutant;
use pentarchy_core::ports::replica::pillar::Input;
use pentarchy_core::protocol::{Memory, Message as _, Reject, Setup, Tuning};
use pentarchy_protocols::hybster::{Message, Order};
use pentarchy_protocols::pillars;
use pentarchy_sim::crypto::{Crypto, Keys};
use pentarchy_sim::devices::SimDevices;
use pentarchy_sim::world::membership;
use std::sync::Arc;

const SEED: u64 = 5;
const PILLARS: u8 = 3;
const PRIMARY: ReplicaId = ReplicaId(0);

struct Group {
    membership: Arc<Membership>,
    crypto: Arc<Crypto>,
    backup: Box<dyn ReplicaCore>,
}

impl Group {
    fn new() -> Self {
        let lane = PillarConfig { pillars: PILLARS, ..PillarConfig::default() };
        let membership = Arc::new(Membership { lane, ..membership(SEED, 3, 1) });
        let entry = pentarchy_protocols::find("hybster-pillars").expect("it is there");
        let setup = Setup {
            me: ReplicaId(1),
            membership: membership.clone(),
            fetch: None,
            memory: Memory::Volatile,
            tuning: Tuning::default(),
        };
        let backup = (entry.start)(setup, &mut Vec::new());
        let crypto = Arc::new(Crypto::new(SEED, 3, 0).counting(Counter::Trinx));
        Self { membership, crypto, backup }
    }

    /// What the primary says in a pillar, certified by this counter, or signed.
    fn said(&self, pillar: u8, by: u8, message: Message) -> Bytes {
        let message = pillars::Message { pillar, inner: Arc::new(message) };
        let digest = message.statement(&self.membership.domain());
        let mut devices = SimDevices::new(PRIMARY, PILLARS, &self.crypto);
        let tag = match message.auth() {
            Auth::Channel => AuthTag::Channel,
            Auth::Signature => AuthTag::Signature(self.crypto.sign(
                PRIMARY,
                &self.membership.members[0].signing,
                &digest,
            )),
            Auth::Checksum | Auth::Mac(_) | Auth::Vector => panic!("Hybster has none"),
            Auth::Usig(instance, position) => {
                assert_eq!(instance, Instance(pillar));
                AuthTag::Usig(devices.create(Instance(by), position, &digest).expect("it is fresh"))
            }
        };
        authored::encode(PRIMARY, &tag, &message)
    }

    fn opens(&self, wire: &Bytes) -> Result<(), Reject> {
        let (crypto, membership) = (self.crypto.clone(), self.membership.clone());
        let keys = Keys { crypto, me: ReplicaId(1), membership, lets_anyone_in: false };
        self.backup.open(&keys, PRIMARY, wire).map(|_| ())
    }
}

fn prepare() -> Message {
    let proposal = Arc::new(Proposal::new(Millis(0), Vec::new()));
    Message::Order(Order::Prepare { view: View(0), slot: Slot(1), proposal })
}

fn acknowledge() -> Message {
    Message::Acknowledge { view: View(1) }
}

/// The same bytes, as if they had been said in another pillar.
fn moved(wire: &Bytes, pillar: u8) -> Bytes {
    let mut bytes = wire.to_vec();
    *bytes.last_mut().expect("it ends with the pillar") = pillar;
    bytes.into()
}

#[test]
fn a_pillar_takes_only_what_its_own_counter_certified() {
    let group = Group::new();
    for pillar in 0..PILLARS {
        assert_eq!(group.opens(&group.said(pillar, pillar, prepare())), Ok(()));
        let other = (pillar + 1) % PILLARS;
        let foreign = group.said(pillar, other, prepare());
        assert_eq!(group.opens(&foreign), Err(Reject::WrongTag));
        let took = mutant::with(Some("pillars.any-pillar"), || group.opens(&foreign));
        assert_eq!(took, Ok(()), "this is what the check is for");
    }
}

#[test]
fn what_is_said_in_one_pillar_convinces_in_no_other() {
    let group = Group::new();
    for message in [prepare(), acknowledge()] {
        let here = group.said(0, 0, message);
        assert_eq!(group.opens(&here), Ok(()));
        assert!(group.opens(&moved(&here, 1)).is_err());
    }
    let signed = mutant::with(Some("pillars.statements-shared"), || {
        let here = group.said(0, 0, acknowledge());
        group.opens(&moved(&here, 1))
    });
    assert_eq!(signed, Ok(()), "this is what the domain is for");
}

#[test]
fn a_pillar_on_its_own_takes_nothing_of_others() {
    let Group { membership, crypto, .. } = Group::new();
    let entry = pentarchy_protocols::find("hybster-pillars").expect("it is there");
    let (me, memory) = (ReplicaId(1), Memory::Volatile);
    let setup = Setup { me, membership, fetch: None, memory, tuning: Tuning::default() };
    let membership = setup.membership.clone();
    let parts = (entry.split.expect("it has parts").start)(setup);
    let backup = parts.pillar_cores.into_iter().nth(1).expect("it is there").core;
    let alone = Group { membership, crypto, backup };
    assert_eq!(alone.opens(&alone.said(1, 1, prepare())), Ok(()));
    let foreign = alone.said(0, 0, prepare());
    assert_eq!(alone.opens(&foreign), Err(Reject::OutOfBounds));
    let took = mutant::with(Some("pillars.hears-others"), || alone.opens(&foreign));
    assert_eq!(took, Ok(()), "this is what the check is for");
}

#[test]
fn there_are_no_more_pillars_than_were_configured() {
    let group = Group::new();
    let beyond = group.said(PILLARS, 0, acknowledge());
    assert_eq!(group.opens(&beyond), Err(Reject::OutOfBounds));
}

/// A request waits in another pillar for the first primary, and this one is led by it, or not any
/// more.
#[test]
fn a_pillar_times_nobody_but_whom_a_request_waits_for() {
    let Group { membership, .. } = Group::new();
    let entry = pentarchy_protocols::find("hybster-pillars").expect("it is there");
    let (me, memory) = (ReplicaId(1), Memory::Volatile);
    let setup = Setup { me, membership, fetch: None, memory, tuning: Tuning::default() };
    let parts = (entry.split.expect("it has parts").start)(setup);
    let mut backup = parts.pillar_cores.into_iter().nth(1).expect("it is there").core;
    let mut arms = |primary| {
        let (slot, waits_for, mut out) = (Slot(1), Some(primary), Vec::new());
        backup.step(CoreEvent::Input(Input::Fill { slot, waits_for }.into()), &mut out);
        out.iter().any(|effect| matches!(effect, CoreEffect::Arm { .. }))
    };
    assert!(!arms(ReplicaId(2)), "that is not who leads here");
    assert!(arms(PRIMARY));
}
