//! What a machine that is to become a member shows to the administrators of its group.

use crate::config::check_address;
use pentarchy_core::digest::{Digest, Hasher};
use pentarchy_core::ids::Incarnation;
use pentarchy_crypto::keys::{KeyPair, channel_public, is_signed_by};
use std::fmt;
use std::str::FromStr;

/// What a card begins with.
const LABEL: &str = "pentarchy-card-3";

/// Who a new member is, and where. Nothing of it is secret; whoever passes it on unseen can put a
/// machine of its own in its place, so administrators compare the key.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Card {
    /// Its identity key.
    pub identity: [u8; 32],
    /// The key by which it signs until it has made another one, and under which it can read the
    /// secret of the trusted devices.
    pub signing: [u8; 32],
    /// The life of its trusted device that counts in a group that begins with it.
    pub device: Incarnation,
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
    /// The card of who has this identity key, this key for signing, and this life of a device, at
    /// this address.
    ///
    /// # Errors
    /// [`BadCard::Address`]
    pub fn new(
        keys: &KeyPair,
        signing: [u8; 32],
        device: Incarnation,
        address: &str,
    ) -> Result<Self, BadCard> {
        check_address(address).map_err(BadCard::Address)?;
        let (identity, address) = (keys.public(), address.to_owned());
        let signature = keys.sign(&statement(&identity, &signing, device, &address));
        Ok(Self { identity, signing, device, address, signature })
    }
}

fn statement(
    identity: &[u8; 32],
    signing: &[u8; 32],
    device: Incarnation,
    address: &str,
) -> Digest {
    let mut hasher = Hasher::new("pentarchy card");
    hasher.bytes(identity).bytes(signing).u64(device.0).bytes(address.as_bytes()).finish()
}

impl fmt::Display for Card {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { identity, signing, device, address, signature } = self;
        let [identity, signing] = [identity, signing].map(hex::encode);
        let (device, signature) = (device.0, hex::encode(signature));
        write!(out, "{LABEL} {address} {identity} {signing} {device:016x} {signature}")
    }
}

impl FromStr for Card {
    type Err = BadCard;

    fn from_str(text: &str) -> Result<Self, BadCard> {
        let parts: Vec<&str> = text.split_whitespace().collect();
        let [LABEL, address, identity, signing, device, signature] = parts[..] else {
            return Err(BadCard::Malformed);
        };
        check_address(address).map_err(BadCard::Address)?;
        let (identity, signing, signature) = (bytes(identity)?, bytes(signing)?, bytes(signature)?);
        let device = Incarnation(u64::from_be_bytes(bytes(device)?));
        let card = Self { identity, signing, device, address: address.to_owned(), signature };
        let stated = statement(&identity, &signing, device, address);
        let is_genuine = is_signed_by(&identity, &stated, &signature);
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
        let new = |signing, address| Card::new(&keys, signing, Incarnation(7), address);
        let card = new(signing, "10.0.0.4:7000").unwrap();
        let text = card.to_string();
        assert_eq!(format!("  {text}\n").parse(), Ok(card.clone()));
        let other = hex::encode(KeyPair::generate().public());
        let alterations = [
            ("10.0.0.4".to_owned(), "10.0.0.5"),
            (hex::encode(card.identity), &*other),
            (hex::encode(card.signing), &*other),
            (format!(" {:016x} ", 7), " 0000000000000008 "),
        ];
        for (of, by) in alterations {
            assert_eq!(text.replace(&of, by).parse::<Card>(), Err(BadCard::Altered));
        }
        let no_key = new([2; 32], "10.0.0.4:7000").unwrap().to_string();
        assert_eq!(no_key.parse::<Card>(), Err(BadCard::Malformed));
        assert_eq!(text[..text.len() - 2].parse::<Card>(), Err(BadCard::Malformed));
        assert_eq!("10.0.0.4:7000".parse::<Card>(), Err(BadCard::Malformed));
        assert!(matches!(new(signing, "nowhere"), Err(BadCard::Address(_))));
    }
}
