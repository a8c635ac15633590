//! The device in a process of its own: the contracts, a process that dies, hangs or lies, and what
//! the process has given up.

use crate::trinx_contract::{LIFE, ME, MINE, ask, digest};
use crate::{
    EPOCH, REPLICAS, SECRET, by_mac, contract, in_epoch, member, membership, trinx_contract,
};
use pentarchy_core::Bytes;
use pentarchy_core::counter::{Certificate, Instance, Position, Refused, Ui, Usig};
use pentarchy_core::digest::{Digest, EpochId};
use pentarchy_core::ids::{ClientId, Epoch, GroupId, Incarnation, MemberId, ReplicaId, View};
use pentarchy_core::membership::Membership;
use pentarchy_core::wire::Wire as _;
use pentarchy_crypto::keys::GroupSecret;
use pentarchy_crypto::verifier::{SessionCheck as _, TaggedRequest, UsigCheck as _};
use pentarchy_mailbox::{Answerer, Asker, BYTES_MAX, Memory};
use pentarchy_trusted::backend::Trinx;
use pentarchy_trusted::backend::process::question::{Answer, Device, Question};
use pentarchy_trusted::backend::process::serve::Desk;
use pentarchy_trusted::backend::process::{BadProcess, TrinxProcess, UsigProcess, words};
use pentarchy_trusted::trinx::{self, COUNTERS, Claim, InstanceId, Kind, Reading, Value};
use pentarchy_trusted::{
    CounterProcess, DeviceIdentity, InProcess, OrderCheck, OrderCounter, TrinxInProcess, session,
};
use rustix::process::{Pid, Signal, kill_process};
use std::process::Command;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

/// A file with a group's secret.
fn secret_file(folder: &tempfile::TempDir, secret: [u8; 32]) -> std::path::PathBuf {
    let path = folder.path().join("group-secret");
    GroupSecret::from_bytes(secret).save(&path).unwrap();
    path
}

fn program(secret: &std::path::Path) -> Command {
    let mut program = Command::new(env!("CARGO_BIN_EXE_pentarchy-counter"));
    program.arg(secret);
    program
}

/// A device of a group with this secret.
pub fn with_secret(secret: [u8; 32], group: GroupId) -> Arc<CounterProcess> {
    let folder = tempfile::tempdir().unwrap();
    let (program, identity) = (program(&secret_file(&folder, secret)), identity(LIFE));
    let epoch = EpochId { group, ..EpochId::default() };
    CounterProcess::start(program, Device::Usig, epoch, ME, &identity).unwrap()
}

fn identity(life: Incarnation) -> DeviceIdentity {
    DeviceIdentity::chosen(life, None)
}

/// The device of a member.
pub fn start(device: Device, member: MemberId, life: Incarnation) -> Arc<CounterProcess> {
    start_in(device, EPOCH, member, life)
}

fn start_in(
    device: Device,
    epoch: EpochId,
    member: MemberId,
    life: Incarnation,
) -> Arc<CounterProcess> {
    let folder = tempfile::tempdir().unwrap();
    let program = program(&secret_file(&folder, SECRET));
    CounterProcess::start(program, device, epoch, member, &identity(life)).unwrap()
}

fn trinx(member: MemberId, life: Incarnation) -> TrinxProcess {
    TrinxProcess::new(start(Device::Trinx(2), member, life))
}

#[test]
fn instances_in_a_process_keep_the_contract() {
    let make = |member, life| -> Box<dyn Trinx> { Box::new(trinx(member, life)) };
    trinx_contract::contract(&make).unwrap_or_else(|broken| panic!("{broken}"));
}

#[test]
fn a_usig_in_a_process_keeps_the_contract() {
    let make = |group: &Membership, replica, life| -> Box<dyn Usig> {
        let process = start_in(Device::Usig, group.epoch_id(), member(replica), life);
        Box::new(UsigProcess::new(process, group))
    };
    contract::contract(&make, &membership(&[[0; 32]; REPLICAS as usize]))
        .unwrap_or_else(|broken| panic!("{broken}"));
}

/// A device of any kind with two instances, behind mailboxes that threads of this process serve.
pub fn behind_mailboxes(device: impl Trinx + 'static) -> TrinxProcess {
    let life = device.incarnation();
    let (memory, file) = Memory::create(words(2)).unwrap();
    let theirs = Arc::new(Memory::open(file).unwrap());
    let device = Shared(Arc::new(Mutex::new(device)));
    for number in 0..2 {
        let mailbox = Answerer::new(theirs.clone(), usize::from(number)).unwrap();
        let desk = Desk::over(Box::new(device.clone()), number);
        thread::spawn(move || desk.serve(mailbox));
    }
    let limit = Duration::from_secs(20);
    TrinxProcess::new(Arc::new(CounterProcess::over(memory, None, (2, life), limit)))
}

/// One device for several threads.
struct Shared<D>(Arc<Mutex<D>>);

impl<D> Clone for Shared<D> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<D: Trinx> Trinx for Shared<D> {
    fn incarnation(&self) -> Incarnation {
        self.0.lock().unwrap().incarnation()
    }
    fn instances(&self) -> u16 {
        self.0.lock().unwrap().instances()
    }
    fn begin_epoch(&mut self, instance: u16, epoch: &EpochId) -> Result<(), Refused> {
        self.0.lock().unwrap().begin_epoch(instance, epoch)
    }
    fn certify(
        &mut self,
        instance: u16,
        ask: &trinx::Ask,
        digest: &Digest,
    ) -> Result<trinx::Certificate, Refused> {
        self.0.lock().unwrap().certify(instance, ask, digest)
    }
    fn memory(&self, instance: u16) -> Option<trinx::Memory> {
        self.0.lock().unwrap().memory(instance)
    }
    fn restore(&mut self, instance: u16, memory: &trinx::Memory) -> Result<(), Refused> {
        self.0.lock().unwrap().restore(instance, memory)
    }
    fn verify(
        &self,
        context: &Digest,
        by: InstanceId,
        certificate: &trinx::Certificate,
        digest: &Digest,
    ) -> bool {
        self.0.lock().unwrap().verify(context, by, certificate, digest)
    }
}

fn order(index: u128) -> trinx::Ask {
    ask(Kind::Independent, &[(0, index)])
}

#[test]
fn a_process_that_ends_is_unavailable_for_good() {
    let process = start(Device::Trinx(1), ME, LIFE);
    let mut device = TrinxProcess::new(process.clone());
    let certificate = device.certify(0, &order(1), &digest(1)).unwrap();
    let by = InstanceId { member: ME, number: 0 };
    let context = trinx::context(&EPOCH);
    assert!(device.verify(&context, by, &certificate, &digest(1)) && process.is_well());
    kill_process(pid(&process), Signal::KILL).unwrap();
    let begun = Instant::now();
    assert_eq!(device.certify(0, &order(2), &digest(2)), Err(Refused::Unavailable));
    assert!(begun.elapsed() < Duration::from_secs(4), "waits for nobody");
    assert_eq!(device.certify(0, &order(1), &digest(1)), Err(Refused::Unavailable));
    assert!(!device.verify(&context, by, &certificate, &digest(1)) && !process.is_well());
    assert_eq!(device.memory(0), None);
}

fn pid(process: &CounterProcess) -> Pid {
    Pid::from_raw(process.id().unwrap() as i32).unwrap()
}

/// Stops a process, and waits until each of its threads has: one at work may answer before.
fn stop(pid: Pid) {
    kill_process(pid, Signal::STOP).unwrap();
    let tasks = format!("/proc/{}/task", pid.as_raw_nonzero());
    let is_stopped = |task: std::io::Result<std::fs::DirEntry>| {
        let stat = std::fs::read_to_string(task.unwrap().path().join("stat")).unwrap();
        // Behind the name, which may hold anything.
        stat.rsplit_once(") ").unwrap().1.starts_with('T')
    };
    while !std::fs::read_dir(&tasks).unwrap().all(is_stopped) {
        thread::yield_now();
    }
}

/// Its end is seen also by who asks nothing of it.
#[test]
fn an_end_is_noticed_without_a_question() {
    let process = start(Device::Usig, ME, LIFE);
    assert!(process.is_well());
    kill_process(pid(&process), Signal::KILL).unwrap();
    let begun = Instant::now();
    while process.is_well() {
        assert!(begun.elapsed() < Duration::from_secs(10));
        thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn a_process_that_hangs_is_unavailable_in_time() {
    let process = start(Device::Trinx(1), ME, LIFE);
    let mut device = TrinxProcess::new(process.clone());
    stop(pid(&process));
    let begun = Instant::now();
    assert_eq!(device.certify(0, &order(1), &digest(1)), Err(Refused::Unavailable));
    let took = begun.elapsed();
    assert!(took >= Duration::from_secs(4) && took < Duration::from_secs(30), "{took:?}");
    assert!(!process.is_well());
}

/// What a liar says to the second question, which is to certify at 5. The first is answered well.
fn lie(answer: Vec<u8>) -> Result<trinx::Certificate, Refused> {
    let (memory, file) = Memory::create(words(2)).unwrap();
    let theirs = Arc::new(Memory::open(file).unwrap());
    thread::spawn(move || {
        let mut mailbox = Answerer::new(theirs, 0).unwrap();
        let mut text = [0; BYTES_MAX];
        while mailbox.next(&mut text).is_ok() {
            mailbox.answer(&answer);
        }
    });
    let limit = Duration::from_secs(20);
    let process = Arc::new(CounterProcess::over(memory, None, (2, LIFE), limit));
    let mut device = TrinxProcess::new(process.clone());
    let said = device.certify(0, &ask(Kind::Continuing, &[(0, 5)]), &digest(1));
    if said.is_err() {
        assert!(!process.is_well(), "a lie is the last word");
        assert_eq!(device.certify(1, &order(1), &digest(1)), Err(Refused::Unavailable));
    }
    said
}

#[test]
fn a_process_that_lies_is_unavailable() {
    let reading = Some(Reading { value: Value(5), previous: Some(Value(3)) });
    let readings = [reading, None, None, None];
    let claim = Claim { incarnation: LIFE, kind: Kind::Continuing, readings };
    let certificate = |claim| Answer::Certificate(trinx::Certificate { claim, seal: [0; 32] });
    let honest = certificate(claim);
    assert!(lie(honest.to_bytes().to_vec()).is_ok(), "the seal is for devices to check");
    let with = |reading: Option<Reading>, other| {
        certificate(Claim { readings: [reading, other, None, None], ..claim })
    };
    let previous = |previous| Some(Reading { value: Value(5), previous });
    let lies = [
        Answer::Done,
        Answer::Is(true),
        Answer::Key([1; 32]),
        Answer::Memory(None),
        certificate(Claim { incarnation: Incarnation(1), ..claim }),
        certificate(Claim { kind: Kind::Independent, ..claim }),
        certificate(Claim { readings: [None; COUNTERS], ..claim }),
        with(reading, reading),
        with(previous(None), None),
        with(previous(Some(Value(6))), None),
        with(Some(Reading { value: Value(6), previous: Some(Value(3)) }), None),
    ];
    for answer in lies {
        assert_eq!(lie(answer.to_bytes().to_vec()), Err(Refused::Unavailable), "{answer:?}");
    }
    let mut long = honest.to_bytes().to_vec();
    long.push(0);
    for bytes in [vec![], vec![0xff; BYTES_MAX], long] {
        assert_eq!(lie(bytes), Err(Refused::Unavailable));
    }
}

/// Numbers as from a small generator.
fn random(state: &mut u64) -> u64 {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    *state
}

fn asked(mailbox: &mut Asker, question: &[u8]) -> Answer {
    let mut text = [0; BYTES_MAX];
    let limit = Duration::from_secs(20);
    let answer = mailbox.ask(question, &mut text, limit, || true).unwrap();
    Answer::from_bytes(&Bytes::copy_from_slice(answer)).unwrap()
}

/// A replica that has gone mad can say what it likes: the device goes on, and keeps its promises.
#[test]
fn no_question_brings_a_device_down() {
    let (memory, file) = Memory::create(words(2)).unwrap();
    let theirs = Arc::new(Memory::open(file).unwrap());
    let identity = identity(LIFE);
    let device = TrinxInProcess::initialise(&SECRET, EPOCH, ME, &identity, 2).unwrap();
    let desk = Desk::over(Box::new(device), 0);
    let server = thread::spawn(move || desk.serve(Answerer::new(theirs, 0).unwrap()));
    let mut mailbox = Asker::new(Arc::new(memory), 0).unwrap();
    let certify = Question::Certify(order(7), digest(1)).to_bytes();
    let certificate = asked(&mut mailbox, &certify);
    let unavailable = Answer::Refused(Refused::Unavailable);
    let mut state = 88_172_645_463_325_252;
    for round in 0..4_000 {
        let mut bytes = certify.to_vec();
        match round % 3 {
            // One bit of a good question.
            0 => {
                let bit = random(&mut state) as usize % (8 * bytes.len());
                bytes[bit / 8] ^= 1 << (bit % 8);
            }
            1 => bytes.truncate(random(&mut state) as usize % bytes.len()),
            _ => {
                bytes.resize(random(&mut state) as usize % BYTES_MAX, 0);
                bytes.iter_mut().for_each(|byte| *byte = random(&mut state) as u8);
            }
        }
        let answer = asked(&mut mailbox, &bytes);
        let known = Question::from_bytes(&Bytes::from(bytes)).is_ok();
        assert!(known || answer == unavailable, "{answer:?}");
    }
    // Whose it is was said, and is not said again.
    let again = Question::from_bytes(&whose());
    assert_eq!(asked(&mut mailbox, &again.unwrap().to_bytes()), unavailable);
    assert_ne!(
        asked(&mut mailbox, &Question::Certify(order(7), digest(2)).to_bytes()),
        certificate
    );
    assert!(matches!(certificate, Answer::Certificate(_)));
    drop(mailbox);
    server.join().unwrap();
}

fn whose() -> Bytes {
    use pentarchy_trusted::backend::process::question::Initialise;
    let device = Device::Trinx(2);
    let whose = Initialise { device, epoch: EPOCH, member: ME, incarnation: LIFE };
    Question::Initialise(whose).to_bytes()
}

/// The longest there are still fit.
#[test]
fn questions_and_answers_come_back_as_they_were_and_fit() {
    let digest = digest(1);
    let asks = trinx::Ask { kind: Kind::Continuing, values: [Some(Value(u128::MAX)); COUNTERS] };
    let before = [Value(u128::MAX); COUNTERS];
    let it = trinx::Certified { ask: asks, before, digest };
    let memory = trinx::Memory { values: before, recent: [Some(it); 8] };
    let reading = Some(Reading { value: Value(9), previous: Some(Value(8)) });
    let claim = Claim { incarnation: LIFE, kind: Kind::Continuing, readings: [reading; COUNTERS] };
    let certificate = trinx::Certificate { claim, seal: [3; 32] };
    let by = InstanceId { member: ME, number: 1 };
    let position = Position::new(View(7), u64::MAX);
    let ui = Ui {
        incarnation: LIFE,
        instance: Instance(Instance::MAX),
        position,
        committed: position,
        certificate: Certificate::Signature([4; 64]),
    };
    let statement = pentarchy_core::counter::Statement { position, committed: position, digest };
    let recent = vec![statement; 8];
    let usig = pentarchy_core::counter::Memory { last: position, committed: position, recent };
    let questions = [
        Question::from_bytes(&whose()).unwrap(),
        Question::BeginEpoch(EPOCH),
        Question::Certify(asks, digest),
        Question::Recall,
        Question::Restore(Box::new(memory)),
        Question::Create(position, digest),
        Question::RecallUsig,
        Question::RestoreUsig(usig.clone()),
        Question::CheckTrinx(digest, by, certificate, digest),
        Question::CheckUsig(digest, ME, ui, digest),
        Question::CheckTag(ClientId([5; 32]), digest, [6; 16]),
        Question::SessionKey,
        Question::Become(Device::Trinx(2), EPOCH),
    ];
    for question in questions {
        let bytes = question.to_bytes();
        assert!(bytes.len() <= BYTES_MAX, "{question:?}: {}", bytes.len());
        assert_eq!(Question::from_bytes(&bytes), Ok(question));
    }
    let answers = [
        Answer::Done,
        Answer::Refused(Refused::Spent),
        Answer::Refused(Refused::Unavailable),
        Answer::Is(false),
        Answer::Is(true),
        Answer::Certificate(certificate),
        Answer::Memory(Some(Box::new(memory))),
        Answer::Memory(None),
        Answer::Ui(ui),
        Answer::UsigMemory(usig),
        Answer::Key([7; 32]),
    ];
    for answer in answers {
        let bytes = answer.to_bytes();
        assert!(bytes.len() <= BYTES_MAX, "{answer:?}: {}", bytes.len());
        assert_eq!(Answer::from_bytes(&bytes), Ok(answer));
    }
}

/// Devices in processes and devices in this one are of the same group.
#[test]
fn checks_agree_with_a_device_in_this_process() {
    let group = membership(&[[0; 32]; REPLICAS as usize]);
    let (mut apart, process) = {
        let process = start(Device::Usig, ME, LIFE);
        (UsigProcess::new(process.clone(), &group), process)
    };
    let identity = identity(LIFE);
    let mut here = InProcess::mac(&SECRET, &by_mac(), MemberId(0), identity).unwrap();
    let at = Position::new(View(0), 3);
    let theirs = apart.create(at, &digest(1)).unwrap();
    let ours = here.create(at, &digest(1)).unwrap();
    assert!(here.verify(MINE, &theirs, &digest(1)) && !here.verify(MINE, &theirs, &digest(2)));
    assert!(
        apart.verify(ReplicaId(0), &ours, &digest(1)) && !apart.verify(MINE, &ours, &digest(1))
    );
    assert_eq!(process.session_key(), Ok(session::public_key(&SECRET)));
    let request = TaggedRequest { client: &ClientId([1; 32]), statement: digest(1), tag: &[0; 16] };
    assert!(!process.check(&[request]) && process.check(&[]) && process.is_well());
}

/// What `/proc` says of a process, none if it says nothing to us.
fn proc(process: &CounterProcess, name: &str) -> Option<String> {
    std::fs::read_to_string(format!("/proc/{}/{name}", process.id().unwrap())).ok()
}

#[test]
fn the_process_has_given_up_what_it_does_not_need() {
    let process = start(Device::Trinx(1), ME, LIFE);
    TrinxProcess::new(process.clone()).certify(0, &order(1), &digest(1)).unwrap();
    let begun = Instant::now();
    // The process closes its files after the first answer.
    let limits = loop {
        let limits = proc(&process, "limits").unwrap();
        if limits.lines().any(|line| line.starts_with("Max open files") && is_zero(line)) {
            break limits;
        }
        assert!(begun.elapsed() < Duration::from_secs(10), "{limits}");
        thread::sleep(Duration::from_millis(5));
    };
    for name in ["Max core file size", "Max file size"] {
        assert!(limits.lines().any(|line| line.starts_with(name) && is_zero(line)), "{limits}");
    }
    assert!(proc(&process, "status").unwrap().contains("NoNewPrivs:\t1"));
    // What is not dumpable belongs to root in `/proc`, whoever's process it is.
    use std::os::unix::fs::MetadataExt as _;
    let mem = std::fs::metadata(format!("/proc/{}/mem", process.id().unwrap())).unwrap();
    assert_eq!(mem.uid(), 0);
}

fn is_zero(line: &str) -> bool {
    line.split_whitespace().filter(|word| *word == "0").count() == 2
}

#[test]
fn what_cannot_be_a_device_is_not_started() {
    let folder = tempfile::tempdir().unwrap();
    let secret = secret_file(&folder, SECRET);
    let start = |program, identity: &DeviceIdentity| {
        CounterProcess::start(program, Device::Usig, EPOCH, ME, identity).err()
    };
    let signing = crate::signing(MINE, LIFE);
    assert!(matches!(start(program(&secret), &signing), Some(BadProcess::OwnKey)));
    let identity = identity(LIFE);
    let missing = program(&folder.path().join("missing"));
    assert!(matches!(start(missing, &identity), Some(BadProcess::Silent)));
    let missing = Command::new(folder.path().join("no-program"));
    assert!(matches!(start(missing, &identity), Some(BadProcess::System(_))));
    // Nor by hand.
    let mut by_hand = program(&secret);
    let ended = by_hand.stdin(std::process::Stdio::null()).output().unwrap();
    assert!(!ended.status.success() && !ended.stderr.is_empty());
}

/// However the replica ends.
#[test]
fn the_process_ends_with_the_pipe() {
    let folder = tempfile::tempdir().unwrap();
    let (memory, file) = Memory::create(words(1)).unwrap();
    let mut program = program(&secret_file(&folder, SECRET));
    let mut child = program.stdin(std::process::Stdio::piped()).stdout(file).spawn().unwrap();
    let mut mailbox = Asker::new(Arc::new(memory), 0).unwrap();
    let whose = Question::from_bytes(&whose()).unwrap();
    let Question::Initialise(whose) = whose else { unreachable!("it is the first question") };
    let whose =
        pentarchy_trusted::backend::process::question::Initialise { device: Device::Usig, ..whose };
    assert_eq!(asked(&mut mailbox, &Question::Initialise(whose).to_bytes()), Answer::Done);
    drop(child.stdin.take());
    assert!(child.wait().unwrap().success());
}

/// A device that becomes one of another kind is that in a later epoch only, and for each epoch it
/// is one.
#[test]
fn a_device_is_of_one_kind_in_each_epoch() {
    let next = |epoch| in_epoch(Epoch(epoch));
    let process = start(Device::Usig, ME, LIFE);
    let group = |epoch| Membership { epoch: Epoch(epoch), ..by_mac() };
    let at = Position::new(View(3), 7);
    let mut usig = UsigProcess::new(process.clone(), &group(EPOCH.epoch.0));
    usig.create(at, &digest(1)).unwrap();
    for again in [EPOCH, next(EPOCH.epoch.0.saturating_sub(1))] {
        assert_eq!(process.become_in(Device::Trinx(1), again), Err(Refused::Spent));
    }
    let other = EpochId { group: GroupId([9; 16]), ..next(EPOCH.epoch.0 + 1) };
    assert_eq!(process.become_in(Device::Trinx(1), other), Err(Refused::Spent), "another group");
    assert_eq!(process.become_in(Device::Trinx(2), next(EPOCH.epoch.0 + 1)), Err(Refused::Spent));
    assert_eq!(usig.create(at, &digest(2)), Err(Refused::Spent), "it is what it was");

    let then = EPOCH.epoch.0 + 1;
    process.become_in(Device::Trinx(1), next(then)).unwrap();
    assert_eq!(usig.create(at, &digest(2)), Err(Refused::Unavailable), "it is no USIG now");
    let mut counters = OrderCounter::apart_all(&process, &group(then), 1);
    let ui = counters[0].create(at, &digest(2)).unwrap();
    assert!(OrderCheck::new(&SECRET, &group(then)).check(MINE, &ui, &digest(2)));
    assert_eq!(counters[0].create(at, &digest(3)), Err(Refused::Spent));
    for epoch in [then, then - 1] {
        assert_eq!(process.become_in(Device::Usig, next(epoch)), Err(Refused::Spent));
    }
    // Having gone over to a later epoch, it is in that one of the kind that it was.
    counters[0].begin_epoch(&group(then + 1)).unwrap();
    assert_eq!(process.become_in(Device::Usig, next(then + 1)), Err(Refused::Spent));
    process.become_in(Device::Usig, next(then + 2)).unwrap();
    let mut usig = UsigProcess::new(process.clone(), &group(then + 2));
    usig.create(at, &digest(3)).unwrap();
    assert_eq!(usig.create(at, &digest(4)), Err(Refused::Spent));

    let of_two = start(Device::Trinx(2), ME, LIFE);
    assert_eq!(of_two.become_in(Device::Usig, next(then)), Err(Refused::Unavailable));
}
