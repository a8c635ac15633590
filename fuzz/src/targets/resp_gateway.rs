//! What a Redis client sends, through a whole gateway over a socket to a store behind it. The
//! gateway answers every command with one well-formed reply, never panics, and ends when its client
//! does.

use super::{kv_commands, resp_parser};
use crate::input::Input;
use bytes::Bytes;
use pentarchy_core::digest::Digest;
use pentarchy_core::ids::{ClientId, Millis, Slot};
use pentarchy_core::service::{Context, Service};
use pentarchy_gateways::resp::{
    Backend, Completion, EventSink, Gateway, GatewayConfig, GatewayEvent,
};
use pentarchy_services::kv::Kv;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::runtime::{Builder, Runtime};

/// Replies to one input; the bounds of a gateway are tested elsewhere.
const REPLY_BYTES_MAX: usize = 16 << 20;

/// After this a gateway that does not end is stuck.
const STUCK: Duration = Duration::from_secs(20);

/// A store without replication, emptied for each input.
#[derive(Clone, Default)]
struct Local(Arc<Mutex<Kv>>, Arc<OnceLock<EventSink>>);

impl Backend for Local {
    fn submit(&self, operation: Bytes, _within: Duration, done: Completion) {
        let context = Context::new(Slot(1), 0, Millis(0), ClientId::default(), Digest::default());
        let mut kv = self.0.lock().expect("the store does not panic");
        let result = kv.execute(&context, &operation).into();
        let events = kv.take_events();
        drop(kv);
        done.complete(Ok(result));
        if let Some(sink) = self.1.get() {
            events.into_iter().for_each(|event| sink(GatewayEvent::Event(event.body)));
        }
    }

    fn on_event(&self, sink: EventSink) {
        let _ = self.1.set(sink);
    }
}

struct Served {
    runtime: Runtime,
    address: SocketAddr,
    store: Local,
}

thread_local! {
    static SERVED: Served = serve();
}

fn serve() -> Served {
    let runtime = Builder::new_current_thread().enable_all().build().expect("a runtime");
    let config =
        GatewayConfig { listen: (Ipv4Addr::LOCALHOST, 0).into(), ..GatewayConfig::default() };
    let store = Local::default();
    let gateway = runtime.block_on(Gateway::bind(config, store.clone())).expect("a free port");
    let address = gateway.local_addr();
    runtime.spawn(gateway.run(std::future::pending()));
    Served { runtime, address, store }
}

pub fn run(input: &[u8]) {
    let mut input = Input::new(input);
    let step = usize::from(input.u8()) * 16 + 1;
    let bytes = input.rest();
    SERVED.with(|served| {
        *served.store.0.lock().expect("the store does not panic") = Kv::default();
        let talk = async {
            let replies = tokio::time::timeout(STUCK, talk(served.address, bytes, step));
            replies.await.expect("the gateway is stuck")
        };
        let replies = served.runtime.block_on(talk);
        check(&replies);
    });
}

/// Sends all, and gives what was answered until the gateway closed.
async fn talk(address: SocketAddr, bytes: &[u8], step: usize) -> Vec<u8> {
    let stream = TcpStream::connect(address).await.expect("the gateway listens");
    // The address is used again at once: an ended connection is not to linger.
    stream.set_zero_linger().expect("a socket of ours");
    let (mut from, mut to) = stream.into_split();
    let mut replies = Vec::new();
    let write = async {
        for part in bytes.chunks(step) {
            // It may have closed after an error.
            if to.write_all(part).await.is_err() {
                break;
            }
            tokio::task::yield_now().await;
        }
        let _ = to.shutdown().await;
        to
    };
    let read = async {
        let mut limited = (&mut from).take(REPLY_BYTES_MAX as u64);
        // A reset after an error with input unread is an end like any other.
        let _ = limited.read_to_end(&mut replies).await;
    };
    let (_to, ()) = tokio::join!(write, read);
    replies
}

/// Checks that replies follow each other without a gap. The last one may be cut.
fn check(mut replies: &[u8]) {
    let all = replies;
    while !replies.is_empty() {
        match skip(replies, 0) {
            Ok(Some(length)) => replies = &replies[length..],
            Ok(None) => break,
            Err(why) => panic!("{why} in {}", all.escape_ascii()),
        }
    }
}

/// The length of the reply at the start, if all of it is there.
fn skip(bytes: &[u8], depth: usize) -> Result<Option<usize>, &'static str> {
    if depth > 8 {
        return Err("too deep");
    }
    let Some(end) = bytes.windows(2).position(|pair| pair == b"\r\n") else { return Ok(None) };
    let line = std::str::from_utf8(&bytes[1..end]);
    let number = || line.ok().and_then(|line| line.parse::<i64>().ok()).ok_or("no number");
    let mut at = end + 2;
    let items = match bytes[0] {
        b'+' | b'-' if bytes[..end].contains(&b'\n') => return Err("a line in a line"),
        b'+' | b'-' => 0,
        b':' => number().map(|_| 0)?,
        b'_' | b'#' | b',' => 0,
        b'$' | b'=' => {
            if let Ok(length) = usize::try_from(number()?) {
                at += length + 2;
                if bytes.get(at - 2..at).is_some_and(|end| end != b"\r\n") {
                    return Err("a string of another length");
                }
            }
            0
        }
        b'*' | b'~' | b'>' => number()?.max(0),
        b'%' => 2 * number()?,
        _ => return Err("no reply"),
    };
    for _ in 0..items {
        match bytes.get(at..).filter(|rest| !rest.is_empty()) {
            None => return Ok(None),
            Some(rest) => match skip(rest, depth + 1)? {
                None => return Ok(None),
                Some(length) => at += length,
            },
        }
    }
    Ok(Some(at).filter(|at| *at <= bytes.len()))
}

pub fn seeds() -> Vec<Vec<u8>> {
    let local = "PING\nPING a\nECHO b\nHELLO 3\nHELLO 2 SETNAME me\nCLIENT ID\nCLIENT LIST\n\
                 CLIENT SETNAME x\nCLIENT GETNAME\nCLIENT INFO\nCLIENT NO-EVICT on\nCONFIG GET *\n\
                 INFO\nCOMMAND COUNT\nCOMMAND INFO get\nCOMMAND DOCS get\nCOMMAND GETKEYS get a\n\
                 SELECT 0\nSELECT 1\nAUTH a\nRESET\nQUIT";
    let lines: Vec<&str> = kv_commands::SCRIPT.lines().chain(local.lines()).collect();
    let mut seeds: Vec<Vec<u8>> = lines
        .chunks(8)
        .map(|lines| [&[255][..], &resp_parser::requests(&lines.join("\n"))].concat())
        .collect();
    let three: Vec<&str> = ["HELLO 3"].into_iter().chain(lines.iter().copied().skip(24)).collect();
    seeds.push([&[255][..], &resp_parser::requests(&three[..12].join("\n"))].concat());
    seeds.push([&[1][..], local.replace('\n', "\r\n").as_bytes(), b"\r\n"].concat());
    seeds
}
