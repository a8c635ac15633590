//! Configurations: what names them, and which of them a group can have.

use crate::governed;
use pentarchy_core::Bytes;
use pentarchy_core::auth::Signature;
use pentarchy_core::change::{Change, Petition};
use pentarchy_core::configuration::{
    Access, Administrators, BadConfiguration, Configuration, MemberEntry, RequestMeans,
    SealedSecret,
};
use pentarchy_core::digest::Digest;
use pentarchy_core::epochs::{Handover, Proof, Witnesses};
use pentarchy_core::ids::{ClientId, Epoch, Incarnation, MemberId, Millis, ReplicaId, Slot};
use pentarchy_core::limits::{
    ADDRESS_BYTES_MAX, ADMINISTRATORS_MAX, CLIENTS_LISTED_MAX, LINK_BYTES_MAX,
    PROTOCOL_NAME_BYTES_MAX, REPLICAS_MAX,
};
use pentarchy_core::membership::{Base, Life};
use pentarchy_core::ports::replica::wedging::History;
use pentarchy_core::protocol::{Authority, FaultModel};
use pentarchy_core::quorum::{Count, QuorumRule, ReadRule};
use pentarchy_core::succession::{Report, Succession};
use pentarchy_core::wire::Wire;
use std::collections::BTreeSet;
use std::sync::Arc;

fn entry(id: u8) -> MemberEntry {
    MemberEntry {
        id: MemberId(id.into()),
        identity: [id; 32],
        signing: [100 + id; 32],
        sealed: Some(SealedSecret([id; SealedSecret::BYTES])),
        address: format!("host-{id}:7000"),
    }
}

fn client(key: u8) -> ClientId {
    ClientId([key; 32])
}

/// Of a hybrid protocol with three members.
fn configuration() -> Configuration {
    Configuration {
        number: 7,
        requests: RequestMeans::Session([9; 32]),
        secret: Some(Digest::of(b"secret")),
        administrators: Administrators { threshold: 2, keys: vec![[1; 32], [2; 32], [3; 32]] },
        members: [1, 2, 3].map(entry).to_vec(),
        next_member: MemberId(4),
        ..governed::first()
    }
}

/// The configuration with one thing changed, for each thing.
fn changed() -> Vec<Configuration> {
    let changes: [&dyn Fn(&mut Configuration); 32] = [
        &|it| it.group.0[0] ^= 1,
        &|it| it.number += 1,
        &|it| it.protocol.push('s'),
        &|it| it.facts.fault_model = FaultModel::Byzantine,
        &|it| it.facts.group_size.per_fault = 3,
        &|it| it.facts.group_size.more = 2,
        &|it| it.facts.quorum = QuorumRule::Byzantine,
        &|it| it.facts.replies.more = 2,
        &|it| it.facts.reads = ReadRule::All,
        &|it| it.facts.pillars = true,
        &|it| it.facts.speculative = true,
        &|it| it.facts.replies_itself = true,
        &|it| it.facts.authority = Authority::Service,
        &|it| it.facts.counter = None,
        &|it| it.f = 0,
        &|it| it.lane.pillars = 2,
        &|it| it.lane.rotates = true,
        &|it| it.tuning.checkpoint_slots += 1,
        &|it| it.tuning.checkpoint_bytes += 1,
        &|it| it.tuning.window_slots += 1,
        &|it| it.tuning.batch_requests += 1,
        &|it| it.tuning.proposals_in_flight += 1,
        &|it| it.requests = RequestMeans::Macs,
        &|it| it.secret = None,
        &|it| it.administrators.threshold = 1,
        &|it| it.administrators.keys.truncate(2),
        &|it| it.access = Access::only([client(5)]),
        &|it| it.members[1].signing[0] ^= 1,
        &|it| it.members[1].sealed = None,
        &|it| it.members[1].address.push('1'),
        &|it| it.members.swap(0, 1),
        &|it| it.next_member = MemberId(5),
    ];
    let apply = |change: &&dyn Fn(&mut Configuration)| {
        let mut changed = configuration();
        change(&mut changed);
        changed
    };
    changes.iter().map(apply).collect()
}

#[test]
fn whatever_is_changed_gives_it_another_name() {
    let mut all = changed();
    all.push(configuration());
    let names: BTreeSet<_> = all.iter().map(Configuration::digest).collect();
    assert_eq!(names.len(), all.len());
}

/// So that an operator can move a replica of a group that cannot change.
#[test]
fn in_the_first_configuration_a_replica_can_move() {
    let first = Configuration { number: 0, ..configuration() };
    let mut moved = first.clone();
    moved.members[1].address.push('1');
    assert_ne!(moved.to_bytes(), first.to_bytes());
    assert_eq!((moved.digest(), moved.agreed()), (first.digest(), first.agreed()));
    assert_eq!(configuration().agreed(), configuration());
}

#[test]
fn it_comes_back_as_it_was() {
    for sent in changed() {
        assert_eq!(Configuration::from_bytes(&sent.to_bytes()), Ok(sent));
    }
}

/// Nobody allocates or panics for what others made up.
#[test]
fn damaged_bytes_are_refused_or_mean_another_configuration() {
    let good = configuration().to_bytes();
    for length in 0..good.len() {
        assert!(Configuration::from_bytes(&good.slice(..length)).is_err());
    }
    for bit in 0..8 * good.len() {
        let mut bytes = good.to_vec();
        bytes[bit / 8] ^= 1 << (bit % 8);
        let bytes = Bytes::from(bytes);
        if let Ok(read) = Configuration::from_bytes(&bytes) {
            assert_eq!(read.to_bytes(), bytes, "there is one encoding of each");
            assert!(read != configuration());
        }
    }
    let mut many = configuration();
    many.administrators.keys = vec![[1; 32]; ADMINISTRATORS_MAX + 1];
    assert!(Configuration::from_bytes(&many.to_bytes()).is_err());
    let mut long = configuration();
    long.members[0].address = "a".repeat(ADDRESS_BYTES_MAX + 1);
    assert!(Configuration::from_bytes(&long.to_bytes()).is_err());
}

fn refusal(change: impl FnOnce(&mut Configuration)) -> Option<BadConfiguration> {
    let mut changed = configuration();
    change(&mut changed);
    changed.check().err()
}

#[test]
fn what_no_group_can_have_is_refused() {
    assert_eq!(configuration().check(), Ok(()));
    assert!(refusal(|it| it.members.push(entry(0))).is_none(), "more than the smallest group");
    let too_few = |it: &mut Configuration| {
        it.members.pop();
    };
    assert!(matches!(refusal(too_few), Some(BadConfiguration::Members(_))));
    assert!(matches!(refusal(|it| it.f = 2), Some(BadConfiguration::Members(_))));
    for same in [
        refusal(|it| it.members[1].id = it.members[0].id),
        refusal(|it| it.members[1].identity = it.members[0].identity),
        refusal(|it| it.members[1].signing = it.members[0].signing),
        refusal(|it| it.members[1].signing = it.members[0].identity),
        refusal(|it| it.next_member = MemberId(3)),
    ] {
        assert_eq!(same, Some(BadConfiguration::SameMember));
    }
    for name in ["", "Toy", "a b", &"a".repeat(33)] {
        let refused = refusal(|it| it.protocol = name.to_owned());
        assert_eq!(refused, Some(BadConfiguration::Protocol), "{name:?}");
    }
    for address in [String::new(), "a".repeat(ADDRESS_BYTES_MAX + 1)] {
        let refused = refusal(|it| it.members[2].address = address);
        assert_eq!(refused, Some(BadConfiguration::Address));
    }
    let mut many = Administrators { threshold: 1, keys: Vec::new() };
    many.keys.extend((0..=ADMINISTRATORS_MAX as u8).map(|key| [key; 32]));
    for wrong in [
        refusal(|it| it.facts.counter = None),
        refusal(|it| it.facts.replies = Count { per_fault: 0, more: 0 }),
        refusal(|it| it.facts.replies.more = 3),
        refusal(|it| (it.facts.speculative, it.facts.replies_itself) = (true, true)),
        refusal(|it| (it.facts.pillars, it.facts.authority) = (true, Authority::Service)),
    ] {
        assert_eq!(wrong, Some(BadConfiguration::Facts));
    }
    for wrong in [
        refusal(|it| it.tuning.checkpoint_slots = 0),
        refusal(|it| it.tuning.window_slots += 1),
        refusal(|it| it.tuning.batch_requests = 0),
    ] {
        assert_eq!(wrong, Some(BadConfiguration::Sizes));
    }
    let no_device = |it: &mut Configuration| {
        (it.facts.fault_model, it.facts.counter) = (FaultModel::Crash, None);
    };
    assert_eq!(refusal(no_device), Some(BadConfiguration::Requests), "sessions without devices");
    for pillars in [0, 2] {
        let refused = refusal(|it| it.lane.pillars = pillars);
        assert_eq!(refused, Some(BadConfiguration::Pillars), "{pillars}");
    }
    assert_eq!(refusal(|it| it.facts.pillars = true), Some(BadConfiguration::Pillars), "into one");
    assert_eq!(refusal(|it| it.lane.pillar = Some(0)), Some(BadConfiguration::Pillars));
    assert_eq!(refusal(|it| it.lane.rotates = true), Some(BadConfiguration::Pillars), "of one");
    let one_key = |it: &mut Configuration| it.members[1].signing = it.members[1].identity;
    assert!(refusal(one_key).is_none(), "a member may use one key for both");
    for wrong in [
        refusal(|it| it.administrators = many),
        refusal(|it| it.administrators.threshold = 0),
        refusal(|it| it.administrators.threshold = 4),
        refusal(|it| it.administrators.keys[1] = [1; 32]),
        refusal(|it| it.administrators.keys.clear()),
    ] {
        assert_eq!(wrong, Some(BadConfiguration::Administrators));
    }
    assert!(refusal(|it| it.administrators = Administrators::default()).is_none(), "nobody may");
}

#[test]
fn clients_are_listed_once_each_in_order_and_not_too_many() {
    let refusal = |access| Configuration { access, ..configuration() }.check().err();
    let numbered = |number: usize| {
        let mut key = [0; 32];
        key[..8].copy_from_slice(&number.to_be_bytes());
        ClientId(key)
    };
    let most = Access::only((0..CLIENTS_LISTED_MAX).map(numbered));
    let more = Access::only((0..=CLIENTS_LISTED_MAX).map(numbered));
    for wrong in [
        refusal(more),
        refusal(Access::Only(Vec::new())),
        refusal(Access::Only(vec![client(5), client(5)])),
        refusal(Access::Only(vec![client(6), client(5)])),
    ] {
        assert_eq!(wrong, Some(BadConfiguration::Access));
    }
    assert!(refusal(most).is_none());
}

/// A signature for the end of an epoch, a report and a succession each cover the configuration.
#[test]
fn how_an_epoch_ends_is_said_under_one_configuration() {
    let lives = [1, 2, 3].map(|life| Life::mac(Incarnation(life)));
    let base = Base { slot: Slot(9), state: Digest::of(b"state") };
    let handover = Handover { epoch: Epoch(4), base, lives: lives.to_vec(), next: None };
    let history = History { base, batches: Vec::new() };
    let report = Report { epoch: Epoch(4), author: ReplicaId(1), life: lives[1], history };
    let succession = Succession { handover: handover.clone(), inherits: Vec::new() };
    let statements = |configuration: &Configuration| {
        let group = configuration.begin(&lives);
        [handover.statement(&group), report.statement(&group), succession.statement(&group)]
    };
    let mut all: BTreeSet<_> = statements(&configuration()).into();
    all.extend(changed().iter().flat_map(statements));
    assert_eq!(all.len(), 3 * (1 + changed().len()));
}

/// Made outside of this program, from the layout in `docs/wire.md`.
#[test]
fn its_name_is_as_the_page_of_formats_says() {
    let name = |configuration: Configuration| -> String {
        configuration.digest().0.iter().map(|byte| format!("{byte:02x}")).collect()
    };
    let access = Access::only([client(6), client(5)]);
    let closed = Configuration { access: access.clone(), ..configuration() };
    assert_eq!(name(closed), "51980a9f88c1d2fd83bcfdaf1f92e643964b6332dce8439a24f489c12df61327");
    let first = |access| name(Configuration { number: 0, access, ..configuration() });
    assert_eq!(first(access), first(Access::Open), "each host has it from its own file");
    let open = name(configuration());
    assert_eq!(open, "907973083f2a352573950efbdf83234b8a10686d50f03aef6536c7d46f393c7e");
}

#[test]
fn an_epoch_under_it_is_bound_to_it() {
    let lives = [1, 2, 3].map(|life| Life::mac(Incarnation(life)));
    let domains: BTreeSet<_> =
        changed().iter().map(|it| it.begin(&lives).domain().statement("test").finish()).collect();
    assert_eq!(domains.len(), changed().len());
    let group = configuration().begin(&lives);
    assert_eq!(group.members[1].id, MemberId(2));
    assert_eq!((group.members[1].identity, group.members[1].signing), ([2; 32], [102; 32]));
    assert_eq!(group.members[2].life(), lives[2]);
    let next = changed().pop().map(|it| it.begin(&lives).group_domain());
    assert_eq!(next, Some(group.group_domain()), "a request means the same in all of them");
}

/// What `docs/limits.md` says of the room that changes and the chain of proofs take.
#[test]
fn the_largest_group_keeps_to_the_limits() {
    let member = |id: u32| {
        let address = "a".repeat(ADDRESS_BYTES_MAX);
        MemberEntry { id: MemberId(id), address, ..entry(0) }
    };
    let next = Configuration {
        protocol: "p".repeat(PROTOCOL_NAME_BYTES_MAX),
        administrators: Administrators { threshold: 1, keys: vec![[1; 32]; ADMINISTRATORS_MAX] },
        access: Access::Only(vec![client(1); CLIENTS_LISTED_MAX]),
        members: (0..REPLICAS_MAX as u32).map(member).collect(),
        ..configuration()
    };
    let needed = next.members.iter().map(|member| member.id).collect();
    let (expects, expires) = (Digest::default(), Millis(1));
    let change = Change { expects, attempt: 0, expires, next: next.clone(), needed };
    let petition = Petition::Propose(Arc::new(change)).to_bytes();
    assert!((41 << 10..45 << 10).contains(&petition.len()), "{}", petition.len());
    let lives = vec![Life::mac(Incarnation(1)); REPLICAS_MAX];
    let (base, digest) = (Base::default(), Some(next.digest()));
    let handover = Handover { epoch: Epoch(0), base, lives, next: digest };
    let signatures = (0..REPLICAS_MAX as u16).map(|id| (ReplicaId(id), Signature([0; 64])));
    let link = Proof {
        handover,
        next: Some(Arc::new(next)),
        by: Witnesses::Members,
        signatures: signatures.collect(),
    };
    let bytes = link.to_bytes().len();
    assert!((45 << 10..49 << 10).contains(&bytes) && bytes < LINK_BYTES_MAX, "{bytes}");
}
