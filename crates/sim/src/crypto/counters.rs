//! What devices seal, and who believes it. If devices of production stand beside those of the
//! world, they are asked too whether a seal is right.

use super::{Crypto, keyed};
use crate::certifier::Certifier;
use pentarchy_core::counter::{Certificate, Position, TrustedMac, Ui};
use pentarchy_core::digest::Digest;

impl Crypto {
    /// Seals as a device.
    #[must_use]
    pub fn certify(
        &self,
        by: Certifier,
        position: Position,
        committed: Position,
        digest: &Digest,
    ) -> Certificate {
        let (view, index) = (position.view.0, position.index);
        let (incarnation, epoch) = (by.incarnation.0, by.epoch.0);
        let numbers = [view, index, committed.view.0, committed.index, incarnation, epoch];
        let mut certificate = [0; 32];
        let secret = &self.devices[usize::from(by.replica.0)];
        // The kinds of other statements are below 8.
        let kind = 2 | (by.instance.0 % 32) << 3;
        certificate[..16].copy_from_slice(&keyed(secret, kind, numbers, digest));
        Certificate::Mac(certificate)
    }

    /// The MAC by which a device says that its replica said this.
    #[must_use]
    pub fn mac_by(&self, by: Certifier, digest: &Digest) -> TrustedMac {
        let numbers = [by.incarnation.0, by.epoch.0, 0, 0, 0, 0];
        let mut mac = [0; 32];
        let secret = &self.devices[usize::from(by.replica.0)];
        let kind = 5 | (by.instance.0 % 32) << 3;
        mac[..16].copy_from_slice(&keyed(secret, kind, numbers, digest));
        TrustedMac(mac)
    }

    /// Whether this device made the MAC of the statement with this digest.
    #[must_use]
    pub fn is_mac(&self, by: Certifier, digest: &Digest, mac: &TrustedMac) -> bool {
        let takes = usize::from(by.replica.0) < self.devices.len()
            && by.instance.0 < 32
            && self.mac_by(by, digest) == *mac;
        if let Some(real) = &self.real {
            real.compare_mac(by, mac, digest, takes);
        }
        takes
    }

    /// Whether this device gave the identifier to the statement with this digest.
    #[must_use]
    pub fn certified(&self, by: Certifier, digest: &Digest, ui: &Ui) -> bool {
        let may = usize::from(by.replica.0) < self.devices.len()
            && ui.instance == by.instance
            && ui.instance.0 < 32
            && ui.incarnation == by.incarnation;
        if !may {
            return false;
        }
        let takes = self.certify(by, ui.position, ui.committed, digest) == ui.certificate;
        if let Some(real) = &self.real {
            real.compare_identifier(by, ui, digest, takes);
        }
        takes
    }
}
