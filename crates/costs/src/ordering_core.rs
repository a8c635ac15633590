//! A core among its peers that executes nothing: the whole order of a replica alone, or a pillar.

use crate::host::{Keys, engine, member};
use crate::links::{Links, LinksDriver, Queue};
use crate::{Node, Unwatched};
use pentarchy_core::Bytes;
use pentarchy_core::ids::{ClientId, Millis, ReplicaId};
use pentarchy_core::membership::{Membership, PillarConfig};
use pentarchy_core::ports::client::ToReplica;
use pentarchy_core::ports::replica::{Input, Output, pillar};
use pentarchy_core::request::Envelope;
use pentarchy_core::wire::Wire;
use pentarchy_machine::fault::Fault;
use pentarchy_machine::pillar::{FromPillar, ToPillar};
use pentarchy_machine::{Halt, HostLimits, PillarInstance, Seen};
use pentarchy_protocols::pillars::Part;
use pentarchy_storage::kept::LogHandle;
use std::sync::Arc;

/// See the [module](self).
pub struct OrderingCore {
    instance: PillarInstance<LogHandle>,
    links: Links,
    node: Node,
    now: Millis,
}

impl OrderingCore {
    /// Around a core that was brought up at a replica of this group. It speaks at once.
    #[must_use]
    pub fn new(part: Part, me: ReplicaId, membership: &Arc<Membership>, keys: Keys) -> Self {
        let engine = engine(part, me, membership, keys);
        let instance = PillarInstance::new(engine, None, Seen::default(), HostLimits::default());
        let (links, node, now) = (Links::default(), Node::Replica(me), Millis(0));
        let mut core = Self { instance, links, node, now };
        core.hear(ToPillar::Speak);
        core
    }

    fn drive(
        &mut self,
        act: impl FnOnce(&mut PillarInstance<LogHandle>, &mut LinksDriver<'_>) -> Result<(), Halt>,
    ) {
        let Self { instance, links, node, now } = self;
        let done = act(instance, &mut links.driver(*node, *now, &mut Unwatched));
        done.unwrap_or_else(|halt| panic!("nothing goes wrong in here: {halt}"));
    }

    /// Takes a replica's message.
    pub fn on_peer(&mut self, peer: ReplicaId, bytes: &Bytes) {
        self.drive(|instance, driver| {
            instance.on_peer(member(peer), std::iter::once(bytes.clone()), false);
            instance.deliver_peers(driver)
        });
    }

    /// Hears the rest of its replica.
    pub fn hear(&mut self, told: ToPillar) {
        self.drive(|instance, driver| instance.on_replica(told, driver));
    }

    /// Takes what a client says to the protocol.
    pub fn on_client(&mut self, client: ClientId, message: &Bytes) {
        self.drive(|instance, driver| instance.on_client(client, message, driver));
    }

    /// Checks what it was told to, and says that the round is over.
    pub fn on_round(&mut self, now: Millis) {
        self.check();
        self.now = now;
        self.drive(|instance, driver| {
            instance.begin_round(now.0, Fault::None, driver)?;
            instance.end_round(true, now, driver)
        });
    }

    fn check(&mut self) {
        while self.instance.is_late(false) {
            self.instance.check();
        }
    }

    /// Messages of the pillar to the rest of its replica.
    pub fn said(&mut self) -> impl Iterator<Item = FromPillar> {
        self.instance.saying().drain(..)
    }

    /// Messages of this replica to other replicas.
    pub fn to_peers(&mut self) -> impl Iterator<Item = (ReplicaId, &mut Queue)> {
        self.links.to_peers()
    }
}

/// The part of a replica with clients, where nothing is executed.
pub struct OrderingFront {
    core: OrderingCore,
    lane: PillarConfig,
    fresh: Vec<Arc<Envelope>>,
    /// What clients said to the protocol in this round.
    said: Vec<(ClientId, Bytes)>,
    /// Envelopes that pillars are checking, and those that they have checked since the last round.
    under_check: usize,
    checked: Vec<Arc<Envelope>>,
    /// What pillars are to check, and what they are to be told behind that, as of a whole replica.
    to_check: Vec<(u8, ToPillar)>,
    to_pillars: Vec<(u8, ToPillar)>,
}

impl OrderingFront {
    /// Around this core, beside such pillars.
    #[must_use]
    pub fn new(core: OrderingCore, lane: PillarConfig) -> Self {
        let (fresh, said, checked, to_pillars) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        Self { core, lane, fresh, said, under_check: 0, checked, to_check: Vec::new(), to_pillars }
    }

    /// Takes a replica's message.
    pub fn on_peer(&mut self, peer: ReplicaId, bytes: &Bytes) {
        self.core.on_peer(peer, bytes);
    }

    /// Takes a client's message.
    ///
    /// # Panics
    /// If it is neither a request nor the protocol's, which no client in here sends.
    pub fn on_client(&mut self, client: ClientId, bytes: &Bytes) {
        match ToReplica::from_bytes(bytes) {
            Ok(ToReplica::Request(envelope)) => self.fresh.push(envelope),
            Ok(ToReplica::Protocol(message)) => self.said.push((client, message)),
            other => panic!("a client in here only submits: {other:?}"),
        }
    }

    /// Tells its core something.
    pub fn tell(&mut self, input: Input) {
        self.core.hear(ToPillar::Input(Box::new(input)));
    }

    /// Hears what one of its pillars says.
    pub fn on_pillar(&mut self, pillar: u8, said: FromPillar) {
        match said {
            FromPillar::Output(_, output) => {
                self.tell(pillar::Input::Said { pillar, output }.into())
            }
            FromPillar::Checked(checked) => {
                self.under_check -= checked.envelopes.len();
                self.checked.extend(checked.envelopes);
            }
            FromPillar::KeptAgain(..) | FromPillar::OtherEpoch(..) => {}
        }
    }

    /// All that had arrived was told: has new envelopes checked, and says that the round is over.
    pub fn on_round(&mut self, now: Millis) {
        for (client, message) in std::mem::take(&mut self.said) {
            self.core.on_client(client, &message);
        }
        let checked = std::mem::take(&mut self.checked);
        self.submit(checked);
        self.admit();
        self.core.on_round(now);
    }

    fn admit(&mut self) {
        let fresh = std::mem::take(&mut self.fresh);
        if self.lane.pillars == 1 || fresh.len() == 1 && self.under_check == 0 {
            self.core.hear(ToPillar::Check(fresh));
            self.core.check();
            return self.take_checked();
        }
        self.under_check += fresh.len();
        let mut shares = vec![Vec::new(); self.lane.pillars.into()];
        for envelope in fresh {
            shares[usize::from(self.lane.of_client(&envelope.client))].push(envelope);
        }
        let shares = (0..).zip(shares).filter(|(_, share)| !share.is_empty());
        self.to_check.extend(shares.map(|(pillar, share)| (pillar, ToPillar::Check(share))));
    }

    /// Hands the core what was just checked here.
    fn take_checked(&mut self) {
        let (checked, other): (Vec<FromPillar>, Vec<FromPillar>) =
            self.core.said().partition(|said| matches!(said, FromPillar::Checked(_)));
        self.core.instance.saying().extend(other);
        for said in checked {
            if let FromPillar::Checked(checked) = said {
                self.submit(checked.envelopes);
            }
        }
    }

    fn submit(&mut self, envelopes: Vec<Arc<Envelope>>) {
        for envelope in envelopes {
            self.tell(Input::Request { envelope, settled: Vec::new(), passed_on: false });
        }
    }

    /// What pillars are to be told.
    pub fn to_pillars(&mut self) -> impl Iterator<Item = (u8, ToPillar)> {
        self.to_check.drain(..).chain(self.to_pillars.drain(..))
    }

    /// What its core wants done, beside what pillars are to be told.
    pub fn outputs(&mut self) -> Vec<Output> {
        let mut outputs = Vec::new();
        for said in self.core.said() {
            match said {
                FromPillar::Output(_, output) => match *output {
                    Output::Pillar(pillar::Output::Tell { pillar, input }) => {
                        self.to_pillars.push((pillar, ToPillar::Input(input)));
                    }
                    output => outputs.push(output),
                },
                FromPillar::Checked(_) | FromPillar::KeptAgain(..) | FromPillar::OtherEpoch(..) => {
                }
            }
        }
        outputs
    }

    /// Messages of this replica to other replicas.
    pub fn to_peers(&mut self) -> impl Iterator<Item = (ReplicaId, &mut Queue)> {
        self.core.to_peers()
    }
}
