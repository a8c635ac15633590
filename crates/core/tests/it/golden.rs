//! The bytes that replicas and clients send, sign and keep in states: a fixed sample of each value,
//! and its golden bytes in `tests/golden/wire.txt`, one line `NAME HEX` each. Whoever
//! changes a format by accident fails here. Whoever does it on purpose has `UPDATE=1` write the
//! file anew, and reviews that as a diff.

mod parts;
mod samples;
mod states;

use parts::Sample;
use pentarchy_core::Bytes;
use pentarchy_core::auth::AuthTag;
use pentarchy_core::change::{GROUP, Petition};
use pentarchy_core::configuration::{Facts, RequestMeans};
use pentarchy_core::epochs;
use pentarchy_core::ports::client::{ToClient, ToReplica};
use pentarchy_core::transfer;
use pentarchy_core::wire::Wire;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::Path;

/// What the file begins with.
const HEAD: &str = "\
# What goes over a wire, under a signature or into a state: a sample of each, as NAME HEX.
# The test `golden` of this crate reads it, and UPDATE=1 has it written anew. A line that changes
# is another format: see \"Versions\" in docs/wire.md.
";

fn text(samples: &[Sample]) -> String {
    let mut text = HEAD.to_owned();
    for Sample { name, bytes, .. } in samples {
        writeln!(text, "{name} {}", hex(bytes)).expect("memory has room");
    }
    text
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        write!(text, "{byte:02x}").expect("memory has room");
        text
    })
}

fn unhex(text: &str) -> Option<Bytes> {
    let byte = |digits: &[u8]| u8::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok();
    let bytes: Option<Vec<u8>> = text.as_bytes().chunks(2).map(byte).collect();
    bytes.filter(|_| text.len().is_multiple_of(2)).map(Bytes::from)
}

/// The lines of the file, by name.
///
/// # Errors
/// The line that is none, or stands there twice.
fn lines(text: &str) -> Result<BTreeMap<&str, Bytes>, String> {
    let mut lines = BTreeMap::new();
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let (name, bytes) = line.split_once(' ').unwrap_or((line, "?"));
        let bytes = unhex(bytes).ok_or_else(|| format!("{name}: no hexadecimal digits"))?;
        if lines.insert(name, bytes).is_some() {
            return Err(format!("{name}: there are two lines of this name"));
        }
    }
    Ok(lines)
}

/// Names each sample that program and file encode in other bytes.
fn problems(text: &str, samples: &[Sample]) -> Vec<String> {
    let mut golden = match lines(text) {
        Ok(golden) => golden,
        Err(problem) => return vec![problem],
    };
    let mut problems = Vec::new();
    for sample in samples {
        let name = &sample.name;
        let Some(bytes) = golden.remove(&**name) else {
            problems.push(format!("{name}: a sample without a golden line"));
            continue;
        };
        if sample.bytes != bytes {
            let equal = sample.bytes.iter().zip(&bytes).take_while(|(a, b)| a == b).count();
            problems.push(format!("{name}: its encoding differs from byte {equal} on"));
        }
        if !sample.is_read_from(&bytes) {
            problems.push(format!("{name}: the golden bytes are not read as the sample"));
        }
    }
    problems.extend(golden.keys().map(|name| format!("{name}: a golden line without a sample")));
    problems
}

#[test]
fn what_goes_over_a_wire_has_its_golden_bytes() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/wire.txt");
    let samples = samples::all();
    let names: BTreeSet<&String> = samples.iter().map(|sample| &sample.name).collect();
    assert_eq!(names.len(), samples.len(), "each sample has a name of its own");
    let found = std::fs::read_to_string(&path).unwrap_or_default();
    let expected = text(&samples);
    if found != expected && std::env::var_os("UPDATE").is_some() {
        std::fs::write(&path, &expected).expect("the golden file can be written");
    }
    let golden = std::fs::read_to_string(&path).expect("the golden file");
    let problems = problems(&golden, &samples);
    let what = "another format, or UPDATE=1 is missing";
    assert!(problems.is_empty(), "{what}:\n{}", problems.join("\n"));
    assert!(golden == expected, "{}: the order of the lines, or the comment", path.display());
}

#[test]
fn a_flipped_byte_in_a_golden_line_is_found_wherever_it_is() {
    let samples = samples::all();
    for (at, sample) in samples.iter().enumerate() {
        // At each byte of small ones, and here and there in large ones.
        for place in (0..sample.bytes.len()).step_by(sample.bytes.len() / 64 + 1) {
            let mut flipped = sample.bytes.to_vec();
            flipped[place] ^= 1;
            let line = format!("{} {}\n", sample.name, hex(&flipped));
            let differs = format!("{}: its encoding differs from byte {place} on", sample.name);
            let unread = format!("{}: the golden bytes are not read as the sample", sample.name);
            assert_eq!(problems(&line, &samples[at..=at]), [differs, unread]);
        }
    }
}

#[test]
fn a_line_too_many_and_one_too_few_are_named() {
    let samples = samples::all();
    let whole = text(&samples);
    assert_eq!(problems(&whole, &samples), [""; 0]);
    let last = &samples[samples.len() - 1].name;
    let without = format!("{last}: a golden line without a sample");
    assert_eq!(problems(&whole, &samples[..samples.len() - 1]), [without]);
    let short = text(&samples[..samples.len() - 1]);
    assert_eq!(problems(&short, &samples), [format!("{last}: a sample without a golden line")]);
    for (line, problem) in [
        ("a 0", "a: no hexadecimal digits"),
        ("a 0g", "a: no hexadecimal digits"),
        ("a", "a: no hexadecimal digits"),
        ("a 00\na 00", "a: there are two lines of this name"),
    ] {
        assert_eq!(problems(line, &samples), [problem]);
    }
}

/// The values of the byte at a place, of those that can be read there, of which there is no sample.
/// What can be read is tried with zeros behind it, of which most values can be made.
fn without_sample<T: Wire>(before: &[u8], prefix: &str, samples: &[Sample]) -> Vec<u8> {
    let known = samples.iter().filter(|sample| sample.name.starts_with(prefix));
    let known: BTreeSet<u8> = known.map(|sample| sample.bytes[before.len()]).collect();
    let zeros = [0; 400];
    let is_read = |value: u8| {
        (0..zeros.len()).any(|count| {
            let bytes = [before, &[value], &zeros[..count]].concat();
            T::from_bytes(&bytes.into()).is_ok()
        })
    };
    (0..=u8::MAX).filter(|value| !known.contains(value) && is_read(*value)).collect()
}

#[test]
fn each_kind_of_message_and_each_word_has_a_sample() {
    let samples = samples::all();
    let missing = |samples: &[Sample]| {
        [
            without_sample::<ToReplica>(&[], "to-replica.", samples),
            without_sample::<ToClient>(&[], "to-client.", samples),
            without_sample::<epochs::Message>(&[], "epochs.", samples),
            without_sample::<transfer::Message>(&[], "transfer.", samples),
            without_sample::<transfer::Part>(&[], "part.", samples),
            without_sample::<AuthTag>(&[], "tag.", samples),
            without_sample::<Petition>(&GROUP, "petition.", samples),
            without_sample::<RequestMeans>(&[], "requests.", samples),
            // Fault model, quorum, reads, authority and counter.
            without_sample::<Facts>(&[], "facts.", samples),
            without_sample::<Facts>(&[0; 3], "facts.", samples),
            without_sample::<Facts>(&[0; 6], "facts.", samples),
            without_sample::<Facts>(&[0; 10], "facts.", samples),
            without_sample::<Facts>(&[0; 11], "facts.", samples),
        ]
    };
    assert_eq!(missing(&samples), [const { Vec::<u8>::new() }; 13]);
    // Without any sample all of them are missing, but those that cannot be made of zeros.
    let counts = missing(&[]).map(|kinds| kinds.len());
    assert_eq!(counts, [6, 14, 5, 5, 3, 6, 5, 3, 4, 3, 2, 2, 4]);
}
