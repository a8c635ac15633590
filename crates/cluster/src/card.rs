//! What a machine that is to become a member shows to the administrators of its group.

use crate::config::check_address;
use pentarchy_core::digest::{Digest, Hasher};
use pentarchy_crypto::keys::{KeyPair, is_signed_by};
use std::fmt;
use std::str::FromStr;

/// What a card begins with.
const LABEL: &str = "pentarchy-card-1";

/// Who a new member is, and where. Nothing of it is secret; whoever passes it on unseen can put a
/// machine of its own in its place, so administrators compare the key.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Card {
    /// Its identity key.
    pub identity: [u8; 32],
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
    /// The card of who has this identity key, at this address.
    ///
    /// # Errors
    /// [`BadCard::Address`]
    pub fn new(keys: &KeyPair, address: &str) -> Result<Self, BadCard> {
        check_address(address).map_err(BadCard::Address)?;
        let (identity, address) = (keys.public(), address.to_owned());
        let signature = keys.sign(&statement(&identity, &address));
        Ok(Self { identity, address, signature })
    }
}

fn statement(identity: &[u8; 32], address: &str) -> Digest {
    Hasher::new("pentarchy card").bytes(identity).bytes(address.as_bytes()).finish()
}

impl fmt::Display for Card {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { identity, address, signature } = self;
        write!(out, "{LABEL} {address} {} {}", hex::encode(identity), hex::encode(signature))
    }
}

impl FromStr for Card {
    type Err = BadCard;

    fn from_str(text: &str) -> Result<Self, BadCard> {
        let parts: Vec<&str> = text.split_whitespace().collect();
        let [LABEL, address, identity, signature] = parts[..] else {
            return Err(BadCard::Malformed);
        };
        check_address(address).map_err(BadCard::Address)?;
        let (mut key, mut signed) = ([0; 32], [0; 64]);
        hex::decode_to_slice(identity, &mut key).map_err(|_| BadCard::Malformed)?;
        hex::decode_to_slice(signature, &mut signed).map_err(|_| BadCard::Malformed)?;
        let card = Self { identity: key, address: address.to_owned(), signature: signed };
        let is_genuine = is_signed_by(&key, &statement(&key, address), &signed);
        is_genuine.then_some(card).ok_or(BadCard::Altered)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_card_is_taken_only_as_it_was_written() {
        let keys = KeyPair::generate();
        let card = Card::new(&keys, "10.0.0.4:7000").unwrap();
        let text = card.to_string();
        assert_eq!(format!("  {text}\n").parse(), Ok(card.clone()));
        let moved = text.replace("10.0.0.4", "10.0.0.5");
        assert_eq!(moved.parse::<Card>(), Err(BadCard::Altered));
        let other = Card::new(&KeyPair::generate(), "10.0.0.4:7000").unwrap();
        let taken = text.replace(&hex::encode(card.identity), &hex::encode(other.identity));
        assert_eq!(taken.parse::<Card>(), Err(BadCard::Altered));
        assert_eq!(text[..text.len() - 2].parse::<Card>(), Err(BadCard::Malformed));
        assert_eq!("10.0.0.4:7000".parse::<Card>(), Err(BadCard::Malformed));
        assert!(matches!(Card::new(&keys, "nowhere"), Err(BadCard::Address(_))));
    }
}
