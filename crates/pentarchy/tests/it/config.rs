//! `init` and the configuration it writes.

use crate::support::{run, stderr, stdout, text};
use pentarchy::RequestMode;
use pentarchy::config::{ClusterConfig, CounterPlace};
use pentarchy::generate::{GroupOptions, NewCluster};
use pentarchy_core::configuration::Access;
use pentarchy_core::membership::PillarConfig;
use pentarchy_protocols::{DEFAULT, EXAMPLES, PROTOCOLS};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

const HOSTS: [&str; 3] = ["a.example:7000", "10.0.0.2:7000", "[::1]:7000"];

fn example() -> String {
    let hosts = HOSTS.map(str::to_owned);
    NewCluster::generate(&hosts, &GroupOptions::default()).config.render()
}

/// The line of the example that names its protocol.
fn default_protocol() -> String {
    format!("protocol = {:?}", DEFAULT.rules.name)
}

fn complaint(text: &str) -> String {
    ClusterConfig::parse(Path::new("cluster.toml"), text).unwrap_err().to_string()
}

/// The line of the last occurrence, from 1.
fn line_of(text: &str, needle: &str) -> usize {
    let mut lines = text.lines().collect::<Vec<_>>().into_iter();
    lines.rposition(|line| line.contains(needle)).expect("the example has it") + 1
}

#[test]
fn what_is_rendered_is_read_back_the_same() {
    let hosts = HOSTS.map(str::to_owned);
    for (closed, request_auth) in [(false, RequestMode::Mac), (true, RequestMode::Session)] {
        let options = GroupOptions { closed, gateways: 3, request_auth, ..GroupOptions::default() };
        let mut config = NewCluster::generate(&hosts, &options).config;
        config.log_mib += 1;
        let back = ClusterConfig::parse(Path::new("x"), &config.render()).unwrap();
        assert_eq!(back, config);
        assert_eq!(matches!(back.access, Access::Only(keys) if keys.len() == 4), closed);
    }
}

/// Replicas under different configurations do not count what the others sign, so whatever they have
/// to agree on changes the name, and nothing else does.
#[test]
fn a_configuration_is_named_by_what_replicas_have_to_agree_on() {
    let hosts = HOSTS.map(str::to_owned);
    let config = NewCluster::generate(&hosts, &GroupOptions::default()).config;
    let name = |change: &dyn Fn(&mut ClusterConfig)| {
        let mut changed = config.clone();
        change(&mut changed);
        (changed.configuration().digest(), changed.membership().configuration)
    };
    let own = name(&|_| {});
    assert_eq!(own.0, own.1);
    let agreed: [&dyn Fn(&mut ClusterConfig); 6] = [
        &|it| it.group.0[0] ^= 1,
        &|it| it.protocol = PROTOCOLS[1].rules.name.to_owned(),
        &|it| it.f = 0,
        &|it| it.request_auth = RequestMode::Mac,
        &|it| it.tuning.batch_requests = 1,
        &|it| it.replicas[2].key[0] ^= 1,
    ];
    for change in agreed {
        assert_ne!(name(change), own);
    }
    let local: [&dyn Fn(&mut ClusterConfig); 6] = [
        &|it| it.counter = CounterPlace::Process,
        &|it| it.log_mib += 1,
        &|it| it.timeouts.resend_ms += 1,
        &|it| it.access = Access::Only(Vec::new()),
        &|it| it.replicas[0].address = "b.example:7000".to_owned(),
        // Lives follow each other within one configuration.
        &|it| it.replicas[0].incarnation.0 += 1,
    ];
    for change in local {
        assert_eq!(name(change), own);
    }
}

#[test]
fn an_address_is_no_longer_than_a_configuration_takes() {
    let line = example().replace("a.example", &"a".repeat(250));
    assert!(ClusterConfig::parse(Path::new("x"), &line).is_ok(), "255 bytes with the port");
    let line = example().replace("a.example", &"a".repeat(251));
    let refused = complaint(&line);
    assert!(refused.contains("is no address"), "{refused}");
}

#[test]
fn an_unknown_key_is_an_error_with_line_and_column() {
    let text = example().replace("resend_ms", "resent_ms");
    let complaint = complaint(&text);
    let place =
        format!("cluster.toml:{}:1: unknown field `resent_ms`", line_of(&text, "resent_ms"));
    assert!(complaint.starts_with(&place), "{complaint}");
    assert!(complaint.contains("resend_ms"), "names what there is: {complaint}");
    assert_eq!(complaint.lines().count(), 1);
}

#[test]
fn wrong_values_are_errors_with_line_and_column() {
    let (example, name) = (example(), DEFAULT.rules.name);
    let (protocol, there_is) =
        (default_protocol(), format!("no protocol \"raft\"; there is: {name}"));
    let cases = [
        (&*protocol, "protocol = \"raft\"", 12, &*there_is),
        ("\nf = 1", "\nf = 2", 5, "f = 2 needs 5 [[replica]] tables, and there are 3"),
        ("\nf = 1", "\nf = 0", 5, "f = 0"),
        ("format = 1", "format = 9", 10, "this program reads format 1"),
        ("resend_ms = 50", "resend_ms = 0", 13, "a time is 1 to 600000 milliseconds"),
        ("log_mib = 1024", "log_mib = 100", 11, "a log has 256 to 65536 MiB"),
        ("\"signature\"\n", "\"none\"\n", 16, "no request_auth \"none\""),
        ("a.example:7000", "a.example", 11, "write host:port"),
        ("10.0.0.2:7000", "a.example:7000", 11, "two replicas have the address a.example:7000"),
        ("key = \"", "key = \"zz", 7, "a public key is 64 hexadecimal digits"),
    ];
    for (from, to, column, message) in cases {
        let text = example.replacen(from, to, 1);
        assert_ne!(text, example, "{from}");
        let complaint = complaint(&text);
        let line = line_of(&text, to.trim());
        let place = format!("cluster.toml:{line}:{column}: ");
        assert!(complaint.starts_with(&place), "{complaint}, not {place}");
        assert!(complaint.contains(message), "{complaint}");
    }
}

#[test]
fn wrong_units_repetitions_and_contradictions_say_what_to_do() {
    let example = example();
    let millis = "expected a whole number without quotes, sign or unit, of milliseconds";
    let number = "expected a whole number without quotes, sign or unit";
    let key = example.lines().find(|line| line.starts_with("key = ")).expect("a replica's key");
    let key = key.trim_start_matches("key = ");
    let (listed, twice) = (format!("allow = [{key}]"), format!("allow = [{key}, {key}]"));
    let allow = example.lines().find(|line| line.starts_with("# allow")).expect("a comment");
    let (protocol, bare) = (default_protocol(), format!("protocol = {}", DEFAULT.rules.name));
    let cases: [(&str, &str, &str, usize, &str); 12] = [
        ("resend_ms = 50", "resend_ms = \"50ms\"", "resend_ms", 13, millis),
        ("resend_ms = 50", "resend_ms = 0.05", "resend_ms", 13, millis),
        ("resend_ms = 50", "resend_ms = -5", "resend_ms", 13, millis),
        ("\nf = 1", "\nf = \"1\"", "f = \"1\"", 5, number),
        ("\nf = 1", "\nf = 1\nf = 1", "f = 1", 1, "duplicate key: remove all but one"),
        ("[timeouts]", "[timeouts", "[timeouts", 10, "unclosed table"),
        ("[timeouts]", "[timeout]", "[timeout]", 2, "expected one of"),
        ("[clients]", "[timeouts]", "[timeouts]", 2, "a table is written once"),
        ("resend_ms = 50", "resend_ms = 50 ms", "resend_ms", 13, millis),
        (&protocol, &bare, "protocol =", 12, "quoted"),
        (allow, "allow = []", "allow = []", 9, "nobody is listed; leave `allow` out"),
        (allow, &twice, &twice, 78, "this client is listed twice: remove one of the two"),
    ];
    for (from, to, at, column, message) in cases {
        let text = example.replacen(from, to, 1);
        assert_ne!(text, example, "{from}");
        let complaint = complaint(&text);
        let place = format!("cluster.toml:{}:{column}: ", line_of(&text, at));
        assert!(complaint.starts_with(&place), "{complaint}, not {place}");
        assert!(complaint.contains(message), "{complaint}, not {message}");
        assert_eq!(complaint.lines().count(), 1);
    }
    let single = complaint(&example.replace("\n[[replica]]", "\n[replica]"));
    assert!(single.contains("double brackets: [[replica]]"), "{single}");
    let good = example.replacen(allow, &listed, 1);
    assert!(ClusterConfig::parse(Path::new("x"), &good).is_ok());
}

#[test]
fn sessions_and_their_key_go_together() {
    let hosts = HOSTS.map(str::to_owned);
    let options = GroupOptions { request_auth: RequestMode::Session, ..GroupOptions::default() };
    let good = NewCluster::generate(&hosts, &options).config.render();
    let line = good.lines().find(|line| line.starts_with("session_key = ")).expect("a key");
    let auth = "request_auth = \"session\"";
    let own = format!("incarnation = \"{:016x}\"\ndevice_key = \"{}\"", 7, "a".repeat(64));
    let incarnation = good.lines().find(|line| line.starts_with("incarnation = "));
    let cases: [(&str, &str, &str, usize, &str); 5] = [
        (line, "", auth, 16, "sessions need a session_key"),
        (auth, "request_auth = \"mac\"", line, 15, "goes with request_auth = \"session\" only"),
        (auth, "", line, 15, "goes with request_auth = \"session\" only"),
        (line, "session_key = \"zz\"", "session_key", 15, "64 hexadecimal digits"),
        (incarnation.expect("an incarnation"), &own, "device_key", 14, "a key of its own"),
    ];
    for (from, to, at, column, message) in cases {
        let text = good.replacen(from, to, 1);
        let complaint = complaint(&text);
        let place = format!("cluster.toml:{}:{column}: ", line_of(&text, at));
        assert!(complaint.starts_with(&place), "{complaint}, not {place}");
        assert!(complaint.contains(message), "{complaint}, not {message}");
    }
    assert!(ClusterConfig::parse(Path::new("x"), &good).is_ok());
}

#[test]
fn the_order_of_some_protocols_can_be_split() {
    let hosts = HOSTS.map(str::to_owned);
    let lane = PillarConfig { pillars: 3, rotates: true, pillar: None };
    let split = EXAMPLES.split.rules.name;
    let options = GroupOptions { protocol: split.to_owned(), lane, ..GroupOptions::default() };
    let good = NewCluster::generate(&hosts, &options).config.render();
    let read = ClusterConfig::parse(Path::new("x"), &good).expect("as it was written");
    assert_eq!((read.lane, read.membership().lane), (lane, lane));
    let (pillars, rotates) = ("pillars = 3", "rotate_leader = true");
    let (of, to_whole) = (format!("protocol = {split:?}"), default_protocol());
    let able: Vec<_> = pentarchy::protocols::names_in_pillars().collect();
    let able = format!("what can: {}", able.join(", "));
    let cases: [(&str, &str, &str, usize, &str); 6] = [
        (pillars, "pillars = 9", "pillars = 9", 11, "9 pillars; 1 to 8 work"),
        (pillars, "pillars = 0", "pillars = 0", 11, "0 pillars; 1 to 8 work"),
        (pillars, "pillars = 258", "pillars = 258", 11, "258 pillars; 1 to 8 work"),
        (pillars, "pillars = 1", "pillars = 1", 11, "with 1 pillar no leader rotates"),
        (pillars, "", rotates, 17, "with 1 pillar no leader rotates"),
        (&of, &to_whole, pillars, 11, &able),
    ];
    for (from, to, at, column, message) in cases {
        let text = good.replacen(from, to, 1);
        let complaint = complaint(&text);
        let place = format!("cluster.toml:{}:{column}: ", line_of(&text, at));
        assert!(complaint.starts_with(&place), "{complaint}, not {place}");
        assert!(complaint.contains(message), "{complaint}, not {message}");
    }
    // As groups were written down before there were pillars.
    let older = good.replacen(pillars, "", 1).replacen(rotates, "", 1);
    let read = ClusterConfig::parse(Path::new("x"), &older).expect("the default");
    assert_eq!(read.lane, PillarConfig::default());
}

#[test]
fn counters_in_processes_are_of_those_that_share_a_secret() {
    let hosts = HOSTS.map(str::to_owned);
    let options = GroupOptions { counter: CounterPlace::Process, ..GroupOptions::default() };
    let good = NewCluster::generate(&hosts, &options).config.render();
    let read = ClusterConfig::parse(Path::new("x"), &good).expect("as it was written");
    assert_eq!(read.counter, CounterPlace::Process);
    let place = "counter = \"process\"";
    let incarnation = good.lines().find(|line| line.starts_with("incarnation = "));
    let own = format!("incarnation = \"{:016x}\"\ndevice_key = \"{}\"", 7, "a".repeat(64));
    let cases: [(&str, &str, &str, usize, &str); 2] = [
        (place, "counter = \"moon\"", "counter = \"moon", 11, "no place \"moon\" for counters"),
        (incarnation.expect("an incarnation"), &own, "device_key", 14, "a key of its own"),
    ];
    for (from, to, at, column, message) in cases {
        let text = good.replacen(from, to, 1);
        let complaint = complaint(&text);
        let place = format!("cluster.toml:{}:{column}: ", line_of(&text, at));
        assert!(complaint.starts_with(&place), "{complaint}, not {place}");
        assert!(complaint.contains(message), "{complaint}, not {message}");
    }
    let in_process = good.replacen(place, "counter = \"in-process\"", 1);
    let read = ClusterConfig::parse(Path::new("x"), &in_process).expect("a place");
    assert_eq!(read.counter, CounterPlace::InProcess);
    let left_out = good.replacen(place, "", 1);
    let read = ClusterConfig::parse(Path::new("x"), &left_out).expect("the default");
    assert_eq!(read.counter, CounterPlace::InProcess);
}

#[test]
fn a_missing_key_says_which() {
    let text = example().replace("group = ", "# group = ");
    let complaint = complaint(&text);
    assert!(complaint.contains("missing field `group`"), "{complaint}");
}

#[test]
fn init_makes_what_every_host_needs_and_nothing_that_others_can_read() {
    let parent = tempfile::tempdir().unwrap();
    let out = parent.path().join("cluster");
    let hosts = HOSTS.join(",");
    let output = run(&["init", "--gateways", "2", "--hosts", &hosts, "--out", text(&out)]);
    assert!(output.status.success(), "{}", stderr(&output));
    let said = stdout(&output);
    assert!(said.contains("pentarchy replica --config cluster.toml --id 2"), "{said}");
    assert!(said.contains("It is closed") && said.contains("/gateway-2.key"), "{said}");
    let config = ClusterConfig::load(&out.join("cluster.toml")).unwrap();
    assert_eq!(config.replicas.len(), 3);
    let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    for (id, entry) in config.replicas.iter().enumerate() {
        assert_eq!(entry.address, HOSTS[id]);
        let folder = out.join(format!("replica-{id}"));
        assert_eq!(mode(&folder), 0o700);
        for name in ["key", "group-secret", "device"] {
            assert_eq!(mode(&folder.join(name)), 0o600, "{name}");
        }
    }
    let Access::Only(admitted) = &config.access else { panic!("open unless asked for") };
    let keys = ["client.key", "gateway-1.key", "gateway-2.key"].map(|name| out.join(name));
    for path in &keys {
        assert_eq!(mode(path), 0o600);
        assert!(admitted.contains(&pentarchy::KeyPair::load(path).unwrap().client_id()));
    }
    assert_eq!(admitted.len(), keys.len());

    let again = run(&["init", "--hosts", &hosts, "--out", text(&out)]);
    assert_eq!(again.status.code(), Some(2), "nothing is overwritten");
    assert_eq!(ClusterConfig::load(&out.join("cluster.toml")).unwrap(), config);
}

#[test]
fn init_makes_an_open_group_only_if_asked() {
    let parent = tempfile::tempdir().unwrap();
    let out = parent.path().join("cluster");
    let output = run(&["init", "--open", "--hosts", &HOSTS.join(","), "--out", text(&out)]);
    assert!(stdout(&output).contains("It is open: every client"), "{}", stdout(&output));
    let config = ClusterConfig::load(&out.join("cluster.toml")).unwrap();
    assert_eq!(config.access, Access::Open);
    assert!(out.join("gateway-1.key").exists() && !out.join("gateway-2.key").exists());
}

#[test]
fn init_refuses_groups_that_tolerate_nothing() {
    let parent = tempfile::tempdir().unwrap();
    let out = parent.path().join("cluster");
    let name = DEFAULT.rules.name;
    let too_few = format!("{name} with f = 1 needs 3 replicas; --hosts names 2");
    let cases: [(&[&str], &str); 4] = [
        (&["--hosts", "a:1,b:2"], &too_few),
        (&["--hosts", "a:1,b:2,a:1"], "--hosts names a:1 twice"),
        (&["--hosts", "a:1,b:2,c"], "write host:port"),
        (&["--hosts", "a:1", "--f", "0"], "f = 0 is out of range"),
    ];
    for (arguments, message) in cases {
        let output = run(&[&["init", "--out", text(&out)], arguments].concat());
        assert_eq!(output.status.code(), Some(2));
        let said = stderr(&output);
        assert!(said.starts_with("pentarchy: ") && said.contains(message), "{said}");
        assert_eq!(said.lines().count(), 1, "{said}");
        assert!(!out.exists());
    }
}

#[test]
fn mistakes_on_the_command_line_are_usage_errors() {
    for arguments in
        [&["frobnicate"][..], &["up", "--port", "0"], &["replica"], &["sim", "--seed", "x"]]
    {
        assert_eq!(run(arguments).status.code(), Some(2), "{arguments:?}");
    }
}

#[test]
fn every_command_explains_itself_with_an_example() {
    let commands =
        ["up", "down", "init", "replica", "gateway", "status", "sim", "bench", "completions"];
    for command in commands {
        let output = run(&[command, "--help"]);
        assert!(output.status.success());
        let help = stdout(&output);
        assert!(
            help.contains("Example") && help.contains(&format!("pentarchy {command}")),
            "{help}"
        );
    }
    let completions = run(&["completions", "bash"]);
    assert!(stdout(&completions).contains("_pentarchy"));
}
