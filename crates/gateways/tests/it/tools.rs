//! Redis's own tools, and its client for Python.

use crate::support::{Local, config, local, start};
use pentarchy_gateways::resp::{GatewayConfig, Password};
use std::ffi::OsStr;
use std::path::Path;
use std::process::{Command, Output};

/// Runs a tool.
fn run(tool: &str, port: u16, args: &[&str]) -> String {
    let mut command = Command::new(tool);
    command.args(["-h", "127.0.0.1", "-p", &port.to_string()]).args(args);
    let output = command
        .output()
        .unwrap_or_else(|error| panic!("MISSING HERE: {tool}, of Debian's redis-tools ({error})"));
    let Output { status, stdout, stderr } = output;
    let text = format!("{}{}", String::from_utf8_lossy(&stdout), String::from_utf8_lossy(&stderr));
    assert!(status.success(), "{tool} {args:?}: {text}");
    text
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
        let text = run("redis-cli", gateway.address.port(), args);
        assert_eq!(text, wanted, "{args:?}");
    }
}

#[test]
fn redis_benchmark() {
    let gateway = local();
    let tests = "ping,set,get,incr,lpush,rpush,lpop,rpop,lrange_100,mset";
    let args = ["-t", tests, "-n", "20000", "-c", "50", "-P", "16", "-q"];
    let text = run("redis-benchmark", gateway.address.port(), &args);
    println!("{}", text.replace('\r', "\n"));
    assert!(!text.contains("rror") && !text.contains("WARNING"), "{text}");
    let finished = text.matches("requests per second").count();
    assert!(finished >= 11, "{finished} tests finished: {text}");
}

/// What redis-py needs of a server, told by the script beside this file.
#[test]
fn redis_py() {
    let own = Path::new(env!("CARGO_TARGET_TMPDIR")).join("../python/bin/python3");
    let python = if own.exists() { own.as_os_str() } else { OsStr::new("python3") };
    let redis_py = Command::new(python).args(["-c", "import redis"]).output();
    assert!(
        redis_py.is_ok_and(|output| output.status.success()),
        "MISSING HERE: redis-py, which .ci/run installs into target/python"
    );
    let gateway = start(
        GatewayConfig { password: Some(Password::new(b"secret")), ..config() },
        Local::default(),
    );
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/redis_py.py");
    let output = Command::new(python)
        .args([script, &gateway.address.port().to_string()])
        .output()
        .expect("python3 runs");
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{text}");
}
