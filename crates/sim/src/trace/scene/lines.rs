//! What a scene prints. What several replicas do alike stands in one line.

use pentarchy_core::ids::ReplicaId;
use std::collections::BTreeSet;
use std::fmt::Write as _;

/// One line.
struct Line {
    /// Who does it; nobody if the line is none of replicas.
    who: BTreeSet<ReplicaId>,
    /// To whom they say it, if the text does not tell.
    to: BTreeSet<ReplicaId>,
    text: String,
}

/// See the [module](self).
#[derive(Default)]
pub struct Lines(Vec<Line>);

impl Lines {
    /// A line as it is.
    pub fn add(&mut self, text: String) {
        self.0.push(Line { who: BTreeSet::new(), to: BTreeSet::new(), text });
    }

    /// A replica does something.
    pub fn does(&mut self, id: ReplicaId, text: String) {
        let is_it = |line: &&mut Line| !line.who.is_empty() && line.to.is_empty();
        match self.0.iter_mut().filter(is_it).find(|line| line.text == text) {
            Some(line) => _ = line.who.insert(id),
            None => self.0.push(Line { who: BTreeSet::from([id]), to: BTreeSet::new(), text }),
        }
    }

    /// A replica says something to another one.
    pub fn says(&mut self, id: ReplicaId, to: ReplicaId, text: &str) {
        let is_it = |line: &&mut Line| !line.to.is_empty();
        match self.0.iter_mut().filter(is_it).find(|line| line.text == text) {
            Some(line) => {
                line.who.insert(id);
                line.to.insert(to);
            }
            None => {
                let (who, to) = (BTreeSet::from([id]), BTreeSet::from([to]));
                self.0.push(Line { who, to, text: text.to_owned() });
            }
        }
    }

    /// All of them; none is left.
    pub fn take(&mut self) -> String {
        let mut all = String::new();
        for Line { who, to, text } in core::mem::take(&mut self.0) {
            who.iter().for_each(|id| write!(all, "{id} ").expect("memory has room"));
            if !to.is_empty() {
                all.push_str("-> ");
                to.iter().for_each(|id| write!(all, "{id} ").expect("memory has room"));
                all.push_str("  ");
            }
            all.push_str(&text);
            all.push('\n');
        }
        all
    }
}
