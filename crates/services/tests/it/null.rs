use crate::support::context;
use pentarchy_core::limits::OPERATION_BYTES_MAX;
use pentarchy_core::service::Service;
use pentarchy_services::null::Null;

#[test]
fn answers_as_long_as_asked_and_no_longer_than_allowed() {
    let mut null = Null::new();
    let operation = Null::operation(4096, 7);
    assert_eq!(operation.len(), 4096);
    assert_eq!(null.execute(&context(1), &operation), vec![0; 7]);
    assert_eq!(null.query(&Null::operation(0, 2)), vec![0; 2]);
    assert_eq!(null.execute(&context(2), &[1, 2]), Vec::<u8>::new());
    let longest = null.execute(&context(3), &Null::operation(4, u32::MAX));
    assert_eq!(longest.len(), OPERATION_BYTES_MAX);
    assert_eq!(null.executed(), 3, "queries are not counted");
}

#[test]
fn its_state_moves_and_reports_changes() {
    let mut null = Null::new();
    assert_eq!(null.changed_sections(), [0]);
    assert_eq!(null.changed_sections(), [] as [u32; 0]);
    null.execute(&context(1), &Null::operation(4, 0));
    assert_eq!(null.changed_sections(), [0]);
    let mut other = Null::new();
    other.restore_section(0, &null.section(0)).unwrap();
    assert_eq!(other.executed(), 1);
    assert!(other.restore_section(0, &[1]).is_err());
}
