//! Which changes of a configuration are allowed.

use super::refusal::Refusal;
use crate::change::Change;
use crate::configuration::{Configuration, MemberEntry};
use crate::digest::Digest;
use crate::ids::Millis;
use crate::limits::{CHANGE_MILLIS_MAX, CONFIGURATIONS_MAX};
use crate::mutant;
use crate::protocol::Authority;

/// Whether a change may be proposed now, after so many withdrawals.
pub fn check(
    change: &Change,
    (digest, current): (Digest, &Configuration),
    withdrawn: u32,
    now: Millis,
) -> Result<(), Refusal> {
    let Change { expects, attempt, expires, next, needed } = change;
    let is_stale = *expects != digest && !mutant!("roster.change-without-expected");
    let is_withdrawn = *attempt != withdrawn && !mutant!("roster.withdrawn-change-returns");
    let latest = now.0.saturating_add(CHANGE_MILLIS_MAX);
    let is_next = next.group == current.group && next.number == current.number.wrapping_add(1);
    let has = |id| next.members.iter().any(|member| member.id == id);
    let rules = [
        (!is_stale && !is_withdrawn, Refusal::Stale),
        (now < *expires, Refusal::Expired),
        (is_next, Refusal::NotNext),
        (next.number < CONFIGURATIONS_MAX, Refusal::Full),
        (next.lane == current.lane, Refusal::Pillars),
        (next.facts.authority == Authority::Members, Refusal::Service),
        (counts_members_on(next, current), Refusal::Members),
        (keeps_keys(next, current), Refusal::Keys),
        (keeps_enough(next, current), Refusal::TooFewStay),
        (has_new_secret(next, current), Refusal::Secret),
        (needed.iter().all(|id| has(*id)), Refusal::Needed),
    ];
    rules.into_iter().try_for_each(|(holds, refusal)| holds.then_some(()).ok_or(refusal))?;
    next.check().map_err(Refusal::Bad)?;
    (expires.0 <= latest).then_some(()).ok_or(Refusal::TooFarAhead)
}

/// Whether each new member has a new number, and no number is forgotten.
fn counts_members_on(next: &Configuration, current: &Configuration) -> bool {
    let stays = |member: &MemberEntry| current.members.iter().any(|it| it.id == member.id);
    let is_counted = |member: &MemberEntry| stays(member) || member.id >= current.next_member;
    next.next_member >= current.next_member && next.members.iter().all(is_counted)
}

/// Whether members that stay have the keys that they have, and others keys that no member has.
fn keeps_keys(next: &Configuration, current: &Configuration) -> bool {
    let is_known =
        |key: &[u8; 32]| current.members.iter().any(|it| it.identity == *key || it.signing == *key);
    let is_right = |member: &MemberEntry| {
        if is_same(member, current) {
            current.members.iter().any(|it| it.id == member.id && it.signing == member.signing)
        } else {
            !is_known(&member.identity) && !is_known(&member.signing)
        }
    };
    next.members.iter().all(is_right)
}

/// Whether at least one correct replica stays: it has the state, or gets it from members that
/// leave, which are connected to those that stay. New members get it from that one.
fn keeps_enough(next: &Configuration, current: &Configuration) -> bool {
    let stay = next.members.iter().filter(|member| is_same(member, current));
    stay.count() > usize::from(next.f)
}

/// Devices get another secret when a member leaves, which keeps the old one, or joins, which learns
/// the new one before it is a member; so also while the protocol of the group needs no devices. It
/// is sealed for each member. A group whose members stay can keep its secret.
fn has_new_secret(next: &Configuration, current: &Configuration) -> bool {
    let is_new = next.secret.is_some() && next.secret != current.secret;
    let is_sealed = next.members.iter().all(|member| member.sealed.is_some());
    let stays = next.secret == current.secret && has_members_of(next, current);
    is_new && is_sealed || stays || mutant!("roster.secret-stays")
}

/// Whether a configuration has the same members as another one, with the same identities.
pub fn has_members_of(next: &Configuration, current: &Configuration) -> bool {
    let is_same = |member| is_same(member, current);
    next.members.len() == current.members.len() && next.members.iter().all(is_same)
}

/// Whether a member is one of this configuration, with the same identity.
pub fn is_same(member: &MemberEntry, configuration: &Configuration) -> bool {
    let mut there = configuration.members.iter();
    there.any(|it| (it.id, it.identity) == (member.id, member.identity))
}
