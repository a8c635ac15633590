//! A sample of each value that goes over a wire or under a signature.

use super::parts::{
    Sample, administrator, base, change, configuration, counting, digest, draft, envelope, facts,
    handover, life, membership, proof, signature, signatures,
};
use super::states::states;
use pentarchy_core::Bytes;
use pentarchy_core::auth::{AuthTag, Checksum, Verified};
use pentarchy_core::authored;
use pentarchy_core::batch::{Item, Proposal};
use pentarchy_core::change::{Awaiting, Petition, Proposed, Ready, Shown, Withdrawal};
use pentarchy_core::configuration::{Facts, RequestMeans};
use pentarchy_core::counter::{
    Certificate, Counter, Instance, Memory, Position, Statement, TrustedMac, Ui,
};
use pentarchy_core::digest::Domain;
use pentarchy_core::epochs::{Admission, Handover, Message, Witnesses};
use pentarchy_core::ids::{Epoch, Incarnation, MemberId, Millis, ReplicaId, Slot, View};
use pentarchy_core::limits::WIRE_VERSION;
use pentarchy_core::mac_vector::MacVector;
use pentarchy_core::ports::client::{Outcome, Place, Reply, ResultDigest, ToClient, ToReplica};
use pentarchy_core::ports::replica::wedging::History;
use pentarchy_core::protocol::{Authority, FaultModel};
use pentarchy_core::quorum::{Count, QuorumRule, ReadRule};
use pentarchy_core::request::{Draft, Envelope, RequestAuth};
use pentarchy_core::standing::Standing;
use pentarchy_core::succession::{
    Issued, Mark, MarkCertificate, Report, SignedReport, Succession, empty_history, longer_history,
};
use pentarchy_core::transfer::{self, Part};
use pentarchy_core::tree::{self, Tree};
use pentarchy_core::welcome::Welcome;
use pentarchy_core::wire::Wire as _;
use std::sync::Arc;

/// All samples, in the order of the golden file.
pub fn all() -> Vec<Sample> {
    let version = Sample::of("wire-version", Epoch(WIRE_VERSION));
    let parts = [
        vec![version],
        to_replica(),
        to_client(),
        requests(),
        tags(),
        devices(),
        transfers(),
        epochs(),
        configurations(),
        petitions(),
        successions(),
        digests(),
        statements(),
        states(),
    ];
    parts.into_iter().flatten().collect()
}

fn to_replica() -> Vec<Sample> {
    let operation = Bytes::from_static(b"get a");
    let messages = [
        ToReplica::Request(envelope()),
        ToReplica::Query { number: 7, operation },
        ToReplica::Status,
        ToReplica::Resume { from: 8 },
        ToReplica::Protocol(Bytes::from_static(b"of the protocol")),
        ToReplica::Standing { from: 9 },
        ToReplica::State(transfer::Message::Gone { slot: Slot(4) }),
    ];
    let named = |it: ToReplica| Sample::of(format!("to-replica.{}", it.kind()), it);
    messages.map(named).into()
}

fn place() -> Place {
    Place { view: View(2), slot: Slot(3), history: digest(4) }
}

fn to_client() -> Vec<Sample> {
    let text = Bytes::from_static;
    let outcomes = [
        Outcome::Done(text(b"a result")),
        Outcome::Forgotten,
        Outcome::Refused,
        Outcome::GivenUp,
        Outcome::Overtaken,
    ];
    let replies = (7..).zip(outcomes).map(|(number, outcome)| Reply { number, outcome });
    let replies: Vec<Reply> = replies.collect();
    let digests = vec![ResultDigest { number: 7, digest: digest(8) }];
    let (view, primary, place) = (View(1), ReplicaId(5), place());
    let messages = [
        ToClient::Replies { view, replies: replies.clone() },
        ToClient::Digests { view, digests: digests.clone() },
        ToClient::Speculative { primary, place, replies },
        ToClient::SpeculativeDigests { primary, place, digests },
        ToClient::Vouched { place, signature: signature(6) },
        ToClient::Committed(place),
        ToClient::Answer { number: 7, result: text(b"an answer") },
        ToClient::Busy { number: 7 },
        ToClient::Status(text(b"{}")),
        ToClient::Protocol(text(b"of the protocol")),
        ToClient::Events { oldest: 3, first: 4, events: vec![text(b"one"), text(b"two")] },
        ToClient::Standing(text(b"how the group stands")),
        ToClient::Begun(Welcome { number: 9, signature: signature(8) }),
        ToClient::State(text(b"an answer about state")),
    ];
    messages.map(|it| Sample::of(format!("to-client.{}", it.kind()), it)).into()
}

fn requests() -> Vec<Sample> {
    let macs = Bytes::copy_from_slice(&counting::<48>(1));
    let items = vec![Item::Whole(envelope()), Item::Named(digest(2))];
    vec![
        enveloped("signature", draft(None), RequestAuth::Signature(counting(0x40))),
        enveloped("macs", draft(Some(6)), RequestAuth::Macs(macs)),
        enveloped("session", draft(None), RequestAuth::Session(counting(3))),
        Sample::of("proposal", Proposal::new(Millis(1), items)),
    ]
}

/// An envelope is equal to another one if its bytes are, so all of its fields are compared.
fn enveloped(name: &str, draft: Draft, auth: RequestAuth) -> Sample {
    let bytes = draft.clone().seal(auth.clone()).to_bytes();
    Sample::read_by(format!("envelope.{name}"), bytes, move |bytes| {
        Envelope::from_bytes(bytes).is_ok_and(|it| {
            let Envelope { client, floor, events, requests, auth: found, digest, .. } = it;
            let found = (Draft { client, floor, events, requests }, found, digest);
            found == (draft.clone(), auth.clone(), draft.digest())
        })
    })
}

fn ui(certificate: Certificate) -> Ui {
    Ui {
        incarnation: Incarnation(1),
        instance: Instance(5),
        position: Position::new(View(2), 3),
        committed: Position::new(View(4), 6),
        certificate,
    }
}

fn tags() -> Vec<Sample> {
    let tags = [
        ("channel", AuthTag::Channel),
        ("signature", AuthTag::Signature(counting(1))),
        ("usig-mac", AuthTag::Usig(ui(Certificate::Mac(counting(7))))),
        ("usig-signature", AuthTag::Usig(ui(Certificate::Signature(counting(8))))),
        ("mac", AuthTag::Mac(TrustedMac(counting(9)))),
        ("checksum", AuthTag::Checksum(Checksum(counting(10)))),
        ("vector", AuthTag::Vector(MacVector::new([1, 2, 3].map(|receiver| [receiver; 16])))),
    ];
    let mut samples: Vec<Sample> =
        tags.map(|(name, tag)| Sample::of(format!("tag.{name}"), tag)).into();
    let said = (ReplicaId(3), AuthTag::Signature(counting(1)), Slot(7));
    let wire = authored::encode(said.0, &said.1, &said.2);
    let (author, tag) = (said.0, said.1.clone());
    samples.push(Sample::read_by("authored", wire.clone(), move |bytes| {
        authored::decode::<Slot>(bytes).as_ref() == Ok(&said)
    }));
    let message = Arc::new(Slot(7));
    let kept = Verified { author, tag, digest: digest(2), message, wire, is_direct: false };
    samples.push(Sample::read_by("kept-message", kept.to_bytes(), move |bytes| {
        Verified::<Slot>::from_bytes(bytes).is_ok_and(|it| {
            it == kept && (it.message, it.wire) == (kept.message.clone(), kept.wire.clone())
        })
    }));
    samples
}

fn devices() -> Vec<Sample> {
    let (last, committed) = (Position::new(View(1), 2), Position::new(View(3), 4));
    let position = Position::new(View(5), 6);
    let statement = Statement { position, committed, digest: digest(7) };
    vec![
        Sample::of("device.statement", statement),
        Sample::of("device.memory", Memory { last, committed, recent: vec![statement] }),
    ]
}

fn transfers() -> Vec<Sample> {
    let at = |height, prefix| tree::Place { height, prefix };
    let parts = || {
        let bytes = Bytes::from_static(b"a section");
        let (present, listed, digests) = (0b1011, 0b1001, vec![digest(2), digest(3)]);
        [
            ("section", Part::Section { section: 5, bytes }),
            ("chunks", Part::Chunks { section: 6, digests: digests.clone() }),
            ("children", Part::Children { present, listed, digests }),
        ]
    };
    let slot = Slot(64);
    let (places, since) = (vec![at(2, 0), at(1, 4)], Some(Slot(60)));
    let nodes = (7..).zip(parts()).map(|(prefix, (_, part))| (at(0, prefix), part)).collect();
    let bytes = Bytes::from_static(b"a chunk");
    let messages = [
        ("ask-nodes", transfer::Message::AskNodes { slot, since, below: true, places }),
        ("nodes", transfer::Message::Nodes { slot, sections: 100, leaves: 9, nodes }),
        ("ask-chunk", transfer::Message::AskChunk { slot, section: 3, chunk: 2 }),
        ("chunk", transfer::Message::Chunk { slot, section: 3, chunk: 2, bytes }),
        ("gone", transfer::Message::Gone { slot }),
    ];
    let messages = messages.map(|(name, it)| Sample::of(format!("transfer.{name}"), it));
    let parts = parts().map(|(name, it)| Sample::of(format!("part.{name}"), it));
    messages.into_iter().chain(parts).collect()
}

fn epochs() -> Vec<Sample> {
    let proofs = [None, Some(Witnesses::Members), Some(Witnesses::Administrators)].map(proof);
    let named = Handover { next: Some(digest(1)), ..handover() };
    let messages = [
        ("at", Message::At { epoch: Epoch(3), configuration: digest(4) }),
        ("vote", Message::Vote(handover(), signature(5))),
        ("proofs", Message::Proofs(proofs.to_vec())),
        ("admit", Message::Admit(envelope())),
        ("leaves", Message::Leaves { epoch: Epoch(8) }),
        ("settled", Message::Settled { epoch: Epoch(9) }),
    ];
    let mut samples: Vec<Sample> =
        messages.map(|(name, it)| Sample::of(format!("epochs.{name}"), it)).into();
    samples.push(Sample::of("handover", handover()));
    samples.push(Sample::of("handover.named", named));
    let names = ["proof", "proof.by-members", "proof.by-administrators"];
    samples.extend(names.into_iter().zip(proofs).map(|(name, proof)| Sample::of(name, proof)));
    samples
}

/// Between them they have each word once at least.
fn words() -> [Facts; 4] {
    let count = |per_fault, more| Count { per_fault, more };
    let byzantine = Facts {
        fault_model: FaultModel::Byzantine,
        group_size: count(3, 1),
        quorum: QuorumRule::Byzantine,
        replies: count(2, 1),
        reads: ReadRule::All,
        pillars: true,
        counter: None,
        ..facts()
    };
    let crash = Facts {
        fault_model: FaultModel::Crash,
        quorum: QuorumRule::All,
        speculative: true,
        counter: Some(Counter::Trinx),
        ..facts()
    };
    let fail_stop = Facts {
        fault_model: FaultModel::FailStop,
        group_size: count(1, 1),
        replies: count(0, 1),
        replies_itself: true,
        authority: Authority::Service,
        counter: Some(Counter::Unbound),
        ..facts()
    };
    [facts(), byzantine, crash, fail_stop]
}

fn configurations() -> Vec<Sample> {
    let facts = (1..).zip(words()).map(|(at, it)| Sample::of(format!("facts.{at}"), it));
    let requests = [
        ("signature", RequestMeans::Signature),
        ("macs", RequestMeans::Macs),
        ("session", RequestMeans::Session(counting(1))),
    ];
    let requests = requests.map(|(name, it)| Sample::of(format!("requests.{name}"), it));
    let mut split = configuration(2);
    (split.lane.pillars, split.lane.rotates, split.facts.pillars) = (3, true, true);
    let configurations = [("first", configuration(0)), ("next", change().next), ("split", split)];
    let named = |(name, it)| Sample::of(format!("configuration.{name}"), it);
    facts.chain(requests).chain(configurations.map(named)).collect()
}

fn ready() -> Ready {
    let (epoch, change, signing) = (Epoch(1), change().digest(), counting(0x28));
    Ready { epoch, change, signing, life: life(8), possession: signature(9) }
}

fn petitions() -> Vec<Sample> {
    let (expects, attempt, change) = (digest(2), 3, change());
    let admission = Admission { epoch: Epoch(1), configuration: digest(2), life: life(4) };
    let petitions = [
        ("admit", Petition::Admit(admission)),
        ("propose", Petition::Propose(Arc::new(change.clone()))),
        ("withdraw", Petition::Withdraw(Withdrawal { expects, attempt })),
        ("ready", Petition::Ready(ready())),
        ("show", Petition::Show),
    ];
    let petitions = petitions.map(|(name, it)| Sample::of(format!("petition.{name}"), it));
    let shown = Shown {
        epoch: Epoch(5),
        time: Millis(6),
        configuration: configuration(0),
        withdrawn: 7,
        pending: Some(Awaiting { change: change.clone(), ready: vec![MemberId(2), MemberId(4)] }),
        proposed: vec![Proposed { change: change.clone(), by: vec![administrator(1)] }],
    };
    let links = vec![proof(Some(Witnesses::Members)), proof(Some(Witnesses::Administrators))];
    let (pending, states) = (Some(Arc::new(change.clone())), vec![base(64), base(128)]);
    let more = [
        Sample::of("change", change),
        Sample::of("shown", shown),
        Sample::of("standing", Standing { epoch: Epoch(8), links, pending, states }),
    ];
    petitions.into_iter().chain(more).collect()
}

fn report() -> Report {
    let history = History { base: base(4), batches: vec![digest(5), digest(6)] };
    Report { epoch: Epoch(1), author: ReplicaId(2), life: life(3), history }
}

fn succession() -> Succession {
    Succession { handover: handover(), inherits: vec![digest(7), digest(8)] }
}

fn mark() -> Mark {
    Mark { base: base(9), history: digest(10) }
}

fn successions() -> Vec<Sample> {
    let certificate = MarkCertificate { history: digest(1), signatures: signatures() };
    let signed = SignedReport { report: report(), signature: signature(2) };
    let issued = Issued { succession: succession(), signatures: signatures() };
    vec![
        Sample::of("succession.report", signed),
        Sample::of("succession.issued", issued),
        Sample::of("succession.mark", mark()),
        Sample::of("succession.certificate", certificate),
    ]
}

/// What names a value, in what others say.
fn digests() -> Vec<Sample> {
    let items = vec![Item::Whole(envelope()), Item::Named(digest(2))];
    let sections = [b"one".to_vec(), Vec::new(), vec![7; 300_000], b"four".to_vec()];
    let state = Tree::of(Slot(1), sections).digest();
    let digests = [
        ("configuration-first", configuration(0).digest()),
        ("configuration-next", change().next.digest()),
        ("change", change().digest()),
        ("envelope", envelope().digest),
        ("proposal", Proposal::new(Millis(1), items).digest()),
        ("state", state),
        ("history-empty", empty_history(base(1))),
        ("history-longer", longer_history(&digest(1), &digest(2))),
    ];
    digests.map(|(name, it)| Sample::of(format!("digest.{name}"), it)).into()
}

/// What signatures and certificates cover.
fn statements() -> Vec<Sample> {
    let membership = membership();
    let rotating = membership.domain().split(3, true);
    let said = |domain: Domain| domain.statement("golden").finish();
    let statements = [
        ("in-a-group", said(membership.group_domain())),
        ("in-an-epoch", said(membership.domain_of(Epoch(2)))),
        ("in-pillars", said(rotating)),
        ("in-a-pillar", said(rotating.pillar(2))),
        ("handover", handover().statement(&membership)),
        ("rescue", handover().rescue(&membership)),
        ("ready", ready().statement(&administrator(1))),
        ("report", report().statement(&membership)),
        ("succession", succession().statement(&membership)),
        ("mark", mark().statement(&membership.domain())),
    ];
    statements.map(|(name, it)| Sample::of(format!("statement.{name}"), it)).into()
}
