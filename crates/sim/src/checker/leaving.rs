//! Whatever a correct replica would show if it had to leave its view now, a correct peer accepts. A
//! replica that shows what nobody accepts is one too few in every view change to come; nothing else
//! may go wrong before another one fails.

use super::{Broken, Verdict};
use pentarchy_core::ids::ReplicaId;
use pentarchy_core::protocol::Reject;

/// The name of the property.
pub const PROPERTY: &str = "leaving";

/// A correct replica was asked what it would show.
///
/// # Errors
/// If it would not accept that itself.
pub fn shown(replica: ReplicaId, shown: Result<(), (&'static str, Reject)>) -> Verdict {
    shown.map_err(|(kind, why)| {
        let detail = format!("{replica} would refuse the {kind} that it would send now: {why:?}");
        Broken::new(PROPERTY, detail)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_would_be_refused_is_named() {
        shown(ReplicaId(1), Ok(())).unwrap();
        let refused = Err(("view_change", Reject::BadCertificate));
        let broken = shown(ReplicaId(1), refused).unwrap_err();
        assert_eq!(broken.property, PROPERTY);
        assert!(broken.detail.starts_with("r1 would refuse the view_change"), "{broken}");
    }
}
