//! Whether a cluster answers: one ordered read through the gateway, as a Redis client sends it.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

/// A read of a key that nobody sets. Reads are ordered, so an answer needs a working group.
const READ: &[u8] = b"*2\r\n$3\r\nGET\r\n$17\r\npentarchy:answers\r\n";

/// How long one attempt may take.
const LIMIT: Duration = Duration::from_secs(2);

/// Whether the group behind the gateway answers now.
pub fn answers(gateway: SocketAddr) -> bool {
    let ask = || -> std::io::Result<u8> {
        let mut stream = TcpStream::connect_timeout(&gateway, LIMIT)?;
        stream.set_read_timeout(Some(LIMIT))?;
        stream.write_all(READ)?;
        let mut first = [0];
        stream.read_exact(&mut first)?;
        Ok(first[0])
    };
    ask().is_ok_and(|first| first == b'$' || first == b'_')
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_length_of_the_key_is_right() {
        assert_eq!("pentarchy:answers".len(), 17);
        let text = std::str::from_utf8(super::READ).unwrap();
        assert!(text.contains("$17\r\npentarchy:answers\r\n"));
    }
}
