//! Connections over real sockets on the loopback interface.

use bytes::Bytes;
use pentarchy_core::digest::Domain;
use pentarchy_core::ids::GroupId;
use pentarchy_io::channel::{Channel, Identity};
use pentarchy_io::connection::{Closed, Connection, ConnectionLimits, Full};
use pentarchy_io::poll::{Poller, TcpListener, Token};
use std::time::{Duration, Instant};

const LIMITS: ConnectionLimits =
    ConnectionLimits { message_bytes_max: 1 << 20, queue_bytes_max: 8 << 20 };

/// How long a test waits for what must happen.
const PATIENCE: Duration = Duration::from_secs(30);

fn identity(secret: u8) -> Identity {
    Identity::new([secret; 32], &Domain::of_group(&GroupId([1; 16])))
}

/// The public key of a secret, as the other end of a channel learns it.
fn public(secret: u8) -> [u8; 32] {
    // A handshake tells: the responder learns the initiator's key, whoever it meant to reach. To
    // reach anyone its key must be known, and that of the secret 0x11..11 is.
    const KNOWN: [u8; 32] = [
        0x7b, 0x4e, 0x90, 0x9b, 0xbe, 0x7f, 0xfe, 0x44, 0xc4, 0x65, 0xa2, 0x20, 0x03, 0x7d, 0x60,
        0x8e, 0xe3, 0x58, 0x97, 0xd3, 0x1e, 0xf9, 0x72, 0xf0, 0x7f, 0x74, 0x89, 0x2c, 0xb0, 0xf7,
        0x3f, 0x13,
    ];
    let (mut first, mut reply) = (Vec::new(), Vec::new());
    Channel::initiator(&identity(secret), &KNOWN, 1024, &mut first).unwrap();
    let mut known = Channel::responder(&identity(0x11), 1024).unwrap();
    known.read(&first, &mut Vec::new(), &mut reply).unwrap();
    *known.remote().unwrap()
}

struct Pair {
    poller: Poller,
    ends: [Connection; 2],
    scratch: Vec<u8>,
    got: [Vec<Bytes>; 2],
}

impl Pair {
    fn new(dialled_key: u8) -> Self {
        let poller = Poller::new().unwrap();
        let mut listener = TcpListener::bind("127.0.0.1:0".parse().unwrap()).unwrap();
        let address = listener.local_addr().unwrap();
        let key = public(dialled_key);
        let mut a = Connection::dial(address, &identity(1), &key, LIMITS).unwrap();
        poller.register_readable(&mut listener, Token(2)).unwrap();
        let stream = loop {
            match listener.accept() {
                Ok((stream, _)) => break stream,
                Err(_) => std::thread::yield_now(),
            }
        };
        let mut b = Connection::accepted(stream, &identity(2), LIMITS).unwrap();
        poller.register(a.stream(), Token(0)).unwrap();
        poller.register(b.stream(), Token(1)).unwrap();
        Self { poller, ends: [a, b], scratch: vec![0; 64 << 10], got: Default::default() }
    }

    /// One round of both ends.
    fn round(&mut self, read: [bool; 2]) -> Result<(), Closed> {
        for event in self.poller.wait(Duration::from_millis(1)).unwrap() {
            if let Some(end) = self.ends.get_mut(event.token().0) {
                end.on_event(event);
            }
        }
        for ((end, got), read) in self.ends.iter_mut().zip(&mut self.got).zip(read) {
            if read {
                end.receive(&mut self.scratch, 100_000, got)?;
            }
            end.flush()?;
        }
        Ok(())
    }

    fn until(&mut self, mut wanted: impl FnMut(&Self) -> bool) {
        let deadline = Instant::now() + PATIENCE;
        while !wanted(self) {
            assert!(Instant::now() < deadline);
            self.round([true; 2]).unwrap();
        }
    }
}

#[test]
fn what_is_queued_while_dialling_arrives_and_both_ends_know_each_other() {
    let mut pair = Pair::new(2);
    pair.ends[0].queue_with(|to| to.array(b"hello")).unwrap();
    pair.until(|pair| !pair.got[1].is_empty());
    assert_eq!(pair.got[1], [&b"hello"[..]]);
    assert_eq!(pair.ends[0].remote(), Some(&public(2)));
    assert_eq!(pair.ends[1].remote(), Some(&public(1)));
}

#[test]
fn many_messages_of_all_sizes_arrive_in_order_both_ways() {
    let mut pair = Pair::new(2);
    pair.ends[0].queue_with(|to| to.u8(0)).unwrap();
    pair.until(|pair| !pair.got[1].is_empty());
    pair.got[1].clear();
    let sizes: Vec<usize> = (0..400).map(|i| (i * i * 7) % 90_000).chain([1 << 20]).collect();
    let mut next = [0, 0];
    let deadline = Instant::now() + PATIENCE;
    while pair.got.iter().any(|got| got.len() < sizes.len()) {
        assert!(Instant::now() < deadline);
        for (end, next) in pair.ends.iter_mut().zip(&mut next) {
            while *next < sizes.len()
                && end.queue_with(|to| to.array(&vec![*next as u8; sizes[*next]])).is_ok()
            {
                *next += 1;
            }
        }
        pair.round([true; 2]).unwrap();
    }
    for got in &pair.got {
        for (index, (message, size)) in got.iter().zip(&sizes).enumerate() {
            assert!(message.len() == *size && message.iter().all(|byte| *byte == index as u8));
        }
    }
}

#[test]
fn a_reader_that_stops_fills_the_queue_up_to_its_bound() {
    let mut pair = Pair::new(2);
    pair.ends[0].queue_with(|to| to.u8(0)).unwrap();
    pair.until(|pair| !pair.got[1].is_empty());
    let message = vec![7; 1 << 20];
    let deadline = Instant::now() + PATIENCE;
    let mut taken = 0;
    while pair.ends[0].queue_with(|to| to.array(&message)) != Err(Full) {
        assert!(Instant::now() < deadline);
        pair.round([true, false]).unwrap();
        taken += 1;
        assert!(pair.ends[0].queued_bytes() <= LIMITS.queue_bytes_max + (2 << 20));
    }
    pair.until(|pair| pair.got[1].len() == 1 + taken);
    assert_eq!(pair.ends[0].queued_bytes(), 0);
}

#[test]
fn dialling_with_the_wrong_key_fails() {
    let mut pair = Pair::new(3);
    let deadline = Instant::now() + PATIENCE;
    let closed = loop {
        assert!(Instant::now() < deadline);
        if let Err(closed) = pair.round([true; 2]) {
            break closed;
        }
    };
    assert!(matches!(closed, Closed::Channel(_)), "{closed:?}");
}
