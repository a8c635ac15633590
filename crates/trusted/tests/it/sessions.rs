//! The contract of a device that checks clients' tags, law by law, and devices with one bug each
//! that show what each law is for.

use crate::contract::Broken;
use crate::{EPOCH, REPLICAS, SECRET, by_mac, device_keys, membership};
use curve25519_dalek::constants::EIGHT_TORSION;
use curve25519_dalek::edwards::CompressedEdwardsY;
use curve25519_dalek::montgomery::MontgomeryPoint;
use hmac::{Hmac, KeyInit, Mac};
use pentarchy_core::counter::{Certificate, Position, Usig};
use pentarchy_core::digest::{Digest, Domain};
use pentarchy_core::ids::{ClientId, Epoch, GroupId, Incarnation, MemberId, View};
use pentarchy_core::membership::Membership;
use pentarchy_core::request::{Draft, Request, RequestAuth};
use pentarchy_crypto::keys::KeyPair;
use pentarchy_crypto::request_auth::{ClientSigner, request_statement};
use pentarchy_crypto::secret_file::to_hex;
use pentarchy_crypto::session::Tag;
use pentarchy_crypto::verifier::{SessionCheck, TaggedRequest};
use pentarchy_trusted::usig::{Claim, context_of, statement};
use pentarchy_trusted::{Check, CounterProcess, DeviceIdentity, InProcess, session};
use sha2::Sha256;
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

/// Makes the session check of a device of the group that has this secret and this name.
type Factory<'a> = &'a dyn Fn(&[u8; 32], GroupId) -> Box<dyn SessionCheck>;
type Verdict = Result<(), String>;
type Law = fn(Factory) -> Verdict;

const LAWS: [(&str, Law); 7] = [
    ("agreement", agreement),
    ("statement", statement_counts),
    ("client", client_counts),
    ("group", group_counts),
    ("batch", batch),
    ("low order", low_order),
    ("apart", apart),
];

fn contract(make: Factory) -> Result<(), Broken> {
    LAWS.iter().try_for_each(|(law, check)| check(make).map_err(|what| Broken(law, what)))
}

fn client(number: u8) -> KeyPair {
    KeyPair::from_seed([0x90 + number; 32])
}

fn of_group(name: u8) -> Domain {
    Domain::of_group(&GroupId([name; 16]))
}

const GROUP: u8 = 5;

/// What a client of a group says: the statement and its tag.
fn said(number: u8, what: u64, group: u8, secret: &[u8; 32]) -> (Digest, Tag) {
    let (keys, domain) = (client(number), of_group(group));
    let requests = vec![Request { number: what, operation: b"get".as_slice().into() }];
    let draft = Draft { client: keys.client_id(), floor: 1, events: None, requests };
    let signer = ClientSigner::session(keys, &session::public_key(secret), domain).unwrap();
    let envelope = signer.seal(draft);
    let RequestAuth::Session(tag) = envelope.auth else { panic!("no tag") };
    (request_statement(&domain, &envelope.digest), tag)
}

fn hold(condition: bool, what: &str) -> Verdict {
    if condition { Ok(()) } else { Err(what.to_owned()) }
}

fn takes(check: &dyn SessionCheck, client: &ClientId, statement: Digest, tag: &Tag) -> bool {
    check.check(&[TaggedRequest { client, statement, tag }])
}

/// All devices take what a client said, as often as they are asked and whatever came between.
fn agreement(make: Factory) -> Verdict {
    let (one, other) = (make(&SECRET, GroupId([GROUP; 16])), make(&SECRET, GroupId([GROUP; 16])));
    let id = client(1).client_id();
    for what in 1..4 {
        let (statement, tag) = said(1, what, GROUP, &SECRET);
        hold(!takes(&*one, &id, statement, &[0; 16]), "a tag of zeros is taken")?;
        for device in [&one, &other, &one] {
            hold(takes(&**device, &id, statement, &tag), "a client's own tag is refused")?;
        }
    }
    Ok(())
}

fn statement_counts(make: Factory) -> Verdict {
    let device = make(&SECRET, GroupId([GROUP; 16]));
    let id = client(1).client_id();
    let (statement, tag) = said(1, 1, GROUP, &SECRET);
    hold(takes(&*device, &id, statement, &tag), "a client's own tag is refused")?;
    let (other, _) = said(1, 2, GROUP, &SECRET);
    hold(!takes(&*device, &id, other, &tag), "a tag is taken for another statement")?;
    for bit in 0..128 {
        let mut changed = tag;
        changed[bit / 8] ^= 1 << (bit % 8);
        hold(!takes(&*device, &id, statement, &changed), "a changed tag is taken")?;
    }
    hold(takes(&*device, &id, statement, &tag), "a tag is refused after false ones")
}

fn client_counts(make: Factory) -> Verdict {
    let device = make(&SECRET, GroupId([GROUP; 16]));
    let (statement, tag) = said(1, 1, GROUP, &SECRET);
    let key = client(2).client_id();
    hold(!takes(&*device, &key, statement, &tag), "a tag is taken for another client's")?;
    // Both names are points of which one knows the discrete logarithm, up to the torsion.
    let own = CompressedEdwardsY(client(1).public()).decompress().unwrap();
    for torsion in &EIGHT_TORSION[1..] {
        let name = ClientId((own + torsion).compress().0);
        hold(!takes(&*device, &name, statement, &tag), "a tag is taken under a name beside")?;
    }
    Ok(())
}

fn group_counts(make: Factory) -> Verdict {
    let device = make(&SECRET, GroupId([GROUP; 16]));
    let id = client(1).client_id();
    for (group, secret) in [(6, SECRET), (GROUP, [8; 32])] {
        let (statement, tag) = said(1, 1, group, &secret);
        hold(!takes(&*device, &id, statement, &tag), "what was said elsewhere is taken")?;
    }
    Ok(())
}

/// Together they are right exactly if each is.
fn batch(make: Factory) -> Verdict {
    let device = make(&SECRET, GroupId([GROUP; 16]));
    let ids = [1, 2, 3].map(|number| client(number).client_id());
    let mut all = [1, 2, 3].map(|number| said(number, 7, GROUP, &SECRET));
    let check = |all: &[(Digest, Tag)]| {
        let requests = ids.iter().zip(all).map(|(client, said)| {
            let (statement, tag) = (said.0, &said.1);
            TaggedRequest { client, statement, tag }
        });
        device.check(&requests.collect::<Vec<_>>())
    };
    hold(check(&all) && device.check(&[]), "a batch of right ones is refused")?;
    for bad in 0..3 {
        all[bad].1[5] ^= 1;
        hold(!check(&all), "a batch with a false one is taken")?;
        all[bad].1[5] ^= 1;
    }
    Ok(())
}

/// For a name of low order the shared point would be zero, and the key what anybody can compute.
fn low_order(make: Factory) -> Verdict {
    let device = make(&SECRET, GroupId([GROUP; 16]));
    let statement = Digest([3; 32]);
    for point in EIGHT_TORSION {
        let name = ClientId(point.compress().0);
        let key = derive(&[0; 32], &of_group(GROUP), &name, &session::public_key(&SECRET));
        let tag = piece(blake3::keyed_hash(&key, &statement.0).as_bytes());
        hold(!takes(&*device, &name, statement, &tag), "a tag that anybody can make is taken")?;
    }
    Ok(())
}

/// Nothing that the counter gives away is a tag.
fn apart(make: Factory) -> Verdict {
    let device = make(&SECRET, GroupId([GROUP; 16]));
    let identity = DeviceIdentity::chosen(Incarnation(1), None);
    let mut counter = InProcess::mac(&SECRET, &by_mac(), MemberId(0), identity).unwrap();
    for what in 3..6 {
        let (statement, _) = said(1, what, GROUP, &SECRET);
        let ui = counter.create(Position::new(View(0), what), &statement).unwrap();
        let Certificate::Mac(seal) = ui.certificate else { panic!("a MAC device") };
        for tag in [piece(&seal), piece(&seal[16..])] {
            let taken = takes(&*device, &client(1).client_id(), statement, &tag);
            hold(!taken, "a certificate is taken for a tag")?;
        }
    }
    Ok(())
}

fn piece(bytes: &[u8]) -> Tag {
    *bytes.first_chunk().unwrap()
}

/// The derivation once more, from the documentation.
fn derive(shared: &[u8; 32], group: &Domain, client: &ClientId, devices: &[u8; 32]) -> [u8; 32] {
    let binding = group.statement("session").bytes(&client.0).bytes(devices).finish();
    blake3::derive_key("pentarchy 1 session key", &[*shared, binding.0].concat())
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Bug {
    None,
    /// Believes everything.
    Gullible,
    /// Believes a client that was right once.
    RemembersClients,
    /// Refuses a client that was wrong once.
    RemembersWrongs,
    /// Looks at half of the tag.
    Half,
    /// Leaves the client out of the key: a group has one.
    OneKeyForAll,
    /// Leaves the client's name out, so that the point alone counts.
    PointOnly,
    /// Leaves the group out of the key.
    NoGroup,
    /// Is content with one right tag of many.
    AnyOfBatch,
    /// Takes points of low order.
    LowOrder,
    /// Seals with the counter's key, as the counter does.
    AsCertificate,
}

/// The reference once more, written independently and with a place for each bug.
struct Mutant {
    bug: Bug,
    secret: [u8; 32],
    group: Domain,
    met: Mutex<(BTreeSet<ClientId>, BTreeSet<ClientId>)>,
}

impl Mutant {
    fn new(bug: Bug, secret: &[u8; 32], group: GroupId) -> Self {
        let group = Domain::of_group(&group);
        Self { bug, secret: *secret, group, met: Mutex::default() }
    }

    fn tags(&self, client: &ClientId, statement: &Digest) -> Vec<Tag> {
        let Some(point) = CompressedEdwardsY(client.0).decompress() else { return Vec::new() };
        let mut mac = Hmac::<Sha256>::new_from_slice(&self.secret).unwrap();
        mac.update(b"pentarchy sess 1");
        let secret: [u8; 32] = mac.finalize().into_bytes().into();
        let devices = MontgomeryPoint::mul_base_clamped(secret).to_bytes();
        let shared = point.to_montgomery().mul_clamped(secret).to_bytes();
        if shared == [0; 32] && self.bug != Bug::LowOrder {
            return Vec::new();
        }
        let key = match self.bug {
            Bug::PointOnly => {
                let names = EIGHT_TORSION.map(|torsion| ClientId((point + torsion).compress().0));
                let key = |name| derive(&shared, &self.group, &name, &devices);
                return names.map(|name| keyed(&key(name), statement)).to_vec();
            }
            Bug::OneKeyForAll => {
                let all = [1, 2, 3].map(|number| client_key(number, &secret, &self.group));
                return all.map(|key| keyed(&key, statement)).to_vec();
            }
            Bug::NoGroup => {
                let groups = [GROUP, 6].map(of_group);
                let key = |group| derive(&shared, &group, client, &devices);
                return groups.map(|group| keyed(&key(group), statement)).to_vec();
            }
            _ => derive(&shared, &self.group, client, &devices),
        };
        let mut tags = vec![keyed(&key, statement)];
        if self.bug == Bug::AsCertificate {
            tags.extend((3..6).map(|index| self.certificate(index, statement)));
        }
        tags
    }

    fn certificate(&self, index: u64, digest: &Digest) -> Tag {
        let at = |index| Position::new(View(0), index);
        let (position, committed) = (at(index), at(index - 1));
        let claim = Claim { incarnation: Incarnation(1), position, committed };
        let context = context_of(&EPOCH);
        let mut mac = Hmac::<Sha256>::new_from_slice(&self.secret).unwrap();
        mac.update(&statement(&context, MemberId(0), &claim, digest));
        piece(&mac.finalize().into_bytes())
    }

    fn is_right(&self, request: &TaggedRequest<'_>) -> bool {
        let TaggedRequest { client, statement, tag } = request;
        let length = if self.bug == Bug::Half { 8 } else { 16 };
        let tags = self.tags(client, statement);
        let right = tags.iter().any(|it| it[..length] == tag[..length]);
        let mut met = self.met.lock().unwrap();
        let known = if right { &mut met.0 } else { &mut met.1 };
        known.insert(**client);
        match self.bug {
            Bug::Gullible => true,
            Bug::RemembersClients => met.0.contains(client),
            Bug::RemembersWrongs => !met.1.contains(client),
            _ => right,
        }
    }
}

fn client_key(number: u8, secret: &[u8; 32], group: &Domain) -> [u8; 32] {
    let name = client(number).client_id();
    let point = CompressedEdwardsY(name.0).decompress().unwrap().to_montgomery();
    let devices = MontgomeryPoint::mul_base_clamped(*secret).to_bytes();
    derive(&point.mul_clamped(*secret).to_bytes(), group, &name, &devices)
}

fn keyed(key: &[u8; 32], statement: &Digest) -> Tag {
    piece(blake3::keyed_hash(key, &statement.0).as_bytes())
}

impl SessionCheck for Mutant {
    fn check(&self, requests: &[TaggedRequest<'_>]) -> bool {
        let mut verdicts = requests.iter().map(|request| self.is_right(request));
        if self.bug == Bug::AnyOfBatch {
            return requests.is_empty() || verdicts.any(|right| right);
        }
        verdicts.all(|right| right)
    }
}

#[test]
fn the_device_keeps_the_contract() {
    let make = |secret: &[u8; 32], group| -> Box<dyn SessionCheck> {
        let members = Membership { group, ..membership(&[[0; 32]; REPLICAS as usize]) };
        Box::new(Check::mac(secret, &members).sessions(&members).unwrap())
    };
    contract(&make).unwrap_or_else(|broken| panic!("{broken}"));
}

#[test]
fn a_device_in_a_process_keeps_the_contract() {
    let make = |secret: &[u8; 32], group| -> Box<dyn SessionCheck> {
        Box::new(Apart(crate::process::with_secret(*secret, group)))
    };
    contract(&make).unwrap_or_else(|broken| panic!("{broken}"));
}

/// Shared by whoever checks.
struct Apart(Arc<CounterProcess>);

impl SessionCheck for Apart {
    fn check(&self, requests: &[TaggedRequest<'_>]) -> bool {
        SessionCheck::check(&*self.0, requests)
    }
}

#[test]
fn every_bug_is_found_by_the_law_that_is_there_for_it() {
    let expected = [
        (Bug::None, None),
        (Bug::Gullible, Some("agreement")),
        (Bug::RemembersClients, Some("agreement")),
        (Bug::RemembersWrongs, Some("agreement")),
        (Bug::Half, Some("statement")),
        (Bug::OneKeyForAll, Some("client")),
        (Bug::PointOnly, Some("client")),
        (Bug::NoGroup, Some("group")),
        (Bug::AnyOfBatch, Some("batch")),
        (Bug::LowOrder, Some("low order")),
        (Bug::AsCertificate, Some("apart")),
    ];
    for (bug, law) in expected {
        let make = |secret: &[u8; 32], group| -> Box<dyn SessionCheck> {
            Box::new(Mutant::new(bug, secret, group))
        };
        let broken = contract(&make).err();
        let text = broken.as_ref().map(ToString::to_string);
        assert_eq!(broken.map(|broken| broken.0), law, "{bug:?}: {text:?}");
    }
}

#[test]
fn every_life_and_epoch_gives_the_same_answer() {
    let first = membership(&[[0; 32]; REPLICAS as usize]);
    let (statement, tag) = said(1, 1, GROUP, &SECRET);
    for (epoch, life) in [(1, 100), (1, 101), (9, 7)] {
        let members = Membership { epoch: Epoch(epoch), ..first.clone() };
        let identity = DeviceIdentity::chosen(Incarnation(life), None);
        let device = InProcess::open(&members, MemberId(0), identity, Some(&SECRET)).unwrap();
        let sessions = device.check().for_epoch(&members).sessions(&members).unwrap();
        assert_eq!(sessions.public_key(), session::public_key(&SECRET));
        assert!(takes(&sessions, &client(1).client_id(), statement, &tag));
    }
}

#[test]
fn devices_with_keys_of_their_own_have_no_sessions() {
    let members = membership(&device_keys());
    assert!(Check::signature(&members).unwrap().sessions(&members).is_none());
}

/// The answers were computed in Python from the documentation, with its `hmac`, `blake3` and an
/// X25519 of its own.
#[test]
fn tags_are_what_they_always_were() {
    assert_eq!(*to_hex(&session::public_key(&SECRET)), PUBLIC);
    let keys = KeyPair::from_seed([0x91; 32]);
    let group = of_group(GROUP);
    let key = pentarchy_crypto::session::SessionKey::of_client(
        &keys,
        &group,
        &session::public_key(&SECRET),
    );
    assert_eq!(*to_hex(&key.unwrap().tag(&Digest([3; 32]))), TAG);
}

const PUBLIC: &str = "01ec02f574df19f418496366c5fd87509c61544c1ea91c52f7089b48b3c87a1a";
const TAG: &str = "640f1ab6d5250f23484280d3276eb1aa";
