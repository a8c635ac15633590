//! The live view.

use super::state::{Row as Replica, State};
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout};
use ratatui::style::{Color, Style, Stylize as _};
use ratatui::text::Line;
use ratatui::widgets::{Block, Cell, List, Row, Sparkline, Table};

/// A queue above this many percent is shown as a problem.
const FULL_PERCENT: u64 = 80;

/// Heads and widths of the columns.
const COLUMNS: [(&str, u16); 11] = [
    ("replica", 7),
    ("role", 8),
    ("phase", 12),
    ("view", 6),
    ("executed", 10),
    ("req/s", 8),
    ("behind", 7),
    ("cpu", 5),
    ("memory", 9),
    ("peers", 5),
    ("fullest queue", 26),
];

/// Draws the whole view.
pub fn draw(state: &State, frame: &mut Frame<'_>) {
    let rows = u16::try_from(state.rows.len()).unwrap_or(u16::MAX).saturating_add(3);
    let [verdict, head, table, rates, events, foot] = Layout::vertical([
        Constraint::Length(1),
        Constraint::Length(1),
        Constraint::Length(rows),
        Constraint::Length(7),
        Constraint::Min(3),
        Constraint::Length(1),
    ])
    .areas(frame.area());
    frame.render_widget(self::verdict(state), verdict);
    frame.render_widget(title(state), head);
    frame.render_widget(replicas(state), table);
    let rate = state.rates.back().copied().unwrap_or_default();
    let highest = state.rates.iter().max().copied().unwrap_or_default();
    // The newest are the ones to show if not all fit.
    let width = usize::from(rates.width.saturating_sub(2));
    let shown = state.rates.iter().skip(state.rates.len().saturating_sub(width));
    let block = Block::bordered().title(format!(" {rate} requests/s, highest {highest} "));
    let sparkline = Sparkline::default().block(block).data(shown.copied().collect::<Vec<u64>>());
    frame.render_widget(sparkline.style(Style::new().fg(Color::Cyan)), rates);
    let last = state.events.iter().rev().map(|event| Line::raw(event.as_str()));
    let block = Block::bordered().title(" last events ");
    frame.render_widget(List::new(last).block(block), events);
    frame.render_widget(Line::raw(" q ends").dim(), foot);
}

fn verdict(state: &State) -> Line<'_> {
    let text = format!(" {}", state.verdict);
    if state.serves { Line::from(text.bold()) } else { Line::from(text.red().bold()) }
}

fn title(state: &State) -> Line<'_> {
    if state.rows.is_empty() {
        return Line::raw(" asking the replicas ...");
    }
    let verdict = if state.level { "healthy".green() } else { "NOT healthy".red().bold() };
    Line::from(vec![" ".into(), state.title.as_str().into(), ": ".into(), verdict])
}

fn replicas(state: &State) -> Table<'_> {
    let heads = Row::new(COLUMNS.map(|(head, _)| head)).bold();
    let widths = COLUMNS.map(|(_, width)| Constraint::Length(width));
    let rows = state.rows.iter().map(row);
    Table::new(rows, widths).header(heads).block(Block::bordered())
}

fn row(replica: &Replica) -> Row<'static> {
    let cells = cells(replica);
    let style = if !replica.reachable {
        Style::new().fg(Color::Red)
    } else if replica.phase != "normal" || replica.behind > 0 {
        Style::new().fg(Color::Yellow)
    } else {
        Style::new()
    };
    let is_full = replica.fullest.as_ref().is_some_and(|(_, percent)| *percent >= FULL_PERCENT);
    let [first @ .., fullest] = cells;
    let fullest = Cell::from(fullest);
    let fullest = if is_full { fullest.red() } else { fullest };
    Row::new(first.map(Cell::from).into_iter().chain([fullest])).style(style)
}

/// What is said of a replica, in the order of [`COLUMNS`].
pub fn cells(replica: &Replica) -> [String; 11] {
    let id = replica.id.to_string();
    if !replica.reachable {
        let nothing = || "-".to_owned();
        let mut cells = std::array::from_fn(|_| nothing());
        cells[0] = id;
        "unreachable".clone_into(&mut cells[2]);
        return cells;
    }
    let or_dash = |number: Option<u64>, unit: &str| {
        number.map_or_else(|| "-".to_owned(), |number| format!("{number}{unit}"))
    };
    [
        id,
        replica.role.clone(),
        replica.phase.clone(),
        views(&replica.views),
        replica.executed.to_string(),
        or_dash(replica.rate, ""),
        replica.behind.to_string(),
        or_dash(replica.cpu, "%"),
        format!("{} MiB", replica.memory_kib / 1024),
        format!("{}/{}", replica.peers, replica.others),
        replica
            .fullest
            .as_ref()
            .map_or_else(|| "-".to_owned(), |(name, percent)| format!("{name} {percent}%")),
    ]
}

/// The view, or those of the pillars if they differ.
fn views(of_pillars: &[u64]) -> String {
    let (first, all) = (of_pillars.first(), of_pillars.iter().map(u64::to_string));
    match first {
        Some(first) if of_pillars.iter().all(|view| view == first) => first.to_string(),
        _ => all.collect::<Vec<_>>().join("/"),
    }
}

/// The heads of the columns.
pub fn heads() -> [&'static str; 11] {
    COLUMNS.map(|(head, _)| head)
}

#[cfg(test)]
mod tests {
    use super::super::state::tests::{CHANGE, answer, report};
    use super::*;
    use pentarchy_protocols::DEFAULT;
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;

    fn screen(state: &State, width: u16, height: u16) -> String {
        let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
        terminal.draw(|frame| draw(state, frame)).unwrap();
        terminal.backend().to_string()
    }

    #[test]
    fn the_view_shows_replicas_rate_and_events() {
        let mut state = State::default();
        assert!(screen(&state, 120, 24).contains("asking the replicas"));
        state.take(&report([answer(1, 100, ""), answer(1, 100, ""), answer(1, 100, "")]));
        state.take(&report([answer(3, 300, CHANGE), answer(3, 300, ""), None]));
        let screen = screen(&state, 120, 24);
        let group = format!("{} with 3 replicas, tolerates 1: NOT healthy", DEFAULT.rules.name);
        for (what, times) in [
            (&*group, 1),
            ("backup   normal       1      300        100", 2),
            ("25%   20 MiB    2/2   clients 90%", 2),
            ("2       -        unreachable", 1),
            (" 100 requests/s, highest 100 ", 1),
            ("replica 0 wants view 1: request timed out", 1),
            ("replica 2 does not answer", 1),
            ("q ends", 1),
        ] {
            assert_eq!(screen.matches(what).count(), times, "{what} in\n{screen}");
        }
    }

    #[test]
    fn views_of_pillars_are_one_number_while_they_are_the_same() {
        assert_eq!(views(&[3]), "3");
        assert_eq!(views(&[3, 3]), "3");
        assert_eq!(views(&[3, 0, 1]), "3/0/1");
    }

    #[test]
    fn any_size_of_terminal_will_do() {
        let mut state = State::default();
        state.take(&report([answer(1, 1, CHANGE), None, None]));
        for (width, height) in [(1, 1), (10, 3), (40, 10), (300, 80)] {
            screen(&state, width, height);
        }
    }
}
