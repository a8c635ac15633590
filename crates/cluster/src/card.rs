//! What a machine that is to become a member shows to the administrators of its group.

use crate::config::check_address;
use pentarchy_core::digest::{Digest, Hasher};
use pentarchy_crypto::keys::{KeyPair, channel_public, is_signed_by};
use std::fmt;
use std::str::FromStr;

/// What a card begins with.
const LABEL: &str = "pentarchy-card-2";

/// Who a new member is, and where. Nothing of it is secret; whoever passes it on unseen can put a
/// machine of its own in its place, so administrators compare the key.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Card {
    /// Its identity key.
    pub identity: [u8; 32],
    /// The key by which it signs until it has made another one, and under which it can read the
    /// secret of the trusted devices.
    pub signing: [u8; 32],
    /// `host:port` where peers and clients are to reach it.
    pub address: String,
    /// By the identity key, so that no typing error gives the group a member whose key nobody has.
    signature: [u8; 64],
}

/// Why a text is no card.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum BadCard {
    /// It has other parts.
    #[error("that is no card: a card is the line that `pentarchy members prepare` writes")]
    Malformed,
    /// Nobody can be there.
    #[error("{0}")]
    Address(String),
    /// Something in it was altered.
    #[error("the card was altered: its signature does not fit; copy the whole line again")]
    Altered,
}

impl Card {
    /// The card of who has this identity key, and this key for signing, at this address.
    ///
    /// # Errors
    /// [`BadCard::Address`]
    pub fn new(keys: &KeyPair, signing: [u8; 32], address: &str) -> Result<Self, BadCard> {
        check_address(address).map_err(BadCard::Address)?;
        let (identity, address) = (keys.public(), address.to_owned());
        let signature = keys.sign(&statement(&identity, &signing, &address));
        Ok(Self { identity, signing, address, signature })
    }
}

fn statement(identity: &[u8; 32], signing: &[u8; 32], address: &str) -> Digest {
    let mut hasher = Hasher::new("pentarchy card");
    hasher.bytes(identity).bytes(signing).bytes(address.as_bytes()).finish()
}

impl fmt::Display for Card {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { identity, signing, address, signature } = self;
        let [identity, signing] = [identity, signing].map(hex::encode);
        write!(out, "{LABEL} {address} {identity} {signing} {}", hex::encode(signature))
    }
}

impl FromStr for Card {
    type Err = BadCard;

    fn from_str(text: &str) -> Result<Self, BadCard> {
        let parts: Vec<&str> = text.split_whitespace().collect();
        let [LABEL, address, identity, signing, signature] = parts[..] else {
            return Err(BadCard::Malformed);
        };
        check_address(address).map_err(BadCard::Address)?;
        let (identity, signing, signature) = (bytes(identity)?, bytes(signing)?, bytes(signature)?);
        let card = Self { identity, signing, address: address.to_owned(), signature };
        let is_genuine =
            is_signed_by(&identity, &statement(&identity, &signing, address), &signature);
        // Nobody can seal the devices' secret for it.
        if channel_public(&card.signing).is_none() {
            return Err(BadCard::Malformed);
        }
        is_genuine.then_some(card).ok_or(BadCard::Altered)
    }
}

fn bytes<const N: usize>(digits: &str) -> Result<[u8; N], BadCard> {
    let mut bytes = [0; N];
    hex::decode_to_slice(digits, &mut bytes).map_err(|_| BadCard::Malformed)?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_card_is_taken_only_as_it_was_written() {
        let keys = KeyPair::generate();
        let signing = KeyPair::generate().public();
        let card = Card::new(&keys, signing, "10.0.0.4:7000").unwrap();
        let text = card.to_string();
        assert_eq!(format!("  {text}\n").parse(), Ok(card.clone()));
        let moved = text.replace("10.0.0.4", "10.0.0.5");
        assert_eq!(moved.parse::<Card>(), Err(BadCard::Altered));
        let other = KeyPair::generate().public();
        for key in [card.identity, card.signing] {
            let taken = text.replace(&hex::encode(key), &hex::encode(other));
            assert_eq!(taken.parse::<Card>(), Err(BadCard::Altered));
        }
        let no_key = Card::new(&keys, [2; 32], "10.0.0.4:7000").unwrap().to_string();
        assert_eq!(no_key.parse::<Card>(), Err(BadCard::Malformed));
        assert_eq!(text[..text.len() - 2].parse::<Card>(), Err(BadCard::Malformed));
        assert_eq!("10.0.0.4:7000".parse::<Card>(), Err(BadCard::Malformed));
        assert!(matches!(Card::new(&keys, signing, "nowhere"), Err(BadCard::Address(_))));
    }
}
