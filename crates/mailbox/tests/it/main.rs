//! Two sides over one memory, of which either may do what it likes with it.

use pentarchy_mailbox::{Answerer, Asker, BYTES_MAX, Closed, MAILBOX_WORDS, Memory, Silent};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::{Duration, Instant};

const LIMIT: Duration = Duration::from_secs(20);

/// Where the answer's length stands.
const ANSWER: usize = 16 + (MAILBOX_WORDS - 16) / 2;

fn memory() -> Arc<Memory> {
    Arc::new(Memory::create(MAILBOX_WORDS).unwrap().0)
}

fn sides(memory: &Arc<Memory>) -> (Asker, Answerer) {
    (Asker::new(memory.clone(), 0).unwrap(), Answerer::new(memory.clone(), 0).unwrap())
}

/// Answers each question with its bytes in reverse, until the mailbox is closed.
fn serve(mut answerer: Answerer, pause: Duration) -> Closed {
    let mut text = [0; BYTES_MAX];
    loop {
        let answer: Vec<u8> = match answerer.next(&mut text) {
            Ok(question) => question.iter().rev().copied().collect(),
            Err(closed) => return closed,
        };
        thread::sleep(pause);
        answerer.answer(&answer);
    }
}

/// What one question gets, of an other side that is there.
fn ask(asker: &mut Asker, question: &[u8], limit: Duration) -> Result<Vec<u8>, Silent> {
    let mut text = [0; BYTES_MAX];
    asker.ask(question, &mut text, limit, || true).map(<[u8]>::to_vec)
}

#[test]
fn every_question_gets_its_own_answer() {
    let (mut asker, answerer) = sides(&memory());
    let server = thread::spawn(|| serve(answerer, Duration::ZERO));
    for length in (0..200).chain([BYTES_MAX - 1, BYTES_MAX]) {
        let question: Vec<u8> = (0..length).map(|byte| (byte * 7 + length) as u8).collect();
        let expected: Vec<u8> = question.iter().rev().copied().collect();
        assert_eq!(ask(&mut asker, &question, LIMIT), Ok(expected));
    }
    assert_eq!(ask(&mut asker, &[0; BYTES_MAX + 1], LIMIT), Err(Silent));
    drop(asker);
    assert_eq!(server.join().unwrap(), Closed);
}

/// Both sides sleep in between, and wake each other: else the asker would look again only when it
/// has slept long enough, every time.
#[test]
fn sides_that_sleep_are_woken() {
    let (mut asker, answerer) = sides(&memory());
    let server = thread::spawn(|| serve(answerer, Duration::from_millis(1)));
    let times = (0..50).map(|_| {
        thread::sleep(Duration::from_millis(1));
        let begun = Instant::now();
        ask(&mut asker, b"?", LIMIT).unwrap();
        begun.elapsed()
    });
    let fastest = times.min().unwrap();
    assert!(fastest < Duration::from_millis(18), "{fastest:?}");
    drop(asker);
    server.join().unwrap();
}

#[test]
fn who_gets_no_answer_waits_no_longer_than_that() {
    let (mut asker, _answerer) = sides(&memory());
    let begun = Instant::now();
    assert_eq!(ask(&mut asker, b"?", Duration::from_millis(100)), Err(Silent));
    assert!(begun.elapsed() < Duration::from_secs(5));
    // Nor longer than somebody is there.
    let (mut asker, _answerer) = sides(&memory());
    let mut text = [0; BYTES_MAX];
    let mut looks = 0;
    let gone = asker.ask(b"?", &mut text, LIMIT, || {
        looks += 1;
        looks < 3
    });
    assert_eq!(gone, Err(Silent));
}

#[test]
fn answers_that_are_none_are_not_taken() {
    for (turn, length) in
        [(2, BYTES_MAX as u32 + 1), (2, u32::MAX), (3, 1), (0, 1), (u32::MAX, 1), (4, 1)]
    {
        let memory = memory();
        let (mut asker, _answerer) = sides(&memory);
        let liar = memory.clone();
        let liar = thread::spawn(move || {
            let words = liar.words();
            while words[0].load(Ordering::Acquire) != 1 {
                thread::yield_now();
            }
            words[ANSWER].store(length, Ordering::Relaxed);
            words[0].store(turn, Ordering::Release);
        });
        assert_eq!(ask(&mut asker, b"?", LIMIT), Err(Silent), "{turn} {length}");
        liar.join().unwrap();
    }
}

#[test]
fn questions_that_are_none_close_the_mailbox() {
    for (turn, length) in [(1, BYTES_MAX as u32 + 1), (1, u32::MAX), (2, 1), (3, 1), (u32::MAX, 1)]
    {
        let memory = memory();
        let (_asker, mut answerer) = sides(&memory);
        memory.words()[16].store(length, Ordering::Relaxed);
        memory.words()[0].store(turn, Ordering::Release);
        assert_eq!(answerer.next(&mut [0; BYTES_MAX]), Err(Closed), "{turn} {length}");
    }
}

/// Shared memory that could shrink would kill whoever looks at it.
#[test]
fn memory_whose_size_may_change_is_refused() {
    let file = rustix::fs::memfd_create("test", rustix::fs::MemfdFlags::ALLOW_SEALING).unwrap();
    rustix::fs::ftruncate(&file, 4096).unwrap();
    assert!(Memory::open(&file).is_err());
    assert!(Memory::open(std::fs::File::open("/dev/null").unwrap()).is_err());
    let (_, file) = Memory::create(MAILBOX_WORDS).unwrap();
    assert!(
        rustix::fs::ftruncate(&file, 0).is_err() && rustix::fs::ftruncate(&file, 8192).is_err()
    );
    assert_eq!(Memory::open(&file).unwrap().words().len(), MAILBOX_WORDS);
}

#[test]
fn a_mailbox_outside_the_memory_is_none() {
    let memory = memory();
    for number in [1, 2, usize::MAX, usize::MAX / MAILBOX_WORDS] {
        assert!(Asker::new(memory.clone(), number).is_none());
        assert!(Answerer::new(memory.clone(), number).is_none());
    }
}
