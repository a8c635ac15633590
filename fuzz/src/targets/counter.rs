//! What a replica that has gone mad asks the process of its counter, in any of its mailboxes. Each
//! question has an answer that fits, and one encoding; and whatever came before, the device keeps
//! its promises: values ascend, none is given to two digests, and what is certified is genuine in
//! the epoch of its instance and in no other.

use super::wire::round_trip;
use crate::input::{Input, put_bytes};
use pentarchy_core::Bytes;
use pentarchy_core::counter::{Position, Refused, Ui};
use pentarchy_core::digest::{Digest, Domain, EpochId};
use pentarchy_core::ids::{ClientId, Epoch, GroupId, Incarnation, MemberId, View};
use pentarchy_core::wire::Wire;
use pentarchy_crypto::keys::GroupSecret;
use pentarchy_mailbox::BYTES_MAX;
use pentarchy_trusted::backend::process::question::{Answer, Device, Initialise, Question};
use pentarchy_trusted::backend::process::serve::Desk;
use pentarchy_trusted::trinx::{self, Ask, COUNTERS, Certificate, InstanceId, Kind, Value};
use pentarchy_trusted::usig;
use std::collections::{HashMap, HashSet};

const QUESTIONS_MAX: usize = 64;
const INSTANCES: u16 = 2;
const GROUP: GroupId = GroupId([5; 16]);
const ME: MemberId = MemberId(1);
const LIFE: Incarnation = Incarnation(7);
const FIRST: EpochId = EpochId { group: GROUP, configuration: Digest([6; 32]), epoch: Epoch(1) };

/// The process, and what it has said so far.
struct Process {
    desks: Vec<Desk>,
    instances: Vec<Told>,
    usig: ToldByUsig,
}

/// What a TrInX instance has said in its epoch.
#[derive(Default)]
struct Told {
    epoch: EpochId,
    stands: [Value; COUNTERS],
    /// What it may say again.
    said: HashSet<(Ask, Digest)>,
    /// For what each counter came to each value.
    moved: HashMap<(usize, Value), Digest>,
}

#[derive(Default)]
struct ToldByUsig {
    epoch: EpochId,
    last: Position,
    said: HashMap<Position, Digest>,
}

impl Process {
    fn new(device: Device) -> Self {
        let whose = Initialise { device, epoch: FIRST, member: ME, incarnation: LIFE };
        let told = || Told { epoch: FIRST, ..Told::default() };
        Self {
            desks: Desk::all(&GroupSecret::from_bytes([9; 32]), &whose),
            instances: (0..INSTANCES).map(|_| told()).collect(),
            usig: ToldByUsig { epoch: FIRST, ..ToldByUsig::default() },
        }
    }

    fn ask(&mut self, mailbox: usize, text: &[u8]) -> Answer {
        let answer = self.desks[mailbox].reply(text);
        assert!(answer.len() <= BYTES_MAX, "too long for a mailbox");
        let read = Answer::from_bytes(&answer).expect("the other side reads it");
        assert_eq!(read.to_bytes(), answer);
        read
    }

    /// Asks who only checks.
    fn is(&mut self, question: &Question) -> bool {
        self.ask(self.desks.len() - 1, &question.to_bytes()) == Answer::Is(true)
    }

    fn hear(&mut self, mailbox: usize, text: &Bytes) {
        round_trip::<Question>(text);
        let answer = self.ask(mailbox, text);
        let Ok(question) = Question::from_bytes(text) else {
            return assert_eq!(answer, Answer::Refused(Refused::Unavailable));
        };
        match (question, answer) {
            (Question::BeginEpoch(epoch), Answer::Done) => self.begin(mailbox, epoch),
            (Question::Certify(ask, digest), Answer::Certificate(said)) => {
                self.is_genuine(mailbox, &said, &digest);
                self.instances[mailbox].hear(&ask, &said, &digest);
            }
            (Question::Recall, Answer::Memory(memory)) => {
                let memory = memory.expect("one in a process remembers by itself");
                assert_eq!(memory.values, self.instances[mailbox].stands);
            }
            (Question::Restore(memory), Answer::Done) => self.instances[mailbox].restore(&memory),
            (Question::Create(position, digest), Answer::Ui(ui)) => {
                assert_eq!((ui.incarnation, ui.position), (LIFE, position));
                self.usig_is_genuine(&ui, &digest);
                self.usig.hear(position, digest);
            }
            (Question::RestoreUsig(memory), Answer::Done) => {
                assert!(self.usig.said.is_empty(), "forgets what it said");
                let said = memory.recent.iter().map(|it| (it.position, it.digest));
                (self.usig.last, self.usig.said) = (memory.last, said.collect());
            }
            (Question::Initialise(_), answer) => {
                assert_eq!(answer, Answer::Refused(Refused::Unavailable), "whose it is was said");
            }
            _ => {}
        }
    }

    fn begin(&mut self, mailbox: usize, epoch: EpochId) {
        // A process is a device of one kind, so only one of the two is asked again.
        let told = &mut self.instances[mailbox];
        assert!(epoch.epoch > told.epoch.epoch || epoch == told.epoch, "goes back");
        assert_eq!(epoch.group, GROUP);
        if epoch != told.epoch {
            *told = Told { epoch, ..Told::default() };
            if mailbox == 0 {
                self.usig = ToldByUsig { epoch, ..ToldByUsig::default() };
            }
        }
    }

    fn is_genuine(&mut self, mailbox: usize, said: &Certificate, digest: &Digest) {
        let by = |number| InstanceId { member: ME, number };
        let (number, epoch) = (mailbox as u16, self.instances[mailbox].epoch);
        let mut is = |epoch, number| {
            let context = trinx::context(&epoch);
            self.is(&Question::CheckTrinx(context, by(number), *said, *digest))
        };
        assert!(is(epoch, number) && !is(epoch, number ^ 1));
        assert!(others(epoch).into_iter().all(|other| !is(other, number)));
    }

    fn usig_is_genuine(&mut self, ui: &Ui, digest: &Digest) {
        let epoch = self.usig.epoch;
        let mut is = |epoch| {
            let context = usig::context(&Domain::new(&epoch));
            self.is(&Question::CheckUsig(context, ME, *ui, *digest))
        };
        assert!(is(epoch) && others(epoch).into_iter().all(|other| !is(other)));
    }
}

/// The epoch before or behind, and the same under another configuration.
fn others(epoch: EpochId) -> [EpochId; 2] {
    let mut changed = epoch;
    changed.configuration.0[0] ^= 1;
    [EpochId { epoch: Epoch(epoch.epoch.0 ^ 1), ..epoch }, changed]
}

impl Told {
    fn hear(&mut self, ask: &Ask, said: &Certificate, digest: &Digest) {
        let values = said.claim.readings.map(|it| Some(it?.value));
        let right = (LIFE, ask.kind, ask.values);
        assert_eq!((said.claim.incarnation, said.claim.kind, values), right);
        if !self.said.insert((*ask, *digest)) {
            return;
        }
        let readings = said.claim.readings.iter().enumerate();
        for (counter, reading) in readings.filter_map(|(at, it)| Some((at, (*it)?))) {
            let stood = self.stands[counter];
            assert!(reading.value >= stood, "falls");
            let continues = ask.kind == Kind::Continuing;
            assert_eq!(reading.previous, continues.then_some(stood));
            assert!(continues || reading.value > stood, "is used twice");
            self.come(counter, stood, reading.value, digest);
        }
    }

    fn come(&mut self, counter: usize, from: Value, to: Value, digest: &Digest) {
        if to > from {
            assert_eq!(self.moved.insert((counter, to), *digest), None, "is used twice");
            self.stands[counter] = to;
        }
    }

    fn restore(&mut self, memory: &trinx::Memory) {
        assert!(self.moved.is_empty(), "forgets what it said");
        for it in memory.recent.iter().flatten() {
            self.said.insert((it.ask, it.digest));
        }
        self.stands = memory.values;
    }
}

impl ToldByUsig {
    fn hear(&mut self, at: Position, digest: Digest) {
        let before = self.said.insert(at, digest);
        assert!(before.is_none_or(|before| before == digest), "is used twice");
        assert!(before.is_some() || at > self.last, "falls");
        self.last = self.last.max(at);
    }
}

pub fn run(input: &[u8]) {
    let mut input = Input::new(input);
    let device = if input.u8().is_multiple_of(2) { Device::Trinx(INSTANCES) } else { Device::Usig };
    let mut process = Process::new(device);
    for _ in 0..QUESTIONS_MAX {
        if input.is_empty() {
            break;
        }
        let mailbox = usize::from(input.u8()) % process.desks.len();
        let text = input.bytes();
        process.hear(mailbox, &Bytes::copy_from_slice(&text[..text.len().min(BYTES_MAX)]));
    }
}

fn order(value: u128) -> Ask {
    let mut values = [None; COUNTERS];
    values[0] = Some(Value(value));
    Ask { kind: Kind::Independent, values }
}

/// A conversation with each kind of device, in which every question is asked.
pub fn seeds() -> Vec<Vec<u8>> {
    let digest = |number: u8| Digest([number; 32]);
    let leave = Ask { kind: Kind::Continuing, ..order(1 << 64) };
    let mut asked = vec![
        (0, Question::Certify(order(2), digest(1))),
        (0, Question::Certify(leave, digest(2))),
        (1, Question::Certify(order(2), digest(3))),
        (0, Question::Recall),
        (0, Question::BeginEpoch(EpochId { epoch: Epoch(2), ..FIRST })),
        (1, Question::Certify(order(3), digest(3))),
    ];
    let mut device = Process::new(Device::Trinx(INSTANCES));
    for (mailbox, question) in &asked {
        device.ask(*mailbox, &question.to_bytes());
    }
    if let Answer::Memory(Some(memory)) = device.ask(1, &Question::Recall.to_bytes()) {
        let other = (1, Question::BeginEpoch(EpochId { epoch: Epoch(2), ..FIRST }));
        asked.extend([other, (1, Question::Restore(memory))]);
    }
    let again = Question::Certify(order(3), digest(3));
    if let Answer::Certificate(said) = device.ask(1, &again.to_bytes()) {
        let (context, by) = (trinx::context(&FIRST), InstanceId { member: ME, number: 1 });
        asked.push((1, again));
        asked.push((2, Question::CheckTrinx(context, by, said, digest(3))));
    }
    asked.push((3, Question::CheckTag(ClientId([1; 32]), digest(1), [0; 16])));
    asked.push((0, Question::SessionKey));

    let at = |index| Position::new(View(0), index);
    let create = Question::Create(at(3), digest(1));
    let mut of_usig = vec![(0, create.clone()), (0, Question::RecallUsig)];
    let mut device = Process::new(Device::Usig);
    if let Answer::Ui(ui) = device.ask(0, &create.to_bytes()) {
        let context = usig::context(&Domain::new(&FIRST));
        of_usig.push((1, Question::CheckUsig(context, ME, ui, digest(1))));
    }
    if let Answer::UsigMemory(memory) = device.ask(0, &Question::RecallUsig.to_bytes()) {
        of_usig.push((0, Question::BeginEpoch(EpochId { epoch: Epoch(2), ..FIRST })));
        of_usig.push((0, Question::RestoreUsig(memory)));
    }
    of_usig.extend([(0, create), (0, Question::Create(at(4), digest(2)))]);
    [(0, asked), (1, of_usig)].map(|(kind, asked)| conversation(kind, &asked)).to_vec()
}

fn conversation(kind: u8, asked: &[(usize, Question)]) -> Vec<u8> {
    let mut seed = vec![kind];
    for (mailbox, question) in asked {
        seed.push(*mailbox as u8);
        put_bytes(&question.to_bytes(), &mut seed);
    }
    seed
}
