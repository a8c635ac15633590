//! What a child says, in files of bounded size.

use std::fs::{File, OpenOptions};
use std::io::{BufRead as _, BufReader, PipeReader, Read as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::thread::JoinHandle;

/// Bytes of one file. With the one before it, that is what a child's log takes at most.
const FILE_BYTES_MAX: u64 = 8 << 20;

/// The longest line that stays in one piece.
const LINE_BYTES_MAX: u64 = 64 << 10;

/// A log that starts anew when it is full; what was there before has `.1` after its name.
struct ChildLog {
    path: PathBuf,
    file: File,
    bytes: u64,
    bytes_max: u64,
}

impl ChildLog {
    fn open(path: &Path, bytes_max: u64) -> std::io::Result<Self> {
        let mut options = OpenOptions::new();
        let file = options.create(true).append(true).mode(0o600).open(path)?;
        let bytes = file.metadata()?.len();
        Ok(Self { path: path.to_path_buf(), file, bytes, bytes_max })
    }

    fn write(&mut self, line: &[u8]) -> std::io::Result<()> {
        if self.bytes > 0 && self.bytes + line.len() as u64 > self.bytes_max {
            std::fs::rename(&self.path, older(&self.path))?;
            *self = Self::open(&self.path, self.bytes_max)?;
        }
        self.file.write_all(line)?;
        self.bytes += line.len() as u64;
        Ok(())
    }
}

/// Where the part of a log is that was written before it last started anew.
fn older(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".1");
    name.into()
}

/// Writes what comes through a pipe to a log until the other end is closed.
///
/// # Errors
/// What the system says about the log or the thread.
pub fn follow(pipe: PipeReader, path: &Path) -> std::io::Result<JoinHandle<()>> {
    let log = ChildLog::open(path, FILE_BYTES_MAX)?;
    std::thread::Builder::new().name("child-log".to_owned()).spawn(move || copy(pipe, log))
}

/// Reads on even if nothing can be written, because the disk is full: a child must not wait for its
/// log.
fn copy(pipe: PipeReader, mut log: ChildLog) {
    let (mut pipe, mut line) = (BufReader::new(pipe), Vec::new());
    loop {
        line.clear();
        match (&mut pipe).take(LINE_BYTES_MAX).read_until(b'\n', &mut line) {
            Ok(0) | Err(_) => return,
            Ok(_) => {
                // There is no other place to say that a line is lost.
                let _ = log.write(&line);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_starts_anew_when_it_is_full_and_keeps_the_last_part() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.log");
        let mut log = ChildLog::open(&path, 100).unwrap();
        for number in 10..60 {
            log.write(format!("line {number}\n").as_bytes()).unwrap();
        }
        let (now, before) = (std::fs::read(&path).unwrap(), std::fs::read(older(&path)).unwrap());
        assert!(now.len() <= 100 && before.len() <= 100);
        let all = String::from_utf8([before, now].concat()).unwrap();
        assert!(all.ends_with("line 58\nline 59\n"), "{all}");
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 2);
    }

    #[test]
    fn what_comes_through_the_pipe_is_there_once_it_is_closed() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.log");
        let (reader, mut writer) = std::io::pipe().unwrap();
        let thread = follow(reader, &path).unwrap();
        let long = "x".repeat(3 * LINE_BYTES_MAX as usize);
        writer.write_all(format!("{long}\nlast words").as_bytes()).unwrap();
        drop(writer);
        thread.join().unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), format!("{long}\nlast words"));
    }
}
