//! What a correct node says, correct replicas do not refuse.

use super::{Broken, Verdict};
use crate::packet::Address;
use pentarchy_core::ids::ReplicaId;
use pentarchy_core::protocol::Reject;

/// The name of the property.
pub const PROPERTY: &str = "acceptance";

/// A correct replica refused a packet; `sender_correct` says of whom.
///
/// # Errors
/// If the sender is correct.
pub fn refused(receiver: ReplicaId, sender: Address, sender_correct: bool, why: Reject) -> Verdict {
    if sender_correct {
        let detail = format!("{receiver} refuses what {sender:?} said: {}", why.name());
        return Err(Broken::new(PROPERTY, detail));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_faulty_may_be_refused() {
        let sender = Address::Replica(ReplicaId(1));
        assert!(refused(ReplicaId(0), sender, false, Reject::BadAuth).is_ok());
        let broken = refused(ReplicaId(0), sender, true, Reject::BadAuth).unwrap_err();
        assert_eq!(broken.property, PROPERTY);
        assert!(broken.detail.contains("bad_auth"));
    }
}
