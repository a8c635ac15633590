//! Redis's own tools, where they are installed.

use crate::support::local;
use std::process::{Command, Output};

/// Runs a tool; `None`, and a notice, if it is not installed.
fn run(tool: &str, port: u16, args: &[&str]) -> Option<String> {
    let mut command = Command::new(tool);
    command.args(["-h", "127.0.0.1", "-p", &port.to_string()]).args(args);
    let Output { status, stdout, stderr } = match command.output() {
        Ok(output) => output,
        Err(error) => {
            eprintln!("SKIPPED: {tool} cannot be run: {error}");
            return None;
        }
    };
    let text = format!("{}{}", String::from_utf8_lossy(&stdout), String::from_utf8_lossy(&stderr));
    assert!(status.success(), "{tool} {args:?}: {text}");
    Some(text)
}

#[test]
fn redis_cli() {
    let gateway = local();
    for (args, wanted) in [
        (&["SET", "key", "value"][..], "OK\n"),
        (&["GET", "key"], "value\n"),
        (&["--json", "CONFIG", "GET", "save"], "{\"save\":\"\"}\n"),
        (&["RPUSH", "list", "a", "b"], "2\n"),
        (&["-3", "LRANGE", "list", "0", "-1"], "a\nb\n"),
        (&["--scan"], "list\nkey\n"),
        (&["INCR", "key"], "ERR value is not an integer or out of range\n\n"),
    ] {
        let Some(text) = run("redis-cli", gateway.address.port(), args) else { return };
        assert_eq!(text, wanted, "{args:?}");
    }
}

#[test]
fn redis_benchmark() {
    let gateway = local();
    let tests = "ping,set,get,incr,lpush,rpush,lpop,rpop,lrange_100,mset";
    let args = ["-t", tests, "-n", "20000", "-c", "50", "-P", "16", "-q"];
    let Some(text) = run("redis-benchmark", gateway.address.port(), &args) else { return };
    println!("{}", text.replace('\r', "\n"));
    assert!(!text.contains("rror") && !text.contains("WARNING"), "{text}");
    let finished = text.matches("requests per second").count();
    assert!(finished >= 11, "{finished} tests finished: {text}");
}
