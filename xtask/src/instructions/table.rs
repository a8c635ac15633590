//! The table of `docs/instructions.md`: read, compared, written.

use crate::Failure;
use std::collections::BTreeMap;

/// How many percent above its figure a case may be: instructions also depend on the C library, on
/// the allocator, and on how the compiler of the day lays things out.
const TOLERANCE: u64 = 10;

/// The line above the table; the table ends at the first line that is none of its own.
const HEAD: &str = "| case | instructions | digests | digested bytes | other operations |";
const RULE: &str = "| --- | ---: | ---: | ---: | --- |";

/// What one request costs in one case. The counts are as they are shown: with up to four digits
/// behind the point, and those of operations only if there were any.
#[derive(Clone, PartialEq, Debug)]
pub struct Row {
    /// What is measured.
    pub case: String,
    /// Instructions.
    pub instructions: u64,
    /// Digests, their bytes, and what was asked of keys. Compared as text.
    pub counts: [String; 3],
}

/// What a run of a case prints, by name.
pub type Figures = BTreeMap<String, u64>;

impl Row {
    /// The row of a case.
    ///
    /// # Errors
    /// If the case did not print what there must be.
    pub fn new(case: &str, instructions: u64, figures: &Figures) -> Result<Self, Failure> {
        let get = |name: &str| figures.get(name).ok_or_else(|| format!("{case}: no {name}"));
        let requests = (*get("requests")?).max(1);
        let per_request = |count: u64| {
            let digits = format!("{:.4}", count as f64 / requests as f64);
            digits.trim_end_matches('0').trim_end_matches('.').to_owned()
        };
        let (digests, bytes) = (*get("digests")?, *get("digested_bytes")?);
        let asked = figures.iter().filter(|(name, count)| {
            !["requests", "digests", "digested_bytes"].contains(&name.as_str()) && **count > 0
        });
        let asked: Vec<String> =
            asked.map(|(name, count)| format!("{name} {}", per_request(*count))).collect();
        let counts = [per_request(digests), per_request(bytes), asked.join(", ")];
        let instructions = (instructions + requests / 2) / requests;
        Ok(Self { case: case.into(), instructions, counts })
    }

    fn parsed(line: &str) -> Option<Self> {
        let cells: Vec<&str> = line.strip_prefix('|')?.split('|').map(str::trim).collect();
        let [case, instructions, digests, bytes, asked, ""] = cells[..] else { return None };
        let counts = [digests, bytes, asked].map(str::to_owned);
        Some(Self { case: case.into(), instructions: instructions.parse().ok()?, counts })
    }

    fn line(&self) -> String {
        let Self { case, instructions, counts: [digests, bytes, asked] } = self;
        format!("| {case} | {instructions} | {digests} | {bytes} | {asked} |").replace("  ", " ")
    }
}

/// The rows of a page.
///
/// # Errors
/// If there is no such table, or one of its rows is not understood.
pub fn rows(page: &str) -> Result<Vec<Row>, Failure> {
    let (_, table, _) = divided(page)?;
    let row = |line: &str| Row::parsed(line).ok_or_else(|| format!("not a row: {line}"));
    table.lines().map(row).collect()
}

/// The page with other rows.
///
/// # Errors
/// If there is no such table.
pub fn replaced(page: &str, rows: &[Row]) -> Result<String, Failure> {
    let (before, _, after) = divided(page)?;
    let rows: String = rows.iter().map(|row| row.line() + "\n").collect();
    Ok(format!("{before}{rows}{after}"))
}

/// What stands before the rows, the rows, and what stands behind them.
fn divided(page: &str) -> Result<(&str, &str, &str), Failure> {
    let head = format!("{HEAD}\n{RULE}\n");
    let at = page.find(&head).ok_or("the table is missing")? + head.len();
    let rows = page[at..].split_inclusive('\n').take_while(|line| line.starts_with('|'));
    let end = at + rows.map(str::len).sum::<usize>();
    Ok((&page[..at], &page[at..end], &page[end..]))
}

/// One difference.
#[derive(Clone, PartialEq, Debug)]
pub struct Finding {
    /// Whether it is to be refused.
    pub is_failure: bool,
    /// What differs.
    pub text: String,
}

/// Compares what was measured with what is written. More instructions than tolerated, another
/// count, a case more or less: all are failures. Fewer instructions are good news.
pub fn compared(written: &[Row], measured: &[Row]) -> Vec<Finding> {
    let missing = written.iter().filter(|row| !measured.iter().any(|new| new.case == row.case));
    let missing = missing.map(|row| fail(format!("{}: not measured any more", row.case)));
    let differing = measured.iter().flat_map(|new| match find(written, &new.case) {
        None => vec![fail(format!("{}: not written down", new.case))],
        Some(old) => differences(old, new),
    });
    missing.chain(differing).collect()
}

fn find<'a>(rows: &'a [Row], case: &str) -> Option<&'a Row> {
    rows.iter().find(|row| row.case == case)
}

fn differences(old: &Row, new: &Row) -> Vec<Finding> {
    let case = &new.case;
    let mut findings = Vec::new();
    let (was, is) = (old.instructions, new.instructions);
    let change = 100.0 * (is as f64 / was as f64 - 1.0);
    let text = format!("{case}: {is} instructions, {was} before ({change:+.1} %)");
    if 100 * is > (100 + TOLERANCE) * was {
        findings.push(fail(text));
    } else if 100 * is < (100 - TOLERANCE) * was {
        let text = text + "; write it down to keep it";
        findings.push(Finding { is_failure: false, text });
    }
    let names = ["digests", "digested bytes", "other operations"];
    for ((name, old), new) in names.iter().zip(&old.counts).zip(&new.counts) {
        if old != new {
            findings.push(fail(format!("{case}: {name}: {new}, before {old}")));
        }
    }
    findings
}

fn fail(text: String) -> Finding {
    Finding { is_failure: true, text }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(case: &str, instructions: u64) -> Row {
        let counts = ["1.1", "99", "certified 0.1"].map(str::to_owned);
        Row { case: case.into(), instructions, counts }
    }

    fn failures(written: &[Row], measured: &[Row]) -> Vec<String> {
        let findings = compared(written, measured).into_iter();
        findings.filter(|finding| finding.is_failure).map(|finding| finding.text).collect()
    }

    #[test]
    fn a_tenth_more_is_tolerated_and_no_more() {
        let written = [row("a", 1000), row("b", 1000)];
        assert_eq!(compared(&written, &written), []);
        assert_eq!(compared(&written, &[row("a", 1100), row("b", 901)]), []);
        let found = failures(&written, &[row("a", 1101), row("b", 1000)]);
        assert_eq!(found, ["a: 1101 instructions, 1000 before (+10.1 %)"]);
    }

    #[test]
    fn an_improvement_is_told_and_not_refused() {
        let found = compared(&[row("a", 1000)], &[row("a", 500)]);
        assert!(!found[0].is_failure && found[0].text.contains("-50.0 %"), "{found:?}");
    }

    #[test]
    fn another_count_is_refused_however_small() {
        let mut new = row("a", 1000);
        new.counts[2] = "certified 0.2".into();
        let found = failures(&[row("a", 1000)], &[new]);
        assert_eq!(found, ["a: other operations: certified 0.2, before certified 0.1"]);
    }

    #[test]
    fn a_case_that_comes_or_goes_is_refused() {
        let found = failures(&[row("old", 1)], &[row("new", 1)]);
        assert_eq!(found, ["old: not measured any more", "new: not written down"]);
    }

    #[test]
    fn a_page_keeps_its_text_and_gives_back_its_rows() {
        let page = format!("before\n\n{HEAD}\n{RULE}\n| a | 7 | 1 | 0.0625 | |\n\nafter\n");
        let old = rows(&page).unwrap();
        assert_eq!((old.len(), old[0].instructions), (1, 7));
        let new = [row("b", 8), row("c", 9)];
        let renewed = replaced(&page, &new).unwrap();
        assert_eq!(rows(&renewed).unwrap(), new);
        assert!(renewed.starts_with("before\n") && renewed.ends_with("|\n\nafter\n"));
        assert_eq!(replaced(&renewed, &old).unwrap(), page);
        assert!(rows("no table").is_err());
        assert!(rows(&page.replace("| 7 |", "| many |")).is_err());
    }

    #[test]
    fn a_row_is_a_run_divided_by_its_requests() {
        let figures = [("requests", 10), ("digests", 25), ("digested_bytes", 1000), ("signed", 0)];
        let mut figures: Figures =
            figures.into_iter().map(|(name, count)| (name.to_owned(), count)).collect();
        figures.insert("certified".into(), 1);
        let row = Row::new("a", 12_345, &figures).unwrap();
        assert_eq!(row.line(), "| a | 1235 | 2.5 | 100 | certified 0.1 |");
        figures.remove("digests");
        assert!(Row::new("a", 1, &figures).is_err());
    }
}
