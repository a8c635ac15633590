//! Cutting a byte stream into frames, and frames into messages.
//!
//! On the wire a frame is a `u32` length and that many bytes. Inside an encrypted frame each
//! message is a `u32` length and that many bytes. All little-endian.

use crate::buffers;
use crate::error::ChannelError;
use bytes::Bytes;

/// Bytes of a length.
pub const LENGTH_BYTES: usize = 4;

/// A message that takes less than one part in this many of its frame is copied out of it, so that
/// keeping a small message never keeps a large frame.
const SHARE_MIN: usize = 8;

/// Frames up to this size are shared whatever their messages' sizes.
const SHARE_ALWAYS_BYTES: usize = 4 << 10;

/// Collects a byte stream until a frame is whole. Frames that arrive whole are not copied.
#[derive(Debug, Default)]
pub struct Deframer {
    partial: Vec<u8>,
}

impl Deframer {
    /// Hands each whole frame, without its length, to `on_frame`, in order. A length above what
    /// `frame_bytes_max` says at that moment is refused before anything is kept of the frame.
    ///
    /// # Errors
    /// [`ChannelError::Oversize`], or what `on_frame` says.
    pub fn feed<S>(
        &mut self,
        mut input: &[u8],
        state: &mut S,
        frame_bytes_max: impl Fn(&S) -> usize,
        mut on_frame: impl FnMut(&mut S, &[u8]) -> Result<(), ChannelError>,
    ) -> Result<(), ChannelError> {
        while !input.is_empty() {
            if self.partial.is_empty()
                && let Some((header, rest)) = input.split_first_chunk()
            {
                let length = length(*header, frame_bytes_max(state))?;
                if let Some((frame, rest)) = rest.split_at_checked(length) {
                    on_frame(state, frame)?;
                    input = rest;
                    continue;
                }
            }
            let wanted = match self.partial.first_chunk() {
                None => LENGTH_BYTES,
                Some(header) => LENGTH_BYTES + length(*header, frame_bytes_max(state))?,
            };
            if self.partial.len() == LENGTH_BYTES {
                self.partial = with_room(&self.partial, wanted);
            }
            let (taken, rest) = input.split_at(input.len().min(wanted - self.partial.len()));
            self.partial.extend_from_slice(taken);
            input = rest;
            if let Some(header) = self.partial.first_chunk() {
                length(*header, frame_bytes_max(state))?;
            }
            if self.partial.len() == wanted && wanted > LENGTH_BYTES || self.is_empty_frame() {
                let frame = std::mem::take(&mut self.partial);
                on_frame(state, &frame[LENGTH_BYTES..])?;
                buffers::give(frame);
            }
        }
        Ok(())
    }

    fn is_empty_frame(&self) -> bool {
        self.partial == [0; LENGTH_BYTES]
    }

    /// Bytes of the frame that is not whole yet.
    #[must_use]
    pub fn pending_bytes(&self) -> usize {
        self.partial.len()
    }
}

/// A copy of the length of a frame, in a spare buffer that holds all of it if there is one. Nothing
/// is allocated because of a length alone.
fn with_room(header: &[u8], wanted: usize) -> Vec<u8> {
    let mut buffer = buffers::empty(wanted);
    buffer.extend_from_slice(header);
    buffer
}

fn length(header: [u8; LENGTH_BYTES], max: usize) -> Result<usize, ChannelError> {
    let length = u32::from_le_bytes(header) as usize;
    if length > max { Err(ChannelError::Oversize) } else { Ok(length) }
}

/// Cuts a decrypted frame into its messages, which share its buffer where that holds no more than
/// a few times their own bytes.
///
/// # Errors
/// [`ChannelError::Malformed`] if a length leads out of the frame. Messages before it are appended.
pub fn split(frame: Bytes, messages: &mut Vec<Bytes>) -> Result<(), ChannelError> {
    let mut at = 0;
    while at < frame.len() {
        let header = frame[at..].first_chunk().ok_or(ChannelError::Malformed)?;
        let start = at + LENGTH_BYTES;
        at = start + length(*header, frame.len() - start).map_err(|_| ChannelError::Malformed)?;
        let is_shared =
            frame.len() <= SHARE_ALWAYS_BYTES || (at - start) * SHARE_MIN >= frame.len();
        messages.push(if is_shared {
            frame.slice(start..at)
        } else {
            Bytes::copy_from_slice(&frame[start..at])
        });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stream(frames: &[&[u8]]) -> Vec<u8> {
        let mut bytes = Vec::new();
        for frame in frames {
            bytes.extend_from_slice(&(frame.len() as u32).to_le_bytes());
            bytes.extend_from_slice(frame);
        }
        bytes
    }

    #[test]
    fn frames_come_out_however_the_stream_is_cut() {
        let frames: [&[u8]; 5] = [b"one", b"", b"three and more", b"", b"5"];
        let bytes = stream(&frames);
        for step in 1..=bytes.len() {
            let (mut deframer, mut got) = (Deframer::default(), Vec::new());
            for part in bytes.chunks(step) {
                deframer
                    .feed(
                        part,
                        &mut got,
                        |_| 64,
                        |got: &mut Vec<Vec<u8>>, frame| {
                            got.push(frame.to_vec());
                            Ok(())
                        },
                    )
                    .unwrap();
            }
            assert_eq!(got, frames, "in parts of {step}");
            assert_eq!(deframer.pending_bytes(), 0);
        }
    }

    #[test]
    fn a_frame_beyond_the_bound_is_refused_by_its_length_alone() {
        let mut deframer = Deframer::default();
        let mut feed = |bytes: &[u8]| deframer.feed(bytes, &mut (), |()| 10, |(), _| Ok(()));
        assert_eq!(feed(&[10, 0]), Ok(()));
        assert_eq!(feed(&[0, 0]), Ok(()));
        assert_eq!(feed(&[7; 10]), Ok(()));
        assert_eq!(feed(&[11, 0, 0]), Ok(()));
        assert_eq!(feed(&[0]), Err(ChannelError::Oversize), "however its length was cut");
    }

    #[test]
    fn messages_share_a_frame_unless_they_are_small_in_it() {
        let small = [1u8; 16];
        let large = vec![2u8; SHARE_ALWAYS_BYTES];
        let frame = Bytes::from(stream(&[&small, &large]));
        let mut messages = Vec::new();
        split(frame.clone(), &mut messages).unwrap();
        assert_eq!(messages, [Bytes::copy_from_slice(&small), Bytes::from(large)]);
        let within = frame.as_ptr_range();
        assert!(!within.contains(&messages[0].as_ptr()) && within.contains(&messages[1].as_ptr()));
    }

    #[test]
    fn a_message_that_leads_out_of_its_frame_is_malformed() {
        let mut messages = Vec::new();
        let cut =
            |bytes: &'static [u8], messages: &mut _| split(Bytes::from_static(bytes), messages);
        assert_eq!(cut(&[2, 0, 0, 0, 9], &mut messages), Err(ChannelError::Malformed));
        assert_eq!(cut(&[0, 0, 0], &mut messages), Err(ChannelError::Malformed));
        assert_eq!(cut(&[], &mut messages), Ok(()));
        assert!(messages.is_empty());
    }
}
