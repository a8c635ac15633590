//! The papers, and their tables and figures in the order in which they stand there.

use super::item::Item;
use pentarchy_console::failure::{Failure, Outcome};

/// A paper.
pub struct Paper {
    /// As the command line takes it.
    pub number: &'static str,
    title: &'static str,
    /// Names, and what the files say.
    files: &'static [(&'static str, &'static str)],
}

macro_rules! paper {
    ($number:literal, [$($name:literal),* $(,)?]) => {
        Paper {
            number: $number,
            title: include_str!(concat!("../../papers/", $number, "/title.txt")),
            files: &[$((
                $name,
                include_str!(concat!("../../papers/", $number, "/", $name, ".toml")),
            )),*],
        }
    };
}

/// All of them.
pub static PAPERS: [Paper; 5] = [
    paper!(
        "000",
        [
            "table-1", "figure-1", "figure-2", "figure-3", "table-2", "figure-4", "figure-5",
            "figure-6", "table-3", "figure-7", "table-4", "table-5"
        ]
    ),
    paper!(
        "001",
        [
            "table-1",
            "figure-1",
            "figure-2",
            "table-2",
            "figure-3",
            "figure-4",
            "figure-5",
            "figure-6",
            "figure-7",
            "figure-8",
            "figure-9",
            "figure-10"
        ]
    ),
    paper!(
        "002",
        [
            "figure-1",
            "figure-2",
            "figure-3",
            "figure-4",
            "figure-5a",
            "figure-5b",
            "figure-5c",
            "figure-6a",
            "figure-6b",
            "figure-6c"
        ]
    ),
    paper!(
        "003",
        [
            "figure-1", "figure-2", "figure-3", "figure-4", "table-1", "figure-5", "figure-6",
            "figure-7", "table-2", "figure-8"
        ]
    ),
    paper!("004", ["figure-1", "figure-2", "table-1"]),
];

/// The paper of this number.
pub fn find(number: &str) -> Outcome<&'static Paper> {
    PAPERS.iter().find(|paper| paper.number == number).ok_or_else(|| {
        let known = PAPERS.iter().map(|it| format!("{} ({})", it.number, it.title()));
        let known = known.collect::<Vec<_>>().join(", ");
        Failure::Usage(format!("no paper {number:?}; there is: {known}"))
    })
}

impl Paper {
    /// Its title.
    pub fn title(&self) -> &'static str {
        self.title.trim_end()
    }

    /// Its tables and figures, with their names.
    pub fn items(&self) -> Outcome<Vec<(&'static str, Item)>> {
        let item = |(name, text): &(&'static str, &str)| {
            let item = toml::from_str(text).map_err(|error| {
                Failure::Internal(format!("papers/{}/{name}.toml: {error}", self.number))
            })?;
            Ok((*name, item))
        };
        self.files.iter().map(item).collect()
    }
}
