//! What changes in a replica with the epoch: its core, and what checks others' statements.

use super::StartError;
use super::counters::{CounterChecks, Trusted};
use crate::config::ClusterConfig;
use crate::protocols;
use pentarchy_core::Bytes;
use pentarchy_core::auth::{Signature, Verifier};
use pentarchy_core::change::Change;
use pentarchy_core::configuration::{Access, Configuration, RequestMeans};
use pentarchy_core::counter::Counter;
use pentarchy_core::digest::Digest;
use pentarchy_core::erased::{CoreEffect, ReplicaCore};
use pentarchy_core::ids::{MemberId, ReplicaId, ReplicaSet};
use pentarchy_core::membership::{Life, Membership};
use pentarchy_core::outsider::Outsider;
use pentarchy_core::protocol::{BadRecord, Memory, Rules, Setup, Tuning};
use pentarchy_crypto::signing_keys::{Present, SharedSigningKeys};
use pentarchy_crypto::verifier::{GroupVerifier, RequestMode, SessionCheck};
use pentarchy_protocols::Descriptor;
use pentarchy_protocols::pillars::{Part, Parts};
use pentarchy_replica::{EpochFactory, Prepared, Split, Started};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tracing::{error, warn};

/// Between two attempts at a folder of signing keys that failed.
const FOLDER_AGAIN: Duration = Duration::from_secs(2);

/// Makes the parts of a replica that change with the epoch.
pub(super) struct Epochs {
    me: MemberId,
    /// The rules of the protocol with which it began.
    first: Rules,
    life: Life,
    signing: SharedSigningKeys,
    /// When it could not make or erase a key.
    failed: Option<Instant>,
    /// Keys of an earlier configuration could not be erased yet.
    is_erasing: bool,
    checks: CounterChecks,
    trusted: Trusted,
    /// What checks clients' tags, where the devices can. It keeps the clients' keys for as long as
    /// the devices share one secret.
    sessions: Option<Arc<dyn SessionCheck>>,
    /// The configuration in which the replica is, and with it the name of that secret.
    present: Present,
    /// Who may be a client in the first configuration.
    access: Access,
    tuning: Tuning,
    /// The configuration of which it said last that it lacks what that needs.
    lacking: Option<Digest>,
}

/// Why a replica cannot be one of a configuration.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub(super) enum Lacks {
    #[error("this program has no protocol of that name, or another version of it")]
    Protocol,
    #[error(
        "the trusted device of this replica has a key of its own, and that protocol needs a \
             shared secret"
    )]
    Device,
    #[error(
        "this replica has no key that opens the secret which the trusted devices are to share: if \
         its folder `signing` is lost, replace the member: `pentarchy members replace`"
    )]
    Secret,
    #[error(
        "the trusted devices are to share another secret, and that of this replica, in a process \
         of its own, cannot take it: start the replica with --counter in-process"
    )]
    Process,
    #[error("clients are to use sessions with other trusted devices than this replica's")]
    Sessions,
}

impl Epochs {
    pub(super) fn new(
        config: &ClusterConfig,
        membership: &Membership,
        (me, life, signing): (MemberId, Life, SharedSigningKeys),
        trusted: Trusted,
    ) -> Result<Self, StartError> {
        Ok(Self {
            me,
            first: super::protocol(config)?.rules,
            life,
            signing,
            failed: None,
            is_erasing: false,
            checks: CounterChecks::new(membership, &trusted)?,
            sessions: trusted.sessions(membership),
            present: membership.stated.as_deref().map(Present::of).unwrap_or_default(),
            trusted,
            access: config.access.clone(),
            tuning: config.tuning,
            lacking: None,
        })
    }

    /// Which replica this is in an epoch. One without a place has ended.
    fn place(&self, membership: &Membership) -> ReplicaId {
        membership.index_of(self.me).expect("a replica without a place ends")
    }

    /// The protocol of an epoch; none if this program lacks it.
    fn protocol(&self, membership: &Membership) -> Option<&'static Descriptor> {
        membership.stated.as_deref().and_then(protocols::of)
    }

    /// What this replica lacks to be one of a configuration, if anything.
    fn lacks_for(&self, next: &Configuration) -> Result<(), Lacks> {
        protocols::of(next).ok_or(Lacks::Protocol)?;
        if next.facts.counter == Some(Counter::Trinx) && !self.life.is_mac() {
            return Err(Lacks::Device);
        }
        if next.facts.counter.is_some() && !self.trusted.has_secret_of(next) {
            return Err(self.lacks_secret());
        }
        match next.requests {
            RequestMeans::Session(key) => {
                let is_ours = self.trusted.session_key(next).is_some_and(|mine| mine == key);
                (self.sessions.is_some() && is_ours).then_some(()).ok_or(Lacks::Sessions)
            }
            RequestMeans::Macs | RequestMeans::Signature => Ok(()),
        }
    }

    /// Why its device lacks what the others share.
    const fn lacks_secret(&self) -> Lacks {
        match self.trusted {
            Trusted::Here(_) => Lacks::Secret,
            Trusted::Apart(_) => Lacks::Process,
        }
    }

    fn setup(
        &self,
        membership: &Arc<Membership>,
        fetch: Option<ReplicaSet>,
        memory: Memory,
    ) -> Setup {
        let (me, tuning) = (self.place(membership), self.tuning);
        Setup { me, membership: membership.clone(), fetch, memory, tuning }
    }

    /// Whether the folder of signing keys failed lately: it is not tried again in each round.
    fn is_pausing(&self) -> bool {
        self.failed.is_some_and(|failed| failed.elapsed() < FOLDER_AGAIN)
    }

    fn report_erasing(&mut self, erased: std::io::Result<()>) {
        if let Err(error) = erased {
            warn!(%error, "cannot erase a key that is not used any more; trying again");
            self.failed = Some(Instant::now());
        }
    }

    /// Whether the group has gone on from this configuration, as far as this replica knows: then it
    /// may have erased what it had for it.
    fn is_over(&self, membership: &Membership) -> bool {
        let number = membership.stated.as_ref().map_or(0, |stated| stated.number);
        self.signing.lock().has_left(number)
    }

    /// Where the devices share another secret from an epoch on, clients' tags are others.
    fn follow_secret(&mut self, membership: &Membership) {
        let Some(stated) = &membership.stated else { return };
        let needs = stated.facts.counter.is_some() && !self.is_over(membership);
        if needs && !self.trusted.has_secret_of(stated) {
            let lacks = self.lacks_secret();
            error!(
                epoch = %membership.epoch,
                "the others accept nothing that this replica orders: {lacks}"
            );
        }
        if stated.secret != self.present.secret {
            self.sessions = self.trusted.sessions(membership);
        }
        self.present = Present::of(stated);
    }

    pub(super) fn try_verifier(
        &self,
        membership: &Arc<Membership>,
    ) -> Result<GroupVerifier, StartError> {
        let check = self.checks.in_epoch(membership);
        let (place, is_over) = (self.place(membership), self.is_over(membership));
        let signing = self.signing.lock();
        // Without its key for this epoch it believes nothing that is said to it alone.
        let key = signing.get(&membership.members[usize::from(place.0)].signing);
        let key = key.unwrap_or_else(|| {
            if !is_over {
                error!(
                    epoch = %membership.epoch,
                    "this replica lacks its signing key of this epoch, so replicas and clients \
                     believe nothing that it says until the next change of the group for which \
                     it is ready, or until administrators run `pentarchy members replace`"
                );
            }
            signing.current()
        });
        let me = Some((place, key));
        let stated = membership.stated.as_ref().map(|stated| stated.requests);
        let group = membership.clone();
        let verifier = match (stated.unwrap_or_default(), &self.sessions) {
            (RequestMeans::Session(_), None) => return Err(StartError::NoSessionKey),
            (RequestMeans::Session(_), Some(sessions)) => {
                GroupVerifier::with_sessions(group, check, sessions.clone())?
            }
            (RequestMeans::Macs, _) => GroupVerifier::new(group, check, RequestMode::Mac, me)?,
            (RequestMeans::Signature, _) => {
                GroupVerifier::new(group, check, RequestMode::Signature, me)?
            }
        };
        let verifier = verifier.of_member(place, key.clone());
        let stated = membership.stated.as_ref().filter(|stated| stated.number > 0);
        Ok(verifier.admitting(stated.map_or(&self.access, |stated| &stated.access)))
    }
}

impl EpochFactory for Epochs {
    fn rules(&self, membership: &Membership) -> Rules {
        self.protocol(membership).map_or(self.first, |entry| entry.rules)
    }

    fn tuning(&self) -> Tuning {
        self.tuning
    }

    fn verifier(&mut self, membership: &Arc<Membership>) -> Arc<dyn Verifier> {
        self.follow_secret(membership);
        let verifier = self.try_verifier(membership);
        Arc::new(
            verifier
                .expect("the file's keys were checked, and a member shows that it has a later one"),
        )
    }

    fn core(
        &mut self,
        membership: &Arc<Membership>,
        fetch: Option<ReplicaSet>,
        memory: Memory,
        effects: &mut Vec<CoreEffect>,
    ) -> Box<dyn ReplicaCore> {
        let Some(entry) = self.protocol(membership) else {
            let protocol = membership.stated.as_ref().map(|stated| stated.protocol.as_str());
            error!(
                protocol,
                "this program lacks the protocol to which the group has switched, so this replica \
                 takes no part: start it with a program that has it"
            );
            return Box::new(Outsider { rules: self.first });
        };
        (entry.start)(self.setup(membership, fetch, memory), effects)
    }

    fn can_split(&self) -> bool {
        // A group whose order is split keeps its protocol.
        self.first.pillars
    }

    fn split(
        &mut self,
        membership: &Arc<Membership>,
        fetch: Option<ReplicaSet>,
        memory: &Memory,
    ) -> Option<Split> {
        let start = self.protocol(membership)?.split?.start;
        let Parts { merger, pillar_cores } = start(self.setup(membership, fetch, memory.clone()));
        let started = |Part { core, effects }| Started { core, effects };
        Some(Split {
            merger: started(merger),
            pillar_cores: pillar_cores.into_iter().map(started).collect(),
        })
    }

    fn can_switch_to(&mut self, next: &Configuration) -> bool {
        let Err(lacks) = self.lacks_for(next) else { return true };
        let digest = next.digest();
        if self.lacking != Some(digest) {
            let (number, protocol) = (next.number, &next.protocol);
            warn!(number, protocol, "cannot be one of the next configuration: {lacks}");
            self.lacking = Some(digest);
        }
        false
    }

    fn prepare(&mut self, change: &Change, _: &Digest) -> Option<Prepared> {
        if self.is_pausing() {
            return None;
        }
        match self.signing.lock().prepare(change) {
            Ok(signing) => Some(Prepared { signing, life: self.life }),
            Err(error) => {
                warn!(%error, "cannot make a key for the next configuration; trying again");
                self.failed = Some(Instant::now());
                None
            }
        }
    }

    fn sign_as(&self, signing: &[u8; 32], statement: &Digest) -> Option<Signature> {
        let keys = self.signing.lock();
        keys.get(signing).map(|key| Signature(key.sign(statement)))
    }

    fn erase_former_keys(&mut self) {
        let erased = self.signing.lock().erase_former(&self.present);
        self.is_erasing = erased.is_err();
        self.report_erasing(erased);
    }

    fn retire(&mut self) {
        if let Err(error) = self.signing.lock().retire() {
            error!(
                %error,
                "cannot erase all keys by which this member signed: erase `group-secret`, and all \
                 files in `signing` but `retired`, in its folder of keys"
            );
        }
    }

    fn has_former_keys(&self) -> bool {
        self.signing.lock().has_former(&self.present)
    }

    fn forget_prepared(&mut self, is_void: &dyn Fn(&Change) -> bool) {
        if self.is_pausing() {
            return;
        }
        if self.is_erasing {
            self.erase_former_keys();
        }
        let forgotten = self.signing.lock().forget(is_void);
        self.report_erasing(forgotten);
    }

    fn check_records(&self, membership: &Membership, records: &[Bytes]) -> Result<(), BadRecord> {
        let entry = self.protocol(membership);
        entry.map_or(Ok(()), |entry| (entry.check_records)(records))
    }
}
