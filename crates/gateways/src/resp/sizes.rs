//! How large the replies to a command are going to be.

use pentarchy_services::kv::CommandInfo;

/// What a command's first result on a connection is taken to have. Most have far less, and many
/// connections may begin at a time; some more than was foreseen may be under way.
const FIRST_BYTES: usize = 128 << 10;

/// Sizes of the results that one connection got of late, command by command: a reader of large
/// values that also writes must not be taken for one of small replies. As many entries as there
/// are commands.
#[derive(Default)]
pub(crate) struct Sizes(Vec<Size>);

struct Size {
    command: &'static CommandInfo,
    /// Bytes of the largest result of late.
    recent: usize,
}

impl Sizes {
    /// Bytes to be ready for.
    pub fn expect(&self, command: &'static CommandInfo) -> usize {
        let known = self.0.iter().find(|size| std::ptr::eq(size.command, command));
        known.map_or(FIRST_BYTES, |size| size.recent)
    }

    /// Takes note of a result's size.
    pub fn note(&mut self, command: &'static CommandInfo, bytes: usize) {
        match self.0.iter_mut().find(|size| std::ptr::eq(size.command, command)) {
            Some(size) => size.recent = faded(size.recent).max(bytes),
            None => self.0.push(Size { command, recent: bytes }),
        }
    }
}

/// What a maximum of late is after one smaller value.
pub(crate) const fn faded(recent: usize) -> usize {
    recent - recent / 64
}

#[cfg(test)]
mod tests {
    use super::*;
    use pentarchy_services::kv::registry::lookup;

    #[test]
    fn the_first_is_feared_and_each_command_is_known_by_its_own() {
        let (get, set) = (lookup(b"get").unwrap(), lookup(b"SET").unwrap());
        let mut sizes = Sizes::default();
        sizes.note(set, 1);
        assert_eq!((sizes.expect(get), sizes.expect(set)), (FIRST_BYTES, 1));
        sizes.note(get, 64_000);
        sizes.note(get, 10);
        assert_eq!(sizes.expect(get), 63_000);
        (0..1000).for_each(|_| sizes.note(get, 10));
        assert!(sizes.expect(get) < 100);
        assert_eq!(sizes.0.len(), 2);
    }
}
