//! A gateway to speak to, and a client that speaks bytes.

use bytes::Bytes;
use pentarchy_core::digest::Digest;
use pentarchy_core::ids::{ClientId, Millis, Slot};
use pentarchy_core::service::{Context, Service};
use pentarchy_gateways::resp::{
    Backend, Completion, EventSink, Gateway, GatewayConfig, GatewayEvent,
};
use pentarchy_services::kv::Kv;
use pentarchy_services::kv::session::Request;
use redis_protocol::resp2::decode::decode;
use redis_protocol::resp2::types::OwnedFrame;
use redis_protocol::resp3::decode::complete as resp3;
use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// A store without replication. Each clone with [`Local::client`] is another client of it.
#[derive(Clone, Default)]
pub struct Local {
    state: Arc<Mutex<State>>,
    id: ClientId,
}

#[derive(Default)]
struct State {
    kv: Kv,
    slot: u64,
    time: u64,
    sinks: BTreeMap<ClientId, EventSink>,
}

impl Local {
    /// Another client of the same store.
    pub fn client(&self, id: u8) -> Self {
        Self { state: self.state.clone(), id: ClientId([id; 32]) }
    }

    /// Lets agreed time pass, in milliseconds.
    pub fn pass(&self, millis: u64) {
        self.state.lock().unwrap().time += millis;
    }

    pub fn execute(&self, operation: &[u8]) -> Bytes {
        let mut state = self.state.lock().unwrap();
        state.slot += 1;
        let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("a clock that is right");
        let (slot, time) = (Slot(state.slot), Millis(now.as_millis() as u64 + state.time));
        let context = Context::new(slot, 0, time, self.id, Digest::default());
        let result = state.kv.execute(&context, operation).into();
        let events = state.kv.take_events();
        let told: Vec<_> = events
            .into_iter()
            .filter_map(|event| Some((state.sinks.get(&event.client)?.clone(), event.body)))
            .collect();
        drop(state);
        told.into_iter().for_each(|(sink, body)| sink(GatewayEvent::Event(body)));
        result
    }

    /// Tells the gateway that events were lost.
    pub fn lose(&self) {
        let sink = self.state.lock().unwrap().sinks[&self.id].clone();
        sink(GatewayEvent::Lost);
    }

    /// Goes on with a store that was made from the sections of this one, and is equal to it.
    pub fn restart_from_snapshot(&self) {
        let mut state = self.state.lock().unwrap();
        let sections =
            |kv: &Kv| -> Vec<_> { kv.filled_sections().map(|i| (i, kv.section(i))).collect() };
        let saved = sections(&state.kv);
        let mut fresh = Kv::default();
        for (index, bytes) in &saved {
            fresh.restore_section(*index, bytes).expect("what was saved is restored");
        }
        assert!(sections(&fresh) == saved, "a restored store has other sections");
        assert_eq!(fresh.state_bytes(), state.kv.state_bytes());
        assert_eq!(fresh.len(), state.kv.len());
        state.kv = fresh;
    }
}

impl Backend for Local {
    fn submit(&self, operation: Bytes, _: Duration, done: Completion) {
        done.complete(Ok(self.execute(&operation)));
    }
    fn on_event(&self, sink: EventSink) {
        self.state.lock().unwrap().sinks.insert(self.id, sink);
    }
}

/// Holds operations back until the test releases them, all but the opening of a session.
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
    fn submit(&self, operation: Bytes, within: Duration, done: Completion) {
        if operation == Request::Open.to_operation(0) {
            return self.local.submit(operation, within, done);
        }
        // A test that is over waits for nothing.
        let _ = self.arrived.send((operation, done));
    }
    fn on_event(&self, sink: EventSink) {
        self.local.on_event(sink);
    }
}

pub fn next(waiting: &Receiver<(Bytes, Completion)>) -> (Bytes, Completion) {
    waiting.recv_timeout(Duration::from_secs(20)).expect("an operation in time")
}

/// A gateway that runs until it is dropped.
pub struct Running {
    pub address: SocketAddr,
    runtime: tokio::runtime::Runtime,
    stop: tokio::sync::oneshot::Sender<()>,
    ended: tokio::task::JoinHandle<()>,
}

impl Running {
    /// Asks the gateway to end, and waits until it has.
    pub fn stop(self) {
        self.stop.send(()).expect("it runs");
        self.runtime.block_on(self.ended).expect("it ends");
    }
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
    let (stop, stopped) = tokio::sync::oneshot::channel();
    let ended = runtime.spawn(gateway.run(async {
        if stopped.await.is_err() {
            // Dropped without being asked to end.
            std::future::pending::<()>().await;
        }
    }));
    Running { address, runtime, stop, ended }
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

    /// The next reply or message in either version, as it was sent, without what differs by nature.
    pub fn read_any(&mut self) -> String {
        let length = loop {
            // Each decoder refuses what only the other version has.
            let two = decode(&self.input).ok().flatten().map(|(_, length)| length);
            let three = || resp3::decode(&self.input).ok().flatten().map(|(_, length)| length);
            if let Some(length) = two.or_else(three) {
                break length;
            }
            let mut more = [0; 16 << 10];
            match self.stream.read(&mut more).expect("a reply in time") {
                0 => return "closed".into(),
                length => self.input.extend_from_slice(&more[..length]),
            }
        };
        let reply: Vec<u8> = self.input.drain(..length).collect();
        let text = String::from_utf8_lossy(&reply).replace("\r\n", " ");
        // The number of the connection.
        match text.split_once("$2 id :") {
            Some((before, after)) => {
                let rest = after.split_once(' ').map_or("", |(_, rest)| rest);
                format!("{before}$2 id {rest}")
            }
            None => text,
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
