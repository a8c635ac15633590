//! Why the group does not do what it is asked to do about itself.

use crate::change::{ANOTHER_PENDING, REPEATED};
use crate::configuration::BadConfiguration;
use core::fmt;

/// See the module.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Refusal {
    Unknown,
    NoMember,
    NoAdministrator,
    ByService,
    Ended,
    OtherConfiguration,
    AdmittedAlready,
    TooSoon,
    Stale,
    AnotherPending,
    Expired,
    TooFarAhead,
    NotNext,
    Bad(BadConfiguration),
    Pillars,
    Service,
    Members,
    Keys,
    TooFewStay,
    Secret,
    Needed,
    Full,
    Repeated,
    NothingPending,
    NotInvited,
    NotAttested,
    KeyInUse,
    OtherEpoch,
    OldRequest,
}

impl fmt::Display for Refusal {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Self::Unknown => "that is nothing that a group does",
            Self::NoMember => "only members are admitted",
            Self::NoAdministrator => "only an administrator of this group can ask for that",
            Self::ByService => "the members do not say who they are",
            Self::Ended => "the configuration has ended",
            Self::OtherConfiguration => "asked under another configuration",
            Self::AdmittedAlready => "admitted already",
            Self::TooSoon => "admitted too recently; ask again",
            Self::Stale => {
                "it was made for another configuration than the present one, or was withdrawn; \
                 make it anew"
            }
            Self::AnotherPending => ANOTHER_PENDING,
            Self::Expired => "it has expired; make it anew",
            Self::TooFarAhead => "a change can be pending for at most a day; make it anew",
            Self::NotNext => "it is not the next configuration of this group; make it anew",
            Self::Bad(error) => {
                return write!(out, "no group can have that configuration: {error}");
            }
            Self::Pillars => "the number of pillars cannot change while the group runs",
            Self::Service => "no service can become the one that ends the epochs of this group",
            Self::Members => {
                "a new member needs a number that no member had, and the numbers that were given \
                 stay given"
            }
            Self::Keys => {
                "a member that stays keeps its signing key until it is ready, and a new one needs \
                 keys that no member has"
            }
            Self::TooFewStay => {
                "more members have to stay than the next configuration tolerates faulty ones, or \
                 nobody would have to have the state; replace the others in another change"
            }
            Self::Secret => {
                "where members come or go, the devices need another secret, sealed for each \
                 member; make the change anew"
            }
            Self::Needed => "a member that has to be ready is not in the next configuration",
            Self::Full => "the group has had as many configurations as replicas keep",
            Self::Repeated => REPEATED,
            Self::NothingPending => "no such change is pending",
            Self::NotInvited => "only members of the pending configuration can be ready for it",
            Self::NotAttested => "a device with a key of its own has to be attested",
            Self::OtherEpoch => "asked of another epoch",
            Self::OldRequest => "you have asked something else since",
            Self::KeyInUse => "that signing key is in use; bring a new one",
        })
    }
}
