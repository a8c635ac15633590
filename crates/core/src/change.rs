//! What administrators and members of a group have ordered about the group itself.
//!
//! An administrator proposes the whole next configuration. It is *pending* once as many
//! administrators as the configuration asks for have proposed the same. Each has its own request
//! ordered, under its own key, so that nothing has to carry several signatures and the roster needs
//! no cryptography. Members of the next configuration then say that they are ready, each with the
//! key and the life of its device that are to count in it.
//!
//! What is asked of the group begins with a [mark](GROUP) of its own, so that it never reaches the
//! service, whoever asks it: also one who is no member or administrator any more, or not yet.

use crate::auth::Signature;
use crate::configuration::Configuration;
use crate::digest::{Digest, Hasher};
use crate::epochs::Admission;
use crate::ids::{ClientId, Epoch, MemberId, Millis};
use crate::limits::{ADMINISTRATORS_MAX, REPLICAS_MAX};
use crate::membership::Life;
use crate::mutant;
use crate::request::{Envelope, Request};
use crate::wire::{Malformed, Reader, Wire, Writer};
use alloc::sync::Arc;
use alloc::vec::Vec;
use bytes::Bytes;

/// What each operation begins with that is for the group itself. No service gets such a one.
pub const GROUP: [u8; 16] = *b"pentarchy group\0";

impl Request {
    /// Whether it asks something of the group itself, and not of the service.
    #[must_use]
    pub fn is_to_group(&self) -> bool {
        self.operation.starts_with(&GROUP)
    }
}

impl Envelope {
    /// Whether it asks something, and nothing of the service.
    #[must_use]
    pub fn is_to_group(&self) -> bool {
        !self.requests.is_empty() && self.requests.iter().all(Request::is_to_group)
    }
}

/// The next configuration, as an administrator proposes it.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Change {
    /// The digest of the configuration that it changes. Under another one it is void.
    pub expects: Digest,
    /// How often administrators had withdrawn what they proposed for that configuration. A change
    /// that was withdrawn is void, so nobody can send it again.
    pub attempt: u32,
    /// It is void from this agreed time on.
    pub expires: Millis,
    /// The next configuration. A member that stays has its present signing key in it, and a new one
    /// the key of its card: those count of members that do not say that they are ready.
    pub next: Configuration,
    /// Members that have to be ready, whoever else is.
    pub needed: Vec<MemberId>,
}

impl Change {
    /// Names it.
    #[must_use]
    pub fn digest(&self) -> Digest {
        Hasher::new("pentarchy change").bytes(&self.to_bytes()).finish()
    }

    /// Whether it can never take effect any more, in a group that is in the configuration of this
    /// number, has withdrawn so much of what was proposed for it, and has come to this agreed time.
    #[must_use]
    pub const fn is_void(&self, number: u64, withdrawn: u32, now: Millis) -> bool {
        let is_over = now.0 >= self.expires.0 || withdrawn > self.attempt;
        self.next.number <= number || (self.next.number == number + 1 && is_over)
    }
}

impl Wire for Change {
    fn encode(&self, to: &mut Writer) {
        self.expects.encode(to);
        to.u32(self.attempt);
        self.expires.encode(to);
        self.next.encode(to);
        to.sequence(&self.needed);
    }
    fn decode(from: &mut Reader<'_>) -> Result<Self, Malformed> {
        Ok(Self {
            expects: Digest::decode(from)?,
            attempt: from.u32()?,
            expires: Millis::decode(from)?,
            next: Configuration::decode(from)?,
            needed: from.sequence(REPLICAS_MAX)?,
        })
    }
}

/// An administrator takes back what it and others proposed for a configuration.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Withdrawal {
    /// As [`Change::expects`].
    pub expects: Digest,
    /// As [`Change::attempt`]: changes that name this number are void then.
    pub attempt: u32,
}

impl Wire for Withdrawal {
    fn encode(&self, to: &mut Writer) {
        self.expects.encode(to);
        to.u32(self.attempt);
    }
    fn decode(from: &mut Reader<'_>) -> Result<Self, Malformed> {
        Ok(Self { expects: Digest::decode(from)?, attempt: from.u32()? })
    }
}

/// A member of the next configuration can begin it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Ready {
    /// The epoch in which it says so. In every other one it means nothing: the life of a device
    /// that it names may be over.
    pub epoch: Epoch,
    /// The digest of the pending change.
    pub change: Digest,
    /// The key that is to sign what the member says in the next configuration. It has the secret
    /// key, durably, and nobody used it before.
    pub signing: [u8; 32],
    /// The life of its device that is to count.
    pub life: Life,
    /// Of the [statement](Self::statement), by that key: so that nobody can name another's.
    pub possession: Signature,
}

impl Ready {
    /// What the new key signs: that it is this member's, for this change.
    #[must_use]
    pub fn statement(&self, member: &ClientId) -> Digest {
        let mut hasher = Hasher::new("pentarchy ready");
        hasher.u64(self.epoch.0).digest(&self.change).bytes(&member.0);
        hasher.bytes(&self.signing).bytes(&self.life.to_bytes()).finish()
    }
}

/// Whether whoever says in an envelope that it is ready has shown that it has the key that it
/// names. A replica checks this with the envelope itself, before that is ordered: the roster has no
/// cryptography. `is_signed` checks a signature by any key, at most once: an envelope that says so
/// again is refused, or each stranger could have replicas check hundreds for one envelope.
pub fn proves_possession(
    envelope: &Envelope,
    is_signed: impl Fn(&[u8; 32], &Digest, &Signature) -> bool,
) -> bool {
    let said = |request: &Request| match Petition::from_bytes(&request.operation) {
        Ok(Petition::Ready(ready)) => Some(ready),
        _ => None,
    };
    let asked = envelope.requests.iter().filter(|request| request.is_to_group());
    let mut ready = asked.filter_map(said);
    let (first, is_only) = (ready.next(), ready.next().is_none());
    let proves = |ready: Ready| {
        is_signed(&ready.signing, &ready.statement(&envelope.client), &ready.possession)
    };
    is_only && first.is_none_or(proves) || mutant!("changing.possession-not-checked")
}

impl Wire for Ready {
    fn encode(&self, to: &mut Writer) {
        self.epoch.encode(to);
        self.change.encode(to);
        to.array(&self.signing);
        self.life.encode(to);
        self.possession.encode(to);
    }
    fn decode(from: &mut Reader<'_>) -> Result<Self, Malformed> {
        Ok(Self {
            epoch: Epoch::decode(from)?,
            change: Digest::decode(from)?,
            signing: from.array()?,
            life: Life::decode(from)?,
            possession: Signature::decode(from)?,
        })
    }
}

/// The operation of a request to the group itself. It begins with [`GROUP`].
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Petition {
    /// Of a member: to count by a device of another life.
    Admit(Admission),
    /// Of an administrator.
    Propose(Arc<Change>),
    /// Of an administrator.
    Withdraw(Withdrawal),
    /// Of a member of the pending configuration.
    Ready(Ready),
    /// Of an administrator: how the group is. The result is a [`Shown`].
    Show,
}

/// How a group is, as an administrator is shown it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Shown {
    /// The epoch in which this was ordered.
    pub epoch: Epoch,
    /// The agreed time at which it was.
    pub time: Millis,
    /// The present configuration.
    pub configuration: Configuration,
    /// How often what administrators had proposed for it was withdrawn.
    pub withdrawn: u32,
    /// The change that waits for its members.
    pub pending: Option<Awaiting>,
    /// What administrators have proposed, and too few others with them.
    pub proposed: Vec<Proposed>,
}

/// A change that waits for its members.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Awaiting {
    /// The change.
    pub change: Change,
    /// The members that are ready.
    pub ready: Vec<MemberId>,
}

/// A change that waits for other administrators.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Proposed {
    /// The change.
    pub change: Change,
    /// The administrators that proposed it.
    pub by: Vec<ClientId>,
}

impl Wire for Awaiting {
    fn encode(&self, to: &mut Writer) {
        self.change.encode(to);
        to.sequence(&self.ready);
    }
    fn decode(from: &mut Reader<'_>) -> Result<Self, Malformed> {
        Ok(Self { change: Change::decode(from)?, ready: from.sequence(REPLICAS_MAX)? })
    }
}

impl Wire for Proposed {
    fn encode(&self, to: &mut Writer) {
        self.change.encode(to);
        to.sequence(&self.by);
    }
    fn decode(from: &mut Reader<'_>) -> Result<Self, Malformed> {
        Ok(Self { change: Change::decode(from)?, by: from.sequence(ADMINISTRATORS_MAX)? })
    }
}

impl Wire for Shown {
    fn encode(&self, to: &mut Writer) {
        to.array(&GROUP);
        self.epoch.encode(to);
        self.time.encode(to);
        self.configuration.encode(to);
        to.u32(self.withdrawn);
        to.option(self.pending.as_ref());
        to.sequence(&self.proposed);
    }
    fn decode(from: &mut Reader<'_>) -> Result<Self, Malformed> {
        if from.array()? != GROUP {
            return Err(Malformed);
        }
        Ok(Self {
            epoch: Epoch::decode(from)?,
            time: Millis::decode(from)?,
            configuration: Configuration::decode(from)?,
            withdrawn: from.u32()?,
            pending: from.option()?,
            proposed: from.sequence(ADMINISTRATORS_MAX)?,
        })
    }
}

impl Wire for Petition {
    fn encode(&self, to: &mut Writer) {
        to.array(&GROUP);
        match self {
            Self::Admit(admission) => {
                to.u8(0);
                admission.encode(to);
            }
            Self::Propose(change) => {
                to.u8(1);
                change.encode(to);
            }
            Self::Withdraw(withdrawal) => {
                to.u8(2);
                withdrawal.encode(to);
            }
            Self::Ready(ready) => {
                to.u8(3);
                ready.encode(to);
            }
            Self::Show => to.u8(4),
        }
    }
    fn decode(from: &mut Reader<'_>) -> Result<Self, Malformed> {
        if from.array()? != GROUP {
            return Err(Malformed);
        }
        match from.u8()? {
            0 => Admission::decode(from).map(Self::Admit),
            1 => Change::decode(from).map(|change| Self::Propose(Arc::new(change))),
            2 => Withdrawal::decode(from).map(Self::Withdraw),
            3 => Ready::decode(from).map(Self::Ready),
            4 => Ok(Self::Show),
            _ => Err(Malformed),
        }
    }
}

/// How the group answers a petition that it accepts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Answer {
    /// A member counts by another device from the next epoch on.
    Admitted,
    /// Too few administrators have proposed the same.
    Proposed,
    /// The change waits for its members.
    Pending,
    /// Too few administrators want to withdraw it.
    Withdrawing,
    /// The group drops what administrators had proposed.
    Withdrawn,
    /// The member counts as ready.
    Ready,
}

impl Answer {
    /// All of them.
    pub const ALL: [Self; 6] = [
        Self::Admitted,
        Self::Proposed,
        Self::Pending,
        Self::Withdrawing,
        Self::Withdrawn,
        Self::Ready,
    ];

    /// For people.
    #[must_use]
    pub const fn text(self) -> &'static str {
        match self {
            Self::Admitted => "admitted",
            Self::Proposed => "proposed; other administrators have to propose the same",
            Self::Pending => "pending; its members have to say that they are ready",
            Self::Withdrawing => "noted; other administrators have to withdraw it, too",
            Self::Withdrawn => "withdrawn",
            Self::Ready => "ready",
        }
    }
}

/// Whether a group that answers this to a petition does what it asks. Both answers are for people;
/// what counts is the epoch that follows.
#[must_use]
pub fn is_accepted(answer: &[u8]) -> bool {
    Answer::ALL.iter().any(|accepted| accepted.text().as_bytes() == answer)
}

/// Why a group refuses a proposal while a change is pending.
pub const ANOTHER_PENDING: &str = "another change is pending; wait for it, or withdraw it";

/// Why a group refuses what the same administrator has proposed or withdrawn before.
pub const REPEATED: &str = "you have said so before; others have not yet";

/// Whether a group that answers this to a proposal waits for members to be ready for it.
#[must_use]
pub fn is_pending(answer: &[u8]) -> bool {
    answer == Answer::Pending.text().as_bytes()
}

impl Admission {
    /// The operation of a request that asks for it.
    #[must_use]
    pub fn to_operation(self) -> Bytes {
        Petition::Admit(self).to_bytes()
    }

    /// What a request asks for, if it asks for that.
    #[must_use]
    pub fn of_operation(operation: &Bytes) -> Option<Self> {
        match Petition::from_bytes(operation) {
            Ok(Petition::Admit(admission)) => Some(admission),
            _ => None,
        }
    }
}
