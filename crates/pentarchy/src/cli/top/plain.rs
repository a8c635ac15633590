//! The same as text, for pipes.

use super::draw::{cells, heads};
use super::state::State;
use pentarchy_console::table;
use std::fmt::Write as _;

/// The table, what happened, and a verdict.
pub fn text(state: &State) -> String {
    let mut table = table::new(&heads());
    for row in &state.rows {
        table.add_row(cells(row));
    }
    let mut text = format!("{}\n\n{}", state.verdict, table::text(&table));
    for event in &state.events {
        let _ = write!(text, "\n  {event}");
    }
    let rate = state.rates.back().copied().unwrap_or_default();
    let verdict = if state.level { "healthy" } else { "NOT healthy" };
    let _ = write!(text, "\n\n{}: {verdict}, {rate} requests/s", state.title);
    text
}
