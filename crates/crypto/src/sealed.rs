//! A secret on its way to one member, through requests and proofs that anybody may read.
//!
//! Whoever seals it makes a key pair for this one purpose, agrees on a key with the member's
//! signing key (X25519), and encrypts under that key once (ChaCha20-Poly1305). Nobody can pass what
//! is sealed off as meant for another group, member, secret or key.

use crate::agreed::{agree, derive};
use crate::keys::{GroupSecret, KeyPair};
use chacha20poly1305::aead::{AeadInPlace as _, KeyInit as _};
use chacha20poly1305::{ChaCha20Poly1305, Nonce, Tag};
use pentarchy_core::configuration::SealedSecret;
use pentarchy_core::digest::Digest;
use pentarchy_core::ids::{GroupId, MemberId};
use zeroize::Zeroizing;

const PURPOSE: &str = "pentarchy 1 sealed secret";

/// For whom a secret is sealed.
#[derive(Clone, Copy, Debug)]
pub struct Receiver {
    /// Of this group.
    pub group: GroupId,
    /// Which member.
    pub member: MemberId,
}

impl Receiver {
    /// Seals the secret, so that only this member can read it, by the secret part of this signing
    /// key. Gives none if nobody can sign by that key.
    ///
    /// # Panics
    /// If the operating system has no randomness to give.
    #[must_use]
    pub fn seal(&self, secret: &GroupSecret, signing: &[u8; 32]) -> Option<SealedSecret> {
        let once = KeyPair::generate();
        let shared = agree(&once.channel_secret(), signing)?;
        let key = derive(PURPOSE, &shared, &once.public(), signing);
        let mut text = Zeroizing::new(*secret.as_bytes());
        let cipher = ChaCha20Poly1305::new((&*key).into());
        // The key encrypts nothing else, so the nonce need not differ from another one.
        let bound = self.bound_to(&secret.name());
        let tag = cipher.encrypt_in_place_detached(&Nonce::default(), &bound, &mut *text).ok()?;
        let mut sealed = [0; SealedSecret::BYTES];
        sealed[..32].copy_from_slice(&once.public());
        sealed[32..64].copy_from_slice(&*text);
        sealed[64..].copy_from_slice(&tag);
        Some(SealedSecret(sealed))
    }

    /// The secret of this name, if it was sealed for this member under this key.
    #[must_use]
    pub fn open(
        &self,
        sealed: &SealedSecret,
        name: &Digest,
        signing: &KeyPair,
    ) -> Option<GroupSecret> {
        let (once, rest) = sealed.0.split_first_chunk::<32>()?;
        let (encrypted, tag) = rest.split_first_chunk::<32>()?;
        let shared = agree(&signing.channel_secret(), once)?;
        let key = derive(PURPOSE, &shared, once, &signing.public());
        let mut text = Zeroizing::new(*encrypted);
        let cipher = ChaCha20Poly1305::new((&*key).into());
        let (bound, tag) = (self.bound_to(name), Tag::from_slice(tag));
        cipher.decrypt_in_place_detached(&Nonce::default(), &bound, &mut *text, tag).ok()?;
        let secret = GroupSecret::from_bytes(*text);
        // Whoever sealed it may have sealed another one for each member.
        (secret.name() == *name).then_some(secret)
    }

    fn bound_to(&self, name: &Digest) -> [u8; 52] {
        let mut bound = [0; 52];
        bound[..16].copy_from_slice(&self.group.0);
        bound[16..20].copy_from_slice(&self.member.0.to_le_bytes());
        bound[20..].copy_from_slice(&name.0);
        bound
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TO: Receiver = Receiver { group: GroupId([1; 16]), member: MemberId(2) };

    #[test]
    fn a_sealed_secret_opens_for_one_member_with_one_key() {
        let (secret, keys) = (GroupSecret::generate(), KeyPair::generate());
        let sealed = TO.seal(&secret, &keys.public()).expect("a key");
        let name = secret.name();
        let opened = TO.open(&sealed, &name, &keys).expect("it is for this one");
        assert_eq!(opened.as_bytes(), secret.as_bytes());
        assert_ne!(TO.seal(&secret, &keys.public()), Some(sealed), "never the same twice");
        let others = [
            Receiver { group: GroupId([2; 16]), ..TO }.open(&sealed, &name, &keys),
            Receiver { member: MemberId(3), ..TO }.open(&sealed, &name, &keys),
            TO.open(&sealed, &GroupSecret::generate().name(), &keys),
            TO.open(&sealed, &name, &KeyPair::generate()),
        ];
        assert!(others.iter().all(Option::is_none));
        for at in 0..SealedSecret::BYTES {
            let mut altered = sealed;
            altered.0[at] ^= 1;
            assert!(TO.open(&altered, &name, &keys).is_none(), "byte {at}");
        }
        assert!(!sealed.0.windows(32).any(|window| window == secret.as_bytes()));
    }

    #[test]
    fn nothing_is_sealed_to_what_is_no_key() {
        let secret = GroupSecret::generate();
        // The identity of the curve, with which anybody would agree on the same key.
        let mut weak = [0; 32];
        weak[0] = 1;
        assert!(TO.seal(&secret, &weak).is_none() && TO.seal(&secret, &[2; 32]).is_none());
    }
}
