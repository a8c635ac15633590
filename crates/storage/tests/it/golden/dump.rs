//! Files as text: `== PATH LENGTH`, and behind it 32 bytes to a line, in hexadecimal digits; for
//! lines of nothing but zeros, `zeros` and how many bytes these are.

use std::collections::BTreeMap;
use std::fmt::Write as _;

/// Files by path.
pub type Files = BTreeMap<String, Vec<u8>>;

const HEAD: &str = "\
# What a fixed history leaves on the disk. The test `golden` of this crate reads it, and UPDATE=1
# has it written anew. A line that changes is another format: see docs/log.md and
# docs/snapshot.md for the versions.
";

const LINE_BYTES: usize = 32;

pub fn text(files: &Files) -> String {
    let mut text = HEAD.to_owned();
    for (path, bytes) in files {
        writeln!(text, "== {path} {}", bytes.len()).expect("memory has room");
        let mut zeros = 0;
        for line in bytes.chunks(LINE_BYTES) {
            if line.iter().all(|byte| *byte == 0) {
                zeros += line.len();
                continue;
            }
            put_zeros(&mut text, &mut zeros);
            let hex = |byte: &u8| format!("{byte:02x}");
            writeln!(text, "{}", line.iter().map(hex).collect::<String>()).expect("it has room");
        }
        put_zeros(&mut text, &mut zeros);
    }
    text
}

fn put_zeros(text: &mut String, zeros: &mut usize) {
    if *zeros > 0 {
        writeln!(text, "zeros {zeros}").expect("memory has room");
        *zeros = 0;
    }
}

/// # Errors
/// What is wrong, with the path of the file.
pub fn parse(text: &str) -> Result<Files, String> {
    let mut files = Files::new();
    for section in text.split("\n== ").skip(1) {
        let mut lines = section.lines();
        let head = lines.next().unwrap_or_default();
        let (path, length) = head.split_once(' ').unwrap_or((head, ""));
        let length: usize = length.parse().map_err(|_| format!("{path}: no length"))?;
        let mut bytes = Vec::new();
        for line in lines {
            let more = bytes_of(line);
            bytes.extend(more.ok_or_else(|| format!("{path}: no hexadecimal digits: {line}"))?);
        }
        if bytes.len() != length {
            return Err(format!("{path}: {} bytes, and not {length}", bytes.len()));
        }
        if files.insert(path.to_owned(), bytes).is_some() {
            return Err(format!("{path}: it is there twice"));
        }
    }
    Ok(files)
}

fn bytes_of(line: &str) -> Option<Vec<u8>> {
    if let Some(count) = line.strip_prefix("zeros ") {
        return count.parse().ok().map(|count| vec![0; count]);
    }
    let byte = |digits: &[u8]| u8::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok();
    let bytes: Option<Vec<u8>> = line.as_bytes().chunks(2).map(byte).collect();
    bytes.filter(|_| line.len().is_multiple_of(2))
}

/// How the files that are written now differ from the golden ones.
pub fn differences(golden: &Files, written: &Files) -> Vec<String> {
    let gone = golden.keys().filter(|path| !written.contains_key(*path));
    let gone = gone.map(|path| format!("{path}: in the golden file, and not written any more"));
    let differing = written.iter().filter_map(|(path, now)| {
        let Some(before) = golden.get(path) else {
            return Some(format!("{path}: written, and not in the golden file"));
        };
        let equal = before.iter().zip(now).take_while(|(a, b)| a == b).count();
        (before != now).then(|| format!("{path}: differs from byte {equal} on"))
    });
    gone.chain(differing).collect()
}
