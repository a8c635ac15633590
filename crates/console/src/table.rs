//! Tables as all commands print them: columns without lines, for people to read and tools to cut.

use comfy_table::{ContentArrangement, Table, presets};

/// An empty table with these column heads.
pub fn new(heads: &[&str]) -> Table {
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_header(heads.iter().copied());
    table.set_content_arrangement(ContentArrangement::Disabled);
    table
}

/// The text of a table, without blanks at the ends of lines.
pub fn text(table: &Table) -> String {
    table.trim_fmt()
}
