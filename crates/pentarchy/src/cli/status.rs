//! `status`: asks every replica how it is, over an authenticated channel to each.

use super::args::StatusArgs;
use super::show;
use pentarchy::config::ClusterConfig;
use pentarchy_console::failure::{Failure, Outcome};
use pentarchy_console::say;
use pentarchy_console::status::report::ClusterReport;
use pentarchy_console::status::{ask, cluster, connect, present};
use pentarchy_core::configuration::{Access, Administrators};
use std::io::IsTerminal as _;
use std::time::Duration;

/// Between two questions with `--watch`.
const PERIOD: Duration = Duration::from_secs(1);

/// Runs the command.
pub fn run(args: &StatusArgs) -> Outcome {
    let (config, running) = cluster(args.config.as_deref(), &args.data)?;
    let config = present(config, args.key.as_deref())?;
    let client = connect(&config, args.key.as_deref())?;
    // An operator of `up` has all replicas on one machine, and the administrator's key, too.
    let warning = if running.is_none() { warning(&config) } else { String::new() };
    loop {
        let mut report = ask(&client);
        if let Some(running) = &running {
            report.locate(running, &client.membership());
        }
        if !args.watch {
            check_key(&config, args, &report)?;
            say(&if args.json { report.to_json_pretty() } else { show::table(&report) + &warning });
            return if report.level { Ok(()) } else { Err(Failure::NotWell) };
        }
        if args.json {
            say(&report.to_json_line());
        } else {
            let clear = if std::io::stdout().is_terminal() { "\x1b[2J\x1b[H" } else { "" };
            say(&format!("{clear}{}{warning}", show::table(&report)));
        }
        std::thread::sleep(PERIOD);
    }
}

/// A group that lists its clients hangs up on others: that says nothing of how it is.
fn check_key(config: &ClusterConfig, args: &StatusArgs, report: &ClusterReport) -> Outcome {
    let is_closed = matches!(config.access, Access::Only(_)) && args.key.is_none();
    if is_closed && report.replicas.iter().all(|replica| !replica.reachable) {
        return Err(Failure::Usage(
            "no replica answers, and this group answers listed clients only: name the key of one \
             with --key"
                .to_owned(),
        ));
    }
    Ok(())
}

/// What an operator should know of the group's administrators.
fn warning(config: &ClusterConfig) -> String {
    let Administrators { threshold, keys } = config.configuration().administrators;
    if keys.is_empty() || usize::from(threshold) < keys.len() {
        return String::new();
    }
    let who = match threshold {
        1 => "There is one administrator: if that key".to_owned(),
        all => format!("All {all} administrators have to agree: if one of their keys"),
    };
    format!("\n\n{who} is lost, nobody can change this group. See pentarchy members appoint --help")
}

#[cfg(test)]
mod tests {
    use super::*;
    use pentarchy::RequestError;
    use pentarchy::generate::{GroupOptions, NewCluster};
    use pentarchy_console::status::report::ClusterReport;
    use pentarchy_console::status::report_of;

    fn config() -> ClusterConfig {
        let addresses = ["a:1", "a:2", "a:3"].map(str::to_owned);
        NewCluster::generate(&addresses, &GroupOptions::default()).config
    }

    #[test]
    fn a_replica_that_has_yet_to_erase_former_keys_is_named() {
        let configuration = config().configuration();
        let said = [false, true, false].map(|has| format!(r#"{{"has_former_key":{has}}}"#));
        let answers = configuration.members.iter().zip(said);
        let replicas = answers.map(|(member, said)| report_of(member, Ok(said.into())));
        let report = ClusterReport::new(&configuration, replicas.collect());
        let shown = show::table(&report);
        let remark = "has yet to erase the keys by which it signed before the last change";
        assert!(shown.contains(&format!("\n  replica 1: {remark}\n")), "{shown}");
        assert_eq!(shown.matches(remark).count(), 1, "{shown}");
    }

    #[test]
    fn a_replica_that_was_not_asked_is_not_called_unreachable() {
        let config = config();
        let of = |error: RequestError| {
            let members = config.configuration().members;
            let replicas = members.iter().map(|member| report_of(member, Err(error)));
            show::table(&ClusterReport::new(&config.configuration(), replicas.collect()))
        };
        let overtaken = of(RequestError::Overtaken);
        let begin =
            "serves: unknown, too few replicas answer; tolerates 0 more faults; suspected: none";
        assert!(overtaken.starts_with(begin), "{overtaken}");
        assert!(overtaken.contains("another process uses the key of this command"), "{overtaken}");
        assert!(!overtaken.contains("unreachable"), "{overtaken}");
        let silent = of(RequestError::Unreachable);
        assert!(silent.contains("unreachable") && silent.contains("does not answer"), "{silent}");
    }
}
