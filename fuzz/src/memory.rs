//! What a decoder may allocate.

/// Bytes of memory that one byte of input may cost. A count reserves room for its elements if there
/// is a byte left for each, and the largest element, a certified message, takes some 200 bytes.
const PER_BYTE: usize = 256;

/// Bytes of memory that an input may cost however small it is.
const ALWAYS: usize = 4 << 10;

/// Runs a decoder of `length` bytes.
///
/// # Panics
/// If it holds more memory at any time than the bytes that are there justify.
pub fn bounded<T>(length: usize, decode: impl FnOnce() -> T) -> T {
    let mut decoded = None;
    let info = allocation_counter::measure(|| decoded = Some(decode()));
    let bound = ALWAYS + PER_BYTE * length;
    assert!(info.bytes_max <= bound as u64, "{} bytes for {length} of input", info.bytes_max);
    decoded.expect("measure() runs what it measures")
}
