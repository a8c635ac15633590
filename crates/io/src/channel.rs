//! The encrypted channel, without a socket: bytes in, bytes out.
//!
//! The handshake is Noise IK over X25519 (*The Noise Protocol Framework*, revision 34, section
//! 7.5): the initiator knows the responder's static key and sends its own encrypted. The prologue
//! is the group's domain, so that a channel of another group or format version never opens.
//!
//! The responder must not act on the initiator's identity before the first message inside the
//! channel: the first handshake message can be a replay (same document, section 7.7). The hosts
//! therefore have the initiator speak first, by a `Hello`.

use crate::buffers;
use crate::costs;
pub use crate::error::ChannelError;
use crate::frame::{Deframer, LENGTH_BYTES, split};
use bytes::Bytes;
use pentarchy_core::digest::Domain;
use snow::{Builder, HandshakeState, TransportState};
use std::fmt;
use zeroize::Zeroizing;

/// The Noise protocol. AES-GCM, because every machine that is worth a replica computes it in
/// hardware.
const NOISE: &str = "Noise_IK_25519_AESGCM_SHA256";

/// Largest message of Noise.
const NOISE_BYTES_MAX: usize = 65_535;
/// What encryption adds to a Noise message.
const TAG_BYTES: usize = 16;
/// Largest plaintext of one Noise message.
pub const CHUNK_BYTES_MAX: usize = NOISE_BYTES_MAX - TAG_BYTES;

/// Largest handshake message that is accepted; the two of IK have 96 and 48 bytes.
const HANDSHAKE_BYTES_MAX: usize = 128;

/// Noise messages under one key. With [`CHUNK_BYTES_MAX`] this is 2^44 blocks of AES-GCM, far
/// inside its bounds. Then the channel is closed and dialled again under new keys.
const NONCES_MAX: u64 = 1 << 32;

/// What a node brings to every channel it opens or accepts.
#[derive(Clone)]
pub struct Identity {
    secret: Zeroizing<[u8; 32]>,
    prologue: [u8; 32],
}

impl Identity {
    /// A node with this X25519 secret, in this group.
    #[must_use]
    pub fn new(secret: [u8; 32], domain: &Domain) -> Self {
        let secret = Zeroizing::new(secret);
        Self { secret, prologue: domain.statement("channel").finish().0 }
    }

    fn builder(&self) -> Result<Builder<'_>, snow::Error> {
        Builder::new(NOISE.parse()?).local_private_key(&*self.secret)?.prologue(&self.prologue)
    }
}

impl fmt::Debug for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Identity")
    }
}

enum State {
    Handshake(Box<HandshakeState>),
    Open(Box<TransportState>),
    /// The handshake came to an end without opening the channel.
    Failed,
}

/// One end of a channel. After an error it must be dropped.
pub struct Channel {
    deframer: Deframer,
    session: Session,
}

/// The part of a channel that a whole frame changes.
struct Session {
    state: State,
    remote: Option<[u8; 32]>,
    /// Names the channel to both ends, once it is open.
    binding: [u8; 32],
    message_bytes_max: usize,
    /// A responder that has heard nothing yet does not know who is there, and takes small frames
    /// only.
    is_guarded: bool,
}

/// What one call of [`Channel::read`] changes.
struct Reading<'a> {
    session: &'a mut Session,
    messages: &'a mut Vec<Bytes>,
    reply: &'a mut Vec<u8>,
}

impl Channel {
    /// The end that dials. Appends its handshake to `out`. `remote` is the X25519 key that the
    /// other end must have.
    ///
    /// # Errors
    /// [`ChannelError::Handshake`] if the keys are unusable or there is no randomness.
    pub fn initiator(
        identity: &Identity,
        remote: &[u8; 32],
        message_bytes_max: usize,
        out: &mut Vec<u8>,
    ) -> Result<Self, ChannelError> {
        let build = || identity.builder()?.remote_public_key(remote)?.build_initiator();
        let mut handshake = build().map_err(|_| ChannelError::Handshake)?;
        write_handshake(&mut handshake, out)?;
        Ok(Self::new(handshake, Some(*remote), message_bytes_max))
    }

    /// The end that is dialled.
    ///
    /// # Errors
    /// [`ChannelError::Handshake`] if the secret is unusable.
    pub fn responder(identity: &Identity, message_bytes_max: usize) -> Result<Self, ChannelError> {
        let build = || identity.builder()?.build_responder();
        let handshake = build().map_err(|_| ChannelError::Handshake)?;
        Ok(Self::new(handshake, None, message_bytes_max))
    }

    fn new(handshake: HandshakeState, remote: Option<[u8; 32]>, message_bytes_max: usize) -> Self {
        let state = State::Handshake(Box::new(handshake));
        let is_guarded = remote.is_none();
        let binding = [0; 32];
        let session = Session { state, remote, binding, message_bytes_max, is_guarded };
        Self { deframer: Deframer::default(), session }
    }

    /// Whether the handshake is over.
    #[must_use]
    pub const fn is_open(&self) -> bool {
        matches!(self.session.state, State::Open(_))
    }

    /// The other end's static key, once the handshake is over.
    #[must_use]
    pub const fn remote(&self) -> Option<&[u8; 32]> {
        if self.is_open() { self.session.remote.as_ref() } else { None }
    }

    /// What names this channel to both ends and to nobody else, once the handshake is over: the
    /// hash of the handshake (Noise, section 11.2).
    #[must_use]
    pub const fn binding(&self) -> Option<&[u8; 32]> {
        if self.is_open() { Some(&self.session.binding) } else { None }
    }

    /// Changes how large the other end's messages may be, for instance when it has said who it is.
    /// A responder takes no large message as the first one in any case.
    pub const fn allow(&mut self, message_bytes_max: usize) {
        self.session.message_bytes_max = message_bytes_max;
    }

    /// Takes bytes that arrived. Appends the messages in them to `messages`, and what must be
    /// answered at once to `reply`.
    ///
    /// # Errors
    /// [`ChannelError`]; messages that came before the error are appended.
    pub fn read(
        &mut self,
        input: &[u8],
        messages: &mut Vec<Bytes>,
        reply: &mut Vec<u8>,
    ) -> Result<(), ChannelError> {
        let mut reading = Reading { session: &mut self.session, messages, reply };
        let max = |reading: &Reading<'_>| reading.session.frame_bytes_max();
        self.deframer.feed(input, &mut reading, max, |reading, frame| reading.on_frame(frame))
    }

    /// Appends one encrypted frame to `out`. `plain` is a list of messages, each behind its `u32`
    /// length; for an empty list nothing is appended.
    ///
    /// # Errors
    /// [`ChannelError::Handshake`] before the channel is open, [`ChannelError::Exhausted`] at the
    /// end of its keys.
    pub fn write(&mut self, plain: &[u8], out: &mut Vec<u8>) -> Result<(), ChannelError> {
        let State::Open(transport) = &mut self.session.state else {
            return Err(ChannelError::Handshake);
        };
        if plain.is_empty() {
            return Ok(());
        }
        let length = sealed_bytes(plain.len());
        let header = u32::try_from(length).map_err(|_| ChannelError::Oversize)?;
        out.extend_from_slice(&header.to_le_bytes());
        let mut at = out.len();
        out.resize(at + length, 0);
        for chunk in plain.chunks(CHUNK_BYTES_MAX) {
            if transport.sending_nonce() >= NONCES_MAX {
                return Err(ChannelError::Exhausted);
            }
            costs::sealed();
            at += transport
                .write_message(chunk, &mut out[at..])
                .map_err(|_| ChannelError::Exhausted)?;
        }
        Ok(())
    }

    /// This end encrypts what it writes from now on under another key, from which nobody finds the
    /// one before (Noise, section 11.3). Appends to `out` a frame that tells the other end.
    ///
    /// # Errors
    /// As [`Self::write`].
    pub fn rekey(&mut self, out: &mut Vec<u8>) -> Result<(), ChannelError> {
        let State::Open(transport) = &mut self.session.state else {
            return Err(ChannelError::Handshake);
        };
        if transport.sending_nonce() >= NONCES_MAX {
            return Err(ChannelError::Exhausted);
        }
        let mut sealed = [0; TAG_BYTES];
        transport.write_message(&[], &mut sealed).map_err(|_| ChannelError::Exhausted)?;
        out.extend_from_slice(&(TAG_BYTES as u32).to_le_bytes());
        out.extend_from_slice(&sealed);
        transport.rekey_outgoing();
        Ok(())
    }

    /// Bytes kept of a frame that is not whole yet.
    #[must_use]
    pub fn pending_bytes(&self) -> usize {
        self.deframer.pending_bytes()
    }
}

/// Size of a frame's ciphertext.
const fn sealed_bytes(plain: usize) -> usize {
    plain + TAG_BYTES * plain.div_ceil(CHUNK_BYTES_MAX)
}

fn write_handshake(handshake: &mut HandshakeState, out: &mut Vec<u8>) -> Result<(), ChannelError> {
    let mut message = [0; HANDSHAKE_BYTES_MAX];
    let length = handshake.write_message(&[], &mut message).map_err(|_| ChannelError::Handshake)?;
    out.extend_from_slice(&(length as u32).to_le_bytes());
    out.extend_from_slice(&message[..length]);
    Ok(())
}

impl Session {
    fn frame_bytes_max(&self) -> usize {
        match self.state {
            State::Handshake(_) | State::Failed => HANDSHAKE_BYTES_MAX,
            State::Open(_) if self.is_guarded => sealed_bytes(CHUNK_BYTES_MAX),
            // A frame holds one message of any size, or several that fit one Noise message.
            State::Open(_) => {
                sealed_bytes((LENGTH_BYTES + self.message_bytes_max).max(CHUNK_BYTES_MAX))
            }
        }
    }
}

impl Reading<'_> {
    fn on_frame(&mut self, frame: &[u8]) -> Result<(), ChannelError> {
        match &mut self.session.state {
            // Nobody sends one, and it would be the only frame without a tag.
            State::Open(_) if frame.is_empty() => Err(ChannelError::Decrypt),
            State::Open(transport) => {
                let plain = decrypt(transport, frame)?;
                if plain.is_empty() {
                    // Only `Channel::rekey` writes an encrypted nothing.
                    transport.rekey_incoming();
                }
                self.session.is_guarded &= plain.is_empty();
                split(plain, self.messages)
            }
            State::Handshake(_) | State::Failed => self.on_handshake(frame),
        }
    }

    fn on_handshake(&mut self, frame: &[u8]) -> Result<(), ChannelError> {
        let State::Handshake(handshake) = &mut self.session.state else {
            return Err(ChannelError::Handshake);
        };
        let mut payload = [0; HANDSHAKE_BYTES_MAX];
        handshake.read_message(frame, &mut payload).map_err(|_| ChannelError::Handshake)?;
        if !handshake.is_initiator() {
            write_handshake(handshake, self.reply)?;
        }
        let remote = handshake.get_remote_static().and_then(|key| key.try_into().ok());
        self.session.remote = Some(remote.ok_or(ChannelError::Handshake)?);
        let binding = handshake.get_handshake_hash().try_into();
        self.session.binding = binding.map_err(|_| ChannelError::Handshake)?;
        let State::Handshake(handshake) = std::mem::replace(&mut self.session.state, State::Failed)
        else {
            return Err(ChannelError::Handshake);
        };
        let transport = handshake.into_transport_mode().map_err(|_| ChannelError::Handshake)?;
        self.session.state = State::Open(Box::new(transport));
        Ok(())
    }
}

/// Decrypts a frame into a buffer of its own.
fn decrypt(transport: &mut TransportState, frame: &[u8]) -> Result<Bytes, ChannelError> {
    // A frame of nothing has no tag, so anyone could have sent it.
    if frame.is_empty() {
        return Err(ChannelError::Decrypt);
    }
    // Each Noise message is decrypted in place behind the one before, over the room of whose tag.
    let mut plain = buffers::filled(frame.len());
    let mut length = 0;
    for chunk in frame.chunks(NOISE_BYTES_MAX) {
        if transport.receiving_nonce() >= NONCES_MAX {
            return Err(ChannelError::Exhausted);
        }
        costs::opened();
        length += transport
            .read_message(chunk, &mut plain[length..])
            .map_err(|_| ChannelError::Decrypt)?;
    }
    plain.truncate(length);
    Ok(buffers::shared(plain))
}

#[cfg(test)]
mod tests {
    use super::*;
    use pentarchy_core::ids::GroupId;

    const MAX: usize = 1 << 20;

    fn identity(secret: u8, group: u8) -> (Identity, [u8; 32]) {
        let identity = Identity::new([secret; 32], &Domain::of_group(&GroupId([group; 16])));
        let public = x25519_public(&[secret; 32]);
        (identity, public)
    }

    fn x25519_public(secret: &[u8; 32]) -> [u8; 32] {
        use snow::resolvers::{CryptoResolver, DefaultResolver};
        let mut dh = DefaultResolver.resolve_dh(&snow::params::DHChoice::Curve25519).unwrap();
        dh.set(secret);
        dh.pubkey().try_into().unwrap()
    }

    fn open_pair() -> (Channel, Channel) {
        let ((alice, alice_key), (bob, bob_key)) = (identity(1, 0), identity(2, 0));
        let (mut first, mut second, mut none) = (Vec::new(), Vec::new(), Vec::new());
        let mut a = Channel::initiator(&alice, &bob_key, MAX, &mut first).unwrap();
        let mut b = Channel::responder(&bob, MAX).unwrap();
        assert_eq!((a.remote(), b.remote()), (None, None));
        b.read(&first, &mut none, &mut second).unwrap();
        a.read(&second, &mut none, &mut Vec::new()).unwrap();
        assert_eq!(a.remote(), Some(&bob_key));
        assert_eq!(b.remote(), Some(&alice_key));
        assert!(none.is_empty());
        (a, b)
    }

    fn plain(messages: &[&[u8]]) -> Vec<u8> {
        let mut plain = Vec::new();
        for message in messages {
            plain.extend_from_slice(&(message.len() as u32).to_le_bytes());
            plain.extend_from_slice(message);
        }
        plain
    }

    fn pass(a: &mut Channel, b: &mut Channel, messages: &[&[u8]]) -> Vec<Bytes> {
        let (mut wire, mut got) = (Vec::new(), Vec::new());
        a.write(&plain(messages), &mut wire).unwrap();
        b.read(&wire, &mut got, &mut Vec::new()).unwrap();
        got
    }

    #[test]
    fn messages_pass_both_ways() {
        let (mut a, mut b) = open_pair();
        assert_eq!(pass(&mut a, &mut b, &[b"ping", b""]), [&b"ping"[..], b""]);
        assert_eq!(pass(&mut b, &mut a, &[b"pong"]), [&b"pong"[..]]);
    }

    #[test]
    fn both_ends_name_a_channel_alike_and_no_other_one_so() {
        let (a, b) = open_pair();
        assert!(a.binding().is_some() && a.binding() == b.binding());
        assert_ne!(a.binding(), open_pair().0.binding());
        let (bob, bob_key) = identity(2, 0);
        let unopened = Channel::initiator(&bob, &bob_key, MAX, &mut Vec::new()).unwrap();
        assert_eq!(unopened.binding(), None);
    }

    #[test]
    fn an_end_goes_over_to_another_key_and_the_other_one_follows() {
        let (mut a, mut b) = open_pair();
        let (mut wire, mut got) = (Vec::new(), Vec::new());
        a.write(&plain(&[b"before"]), &mut wire).unwrap();
        a.rekey(&mut wire).unwrap();
        a.write(&plain(&[b"behind"]), &mut wire).unwrap();
        b.read(&wire, &mut got, &mut Vec::new()).unwrap();
        assert_eq!(got, [&b"before"[..], b"behind"]);
        assert_eq!(pass(&mut b, &mut a, &[b"back"]), [&b"back"[..]]);
        b.rekey(&mut Vec::new()).unwrap();
        wire.clear();
        b.write(&plain(&[b"lost"]), &mut wire).unwrap();
        let read = a.read(&wire, &mut got, &mut Vec::new());
        assert_eq!(read, Err(ChannelError::Decrypt), "it has not heard of the other key");
    }

    #[test]
    fn a_message_above_a_noise_message_is_cut_and_joined() {
        let (mut a, mut b) = open_pair();
        pass(&mut a, &mut b, &[b"hello"]);
        for length in [CHUNK_BYTES_MAX - 4, CHUNK_BYTES_MAX, 2 * CHUNK_BYTES_MAX - 4, MAX] {
            let large: Vec<u8> = (0..length).map(|i| (i % 251) as u8).collect();
            let got = pass(&mut a, &mut b, &[&large]);
            assert!(got.len() == 1 && got[0] == large, "{length} bytes");
        }
        let (mut wire, mut got) = (Vec::new(), Vec::new());
        a.write(&plain(&[&vec![0; MAX + 1]]), &mut wire).unwrap();
        assert_eq!(b.read(&wire, &mut got, &mut Vec::new()), Err(ChannelError::Oversize));
    }

    #[test]
    fn a_responder_takes_no_large_frame_before_a_small_one() {
        let (mut a, mut b) = open_pair();
        let (mut wire, mut got) = (Vec::new(), Vec::new());
        a.write(&plain(&[&vec![0; CHUNK_BYTES_MAX]]), &mut wire).unwrap();
        assert_eq!(b.read(&wire, &mut got, &mut Vec::new()), Err(ChannelError::Oversize));
        let (mut a, mut b) = open_pair();
        wire.clear();
        a.write(&plain(&[b"hello"]), &mut wire).unwrap();
        a.write(&plain(&[&vec![0; CHUNK_BYTES_MAX]]), &mut wire).unwrap();
        b.read(&wire, &mut got, &mut Vec::new()).unwrap();
        assert_eq!(got.len(), 2);
    }

    #[test]
    fn an_empty_frame_is_not_authentic() {
        let (mut a, mut b) = open_pair();
        let (mut wire, mut got) = (Vec::new(), Vec::new());
        a.write(&[], &mut wire).unwrap();
        assert!(wire.is_empty());
        assert_eq!(b.read(&[0; 4], &mut got, &mut Vec::new()), Err(ChannelError::Decrypt));
    }

    #[test]
    fn a_changed_repeated_or_reordered_frame_is_not_authentic() {
        for attack in 0..3 {
            let (mut a, mut b) = open_pair();
            let (mut one, mut two, mut got) = (Vec::new(), Vec::new(), Vec::new());
            a.write(&plain(&[b"one"]), &mut one).unwrap();
            a.write(&plain(&[b"two"]), &mut two).unwrap();
            let wire = match attack {
                0 => {
                    one[6] ^= 1;
                    one
                }
                1 => [one.clone(), one].concat(),
                _ => [two, one].concat(),
            };
            let refused = b.read(&wire, &mut got, &mut Vec::new());
            assert_eq!(refused, Err(ChannelError::Decrypt), "attack {attack}");
        }
    }

    #[test]
    fn a_frame_without_a_tag_is_not_authentic() {
        for length in [0, 1, TAG_BYTES as u32 - 1] {
            let (mut a, mut b) = open_pair();
            pass(&mut a, &mut b, &[b"hello"]);
            let wire = [length.to_le_bytes().to_vec(), vec![0; length as usize]].concat();
            let refused = b.read(&wire, &mut Vec::new(), &mut Vec::new());
            assert_eq!(refused, Err(ChannelError::Decrypt), "{length} bytes");
        }
    }

    #[test]
    fn another_group_key_or_protocol_never_opens() {
        let ((alice, _), (bob, bob_key)) = (identity(1, 0), identity(2, 0));
        let (stranger, stranger_key) = identity(3, 9);
        let attempts = [(&stranger, bob_key), (&alice, stranger_key)];
        for (from, to) in attempts {
            let (mut first, mut reply) = (Vec::new(), Vec::new());
            Channel::initiator(from, &to, MAX, &mut first).unwrap();
            let mut b = Channel::responder(&bob, MAX).unwrap();
            let refused = b.read(&first, &mut Vec::new(), &mut reply);
            assert_eq!(refused, Err(ChannelError::Handshake));
            assert!(reply.is_empty() && !b.is_open());
        }
        let mut b = Channel::responder(&bob, MAX).unwrap();
        let http = b.read(b"GET / HTTP/1.1\r\n\r\n", &mut Vec::new(), &mut Vec::new());
        assert_eq!(http, Err(ChannelError::Oversize));
    }

    #[test]
    fn nothing_can_be_written_before_the_channel_is_open() {
        let (bob, bob_key) = identity(2, 0);
        let mut a = Channel::initiator(&bob, &bob_key, MAX, &mut Vec::new()).unwrap();
        assert_eq!(a.write(b"", &mut Vec::new()), Err(ChannelError::Handshake));
    }
}
