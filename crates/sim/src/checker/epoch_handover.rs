//! One log over all epochs: each epoch ends at one slot, with one state, because a member asked to
//! be admitted in that slot; the next one begins there, for all correct replicas alike, and no slot
//! is executed in two epochs. A member waits twice as long for each further admission.

use super::{Broken, Verdict};
use pentarchy_core::batch::Batch;
use pentarchy_core::change::Petition;
use pentarchy_core::epochs::{Admission, Handover};
use pentarchy_core::ids::{ClientId, Epoch, MemberId, Millis, ReplicaId, Slot};
use pentarchy_core::limits::{ADMISSION_DOUBLINGS_MAX, ADMISSION_INTERVAL_MILLIS};
use pentarchy_core::membership::{Life, Member, Membership};
use pentarchy_core::wire::Wire as _;
use std::collections::BTreeMap;

/// The name of the property.
pub const PROPERTY: &str = "epoch_handover";

/// See the [module](self).
#[derive(Default)]
pub struct EpochHandover {
    /// The members of each epoch as the first correct replica that was there had them.
    memberships: BTreeMap<Epoch, Membership>,
    /// How each epoch ended, as the first correct replica that executed so far says.
    ends: BTreeMap<Epoch, (Handover, ReplicaId)>,
    /// Where each correct replica is.
    at: BTreeMap<ReplicaId, (Epoch, Slot)>,
    /// The epoch in which a slot was executed.
    slots: BTreeMap<Slot, Epoch>,
    /// Who asked in which slot to be admitted with which device.
    asked: BTreeMap<Slot, Vec<(ReplicaId, Life)>>,
    /// With which device who said last that it is ready for another configuration, and in which
    /// slot. A member that the group admitted behind that has to say it again.
    ready: BTreeMap<ClientId, (Slot, Life)>,
    /// The same as it was when an epoch ended with another configuration.
    was_ready: BTreeMap<Epoch, BTreeMap<ClientId, (Slot, Life)>>,
    /// The agreed time as far as anybody has executed, and in slots in which somebody asked.
    time: Millis,
    times: BTreeMap<Slot, Millis>,
    /// By agreed time, when each member was admitted: the last one and those before it, as long as
    /// none of the times between two of them is so long that an admission is forgiven.
    admitted: BTreeMap<MemberId, Vec<Millis>>,
}

/// The clients that say in a batch with which device they are ready, in this epoch.
fn ready_in(batch: &Batch, epoch: Epoch) -> impl Iterator<Item = (ClientId, Life)> {
    batch.envelopes.iter().flat_map(move |envelope| {
        envelope.requests.iter().filter_map(move |request| {
            match Petition::from_bytes(&request.operation) {
                Ok(Petition::Ready(ready)) if ready.epoch == epoch => {
                    Some((envelope.client, ready.life))
                }
                _ => None,
            }
        })
    })
}

fn broken(detail: String) -> Verdict {
    Err(Broken::new(PROPERTY, detail))
}

impl EpochHandover {
    /// The group as it begins.
    #[must_use]
    pub fn new(first: Membership) -> Self {
        Self { memberships: BTreeMap::from([(first.epoch, first)]), ..Self::default() }
    }

    fn epoch(&self, replica: ReplicaId) -> Epoch {
        self.at.get(&replica).map_or(Epoch(0), |(epoch, _)| *epoch)
    }

    /// A correct replica executed a batch.
    ///
    /// # Errors
    /// If the slot does not belong to the epoch in which it is.
    pub fn executed(&mut self, replica: ReplicaId, slot: Slot, batch: &Batch) -> Verdict {
        let epoch = self.epoch(replica);
        self.at.insert(replica, (epoch, slot));
        let first = *self.slots.entry(slot).or_insert(epoch);
        if first != epoch {
            return broken(format!("{replica} executes {slot} in {epoch}; others did in {first}"));
        }
        let base = self.memberships[&epoch].base.slot;
        if slot <= base {
            return broken(format!("{replica} executes {slot} in {epoch}, which begins at {base}"));
        }
        if let Some((end, who)) = self.ends.get(&epoch)
            && slot > end.base.slot
        {
            let end = end.base.slot;
            return broken(format!("{replica} executes {slot}; {who} ended {epoch} at {end}"));
        }
        let members = &self.memberships[&epoch];
        let asked = batch.envelopes.iter().filter_map(|envelope| {
            let member = members.member(&envelope.client)?;
            Some(envelope.requests.iter().filter_map(move |request| {
                let asked = Admission::of_operation(&request.operation)?;
                (asked.epoch == epoch).then_some((member, asked.life))
            }))
        });
        let asked: Vec<(ReplicaId, Life)> = asked.flatten().collect();
        if !self.asked.contains_key(&slot) {
            let ready = ready_in(batch, epoch);
            self.ready.extend(ready.map(|(who, life)| (who, (slot, life))));
        }
        self.time = self.time.max(batch.time);
        if !asked.is_empty() {
            self.times.entry(slot).or_insert(self.time);
        }
        self.asked.entry(slot).or_insert(asked);
        Ok(())
    }

    /// A correct replica installed a state.
    pub fn installed(&mut self, replica: ReplicaId, slot: Slot) {
        self.at.insert(replica, (self.epoch(replica), slot));
    }

    /// A correct replica executed the last slot of an epoch, as it says.
    ///
    /// # Errors
    /// If another one says otherwise, somebody executed behind it, or a device counts from there
    /// on that nobody asked for in this slot, and with which nobody was ready if the configuration
    /// changes.
    pub fn ended(&mut self, replica: ReplicaId, handover: &Handover) -> Verdict {
        let Handover { epoch, base, next, .. } = handover;
        let at = self.at.get(&replica).copied().unwrap_or_default();
        if at != (*epoch, base.slot) {
            return broken(format!("{replica}, at {at:?}, ends {epoch} at {}", base.slot));
        }
        if let Some((other, who)) = self.ends.get(epoch) {
            if other != handover {
                return broken(format!("{replica} ends with {handover:?}, {who} with {other:?}"));
            }
            return Ok(());
        }
        let behind = self.slots.range(base.slot.next()..).find(|(_, in_epoch)| *in_epoch == epoch);
        if let Some((slot, _)) = behind {
            return broken(format!("{epoch} ends at {}, but {slot} was executed in it", base.slot));
        }
        match next {
            None => self.ended_by_admission(replica, handover)?,
            Some(_) => self.ended_by_change(replica, handover)?,
        }
        self.ends.insert(*epoch, (handover.clone(), replica));
        Ok(())
    }

    fn ended_by_admission(&mut self, replica: ReplicaId, handover: &Handover) -> Verdict {
        let Handover { epoch, base, lives, .. } = handover;
        let last = base.slot;
        let members = self.memberships[epoch].members.clone();
        let asked = self.asked.get(&last).map(Vec::as_slice).unwrap_or_default();
        let mut admitted = Vec::new();
        for ((index, member), after) in (0..).map(ReplicaId).zip(members.iter()).zip(lives) {
            let has_asked = asked.contains(&(index, *after));
            if member.life() != *after && !has_asked {
                let detail = format!("{replica} admits {after:?} of {index}, who did not ask");
                return broken(detail);
            }
            admitted.extend((member.life() != *after && has_asked).then_some(member));
        }
        let is_void = |who: &ClientId, said: Slot| {
            said < last && admitted.iter().any(|member| member.identity == who.0)
        };
        self.ready.retain(|who, (said, _)| !is_void(who, *said));
        let at = self.times.get(&last).copied().unwrap_or_default();
        admitted.into_iter().try_for_each(|member| self.admits(member.id, at))
    }

    /// Who the members of the next epoch are, shows when somebody begins it.
    fn ended_by_change(&mut self, replica: ReplicaId, handover: &Handover) -> Verdict {
        let Handover { epoch, base, lives, .. } = handover;
        let members = self.memberships[epoch].members.iter().map(Member::life);
        let ready = self.ready.values().map(|(_, life)| *life);
        let asked = self.asked.get(&base.slot).into_iter().flatten().map(|(_, life)| *life);
        let known: Vec<Life> = members.chain(ready).chain(asked).chain([Life::default()]).collect();
        if let Some(life) = lives.iter().find(|life| !known.contains(life)) {
            return broken(format!("{replica} admits {life:?} of somebody who did not ask"));
        }
        self.was_ready.insert(*epoch, core::mem::take(&mut self.ready));
        Ok(())
    }

    /// The first correct replica begins an epoch of another configuration: each device is the one
    /// that its member ran, or with which it said that it is ready.
    fn began_anew(&self, replica: ReplicaId, membership: &Membership, before: Epoch) -> Verdict {
        let last = membership.base.slot;
        for member in membership.members.iter() {
            let known = self.memberships[&before].members.iter().find(|it| it.id == member.id);
            let ran = known.map(Member::life).unwrap_or_default();
            let life = member.life();
            let asked = |seat| self.asked.get(&last).is_some_and(|all| all.contains(&(seat, life)));
            let has_asked = self.memberships[&before].index_of(member.id).is_some_and(asked);
            let ready = self.was_ready.get(&before);
            let ready = ready.and_then(|all| all.get(&ClientId(member.identity)));
            let is_ready = ready.is_some_and(|(_, it)| *it == life);
            if ran != life && !is_ready && !has_asked {
                let id = member.id;
                return broken(format!("{replica} knows {life:?} of {id}, who did not say so"));
            }
        }
        Ok(())
    }

    /// A member is admitted at this agreed time.
    fn admits(&mut self, member: MemberId, at: Millis) -> Verdict {
        let times = self.admitted.entry(member).or_default();
        if let Some(last) = times.last() {
            let since = at.0.saturating_sub(last.0);
            let doublings = (times.len() - 1).min(ADMISSION_DOUBLINGS_MAX.into());
            let least = ADMISSION_INTERVAL_MILLIS << doublings;
            if since < least {
                let count = times.len();
                return broken(format!(
                    "{member} is admitted {since} ms after admission {count}, not {least}"
                ));
            }
            if since >= ADMISSION_INTERVAL_MILLIS << ADMISSION_DOUBLINGS_MAX {
                times.clear();
            }
        }
        times.push(at);
        Ok(())
    }

    /// A correct replica goes on in an epoch.
    ///
    /// # Errors
    /// If it was there already, or no correct replica ended the one before like that.
    pub fn began(&mut self, replica: ReplicaId, membership: &Membership) -> Verdict {
        let (epoch, was) = (membership.epoch, self.epoch(replica));
        if epoch <= was {
            return broken(format!("{replica} goes from {was} to {epoch}"));
        }
        let last = self.at.get(&replica).map_or(Slot(0), |(_, slot)| *slot);
        if last > membership.base.slot {
            let base = membership.base.slot;
            return broken(format!("{replica} executed {last}, and {epoch} begins at {base}"));
        }
        let before = Epoch(epoch.0 - 1);
        let ended = self.ends.get(&before).map(|(end, _)| end);
        let follows = ended.is_some_and(|end| {
            let lives = membership.members.iter().map(Member::life);
            end.base == membership.base
                && lives.eq(end.lives.iter().copied())
                && match end.next {
                    None => have_same(membership, &self.memberships[&before]),
                    Some(next) => membership.configuration == next,
                }
        });
        if !follows {
            let detail = format!(
                "{replica} begins {membership:?}; correct replicas ended {before} with {ended:?}"
            );
            return broken(detail);
        }
        let is_change = ended.is_some_and(|end| end.next.is_some());
        if is_change && !self.memberships.contains_key(&epoch) {
            self.began_anew(replica, membership, before)?;
        }
        self.memberships.insert(epoch, membership.clone());
        self.at.insert(replica, (epoch, last));
        Ok(())
    }

    /// A replica lost its memory.
    pub fn restarted(&mut self, replica: ReplicaId) {
        self.at.remove(&replica);
    }

    /// A replica goes on from what it had kept.
    pub fn resumed(&mut self, replica: ReplicaId, epoch: Epoch, slot: Slot) {
        self.at.insert(replica, (epoch, slot));
    }

    /// Epochs that began behind the first one.
    #[must_use]
    pub fn epochs(&self) -> u64 {
        self.memberships.len() as u64 - 1
    }
}

/// Whether two epochs have all in common that no admission changes.
fn have_same(one: &Membership, other: &Membership) -> bool {
    let of = |it: &Membership| {
        let Membership { group, configuration, epoch: _, f, members, base: _, lane, stated } = it;
        let member = |it: &Member| {
            let Member { id, identity, signing, incarnation: _, device_key: _ } = it;
            (*id, *identity, *signing)
        };
        let members: Vec<_> = members.iter().map(member).collect();
        (*group, *configuration, *f, *lane, members, stated.clone())
    };
    of(one) == of(other)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::crypto::member_id;
    use crate::world::membership;
    use pentarchy_core::Bytes;
    use pentarchy_core::auth::Signature;
    use pentarchy_core::batch::{Item, Proposal};
    use pentarchy_core::change::Ready;
    use pentarchy_core::digest::Digest;
    use pentarchy_core::ids::{Incarnation, Millis};
    use pentarchy_core::membership::Base;
    use pentarchy_core::request::{Draft, Request, RequestAuth};
    use std::sync::Arc;

    const NEW: Life = Life { incarnation: Incarnation(7), device_key: [0; 32] };

    fn batch(operation: Bytes) -> Batch {
        let requests = vec![Request { number: 1, operation }];
        let draft = Draft { client: member_id(ReplicaId(2)), floor: 1, events: None, requests };
        let envelope = Arc::new(draft.seal(RequestAuth::Signature([0; 64])));
        Proposal::new(Millis(1), vec![Item::Whole(envelope)]).complete(|_| None).unwrap()
    }

    fn ordinary() -> Batch {
        batch(Bytes::from_static(b"x"))
    }

    /// Replicas 0 and 1 executed slots 1 and 2, and in the second one replica 2 is admitted.
    fn two() -> (EpochHandover, Membership, Handover) {
        let first = membership(1, 3, 1);
        let mut checker = EpochHandover::new(first.clone());
        for replica in [0, 1].map(ReplicaId) {
            checker.executed(replica, Slot(1), &ordinary()).unwrap();
            checker
                .executed(
                    replica,
                    Slot(2),
                    &batch(
                        Admission { epoch: Epoch(0), configuration: Digest::default(), life: NEW }
                            .to_operation(),
                    ),
                )
                .unwrap();
        }
        let mut lives: Vec<Life> = first.members.iter().map(Member::life).collect();
        lives[2] = NEW;
        let base = Base { slot: Slot(2), state: Digest([5; 32]) };
        (checker, first, Handover { epoch: Epoch(0), base, lives, next: None })
    }

    fn is_named(verdict: Verdict, words: &str) {
        let broken = verdict.unwrap_err();
        assert_eq!(broken.property, PROPERTY);
        assert!(broken.detail.contains(words), "{broken}");
    }

    fn ended() -> (EpochHandover, Membership) {
        let (mut checker, first, handover) = two();
        checker.ended(ReplicaId(0), &handover).unwrap();
        (checker, first.after(&handover))
    }

    #[test]
    fn one_log_goes_on_over_epochs() {
        let (mut checker, second) = ended();
        for replica in [0, 1, 2].map(ReplicaId) {
            checker.began(replica, &second).unwrap();
        }
        checker.executed(ReplicaId(0), Slot(3), &ordinary()).unwrap();
        checker.installed(ReplicaId(2), Slot(2));
        checker.executed(ReplicaId(2), Slot(3), &ordinary()).unwrap();
        checker.restarted(ReplicaId(2));
        checker.began(ReplicaId(2), &second).unwrap();
        assert_eq!(checker.epochs(), 1);
    }

    #[test]
    fn replicas_that_end_otherwise_are_found() {
        let (mut checker, _, handover) = two();
        checker.ended(ReplicaId(0), &handover).unwrap();
        let base = Base { state: Digest([6; 32]), ..handover.base };
        let other = Handover { base, ..handover.clone() };
        is_named(checker.ended(ReplicaId(1), &other), "ends with");
        let base = Base { slot: Slot(1), ..handover.base };
        is_named(two().0.ended(ReplicaId(1), &Handover { base, ..handover }), "ends e0 at");
    }

    #[test]
    fn a_life_that_nobody_asked_for_is_found() {
        let (mut checker, _, mut handover) = two();
        handover.lives[2].incarnation = Incarnation(8);
        is_named(checker.ended(ReplicaId(0), &handover), "did not ask");
        let (mut checker, _, mut handover) = two();
        handover.lives[1] = NEW;
        is_named(checker.ended(ReplicaId(0), &handover), "r1, who did not ask");
    }

    #[test]
    fn a_member_that_is_ready_has_its_device_only_in_another_configuration() {
        let first = membership(1, 3, 1);
        let ready = Ready {
            epoch: Epoch(0),
            change: Digest::of(b"a change"),
            signing: [7; 32],
            life: NEW,
            possession: Signature([0; 64]),
        };
        let ended = |said: &[Slot], next| {
            let mut checker = EpochHandover::new(first.clone());
            for slot in (1..=3).map(Slot) {
                let operation = match said.contains(&slot) {
                    true => Petition::Ready(ready).to_bytes(),
                    false => Bytes::from_static(b"x"),
                };
                checker.executed(ReplicaId(0), slot, &batch(operation)).unwrap();
            }
            let mut lives: Vec<Life> = first.members.iter().map(Member::life).collect();
            lives[2] = NEW;
            let base = Base { slot: Slot(3), state: Digest([5; 32]) };
            checker.ended(ReplicaId(0), &Handover { epoch: Epoch(0), base, lives, next })
        };
        let next = Some(Digest::of(b"the next one"));
        ended(&[Slot(1)], next).unwrap();
        is_named(ended(&[], next), "did not ask");
        is_named(ended(&[Slot(1)], None), "did not ask");
    }

    #[test]
    fn a_member_that_is_admitted_too_soon_is_found() {
        let mut checker = EpochHandover::new(membership(1, 3, 1));
        let member = MemberId(2);
        let longest = ADMISSION_INTERVAL_MILLIS << ADMISSION_DOUBLINGS_MAX;
        // Behind the last one an admission is forgiven, and how many still count is not known.
        for at in [1_000, 6_000, 16_000, 36_000, 36_000 + longest, 41_000 + longest] {
            checker.admits(member, Millis(at)).unwrap();
        }
        let again = checker.admits(member, Millis(51_000 + longest - 1));
        is_named(again, "m2 is admitted 9999 ms after admission 2, not 10000");
    }

    #[test]
    fn execution_behind_the_end_is_found_before_and_after_it_is_known() {
        let (mut checker, _) = ended();
        is_named(checker.executed(ReplicaId(1), Slot(3), &ordinary()), "ended e0 at");
        let (mut checker, _, handover) = two();
        checker.executed(ReplicaId(1), Slot(3), &ordinary()).unwrap();
        is_named(checker.ended(ReplicaId(0), &handover), "was executed in it");
    }

    #[test]
    fn a_handover_that_no_correct_replica_made_is_found() {
        let (mut checker, first, handover) = two();
        is_named(checker.began(ReplicaId(1), &first.after(&handover)), "correct replicas ended");
        let (mut checker, second) = ended();
        let base = Base { slot: Slot(3), ..second.base };
        is_named(checker.began(ReplicaId(1), &Membership { base, ..second.clone() }), "begins");
        let skipped = Membership { epoch: Epoch(2), ..second };
        is_named(checker.began(ReplicaId(1), &skipped), "begins");
    }

    /// Whatever else of a group a replica takes along in another way than it was, also when all
    /// others began the epoch as they should.
    #[test]
    fn a_group_that_is_another_in_its_next_epoch_is_found() {
        let (mut checker, second) = ended();
        let with = |change: &dyn Fn(&mut Membership)| {
            let mut changed = second.clone();
            change(&mut changed);
            changed
        };
        let with_member = |change: &dyn Fn(&mut Member)| {
            let mut members = second.members.to_vec();
            change(&mut members[1]);
            Membership { members: members.into(), ..second.clone() }
        };
        let changed = [
            with(&|it| it.group.0[0] ^= 1),
            with(&|it| it.configuration = Digest::of(b"other keys")),
            with(&|it| it.f = 0),
            with(&|it| it.lane.pillars = 2),
            with(&|it| it.lane.rotates = true),
            with(&|it| it.lane.pillar = Some(0)),
            with(&|it| it.members = it.members[..2].into()),
            with_member(&|it| it.id.0 = 9),
            with_member(&|it| it.identity[0] ^= 1),
            with_member(&|it| it.signing[0] ^= 1),
            with_member(&|it| it.incarnation.0 ^= 1),
            with_member(&|it| it.device_key[0] ^= 1),
        ];
        checker.began(ReplicaId(0), &second).unwrap();
        for changed in changed {
            is_named(checker.began(ReplicaId(1), &changed), "begins");
        }
        checker.began(ReplicaId(1), &second).unwrap();
    }

    #[test]
    fn nobody_goes_back_and_nothing_is_executed_in_two_epochs() {
        let (mut checker, second) = ended();
        checker.began(ReplicaId(0), &second).unwrap();
        is_named(checker.began(ReplicaId(0), &second), "goes from");
        is_named(checker.executed(ReplicaId(0), Slot(2), &ordinary()), "executes s2");
        let (mut checker, second) = ended();
        checker.began(ReplicaId(0), &second).unwrap();
        checker.executed(ReplicaId(0), Slot(3), &ordinary()).unwrap();
        checker.installed(ReplicaId(1), Slot(3));
        is_named(checker.began(ReplicaId(1), &second), "begins at");
    }
}
