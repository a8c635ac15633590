//! What applications do with redis-py, against a whole cluster: transactions, blocking pops and
//! publish/subscribe travel through ordering and come back by the votes of replicas. The script is
//! the one that the gateway's own tests run.

use crate::support::{Cluster, eventually, free_port, pentarchy, text};
use std::ffi::OsString;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};

struct Ends(Child);

impl Drop for Ends {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A Python that has redis-py.
pub fn python() -> OsString {
    let own = Path::new(env!("CARGO_TARGET_TMPDIR")).join("../python/bin/python3");
    let python = if own.exists() { own.into_os_string() } else { "python3".into() };
    let redis_py = Command::new(&python).args(["-c", "import redis"]).output();
    assert!(
        redis_py.is_ok_and(|output| output.status.success()),
        "MISSING HERE: redis-py, which .ci/run installs into target/python"
    );
    python
}

#[test]
fn what_applications_do_works_through_a_cluster_one_of_whose_replicas_lies() {
    let cluster = Cluster::up(&[]);
    let (config, key) = (cluster.data.join("cluster.toml"), cluster.data.join("client.key"));
    let password = cluster.data.join("password");
    std::fs::write(&password, "secret").expect("the folder takes files");
    let private = std::fs::Permissions::from_mode(0o600);
    std::fs::set_permissions(&password, private).expect("the file is ours");
    let port = free_port();
    let listen = format!("127.0.0.1:{port}");
    let arguments = ["gateway", "--config", text(&config), "--key", text(&key)];
    let more = ["--listen", &listen, "--password-file", text(&password)];
    let gateway = pentarchy(&[&arguments[..], &more[..]].concat()).stdin(Stdio::null()).spawn();
    let _gateway = Ends(gateway.expect("the binary starts"));
    eventually("the gateway listens", || std::net::TcpStream::connect(&listen).is_ok());
    let corrupt = ["break", "2", "--corrupt", "--data", text(&cluster.data)];
    assert!(pentarchy(&corrupt).status().expect("it starts").success());

    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../gateways/tests/it/redis_py.py");
    let output = Command::new(python()).args([script, &port.to_string()]).output();
    let output = output.expect("python3 runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}
