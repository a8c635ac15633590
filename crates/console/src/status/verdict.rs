//! What an operator asks first: does the group serve, how many more faults does it tolerate, and
//! which replica is to be suspected.

use super::replica_report::{Known, ReplicaReport, vouched};
use pentarchy_core::configuration::Configuration;
use pentarchy_core::quorum::Quorums;
use serde::Serialize;
use std::collections::BTreeMap;

/// Every replica is heard by every other about once a second. One that is silent for longer than
/// this hangs, or is cut off, or does not speak to its peers.
const SILENT_MS: u64 = 3_000;

/// More slots than any group orders while its replicas are asked.
const CLAIM_SLOTS: u64 = 1 << 20;

/// Sections of a state that are named.
const SECTIONS_SHOWN: usize = 3;

/// See the module. What a replica says of *itself* is its own word; what is said of it is believed
/// if `f + 1` others say so. If fewer answer, what all of them say is a suspicion, but no proof
/// that the group stands still. How far a replica is behind is left out: it says little of whether
/// the replica takes part, and under load the answers are of different moments.
#[derive(Serialize)]
pub struct Verdict {
    /// Whether so many replicas are at work as it takes to order requests; none if too few answer
    /// to know.
    pub serves: Option<bool>,
    /// How many more replicas may fail without the group standing still.
    pub tolerates_more: usize,
    /// Whether more than `f` replicas have lost their memory: such a group cannot go on.
    pub lost: bool,
    /// Those that have lost their memory and ask the group to be admitted again.
    pub asking: Vec<u32>,
    /// Replicas that look faulty, by member.
    pub suspected: Vec<Suspect>,
}

/// A replica that looks faulty.
#[derive(Serialize)]
pub struct Suspect {
    /// Which one.
    pub replica: u32,
    /// Why, in words.
    pub why: Vec<String>,
}

/// How many members of a group it takes to order requests.
#[must_use]
pub fn ordering(group: &Configuration) -> usize {
    let members = Quorums { n: group.members.len(), f: group.f.into() };
    group.facts.quorum.size(members)
}

impl Verdict {
    /// From what replicas say of themselves and of each other, of which `needed` order requests.
    pub fn of(replicas: &[ReplicaReport], f: usize, needed: usize) -> Self {
        let view = common_view(replicas);
        let (mut perhaps_helping, mut helping, mut sound) = (0, 0, 0);
        let (mut asking, mut suspected) = (Vec::new(), Vec::new());
        for replica in replicas {
            let said = Said::of(replica, replicas, f);
            let works = replica.reachable
                && replica.known.is_at_work()
                && Some(views(replica)) == view
                && !(said.is_silent() && said.is_vouched);
            let why = said.suspicion(replica);
            perhaps_helping += usize::from(works);
            let works = works && !said.is_silent();
            helping += usize::from(works);
            sound += usize::from(works && why.is_empty());
            if replica.known.asking.contains(&replica.id) {
                asking.push(replica.id);
            }
            if !why.is_empty() {
                suspected.push(Suspect { replica: replica.id, why });
            }
        }
        let answers = replicas.iter().any(|replica| replica.reachable);
        let lost = asking.len() > f;
        let serves = match perhaps_helping >= needed && !lost {
            _ if !answers => None,
            true => (helping >= needed).then_some(true),
            false => Some(false),
        };
        // A larger group may order on with fewer, but is lost if more than f lose their memory.
        let faulty = replicas.len() - sound;
        let tolerates_more = sound.saturating_sub(needed).min(f.saturating_sub(faulty));
        Self { serves, tolerates_more, lost, asking, suspected }
    }

    /// One line, with all that an operator asks first.
    pub fn text(&self) -> String {
        let Self { serves, tolerates_more, lost, asking, suspected } = self;
        if *lost {
            let names: Vec<String> = asking.iter().map(u32::to_string).collect();
            return format!(
                "serves: no, and never will: more than f replicas lost their memory ({}); this \
                 group cannot continue",
                names.join(", ")
            );
        }
        let serves = match serves {
            None => "unknown, too few replicas answer",
            Some(true) => "yes",
            Some(false) => "no",
        };
        let faults = if *tolerates_more == 1 { "fault" } else { "faults" };
        let suspects = suspected
            .iter()
            .map(|Suspect { replica, why }| format!("replica {replica} ({})", why.join("; ")));
        let suspects: Vec<String> = suspects.collect();
        let suspects = if suspects.is_empty() { "none".to_owned() } else { suspects.join(", ") };
        format!("serves: {serves}; tolerates {tolerates_more} more {faults}; suspected: {suspects}")
    }
}

fn views(replica: &ReplicaReport) -> Vec<u64> {
    replica.known.views().collect()
}

/// The view in which most replicas are at work; the highest of several.
fn common_view(replicas: &[ReplicaReport]) -> Option<Vec<u64>> {
    let mut counts: BTreeMap<Vec<u64>, usize> = BTreeMap::new();
    for replica in replicas.iter().filter(|it| it.reachable && it.known.is_at_work()) {
        *counts.entry(views(replica)).or_default() += 1;
    }
    counts.into_iter().max_by_key(|(view, count)| (*count, view.clone())).map(|(view, _)| view)
}

/// What the others say of one replica, and what follows from their answers.
struct Said {
    /// Whether `f + 1` others answer, so that a liar alone is not believed.
    is_vouched: bool,
    silent_ms: u64,
    refused: u64,
    found: u64,
    /// What `f + 1` others that are at work have executed, if there are so many.
    executed: Option<u64>,
    /// Whether `f + 1` others have one other state at the same checkpoint.
    differs: bool,
    /// Whether `f + 1` others are under one other configuration.
    is_otherwise_configured: bool,
}

impl Said {
    fn of(replica: &ReplicaReport, replicas: &[ReplicaReport], f: usize) -> Self {
        let id = replica.id;
        let others = || replicas.iter().filter(move |other| other.id != id && other.reachable);
        let said = |read: fn(&Known) -> &BTreeMap<u32, u64>| {
            vouched(others().map(|other| read(&other.known).get(&id).copied().unwrap_or(0)), f)
        };
        let at_work = || others().map(|other| &other.known).filter(|known| known.is_at_work());
        let executed =
            (at_work().count() > f).then(|| vouched(at_work().map(|known| known.executed), f));
        let same_slot = others().filter(|other| other.known.stable == replica.known.stable);
        let states = same_slot.filter_map(|other| other.known.state.as_deref());
        let configurations = others().filter_map(|other| other.known.configuration.as_deref());
        let known = &replica.known;
        Self {
            is_vouched: others().count() > f,
            silent_ms: said(|known| &known.silent_ms),
            refused: said(|known| &known.refused_from),
            found: said(|known| &known.findings_lately),
            executed,
            differs: is_alone(known.state.as_deref(), states, f),
            is_otherwise_configured: is_alone(known.configuration.as_deref(), configurations, f),
        }
    }

    /// Whether the others have nothing of it.
    const fn is_silent(&self) -> bool {
        self.silent_ms >= SILENT_MS
    }

    /// Why it looks faulty.
    fn suspicion(&self, replica: &ReplicaReport) -> Vec<String> {
        let mut why = Vec::new();
        if !replica.reachable && !replica.not_asked {
            why.push("does not answer".to_owned());
        }
        if let Some(fault) = &replica.known.fault {
            why.push(format!("misbehaves on command: {fault}"));
        }
        if self.is_silent() {
            why.push(format!("silent for {} s", self.silent_ms / 1_000));
        }
        if self.refused > 0 {
            why.push(format!("{} refused messages", self.refused));
        }
        if self.found > 0 {
            why.push(format!("{} findings", self.found));
        }
        let known = &replica.known;
        if let Some(more) = self.executed.and_then(|it| known.executed.checked_sub(it))
            && more > CLAIM_SLOTS
        {
            why.push(format!("claims to have executed {more} slots more than f + 1 others"));
        }
        if self.differs {
            let slot = known.stable;
            why.push(format!("its state at slot {slot} is another than that of f + 1 others"));
        }
        if self.is_otherwise_configured {
            why.push("its configuration is another than that of f + 1 others".to_owned());
        }
        if !known.diverged_sections.is_empty() {
            let sections: Vec<&str> =
                known.diverged_sections.iter().map(String::as_str).take(SECTIONS_SHOWN).collect();
            why.push(format!("its state differed from the group's: {}", sections.join(", ")));
        }
        why
    }
}

/// Whether more than `f` others say one and the same thing, and this replica another.
fn is_alone<'a>(own: Option<&str>, others: impl Iterator<Item = &'a str>, f: usize) -> bool {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    others.for_each(|said| *counts.entry(said).or_default() += 1);
    own.is_some_and(|own| counts.iter().any(|(said, count)| *said != own && *count > f))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What replica `id` says; `more` follows.
    fn answer(id: u32, more: &str) -> ReplicaReport {
        let text = format!(r#"{{"view":0,"phase":"normal","executed":9,"stable":0{more}}}"#);
        ReplicaReport::new(id, "a:1", Ok(text.as_bytes()))
    }

    fn gone(id: u32) -> ReplicaReport {
        ReplicaReport::new(id, "a:1", Err(&"no answer within 2 s".to_owned()))
    }

    fn text(replicas: &[ReplicaReport], f: usize) -> String {
        Verdict::of(replicas, f, replicas.len() - f).text()
    }

    #[test]
    fn one_that_is_down_leaves_a_group_that_serves_and_two_do_not() {
        let all = [answer(0, ""), answer(1, ""), answer(2, "")];
        assert_eq!(text(&all, 1), "serves: yes; tolerates 1 more fault; suspected: none");
        let one = [answer(0, ""), gone(1), answer(2, "")];
        let said = "serves: yes; tolerates 0 more faults; suspected: replica 1 (does not answer)";
        assert_eq!(text(&one, 1), said);
        let two = [answer(0, ""), gone(1), gone(2)];
        assert!(text(&two, 1).starts_with("serves: no; tolerates 0 more faults"));
        let none = [gone(0), gone(1), gone(2)];
        assert!(text(&none, 1).starts_with("serves: unknown, too few replicas answer"));
    }

    #[test]
    fn a_refused_message_is_a_suspicion_and_no_standstill() {
        let says = r#","refused_from":{"1":1}"#;
        let all = [answer(0, says), answer(1, ""), answer(2, says)];
        assert!(text(&all, 1).starts_with("serves: yes; tolerates 0 more faults; suspected: repl"));
        let two = [answer(0, says), answer(1, ""), gone(2)];
        assert!(text(&two, 1).starts_with("serves: yes"), "{}", text(&two, 1));
    }

    #[test]
    fn one_replicas_word_of_the_only_other_one_leaves_it_open_whether_they_serve() {
        let all = [answer(0, r#","silent_ms":{"1":99000}"#), answer(1, ""), gone(2)];
        assert!(text(&all, 1).starts_with("serves: unknown, too few replicas answer; tolerates 0"));
    }

    #[test]
    fn what_f_and_one_more_say_of_a_replica_is_believed() {
        let says = r#","silent_ms":{"1":12400},"refused_from":{"1":340}"#;
        let all = [answer(0, says), answer(1, ""), answer(2, says)];
        let said = "serves: yes; tolerates 0 more faults; suspected: replica 1 (silent for 12 s; \
                    340 refused messages)";
        assert_eq!(text(&all, 1), said);
        let liar = r#","silent_ms":{"0":99000,"1":99000},"refused_from":{"0":9,"1":9}"#;
        let all = [answer(0, ""), answer(1, ""), answer(2, liar)];
        assert_eq!(text(&all, 1), "serves: yes; tolerates 1 more fault; suspected: none");
    }

    #[test]
    fn replicas_in_different_views_do_not_serve_together() {
        let other = ReplicaReport::new(1, "a:1", Ok(br#"{"view":4,"phase":"normal"}"#));
        let changing = ReplicaReport::new(2, "a:1", Ok(br#"{"view":4,"phase":"changing"}"#));
        assert!(text(&[answer(0, ""), other, changing], 1).starts_with("serves: no"));
    }

    #[test]
    fn one_with_another_configuration_does_not_count() {
        let of = |id, file: &str| answer(id, &format!(r#","configuration":"{file}""#));
        let all = [of(0, "aa"), of(1, "bb"), of(2, "aa")];
        let said = "serves: yes; tolerates 0 more faults; suspected: replica 1 (its configuration \
                    is another than that of f + 1 others)";
        assert_eq!(text(&all, 1), said);
        // One that is alone with its word accuses nobody.
        let verdict = text(&[of(0, "aa"), of(1, "bb"), answer(2, "")], 1);
        assert!(verdict.ends_with("suspected: none"), "{verdict}");
    }

    #[test]
    fn a_group_is_lost_once_more_than_f_say_that_they_lost_their_memory() {
        let joins = |id| {
            let text = format!(r#"{{"phase":"joining","asking":[{id}]}}"#);
            ReplicaReport::new(id, "a:1", Ok(text.as_bytes()))
        };
        let one = [answer(0, ""), joins(1), answer(2, "")];
        assert!(text(&one, 1).starts_with("serves: yes; tolerates 0 more faults; suspected: none"));
        let two = Verdict::of(&[answer(0, ""), joins(1), joins(2)], 1, 2);
        assert!(two.lost && two.serves == Some(false));
        let said = "more than f replicas lost their memory (1, 2); this group cannot continue";
        assert!(two.text().ends_with(said), "{}", two.text());
        // A liar says that others ask.
        let liar = answer(0, r#","asking":[0,1,2],"lost":true"#);
        assert!(!Verdict::of(&[liar, answer(1, ""), answer(2, "")], 1, 2).lost);
    }
}
