//! One replica without sockets, clock and threads: what `pentarchy-replica` does around a core,
//! piece by piece, so that each can be measured alone.

use crate::parts::{Said, Told};
use crate::speaker::Speaker;
use pentarchy_core::Bytes;
use pentarchy_core::auth::{Auth, AuthTag, Verifier};
use pentarchy_core::digest::Digest;
use pentarchy_core::executor::{Executor, Notice};
use pentarchy_core::ids::{ClientId, Millis, ReplicaId, Slot, View};
use pentarchy_core::limits::REPLY_WHOLE_BYTES;
use pentarchy_core::membership::{Lane, Membership};
use pentarchy_core::ports::client::{Place, Reply, ToClient, ToReplica};
use pentarchy_core::ports::replica::{Input, Output};
use pentarchy_core::protocol::{Delay, Memory, Setup, Tuning};
use pentarchy_core::request::Envelope;
use pentarchy_core::sessions::Lookup;
use pentarchy_core::telling::Telling;
use pentarchy_core::wire::{Wire, Writer};
use pentarchy_protocols::Descriptor;
use pentarchy_protocols::pillars::Part;
use pentarchy_services::null::Null;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Makes the tags that a replica's messages ask for.
pub trait Tagger: Send {
    /// The tag for the statement with this digest.
    fn tag(&mut self, auth: &Auth, digest: &Digest) -> AuthTag;
}

/// What a replica checks and convinces with.
pub struct Keys {
    /// Checks what others made.
    pub verifier: Arc<dyn Verifier>,
    /// Makes what others check.
    pub tagger: Box<dyn Tagger>,
}

/// Messages for one destination, behind their lengths. Keeps its buffer, as a connection does.
#[derive(Default)]
pub struct Queue {
    plain: Vec<u8>,
    messages: Vec<(&'static str, usize)>,
}

impl Queue {
    /// Appends one message in place.
    pub fn push(&mut self, kind: &'static str, encode: impl FnOnce(&mut Writer)) {
        let start = self.plain.len();
        let mut writer = Writer::onto(std::mem::take(&mut self.plain));
        writer.u32(0);
        encode(&mut writer);
        self.plain = writer.into_vec();
        let length = self.plain.len() - start - 4;
        self.plain[start..start + 4].copy_from_slice(&(length as u32).to_le_bytes());
        self.messages.push((kind, length));
    }

    /// The bytes of all, and the kind and the length of each.
    #[must_use]
    pub fn waiting(&self) -> (&[u8], &[(&'static str, usize)]) {
        (&self.plain, &self.messages)
    }

    /// Everything was sent.
    pub fn clear(&mut self) {
        self.plain.clear();
        self.messages.clear();
    }
}

/// What a client is to be told.
enum Answer {
    /// Results, and what they rest on if they may be taken back.
    Results(Option<Place>, Vec<Reply>),
    /// Something of the protocol.
    Protocol(ToClient),
}

/// One replica; of one whose order is split, all that its pillars do not do themselves.
pub struct Host {
    speaker: Speaker,
    executor: Executor,
    /// Which pillars there are beside it.
    lane: Lane,
    fresh: Vec<Arc<Envelope>>,
    /// Envelopes that pillars are checking.
    under_check: usize,
    to_pillars: Vec<(u8, Told)>,
    answers: Vec<(ClientId, Answer)>,
    to_clients: BTreeMap<ClientId, Queue>,
    telling: Telling,
}

impl Host {
    /// A replica of a fresh group that replicates [`Null`].
    #[must_use]
    pub fn new(
        me: ReplicaId,
        membership: &Arc<Membership>,
        protocol: &Descriptor,
        keys: Keys,
        tuning: Tuning,
    ) -> Self {
        let mut effects = Vec::new();
        let core = (protocol.start)(fresh(me, membership, tuning), &mut effects);
        Self::around(Part { core, effects }, me, membership, keys)
    }

    /// Around a core that was brought up, be it what merges the orders of pillars.
    #[must_use]
    pub fn around(part: Part, me: ReplicaId, membership: &Arc<Membership>, keys: Keys) -> Self {
        Self {
            speaker: Speaker::new(part, me, membership, keys),
            executor: Executor::new(membership.clone(), Box::new(Null::new())),
            lane: Lane::default(),
            fresh: Vec::new(),
            under_check: 0,
            to_pillars: Vec::new(),
            answers: Vec::new(),
            to_clients: BTreeMap::new(),
            telling: Telling { me, n: membership.n(), whole_bytes: REPLY_WHOLE_BYTES },
        }
    }

    /// The same beside pillars, which check what their clients send.
    #[must_use]
    pub const fn beside_pillars(mut self, lane: Lane) -> Self {
        self.lane = lane;
        self
    }

    /// Takes a client's message: decodes it, and keeps an envelope for [`Self::admit`]. False if
    /// others have had it ordered and executed before it came here.
    ///
    /// # Panics
    /// If it is neither a request nor the protocol's, which no client in here sends.
    pub fn on_client(&mut self, client: ClientId, bytes: &Bytes) -> bool {
        match ToReplica::from_bytes(bytes) {
            Ok(ToReplica::Request(envelope)) => {
                let is_new = !self.settled(&envelope);
                self.fresh.extend(Some(envelope).filter(|_| is_new));
                return is_new;
            }
            Ok(ToReplica::Protocol(message)) => self.speaker.on_client(client, &message),
            other => panic!("a client in here only submits: {other:?}"),
        }
        true
    }

    fn settled(&self, envelope: &Envelope) -> bool {
        self.executor.lookups(envelope).all(|known| known != Lookup::New)
    }

    /// Checks the new envelopes together and hands them to the core; or has pillars check them, if
    /// there are some and it is more than one, each those of its own clients.
    ///
    /// # Panics
    /// If one is not authentic.
    pub fn admit(&mut self) {
        let fresh = std::mem::take(&mut self.fresh);
        if self.lane.pillars == 1 || fresh.len() == 1 && self.under_check == 0 {
            self.speaker.check(&fresh);
            return self.submit(fresh);
        }
        self.under_check += fresh.len();
        let mut shares = vec![Vec::new(); self.lane.pillars.into()];
        for envelope in fresh {
            shares[usize::from(self.lane.of_client(&envelope.client))].push(envelope);
        }
        let shares = (0..).zip(shares).filter(|(_, share)| !share.is_empty());
        self.to_pillars.extend(shares.map(|(pillar, share)| (pillar, Told::Check(share))));
    }

    fn submit(&mut self, envelopes: Vec<Arc<Envelope>>) {
        for envelope in envelopes {
            self.speaker.tell(Input::Request { envelope, settled: Vec::new(), passed_on: false });
        }
    }

    /// Takes a replica's message.
    pub fn on_peer(&mut self, peer: ReplicaId, bytes: &Bytes) {
        self.speaker.on_peer(peer, bytes);
    }

    /// Hears what one of its pillars says.
    pub fn on_pillar(&mut self, pillar: u8, said: Said) {
        match said {
            Said::Output(output) => self.speaker.tell(Input::OfPillar { pillar, output }),
            Said::Checked(mut envelopes) => {
                self.under_check -= envelopes.len();
                // Others may have had some executed meanwhile.
                envelopes.retain(|envelope| !self.settled(envelope));
                self.submit(envelopes);
            }
        }
    }

    /// What pillars are to be told.
    pub fn to_pillars(&mut self) -> impl Iterator<Item = (u8, Told)> {
        self.to_pillars.drain(..)
    }

    /// Says that the round is over.
    pub fn on_round(&mut self, now: Millis) {
        self.speaker.on_round(now);
    }

    /// Lets the timer run out that retransmission waits for; false if none is armed.
    pub fn on_resend(&mut self) -> bool {
        self.speaker.on_resend()
    }

    /// The delays of all armed timers.
    pub fn delays(&self) -> impl Iterator<Item = Delay> {
        self.speaker.delays()
    }

    /// The next thing that the core wants done, beside what pillars are to be told.
    pub fn next_output(&mut self) -> Option<Output> {
        if self.lane.pillars == 1 {
            return self.speaker.next_output();
        }
        loop {
            match self.speaker.next_output()? {
                Output::ToPillar { pillar, input } => {
                    self.to_pillars.push((pillar, Told::Input(input)));
                }
                output => return Some(output),
            }
        }
    }

    /// Executes it, and gives the core its answer.
    pub fn execute(&mut self, output: Output) {
        match output {
            Output::Execute { slot, batch } => {
                let answers = &mut self.answers;
                self.executor.execute(slot, &batch, |client, notice| {
                    if let Notice::Reply(reply) = notice {
                        add_result(answers, *client, None, reply);
                    }
                });
            }
            Output::Speculate { answers: tells, slot, batch, view, history } => {
                let (answers, place) = (&mut self.answers, Place { view, slot, history });
                self.executor.speculate(place, &batch, tells, |client, reply| {
                    if tells {
                        add_result(answers, *client, Some(place), reply);
                    }
                });
            }
            Output::Answer { slot, view } => {
                for (client, place, replies) in self.executor.answers(slot, view) {
                    for reply in replies {
                        add_result(&mut self.answers, client, Some(place), reply);
                    }
                }
            }
            Output::Commit { upto } => {
                self.executor.commit(upto, |_, notice| panic!("nobody waits for {notice:?}"));
            }
            Output::Tell { client, message } => {
                self.answers.push((client, Answer::Protocol(message)));
            }
            Output::Checkpoint { slot } => {
                let state = self.executor.checkpoint();
                self.checkpointed(slot, state);
            }
            Output::Stable { slot, .. } => self.executor.stable(slot),
            Output::Admit { .. }
            | Output::Full { .. }
            | Output::Resumed { .. }
            | Output::Fetch { .. }
            | Output::Rollback { .. }
            | Output::Restate { .. }
            | Output::Entered { .. }
            | Output::Keeping { .. }
            | Output::Glance(_)
            | Output::ToPillar { .. }
            | Output::Diverged { .. } => panic!("nothing goes wrong in here: {output:?}"),
        }
    }

    /// The digest of the last state that was cut; none is a zero.
    #[must_use]
    pub fn state(&self) -> Digest {
        self.executor.latest().map(|snapshot| snapshot.digest).unwrap_or_default()
    }

    /// Tells the core the digest of the state after a slot.
    pub fn checkpointed(&mut self, slot: Slot, state: Digest) {
        self.speaker.tell(Input::Checkpointed { slot, state });
    }

    /// Encodes the results for their clients.
    pub fn reply(&mut self) {
        for (client, answer) in std::mem::take(&mut self.answers) {
            let messages = match answer {
                Answer::Results(place, replies) => results(self.telling, &client, place, replies),
                Answer::Protocol(message) => [Some(message), None],
            };
            let queue = self.to_clients.entry(client).or_default();
            for message in messages.into_iter().flatten() {
                queue.push(message.kind(), |to| message.encode(to));
            }
        }
    }

    /// Results of up to so many bytes every replica tells; of longer ones all but one tell the
    /// digest.
    pub const fn tell_whole(&mut self, bytes: usize) {
        self.telling.whole_bytes = bytes;
    }

    /// What is to be sent to replicas.
    pub fn to_peers(&mut self) -> impl Iterator<Item = (ReplicaId, &mut Queue)> {
        self.speaker.to_peers()
    }

    /// What is to be sent to clients.
    pub fn to_clients(&mut self) -> impl Iterator<Item = (ClientId, &mut Queue)> {
        self.to_clients.iter_mut().map(|(id, queue)| (*id, queue))
    }
}

/// What a core of a fresh group is started with, which keeps nothing.
#[must_use]
pub fn fresh(me: ReplicaId, membership: &Arc<Membership>, tuning: Tuning) -> Setup {
    let membership = membership.clone();
    Setup { me, membership, fetch: None, memory: Memory::Volatile, tuning }
}

/// What a client is told of results: those that this replica tells, and digests of the others.
fn results(
    telling: Telling,
    client: &ClientId,
    place: Option<Place>,
    replies: Vec<Reply>,
) -> [Option<ToClient>; 2] {
    let (replies, digests) = telling.split(client, replies);
    let (some, others) = (!replies.is_empty(), !digests.is_empty());
    let (view, primary) = (View(0), ReplicaId(0));
    let (whole, digests) = match place {
        None => (ToClient::Replies { view, replies }, ToClient::Digests { view, digests }),
        Some(place) => (
            ToClient::Speculative { primary, place, replies },
            ToClient::SpeculativeDigests { primary, place, digests },
        ),
    };
    [some.then_some(whole), others.then_some(digests)]
}

/// Adds a result to those of the same client and place, if they came just before.
fn add_result(
    answers: &mut Vec<(ClientId, Answer)>,
    client: ClientId,
    place: Option<Place>,
    reply: Reply,
) {
    match answers.last_mut() {
        Some((last, Answer::Results(at, replies))) if *last == client && *at == place => {
            replies.push(reply);
        }
        _ => answers.push((client, Answer::Results(place, vec![reply]))),
    }
}
