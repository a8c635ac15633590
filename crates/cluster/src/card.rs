//! What a machine that is to become a member shows to the administrators of its group.

use crate::config::check_address;
use pentarchy_core::digest::{Digest, Hasher};
use pentarchy_core::ids::{GroupId, Incarnation};
use pentarchy_crypto::keys::{KeyPair, channel_public, is_signed_by};
use std::fmt;
use std::str::FromStr;

/// What a card begins with. The number of its format follows, and a blank.
const LABEL: &str = "pentarchy-card-";

/// The format of the cards that this program writes and reads.
const FORMAT: u32 = 4;

/// Who a new member is, of which group, and where. Nothing of it is secret; whoever passes it on
/// unseen can put a machine of its own in its place, so administrators compare the key.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Card {
    /// The group that the machine is to join. No other one takes it.
    pub group: GroupId,
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
    /// Another version of the program wrote it.
    #[error(
        "that is a card of format {0}, which another version of pentarchy wrote; this one reads \
         format {own}: prepare the machine anew, with this version: `pentarchy members prepare`",
        own = FORMAT
    )]
    OtherFormat(u32),
    /// Nobody can be there.
    #[error("{0}")]
    Address(String),
    /// Something in it was altered.
    #[error("the card was altered: its signature does not fit; copy the whole line again")]
    Altered,
}

impl Card {
    /// The card of who is to join this group and has this identity key, this key for signing, and
    /// this life of a device, at this address.
    ///
    /// # Errors
    /// [`BadCard::Address`]
    pub fn new(
        group: GroupId,
        keys: &KeyPair,
        signing: [u8; 32],
        device: Incarnation,
        address: &str,
    ) -> Result<Self, BadCard> {
        check_address(address).map_err(BadCard::Address)?;
        let (identity, address) = (keys.public(), address.to_owned());
        let mut card = Self { group, identity, signing, device, address, signature: [0; 64] };
        card.signature = keys.sign(&card.statement());
        Ok(card)
    }

    /// What its signature covers.
    fn statement(&self) -> Digest {
        let Self { group, identity, signing, device, address, .. } = self;
        let mut hasher = Hasher::new("pentarchy card");
        hasher.bytes(&group.0).bytes(identity).bytes(signing).u64(device.0);
        hasher.bytes(address.as_bytes()).finish()
    }
}

/// Where the machine of a card is: that stands at the same place in cards of all formats. For the
/// machine itself, which may have joined its group with a card of an earlier version.
///
/// # Errors
/// [`BadCard::Malformed`] and [`BadCard::Address`]
pub fn address_in(text: &str) -> Result<&str, BadCard> {
    let mut words = text.split_whitespace();
    words.next().and_then(format_of).ok_or(BadCard::Malformed)?;
    let address = words.next().ok_or(BadCard::Malformed)?;
    check_address(address).map_err(BadCard::Address)?;
    Ok(address)
}

/// The number of the format of a card that begins with this word.
fn format_of(label: &str) -> Option<u32> {
    label.strip_prefix(LABEL)?.parse().ok()
}

impl fmt::Display for Card {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { group, identity, signing, device, address, signature } = self;
        let (group, signature) = (hex::encode(group.0), hex::encode(signature));
        let ([identity, signing], device) = ([identity, signing].map(hex::encode), device.0);
        write!(out, "{LABEL}{FORMAT} {address} {group} {identity} {signing} {device:016x} ")?;
        out.write_str(&signature)
    }
}

impl FromStr for Card {
    type Err = BadCard;

    fn from_str(text: &str) -> Result<Self, BadCard> {
        let parts: Vec<&str> = text.split_whitespace().collect();
        match parts.first().and_then(|label| format_of(label)) {
            Some(FORMAT) => {}
            Some(other) => return Err(BadCard::OtherFormat(other)),
            None => return Err(BadCard::Malformed),
        }
        let [_, address, group, identity, signing, device, signature] = parts[..] else {
            return Err(BadCard::Malformed);
        };
        check_address(address).map_err(BadCard::Address)?;
        let (address, group) = (address.to_owned(), GroupId(bytes(group)?));
        let (identity, signing, signature) = (bytes(identity)?, bytes(signing)?, bytes(signature)?);
        let device = Incarnation(u64::from_be_bytes(bytes(device)?));
        let card = Self { group, identity, signing, device, address, signature };
        let is_genuine = is_signed_by(&identity, &card.statement(), &signature);
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
        let group = GroupId([9; 16]);
        let new = |signing, address| Card::new(group, &keys, signing, Incarnation(7), address);
        let card = new(signing, "10.0.0.4:7000").unwrap();
        let text = card.to_string();
        assert_eq!(format!("  {text}\n").parse(), Ok(card.clone()));
        let other = hex::encode(KeyPair::generate().public());
        let (name, other_name) = (hex::encode(group.0), hex::encode([8; 16]));
        let alterations = [
            ("10.0.0.4".to_owned(), "10.0.0.5"),
            (name, &*other_name),
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

    #[test]
    fn a_card_of_another_version_says_of_which_one_it_is() {
        let old = "pentarchy-card-3 10.0.0.4:7000 ab cd ef";
        assert_eq!(old.parse::<Card>(), Err(BadCard::OtherFormat(3)));
        let said = BadCard::OtherFormat(3).to_string();
        assert!(said.contains("format 3") && said.contains("pentarchy members prepare"), "{said}");
        assert_eq!("pentarchy-card-new a:1".parse::<Card>(), Err(BadCard::Malformed));
        // The machine itself looks there for its address.
        assert_eq!(address_in(old), Ok("10.0.0.4:7000"));
        assert!(matches!(address_in("pentarchy-card-3 nowhere"), Err(BadCard::Address(_))));
        for none in ["pentarchy-card-3", "10.0.0.4:7000", ""] {
            assert_eq!(address_in(none), Err(BadCard::Malformed), "{none:?}");
        }
    }
}
