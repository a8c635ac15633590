//! What a machine asks of its driver: to move bytes, to arm timers, to tell the time. A
//! driver decides nothing.

use crate::observed::{NoticeLog, Observed};
use crate::wedging::ToAuthority;
use pentarchy_core::ids::{ClientId, MemberId};
use pentarchy_core::membership::Membership;
use pentarchy_core::ports::client::ToClient;
use pentarchy_core::protocol::{Delay, Reject, TimerKey};
use pentarchy_core::wire::Writer;
use std::collections::BTreeSet;
use std::time::Duration;

/// The name under which a message is counted.
pub type Kind = &'static str;

/// Why a client is not read for a moment. What it sends meanwhile waits on its side.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Pause {
    /// There is no room for what it sent.
    Busy,
    /// It has sent many times its share. If it goes on, it is not read for longer and longer.
    Flood,
}

/// Why a client's connection ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum HangUp {
    /// It sent what is no message.
    Malformed,
    /// It sent a request in another client's name.
    NotItsOwn,
    /// It sent a request that does not convince.
    NotAuthentic,
}

impl HangUp {
    /// In words, for logs.
    #[must_use]
    pub const fn text(self) -> &'static str {
        match self {
            Self::Malformed => "malformed message",
            Self::NotItsOwn => "not its own request",
            Self::NotAuthentic => "request not authentic",
        }
    }
}

/// A piece of a machine's work that a driver may want to measure apart.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Work {
    /// A batch is executed.
    Execute,
    /// A snapshot is taken.
    Snapshot,
}

/// Carries out what a machine asks for. All methods return at once. Machines are compiled for each
/// driver, so that a message is encoded straight into the buffer of its link.
pub trait Driver {
    /// What it keeps of what clients are told: nothing, if it does not watch.
    type Notices: NoticeLog;

    /// Queues a message for a peer. It is lost if the peer is not connected, or reads too slowly.
    fn send_peer(&mut self, peer: MemberId, kind: Kind, encode: impl FnOnce(&mut Writer));

    /// Queues a message for a client. False if the client is connected and too much waits for it:
    /// then the message is lost. A message to a client that is not connected is lost, too.
    fn send_client(&mut self, client: &ClientId, message: &ToClient) -> bool;

    /// The configuration of this number has begun. Each client is told that
    /// ([`ToClient::Begun`]) before anything else that is sent to it from now on, also one that
    /// connects later.
    fn on_begun(&mut self, number: u64) {
        let _ = number;
    }

    /// Tells something to the authority outside that ends this group's epochs. It may be lost. Of a
    /// group whose members end them themselves nothing is told.
    fn tell_authority(&mut self, message: ToAuthority) {
        let _ = message;
    }

    /// Ends a client's connection.
    fn hang_up(&mut self, client: &ClientId, why: HangUp);

    /// Does not read a client for a moment.
    fn pause_client(&mut self, client: &ClientId, pause: Pause);

    /// Does not read a peer that forges messages for a moment.
    fn pause_peer(&mut self, peer: MemberId);

    /// The group goes on in another configuration, of which this replica is a member: links to
    /// those that are none end, and there are to be links to all others, at the addresses that the
    /// configuration names. A link to a member that stays is left alone.
    fn on_members(&mut self, membership: &Membership);

    /// These have a say in the group: members, administrators, and those that are to be members. A
    /// driver lets them in as clients, whomever else it lets in: who is to be a member says so that
    /// it is ready, and who has become one that way learns of it. Drivers that let in anyone need
    /// not know.
    fn on_governing(&mut self, clients: BTreeSet<ClientId>) {
        drop(clients);
    }

    /// Whether a peer speaks as a member in the present configuration
    /// ([`Welcome`](pentarchy_core::welcome::Welcome)). Drivers without channels need not ask.
    fn is_convinced_by(&self, peer: MemberId) -> bool {
        let _ = peer;
        true
    }

    /// Bytes that wait for a peer.
    fn peer_queued_bytes(&self, peer: MemberId) -> usize;

    /// Bytes that wait for a client.
    fn client_queued_bytes(&self, client: &ClientId) -> usize;

    /// Arms a timer, in the place of an armed one of the same name. When it has run out, the
    /// machine is told, once.
    fn arm(&mut self, timer: TimerKey, after: Delay);

    /// Disarms a timer.
    fn disarm(&mut self, timer: TimerKey);

    /// Disarms all timers.
    fn disarm_all(&mut self);

    /// The time since the driver began, by a clock that nobody can set.
    fn elapsed(&self) -> Duration;

    /// Runs a piece of the machine's work, for drivers that measure it.
    fn around<T>(&mut self, work: Work, act: impl FnOnce() -> T) -> T {
        let _ = work;
        act()
    }

    /// The machine does this.
    fn observe(&mut self, seen: Observed<'_>) {
        let _ = seen;
    }

    /// Clients are told this of what is [observed](Self::observe) next to be executed or final.
    fn on_notices(&mut self, notices: Self::Notices) {
        let _ = notices;
    }

    /// A machine that checks itself would refuse this message of its own, and so would others.
    ///
    /// # Panics
    /// Always, where nobody watches.
    fn on_own_refused(&mut self, kind: Kind, why: Reject) {
        panic!("this replica's {kind} is refused: {why:?}");
    }

    /// Whether the machine leaves out a message that its counter refuses, and goes on. Only a
    /// driver of faulty replicas says so: a correct replica has to end.
    fn leaves_out_refused(&self) -> bool {
        false
    }
}
