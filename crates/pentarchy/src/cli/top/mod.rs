//! `top`: a live view of a cluster, from what its replicas say of themselves.

mod draw;
mod plain;
mod state;

use super::args::TopArgs;
use pentarchy::Client;
use pentarchy_console::failure::{Failure, Outcome};
use pentarchy_console::say;
use pentarchy_console::status::report::ClusterReport;
use pentarchy_console::status::{ask, cluster, connect};
use pentarchy_console::stop::stop_signal;
use ratatui::DefaultTerminal;
use ratatui::crossterm::event::{self, Event, KeyCode, KeyModifiers};
use state::State;
use std::io::IsTerminal as _;
use std::sync::mpsc::{Receiver, TryRecvError, sync_channel};
use std::time::Duration;

/// Between two questions to the replicas.
const PERIOD: Duration = Duration::from_secs(1);

/// Between the two questions from which a rate is computed when there is no live view.
const ONCE_PERIOD: Duration = Duration::from_millis(500);

/// How late a key may be noticed.
const KEY_PERIOD: Duration = Duration::from_millis(100);

/// Runs the command.
pub fn run(args: &TopArgs) -> Outcome {
    let (config, _) = cluster(args.config.as_deref(), &args.data)?;
    let client = connect(&config, args.key.as_deref())?;
    if args.once || !std::io::stdout().is_terminal() {
        let mut state = State::default();
        state.take(&ask(&client));
        std::thread::sleep(ONCE_PERIOD);
        state.take(&ask(&client));
        say(&plain::text(&state));
        return if state.level { Ok(()) } else { Err(Failure::NotWell) };
    }
    let stop = stop_signal(false)?;
    let reports = reports(client)?;
    let failed = |error| Failure::Internal(format!("cannot use the terminal: {error}"));
    let mut terminal = ratatui::try_init().map_err(failed)?;
    let result = watch(&mut terminal, &reports, &stop);
    ratatui::restore();
    result.map_err(failed)
}

/// Asks on a thread of its own, so that keys are noticed while a replica takes its time.
fn reports(client: Client) -> Outcome<Receiver<ClusterReport>> {
    let (sender, receiver) = sync_channel(1);
    let thread = std::thread::Builder::new().name("ask".to_owned());
    let started = thread.spawn(move || {
        while sender.send(ask(&client)).is_ok() {
            std::thread::sleep(PERIOD);
        }
    });
    started.map_err(|error| Failure::Internal(format!("cannot start a thread: {error}")))?;
    Ok(receiver)
}

/// Shows what comes until a key or a signal says to end.
fn watch(
    terminal: &mut DefaultTerminal,
    reports: &Receiver<ClusterReport>,
    stop: &Receiver<()>,
) -> std::io::Result<()> {
    let mut state = State::default();
    while stop.try_recv() == Err(TryRecvError::Empty) {
        while let Ok(report) = reports.try_recv() {
            state.take(&report);
        }
        terminal.draw(|frame| draw::draw(&state, frame))?;
        if event::poll(KEY_PERIOD)?
            && let Event::Key(key) = event::read()?
        {
            let is_interrupt = key.modifiers == KeyModifiers::CONTROL
                && matches!(key.code, KeyCode::Char('c' | 'd'));
            if is_interrupt || matches!(key.code, KeyCode::Char('q') | KeyCode::Esc) {
                break;
            }
        }
    }
    Ok(())
}
