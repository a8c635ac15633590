//! The tables of figures in the documents. Each is a file in `docs/results`; a page has a pair of
//! comments that names it, and the lines between them are written from it by `cargo xtask results`.
//!
//! ```text
//! <!-- results: NAME -->       the table of docs/results/NAME.json, and where it comes from
//! <!-- end of results -->
//! ```

use crate::Failure;
use crate::tree::Tree;
use serde::Deserialize;
use serde_json::{Number, Value};
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

const FOLDER: &str = "docs/results/";
const BEGIN: &str = "<!-- results: ";
const END: &str = "<!-- end of results -->";

/// One table, as its file has it.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Results {
    source: Source,
    columns: Vec<Column>,
    rows: Vec<Vec<Value>>,
}

/// Where the figures come from. What is null was not written down when they were measured.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Source {
    command: Option<String>,
    machine: Option<String>,
    commit: Option<String>,
    /// The day of the measurement.
    date: Option<String>,
    /// The day on which the figures came into the repository.
    recorded: String,
    note: Option<String>,
}

/// How the cells of a column are shown. A cell is a text, a number, null for nothing, or a list: a
/// median with its smallest and largest value, to which their distance in % may be added.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Column {
    title: String,
    /// Aligned to the right.
    #[serde(default)]
    right: bool,
    /// Digits behind the point; as in the file if this is not given.
    decimals: Option<usize>,
    /// What stands between the numbers of a list that is no spread.
    join: Option<String>,
}

/// Writes the tables of all pages from their files.
pub fn write(root: &Path) -> Result<(), Failure> {
    let tree = Tree::read(root)?;
    for (path, text) in tree.with_ending("md") {
        let (fresh, failures) = renewed(&tree, text);
        if let Some((line, failure)) = failures.first() {
            return Err(format!("{path}:{line}: {failure}"));
        }
        if fresh != text {
            fs::write(root.join(path), fresh).map_err(|error| format!("{path}: {error}"))?;
            println!("{path}: tables written");
        }
    }
    Ok(())
}

/// What is wrong with tables, and where: pages that differ from their files, and files that no
/// page shows.
pub fn differences(tree: &Tree) -> Vec<(String, usize, String)> {
    let mut found = Vec::new();
    let mut shown = BTreeSet::new();
    for (path, text) in tree.with_ending("md") {
        shown.extend(text.lines().filter_map(named).map(file));
        let (fresh, failures) = renewed(tree, text);
        found.extend(failures.into_iter().map(|(line, what)| (path.to_owned(), line, what)));
        let lines = text.lines().zip(fresh.lines()).take_while(|(old, new)| old == new);
        if fresh != text {
            let what = "differs from its file in docs/results: run `cargo xtask results`";
            found.push((path.to_owned(), lines.count() + 1, what.to_owned()));
        }
    }
    let files = tree.with_ending("json").filter(|(path, _)| path.starts_with(FOLDER));
    let unused = files.filter(|(path, _)| !shown.contains(*path));
    found.extend(unused.map(|(path, _)| (path.to_owned(), 0, "no page shows it".to_owned())));
    found
}

/// The name in a line with which a table begins.
fn named(line: &str) -> Option<&str> {
    line.strip_prefix(BEGIN)?.strip_suffix(" -->")
}

fn file(name: &str) -> String {
    format!("{FOLDER}{name}.json")
}

/// A page with its tables as the files have them; and, by line, those that cannot be shown.
fn renewed(tree: &Tree, page: &str) -> (String, Vec<(usize, Failure)>) {
    let mut fresh = String::new();
    let mut failures = Vec::new();
    let mut lines = (1..).zip(page.split_inclusive('\n'));
    while let Some((number, line)) = lines.next() {
        fresh.push_str(line);
        let Some(name) = named(line.trim_end()) else { continue };
        let inside = lines.by_ref().map(|(_, line)| line);
        let mut old: Vec<&str> = Vec::new();
        let end = inside.into_iter().find(|line| {
            old.push(line);
            line.trim_end() == END
        });
        let shown = tree.text(&file(name)).ok_or("no such file").map_err(str::to_owned);
        match shown.and_then(shown_as).map_err(|failure| format!("{name}: {failure}")) {
            Ok(table) if end.is_some() => fresh.push_str(&(table + END + "\n")),
            shown => {
                let failure = shown.err().unwrap_or_else(|| format!("{name}: no line {END}"));
                failures.push((number, failure));
                fresh.extend(old);
            }
        }
    }
    (fresh, failures)
}

/// A file as a table, with its source below.
fn shown_as(text: &str) -> Result<String, Failure> {
    let results: Results = serde_json::from_str(text).map_err(|error| error.to_string())?;
    let titles = results.columns.iter().map(|column| column.title.clone()).collect();
    let rule = |column: &Column| if column.right { "---:" } else { "---" }.to_owned();
    let mut table = line(titles) + &line(results.columns.iter().map(rule).collect());
    for row in &results.rows {
        if row.len() != results.columns.len() {
            return Err(format!("a row of {} cells: {row:?}", row.len()));
        }
        let cells = row.iter().zip(&results.columns).map(|(cell, column)| column.shown(cell));
        table += &line(cells.collect::<Result<_, _>>()?);
    }
    Ok(format!("{table}\n{}\n", results.source.shown()))
}

fn line(cells: Vec<String>) -> String {
    let spaced = |cell: &String| if cell.is_empty() { " |".into() } else { format!(" {cell} |") };
    format!("|{}\n", cells.iter().map(spaced).collect::<String>())
}

impl Column {
    fn shown(&self, cell: &Value) -> Result<String, Failure> {
        match cell {
            Value::Null => Ok(String::new()),
            Value::String(text) => Ok(text.clone()),
            Value::Number(number) => Ok(self.number(number)),
            Value::Array(list) => self.list(list),
            other => Err(format!("not a cell: {other}")),
        }
    }

    fn list(&self, list: &[Value]) -> Result<String, Failure> {
        let of = |value: &Value| match value {
            Value::Number(number) => Ok(self.number(number)),
            other => Err(format!("not a number: {other}")),
        };
        let numbers: Vec<String> = list.iter().map(of).collect::<Result<_, _>>()?;
        match (&self.join, &numbers[..], list.get(3)) {
            (Some(join), ..) => Ok(numbers.join(join)),
            (None, [median, least, most], None) => Ok(format!("{median} [{least} .. {most}]")),
            (None, [median, least, most, _], Some(Value::Number(percent))) => {
                let percent = percent.as_f64().unwrap_or_default();
                Ok(format!("{median} [{least} .. {most}] {percent:.1} %"))
            }
            _ => Err(format!("a spread has three numbers, or four: {numbers:?}")),
        }
    }

    /// A number with a comma between each three digits before the point.
    fn number(&self, number: &Number) -> String {
        let digits = match (self.decimals, number.as_f64()) {
            (Some(decimals), Some(number)) => format!("{number:.decimals$}"),
            _ => number.to_string(),
        };
        let (whole, rest) = digits.split_at(digits.find('.').unwrap_or(digits.len()));
        let mut shown = String::new();
        for (at, digit) in whole.chars().enumerate() {
            if at > 0 && (whole.len() - at).is_multiple_of(3) && !shown.ends_with('-') {
                shown.push(',');
            }
            shown.push(digit);
        }
        shown + rest
    }
}

impl Source {
    fn shown(&self) -> String {
        let or = |what: &Option<String>, name: &str| {
            what.clone().unwrap_or_else(|| format!("{name} not recorded"))
        };
        let command = self.command.as_ref().map(|command| format!("`{command}`"));
        let unknown = format!("date not recorded, in the repository since {}", self.recorded);
        let parts = [
            or(&command, "command"),
            or(&self.machine, "machine"),
            self.commit.as_ref().map_or("commit not recorded".into(), |it| format!("commit {it}")),
            self.date.clone().unwrap_or(unknown),
        ];
        let note = self.note.as_ref().map(|note| format!(" {note}")).unwrap_or_default();
        format!("Source: {}.{note}", parts.join("; "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = r#"{
        "source": {"command": "bench", "machine": "two cores", "commit": null, "date": null,
            "recorded": "2026-01-02", "note": "Quiet."},
        "columns": [{"title": "case"}, {"title": "ops/s", "right": true, "decimals": 0},
            {"title": "µs", "right": true, "decimals": 2},
            {"title": "each", "join": " + "}],
        "rows": [["a", [1234567, 1000, 999], [0.5, 0.25, 0.75, 100], [1.5, 20]],
            ["b", "adaptive", null, null]]
    }"#;
    const TABLE: &str = "\
| case | ops/s | µs | each |
| --- | ---: | ---: | --- |
| a | 1,234,567 [1,000 .. 999] | 0.50 [0.25 .. 0.75] 100.0 % | 1.5 + 20 |
| b | adaptive | | |

Source: `bench`; two cores; commit not recorded; date not recorded, in the repository since \
2026-01-02. Quiet.
";

    fn page(table: &str) -> String {
        format!("# Page\n\n{BEGIN}a -->\n{table}{END}\n\nbehind\n")
    }

    fn tree(file: &str, page: &str) -> Tree {
        Tree::of(&[("docs/results/a.json", file), ("docs/page.md", page)])
    }

    #[test]
    fn a_table_is_written_from_its_file() {
        let (fresh, failures) = renewed(&tree(FILE, ""), &page("old\n"));
        assert_eq!((fresh, failures), (page(TABLE), Vec::new()));
        assert_eq!(differences(&tree(FILE, &page(TABLE))), Vec::new());
    }

    #[test]
    fn a_changed_figure_is_noticed_on_either_side() {
        let differs = |file: &str, page: &str| {
            let found = differences(&tree(file, page));
            assert_eq!(found.len(), 1, "{found:?}");
            assert!(found[0].2.starts_with("differs from its file"), "{found:?}");
            found[0].1
        };
        assert_eq!(differs(FILE, &page(&TABLE.replace("0.75", "0.76"))), 6);
        assert_eq!(differs(&FILE.replace("1234567", "1234568"), &page(TABLE)), 6);
        assert_eq!(differs(FILE, &page(&TABLE.replace("two", "four"))), 9);
    }

    #[test]
    fn what_cannot_be_shown_is_named() {
        let found = |file: &str, page: &str| differences(&tree(file, page)).remove(0).2;
        assert_eq!(found(FILE, ""), "no page shows it");
        assert_eq!(found(FILE, &page(TABLE).replace(END, "")), format!("a: no line {END}"));
        assert_eq!(found(FILE, &page(TABLE).replace(": a -->", ": b -->")), "b: no such file");
        assert!(found(&FILE.replace("null, null]", "null]"), &page("")).contains("3 cells"));
        assert!(found(&FILE.replace("1000, 999", "1000"), &page("")).contains("a spread has"));
        assert!(found(&FILE.replace("\"note\"", "\"nota\""), &page("")).contains("nota"));
    }
}
