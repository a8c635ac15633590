//! Session keys: what a client shares with the trusted devices of its group.
//!
//! Trusted code: a device checks clients' tags with what is in this file. The devices of a group
//! have one X25519 key pair between them, whose secret half never leaves them. A client agrees with
//! it under its own key, without a message and for as long as both keys live. Each side has all
//! that it needs at once: the client from the configuration, a device from the client's name.

use crate::costs;
use crate::keys::{KeyPair, channel_public};
use curve25519_dalek::MontgomeryPoint;
use curve25519_dalek::traits::IsIdentity;
use pentarchy_core::digest::{Digest, Domain};
use pentarchy_core::ids::ClientId;
use pentarchy_core::request::RequestAuth;
use subtle::ConstantTimeEq;
use zeroize::Zeroizing;

/// A client's authentication of an envelope in [`RequestAuth::Session`].
pub type Tag = [u8; RequestAuth::SESSION_BYTES];

/// The key of one client with the devices of one group. Makes tags and checks them.
#[derive(Clone)]
pub struct SessionKey(Zeroizing<[u8; 32]>);

impl SessionKey {
    /// The client's side: its key and the devices' public one. None if that is a point with which
    /// anybody would come to this key.
    #[must_use]
    pub fn of_client(keys: &KeyPair, group: &Domain, devices: &[u8; 32]) -> Option<Self> {
        agree(&keys.channel_secret(), devices, &binding(group, &keys.client_id(), devices))
    }

    /// The devices' side: their key pair and the client's name. None if the name is no public key,
    /// or one with which anybody would come to this key.
    #[must_use]
    pub fn of_device(
        (secret, public): (&[u8; 32], &[u8; 32]),
        group: &Domain,
        client: &ClientId,
    ) -> Option<Self> {
        agree(secret, &channel_public(&client.0)?, &binding(group, client, public))
    }

    /// The first bytes of keyed BLAKE3 over the statement.
    #[must_use]
    pub fn tag(&self, statement: &Digest) -> Tag {
        let mut tag = [0; RequestAuth::SESSION_BYTES];
        let whole = blake3::keyed_hash(&self.0, &statement.0);
        tag.copy_from_slice(&whole.as_bytes()[..RequestAuth::SESSION_BYTES]);
        tag
    }

    /// Whether this is the statement's tag. Takes equally long for every guess.
    #[must_use]
    pub fn is_tag(&self, statement: &Digest, tag: &Tag) -> bool {
        self.tag(statement).ct_eq(tag).into()
    }
}

/// The public half of the devices' key pair.
#[must_use]
pub fn public_half(secret: &[u8; 32]) -> [u8; 32] {
    MontgomeryPoint::mul_base_clamped(*secret).to_bytes()
}

/// Both parties and the group. Two names of one point of the curve are two clients.
fn binding(group: &Domain, client: &ClientId, devices: &[u8; 32]) -> Digest {
    group.statement("session").bytes(&client.0).bytes(devices).finish()
}

fn agree(secret: &[u8; 32], peer: &[u8; 32], binding: &Digest) -> Option<SessionKey> {
    costs::KEY_AGREEMENTS.add(1);
    let shared = MontgomeryPoint(*peer).mul_clamped(*secret);
    // Points of low order come to this whatever the secret, so that anybody would know the key.
    if shared.is_identity() {
        return None;
    }
    let mut material = Zeroizing::new([0; 64]);
    material[..32].copy_from_slice(&*Zeroizing::new(shared.to_bytes()));
    material[32..].copy_from_slice(&binding.0);
    Some(SessionKey(Zeroizing::new(blake3::derive_key("pentarchy 1 session key", &*material))))
}

#[cfg(test)]
mod tests {
    use super::*;
    use curve25519_dalek::constants::EIGHT_TORSION;
    use curve25519_dalek::edwards::CompressedEdwardsY;
    use pentarchy_core::ids::GroupId;

    const SECRET: [u8; 32] = [9; 32];

    fn group(name: u8) -> Domain {
        Domain::of_group(&GroupId([name; 16]))
    }

    fn of_device(group: &Domain, client: &ClientId) -> Option<SessionKey> {
        SessionKey::of_device((&SECRET, &public_half(&SECRET)), group, client)
    }

    #[test]
    fn both_sides_come_to_one_key_and_nobody_else_does() {
        let (client, other) = (KeyPair::from_seed([1; 32]), KeyPair::from_seed([2; 32]));
        let devices = public_half(&SECRET);
        let tag = |keys, group: &Domain, devices: &[u8; 32]| {
            SessionKey::of_client(keys, group, devices).unwrap().tag(&Digest([3; 32]))
        };
        let right = tag(&client, &group(1), &devices);
        let device = of_device(&group(1), &client.client_id()).unwrap();
        assert!(device.is_tag(&Digest([3; 32]), &right));
        assert!(!device.is_tag(&Digest([4; 32]), &right));
        let wrong = [
            tag(&other, &group(1), &devices),
            tag(&client, &group(2), &devices),
            tag(&client, &group(1), &public_half(&[8; 32])),
        ];
        assert!(wrong.iter().all(|wrong| !device.is_tag(&Digest([3; 32]), wrong)));
        for bit in 0..8 * right.len() {
            let mut changed = right;
            changed[bit / 8] ^= 1 << (bit % 8);
            assert!(!device.is_tag(&Digest([3; 32]), &changed));
        }
    }

    #[test]
    fn there_is_no_name_for_which_anybody_knows_the_key() {
        for point in EIGHT_TORSION {
            let name = point.compress().0;
            assert!(of_device(&group(1), &ClientId(name)).is_none());
            // As the devices' key, in the other form of the curve.
            let devices = point.to_montgomery().to_bytes();
            let client = KeyPair::from_seed([1; 32]);
            assert!(SessionKey::of_client(&client, &group(1), &devices).is_none());
        }
        // The other encodings of such points that decoders take.
        for low in [0_u8, 1] {
            for high in [0x7f_u8, 0xff] {
                let mut name = [0xff; 32];
                (name[0], name[31]) = (0xed + low, high);
                assert!(of_device(&group(1), &ClientId(name)).is_none());
            }
        }
    }

    #[test]
    fn a_point_that_differs_by_one_of_low_order_is_another_client() {
        let client = KeyPair::from_seed([1; 32]);
        let point = CompressedEdwardsY(client.public()).decompress().unwrap();
        let shifted = ClientId((point + EIGHT_TORSION[1]).compress().0);
        let tag = of_device(&group(1), &client.client_id()).unwrap().tag(&Digest([3; 32]));
        let key = of_device(&group(1), &shifted).unwrap();
        assert!(!key.is_tag(&Digest([3; 32]), &tag));
    }
}
