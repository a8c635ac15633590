//! A gateway to speak to, and a client that speaks bytes.

use bytes::Bytes;
use pentarchy_core::digest::Digest;
use pentarchy_core::ids::{ClientId, Millis, Slot};
use pentarchy_core::service::{Context, Service};
use pentarchy_gateways::resp::{Backend, Completion, Gateway, GatewayConfig};
use pentarchy_services::kv::{Kv, SECTIONS};
use redis_protocol::resp2::decode::decode;
use redis_protocol::resp2::types::OwnedFrame;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// A store without replication.
#[derive(Clone, Default)]
pub struct Local(Arc<Mutex<(Kv, u64)>>);

impl Local {
    pub fn execute(&self, operation: &[u8]) -> Bytes {
        let mut state = self.0.lock().unwrap();
        state.1 += 1;
        let slot = Slot(state.1);
        let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("a clock that is right");
        let time = Millis(now.as_millis() as u64);
        let context = Context::new(slot, 0, time, ClientId::default(), Digest::default());
        state.0.execute(&context, operation).into()
    }

    /// Goes on with a store that was made from the sections of this one, and is equal to it.
    pub fn restart_from_snapshot(&self) {
        let mut state = self.0.lock().unwrap();
        let sections = |kv: &Kv| -> Vec<_> { (0..SECTIONS).map(|i| kv.section(i)).collect() };
        let saved = sections(&state.0);
        let mut fresh = Kv::default();
        for (index, bytes) in (0..).zip(&saved) {
            fresh.restore_section(index, bytes).expect("what was saved is restored");
        }
        assert!(sections(&fresh) == saved, "a restored store has other sections");
        assert_eq!(fresh.state_bytes(), state.0.state_bytes());
        assert_eq!(fresh.len(), state.0.len());
        state.0 = fresh;
    }
}

impl Backend for Local {
    fn submit(&self, operation: Bytes, done: Completion) {
        done.complete(Ok(self.execute(&operation)));
    }
}

/// Holds operations back until the test releases them.
#[derive(Clone)]
pub struct Held {
    pub local: Local,
    arrived: Sender<(Bytes, Completion)>,
}

impl Held {
    pub fn new() -> (Self, Receiver<(Bytes, Completion)>) {
        let (arrived, waiting) = channel();
        (Self { local: Local::default(), arrived }, waiting)
    }
}

impl Backend for Held {
    fn submit(&self, operation: Bytes, done: Completion) {
        self.arrived.send((operation, done)).expect("the test waits");
    }
}

pub fn next(waiting: &Receiver<(Bytes, Completion)>) -> (Bytes, Completion) {
    waiting.recv_timeout(Duration::from_secs(20)).expect("an operation in time")
}

/// A gateway that runs until it is dropped.
pub struct Running {
    pub address: SocketAddr,
    _runtime: tokio::runtime::Runtime,
}

pub fn config() -> GatewayConfig {
    GatewayConfig { listen: (Ipv4Addr::LOCALHOST, 0).into(), ..GatewayConfig::default() }
}

pub fn start(config: GatewayConfig, backend: impl Backend) -> Running {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .expect("a runtime");
    let gateway = runtime.block_on(Gateway::bind(config, backend)).expect("a free port");
    let address = gateway.local_addr();
    runtime.spawn(gateway.run(std::future::pending()));
    Running { address, _runtime: runtime }
}

pub fn local() -> Running {
    start(config(), Local::default())
}

/// Speaks bytes, and RESP2 as an independent decoder reads it.
pub struct Client {
    pub stream: TcpStream,
    input: Vec<u8>,
}

impl Client {
    pub fn connect(address: SocketAddr) -> Self {
        let stream = TcpStream::connect(address).expect("the server listens");
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        stream.set_nodelay(true).unwrap();
        Self { stream, input: Vec::new() }
    }

    pub fn send(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).expect("the server reads");
    }

    /// The next reply; `None` if the server closed.
    pub fn read(&mut self) -> Option<OwnedFrame> {
        loop {
            if let Some((frame, length)) = decode(&self.input).expect("valid RESP2") {
                self.input.drain(..length);
                return Some(frame);
            }
            let mut more = [0; 16 << 10];
            match self.stream.read(&mut more).expect("a reply in time") {
                0 => return None,
                length => self.input.extend_from_slice(&more[..length]),
            }
        }
    }

    /// Exactly these bytes are what comes next.
    pub fn expect(&mut self, wanted: &str) {
        let mut got = std::mem::take(&mut self.input);
        while got.len() < wanted.len() {
            let mut more = vec![0; wanted.len() - got.len()];
            let length = self.stream.read(&mut more).expect("a reply in time");
            assert!(length > 0, "closed after {:?}", String::from_utf8_lossy(&got));
            got.extend_from_slice(&more[..length]);
        }
        assert_eq!(String::from_utf8_lossy(&got[..wanted.len()]), wanted);
        self.input = got.split_off(wanted.len());
    }

    /// The server has nothing more to say.
    pub fn expect_end(&mut self) {
        assert_eq!(self.read(), None);
    }

    pub fn call(&mut self, words: &[&[u8]]) -> OwnedFrame {
        self.send(&request(words));
        self.read().expect("a reply")
    }

    /// One command, its words apart by spaces, and the printed reply.
    pub fn ask(&mut self, line: &str) -> String {
        let words: Vec<_> = line.split(' ').map(str::as_bytes).collect();
        show(&self.call(&words))
    }
}

pub fn request(words: &[&[u8]]) -> Vec<u8> {
    let mut request = format!("*{}\r\n", words.len()).into_bytes();
    for word in words {
        request.extend_from_slice(format!("${}\r\n", word.len()).as_bytes());
        request.extend_from_slice(word);
        request.extend_from_slice(b"\r\n");
    }
    request
}

pub fn show(frame: &OwnedFrame) -> String {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    match frame {
        OwnedFrame::SimpleString(status) => format!("+{}", text(status)),
        OwnedFrame::Error(error) => format!("-{error}"),
        OwnedFrame::Integer(value) => format!(":{value}"),
        OwnedFrame::BulkString(value) => format!("{:?}", text(value)),
        OwnedFrame::Null => "nil".into(),
        OwnedFrame::Array(items) => {
            format!("[{}]", items.iter().map(show).collect::<Vec<_>>().join(" "))
        }
    }
}

impl Client {
    /// Skips up to and with `mark`; exactly `wanted` comes next.
    pub fn expect_after(&mut self, mark: &str, wanted: &str) {
        let mut got = Vec::new();
        while !got.ends_with(mark.as_bytes()) {
            if self.input.is_empty() {
                let mut more = [0; 4096];
                let length = self.stream.read(&mut more).expect("a reply in time");
                assert!(length > 0, "closed before {mark:?}");
                self.input.extend_from_slice(&more[..length]);
            }
            got.push(self.input.remove(0));
        }
        self.expect(wanted);
    }
}
