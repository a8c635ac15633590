//! The rules of the model that can be left out.

use crate::Rule as Named;

/// A rule, in the order of [`RULES`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Rule {
    LaterProof,
    TwoSteps,
    Expected,
    OneAtATime,
    KeysErased,
    EraseLast,
    DurableVotes,
    RetireSettled,
    ClientCounts,
    WelcomeBySigning,
    SecretChanges,
    EpochFirst,
    LogIsTruth,
    Threshold,
    NextCompared,
    WholeChain,
    ClientChain,
    ReadyWait,
    Fallback,
    RandomLife,
    LifeNeeded,
    EnoughIsUnset,
    ReadyRepeated,
    AttemptCompared,
    SealedToPassing,
    PeersBySigning,
    ChannelsRekeyed,
    ReleasedByProof,
    FolderStays,
    JoinerSecret,
    CountsUntilHeld,
    ReadyNamesEpoch,
}

/// The place of the rule with this name.
pub(super) fn position(name: &str) -> Option<usize> {
    RULES.iter().position(|(rule, _)| *rule == name)
}

/// Names and meanings, in the order of [`Rule`].
pub(super) const RULES: &[Named] = &[
    ("later-proof-convinces", "votes do not name the configuration, so a later proof convinces"),
    ("change-ends-epoch", "the epoch ends with the change, before anybody is ready for it"),
    ("change-without-expected", "a change does not name the configuration that it changes"),
    ("second-change-replaces", "a second change takes the place of a pending one"),
    ("signing-key-kept", "members keep signing keys of configurations that ended"),
    ("erases-before-durable", "a member erases its keys before chain and log are durable"),
    ("votes-before-state-is-durable", "a member votes for a state that it has in memory only"),
    ("retires-before-settled", "a removed member exits before others hold the base"),
    ("counts-across-configurations", "a client counts answers of two configurations together"),
    ("welcome-by-identity", "whoever has the identity key answers a client as a member"),
    ("secret-outlives-member", "devices keep their secret although a member leaves"),
    ("index-before-epoch", "a message is mapped to an index before its epoch is compared"),
    ("configuration-from-file", "a restarted member believes its file and not its log"),
    ("one-administrator-is-enough", "the roster does not count administrators' signatures"),
    ("next-not-compared", "the configuration of a proof is not compared with its digest"),
    ("skips-a-link", "members keep the last link of the chain only"),
    ("believes-single-link", "a client checks a link with the keys that the link names"),
    ("ready-at-once", "the epoch ends as soon as enough are ready, without a wait"),
    ("no-fallback-incarnation", "a retained member that is not ready gets no incarnation"),
    ("fallback-by-name", "a member that is not ready gets an incarnation that follows from names"),
    ("lifeless-members-may-be-late", "the epoch ends although new members have no device yet"),
    ("enough-stays", "the wait goes on although a member that was ready no longer is"),
    ("silent-when-counted", "a member says that it is ready only until it is counted"),
    ("withdrawn-change-returns", "a change does not name how many were withdrawn before it"),
    ("sealed-to-identity", "secrets are sealed to keys that members keep for ever"),
    ("peers-by-identity", "a replica's words count on every channel of its identity key"),
    ("channel-not-rekeyed", "a channel keeps its key when the configuration changes"),
    ("waits-for-the-departed", "a removed member waits for members that were removed since"),
    ("folder-goes-when-not-pending", "a member drops its new keys when it sees no pending change"),
    ("joiner-learns-the-secret", "devices keep their secret if no member leaves"),
    ("taken-before-settled", "a member ceases to count before others hold the state it ended with"),
    ("ready-for-ever", "what a member said of itself counts in every epoch of a configuration"),
];
