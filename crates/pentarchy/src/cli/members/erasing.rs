//! Whether each member has begun with a configuration, and has erased the keys by which it signed
//! before. That is each member's own word, for the administrator to see: nothing is decided by it.

use indicatif::ProgressBar;
use pentarchy::administration::Administrator;
use pentarchy_console::status::ask;
use pentarchy_console::status::report::ReplicaReport;
use pentarchy_core::change::Shown;
use pentarchy_core::configuration::{Configuration, MemberEntry};
use pentarchy_core::ids::MemberId;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::time::{Duration, Instant};

/// How long members may take once the group has begun with a change: each first makes durable that
/// it has begun, too. The last questions may take some seconds more.
const LIMIT: Duration = Duration::from_secs(10);

/// Between two questions to all members.
const LOOK: Duration = Duration::from_millis(100);

/// What a member says of the keys by which it signed before.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Former {
    /// It has begun with the configuration, and has none of them any more.
    Erased,
    /// It has begun, and has yet to erase some.
    Kept,
    /// It is still in the configuration of this number, and signs by its key of that.
    Behind(u64),
    /// Nothing, for this reason.
    Unsaid(String),
}

impl Former {
    fn of(replica: &ReplicaReport, number: u64) -> Self {
        let known = &replica.known;
        if replica.not_asked {
            return Self::Unsaid("another process uses the administrator's key".to_owned());
        }
        if let Some(problem) = &replica.problem {
            return Self::Unsaid(problem.clone());
        }
        match (known.configuration_number, known.has_former_key) {
            (Some(begun), _) if begun < number => Self::Behind(begun),
            (Some(_), Some(true)) => Self::Kept,
            (Some(_), Some(false)) => Self::Erased,
            _ => Self::Unsaid("it runs another version".to_owned()),
        }
    }

    /// For a cell of a table.
    pub fn word(&self) -> String {
        match self {
            Self::Erased => "none".to_owned(),
            Self::Kept => "not erased yet".to_owned(),
            Self::Behind(number) => format!("in configuration {number}"),
            Self::Unsaid(_) => "unknown".to_owned(),
        }
    }

    /// Whether the member has begun with the configuration, if it says that.
    pub const fn has_begun(&self) -> Option<bool> {
        match self {
            Self::Erased | Self::Kept => Some(true),
            Self::Behind(_) => Some(false),
            Self::Unsaid(_) => None,
        }
    }

    /// Whether it has former keys, or keys that are to become such, if it says that.
    pub const fn is_there(&self) -> Option<bool> {
        match self {
            Self::Erased => Some(false),
            Self::Kept | Self::Behind(_) => Some(true),
            Self::Unsaid(_) => None,
        }
    }
}

/// What all members of a configuration say.
pub struct Erasing {
    /// Of the configuration.
    number: u64,
    members: BTreeMap<MemberId, Former>,
    /// What the change left undone; none if it is not known what was before.
    change: Option<Undone>,
}

/// What a change of the group could not do by itself.
struct Undone {
    /// Members that were not ready for it, and so sign by the key they had before.
    unready: Vec<MemberId>,
    /// Members that it removed.
    gone: Vec<MemberId>,
}

impl Undone {
    fn of(before: &Configuration, configuration: &Configuration) -> Self {
        let (before, members) = (&before.members, &configuration.members);
        let signed_so = |it: &&MemberEntry| {
            before.iter().any(|old| (old.id, old.signing) == (it.id, it.signing))
        };
        let stays = |old: &&MemberEntry| members.iter().any(|it| it.id == old.id);
        let ids = |it: &MemberEntry| it.id;
        Self {
            unready: members.iter().filter(signed_so).map(ids).collect(),
            gone: before.iter().filter(|old| !stays(old)).map(ids).collect(),
        }
    }
}

impl Erasing {
    /// With the configuration before, if it is known which that was.
    fn of(
        before: Option<&Configuration>,
        configuration: &Configuration,
        said: &[ReplicaReport],
    ) -> Self {
        let number = configuration.number;
        let former = |member: &MemberEntry| {
            let replica = said.iter().find(|replica| replica.id == member.id.0);
            // The client that asks follows the group a little later.
            let unasked = || Former::Unsaid("it was not asked yet".to_owned());
            (member.id, replica.map_or_else(unasked, |it| Former::of(it, number)))
        };
        let members = configuration.members.iter().map(former).collect();
        let change = before.map(|before| Undone::of(before, configuration));
        Self { number, members, change }
    }

    /// Asks all members.
    pub fn look(administrators: &[Administrator], shown: &Shown) -> Self {
        Self::of(None, &shown.configuration, &answers(administrators, &shown.configuration))
    }

    /// The same, again and again until no member has former keys, or for as long as that may take.
    pub fn wait(
        administrators: &[Administrator],
        before: &Configuration,
        shown: &Shown,
        spinner: &ProgressBar,
    ) -> Self {
        let deadline = Instant::now() + LIMIT;
        loop {
            let said = answers(administrators, &shown.configuration);
            let erasing = Self::of(Some(before), &shown.configuration, &said);
            let left: Vec<_> = erasing.left().map(|(id, _)| id.0.to_string()).collect();
            if left.is_empty() || Instant::now() >= deadline {
                return erasing;
            }
            spinner.set_message(format!("{}; missing: {}", erasing.counts(), left.join(", ")));
            std::thread::sleep(LOOK);
        }
    }

    /// What this member says.
    pub fn by(&self, member: MemberId) -> Option<&Former> {
        self.members.get(&member)
    }

    /// Those that have former keys, or got another key and do not say that they have none.
    fn left(&self) -> impl Iterator<Item = (&MemberId, &Former)> {
        self.members.iter().filter(|(id, former)| match former {
            Former::Erased => false,
            Former::Kept => true,
            Former::Behind(_) | Former::Unsaid(_) => !self.is_unready(id),
        })
    }

    fn is_unready(&self, member: &MemberId) -> bool {
        self.unready().is_some_and(|unready| unready.contains(member))
    }

    /// Those that were not ready for the change, and so sign by the key they had before; none if it
    /// is not known what was before.
    pub fn unready(&self) -> Option<&[MemberId]> {
        self.change.as_ref().map(|change| &change.unready[..])
    }

    /// How many members have begun with the configuration.
    pub fn begun(&self) -> usize {
        self.members.values().filter(|former| former.has_begun() == Some(true)).count()
    }

    /// How many of them have no former keys.
    pub fn erased(&self) -> usize {
        let is_erased =
            |it: &(&MemberId, &Former)| *it.1 == Former::Erased && !self.is_unready(it.0);
        self.members.iter().filter(is_erased).count()
    }

    fn counts(&self) -> String {
        let (number, all) = (self.number, self.members.len());
        let (begun, erased) = (self.begun(), self.erased());
        format!(
            "begun with configuration {number}: {begun} of {all} members; former keys: {erased} of \
             {all} erased"
        )
    }

    /// A line for each member that may have former keys, and nothing where there is none.
    pub fn names(&self) -> String {
        let mut text = String::new();
        for (MemberId(id), former) in self.left() {
            let _ = match former {
                Former::Erased => Ok(()),
                Former::Kept => write!(
                    text,
                    "\n  member {id} has begun, and has yet to erase its former keys; if it \
                     cannot, its log says why"
                ),
                Former::Behind(number) => write!(
                    text,
                    "\n  member {id} is still in configuration {number}, and signs by its key of \
                     that"
                ),
                Former::Unsaid(why) => {
                    write!(text, "\n  member {id} does not say whether it has former keys: {why}")
                }
            };
        }
        text
    }

    /// What all say, and what to do about those that may have former keys.
    pub fn text(&self) -> String {
        let (mut text, names) = (self.counts(), self.names());
        text += &names;
        if !names.is_empty() {
            text += "\nEach erases its former keys once it has begun: `pentarchy members list` \
                     shows that. Replace a member\nthat does not come back (`pentarchy members \
                     replace`), and destroy its folders: whoever finds f + 1\ndisks with the keys \
                     of one configuration can make up how that ended.";
        }
        let Some(Undone { unready, gone }) = &self.change else { return text };
        for MemberId(id) in unready {
            let _ = write!(
                text,
                "\n  member {id} was not ready, and signs by the key that it had before: give it \
                 another one\n  once it runs (`pentarchy members refresh`)"
            );
        }
        for MemberId(id) in gone {
            let _ = write!(
                text,
                "\n  member {id} has left: it erases its keys and ends once it learns so; if it \
                 does not end,\n  stop it and destroy its folders"
            );
        }
        text
    }
}

/// What the members answer an administrator that the group has: the first whose key no other
/// process uses. Asking takes up to two seconds for each, and twice that while the group changes.
fn answers(administrators: &[Administrator], configuration: &Configuration) -> Vec<ReplicaReport> {
    let known = &configuration.administrators.keys;
    let mut said = Vec::new();
    for administrator in administrators.iter().filter(|it| known.contains(&it.key())) {
        said = ask(administrator.client()).replicas;
        if said.iter().any(|replica| !replica.not_asked) {
            break;
        }
    }
    said
}

#[cfg(test)]
mod tests {
    use super::*;
    use pentarchy::generate::{GroupOptions, NewCluster};

    /// What is known of the three members of configuration 2, of which each says this, or nothing.
    fn erasing(said: [Option<&str>; 3]) -> Erasing {
        erasing_after(None, &configuration(), said)
    }

    fn configuration() -> Configuration {
        let addresses = ["a:1", "a:2", "a:3"].map(str::to_owned);
        let config = NewCluster::generate(&addresses, &GroupOptions::default()).config;
        Configuration { number: 2, ..config.configuration() }
    }

    fn erasing_after(
        before: Option<&Configuration>,
        configuration: &Configuration,
        said: [Option<&str>; 3],
    ) -> Erasing {
        let problem = "no answer within 2 s".to_owned();
        let report = |(id, said): (u32, Option<&str>)| {
            ReplicaReport::new(id, "a:1", said.map(str::as_bytes).ok_or(&problem))
        };
        let reports: Vec<_> = (0..).zip(said).map(report).collect();
        Erasing::of(before, configuration, &reports)
    }

    const ERASED: Option<&str> = Some(r#"{"configuration_number":2,"has_former_key":false}"#);
    const KEPT: Option<&str> = Some(r#"{"configuration_number":2,"has_former_key":true}"#);
    const BEHIND: Option<&str> = Some(r#"{"configuration_number":1,"has_former_key":false}"#);

    #[test]
    fn members_that_have_erased_their_keys_are_counted_and_no_more_is_said() {
        let all = erasing([ERASED; 3]).text();
        let said = "begun with configuration 2: 3 of 3 members; former keys: 3 of 3 erased";
        assert_eq!(all, said);
        // A member may be further.
        let later = Some(r#"{"configuration_number":3,"has_former_key":false}"#);
        assert_eq!(erasing([ERASED, later, ERASED]).text(), said);
    }

    #[test]
    fn members_that_may_have_former_keys_are_named_with_what_to_do() {
        let said = erasing([KEPT, BEHIND, ERASED]).text();
        for part in [
            "begun with configuration 2: 2 of 3 members; former keys: 1 of 3 erased\n",
            "\n  member 0 has begun, and has yet to erase its former keys",
            "\n  member 1 is still in configuration 1, and signs by its key of that\n",
            "`pentarchy members replace`",
        ] {
            assert!(said.contains(part), "{part}: {said}");
        }
        assert!(!said.contains("member 2"), "{said}");
        let said = erasing([ERASED, None, Some("{}")]).text();
        for part in [
            "begun with configuration 2: 1 of 3 members; former keys: 1 of 3 erased\n",
            "member 1 does not say whether it has former keys: no answer within 2 s\n",
            "member 2 does not say whether it has former keys: it runs another version\n",
        ] {
            assert!(said.contains(part), "{part}: {said}");
        }
    }

    #[test]
    fn a_member_that_was_not_ready_has_not_erased_its_key_and_one_that_left_is_named() {
        let now = configuration();
        let mut before = now.clone();
        before.number = 1;
        before.members[0].signing = [1; 32];
        before.members[2].signing = [3; 32];
        before.members.push(MemberEntry { id: MemberId(7), ..before.members[2].clone() });
        for (said, begun) in [([ERASED; 3], 3), ([ERASED, None, ERASED], 2)] {
            let erasing = erasing_after(Some(&before), &now, said);
            let text = erasing.text();
            for part in [
                &format!("{begun} of 3 members; former keys: 2 of 3 erased\n"),
                "  member 1 was not ready, and signs by the key that it had before",
                "  member 7 has left",
            ] {
                assert!(text.contains(part), "{part}: {text}");
            }
            assert_eq!((erasing.left().count(), erasing.names().as_str()), (0, ""), "not awaited");
        }
        // It has keys of an earlier change as well.
        let text = erasing_after(Some(&before), &now, [ERASED, KEPT, ERASED]).text();
        assert!(
            text.contains("member 1 has begun, and has yet to erase its former keys"),
            "{text}"
        );
        assert_eq!(erasing([ERASED; 3]).unready(), None, "nobody told what was before");
    }

    #[test]
    fn tables_and_programs_get_what_each_member_says() {
        let all = erasing([KEPT, BEHIND, None]);
        let of = |id| all.by(MemberId(id)).expect("a member");
        assert_eq!([0, 1, 2].map(|id| of(id).has_begun()), [Some(true), Some(false), None]);
        assert_eq!([0, 1, 2].map(|id| of(id).is_there()), [Some(true), Some(true), None]);
        assert_eq!(erasing([ERASED; 3]).by(MemberId(0)), Some(&Former::Erased));
        let words = [0, 1, 2].map(|id| of(id).word());
        assert_eq!(words, ["not erased yet", "in configuration 1", "unknown"]);
    }
}
