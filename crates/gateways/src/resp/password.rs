//! What a client must say before anything else.

use pentarchy_core::digest::Digest;
use std::fmt;

/// The password of the user `default`, kept as its hash. Is never shown.
#[derive(Clone)]
pub struct Password(Digest);

impl Password {
    /// Takes a password's bytes.
    #[must_use]
    pub fn new(password: &[u8]) -> Self {
        Self(Digest::of(password))
    }

    /// Takes the same time whatever is wrong: hashes are compared, and all of them.
    pub(crate) fn is(&self, said: &[u8]) -> bool {
        let said = Digest::of(said);
        let differences = self.0.0.iter().zip(said.0).map(|(one, other)| one ^ other);
        std::hint::black_box(differences.fold(0, |all, one| all | one)) == 0
    }
}

impl fmt::Debug for Password {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Password(..)")
    }
}
