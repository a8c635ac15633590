//! A real Redis to compare with.

use pentarchy_io::ports::OF_TESTS;
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

pub struct Redis {
    process: Child,
    pub address: SocketAddr,
}

impl Redis {
    /// A fresh server with one database.
    ///
    /// # Panics
    /// If `redis-server` is not installed: what it is compared with would go untested.
    pub fn start() -> Self {
        let port = OF_TESTS.take(1).unwrap().for_good();
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        let port = port.to_string();
        let process = Command::new("redis-server")
            .args(["--bind", "127.0.0.1", "--port", &port, "--save", "", "--appendonly", "no"])
            .args(["--databases", "1", "--dir", env!("CARGO_TARGET_TMPDIR")])
            .stdout(Stdio::null())
            .spawn();
        let process =
            process.unwrap_or_else(|error| panic!("MISSING HERE: redis-server ({error})"));
        let redis = Self { process, address };
        let deadline = Instant::now() + Duration::from_secs(20);
        while TcpStream::connect(address).is_err() {
            assert!(Instant::now() < deadline, "redis-server does not listen");
            std::thread::sleep(Duration::from_millis(20));
        }
        redis
    }
}

impl Drop for Redis {
    fn drop(&mut self) {
        // Gone already is as good.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
