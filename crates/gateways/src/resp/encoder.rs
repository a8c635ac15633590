//! Writes replies in the version of RESP that a connection speaks.

use bytes::{BufMut, BytesMut};
use pentarchy_services::kv::number::Spelled;
use pentarchy_services::kv::reply::{Token, Tokens};

/// A version of the protocol.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(crate) enum Resp {
    /// What every connection begins with.
    #[default]
    Two,
    /// Has maps, sets and a null of its own.
    Three,
}

impl Resp {
    pub const fn number(self) -> i64 {
        match self {
            Self::Two => 2,
            Self::Three => 3,
        }
    }
}

/// Writes replies behind what a buffer holds.
pub(crate) struct Encoder<'a> {
    to: &'a mut BytesMut,
    resp: Resp,
}

impl<'a> Encoder<'a> {
    pub const fn new(to: &'a mut BytesMut, resp: Resp) -> Self {
        Self { to, resp }
    }

    pub const fn switch(&mut self, resp: Resp) {
        self.resp = resp;
    }

    pub fn ok(&mut self) {
        self.to.put_slice(b"+OK\r\n");
    }

    /// One line of text.
    pub fn status(&mut self, text: &str) {
        self.line(b'+', text.as_bytes());
    }

    /// One line of text, its first word in capitals.
    pub fn error(&mut self, line: &str) {
        self.line(b'-', line.as_bytes());
    }

    pub fn int(&mut self, value: i64) {
        self.line(b':', Spelled::new(value).as_bytes());
    }

    pub fn bulk(&mut self, value: &[u8]) {
        self.header(b'$', value.len());
        self.to.put_slice(value);
        self.to.put_slice(b"\r\n");
    }

    pub fn text(&mut self, value: &str) {
        self.bulk(value.as_bytes());
    }

    /// Text for people, which RESP3 marks as such.
    pub fn prose(&mut self, value: &str) {
        match self.resp {
            Resp::Two => self.text(value),
            Resp::Three => {
                self.header(b'=', value.len() + 4);
                self.to.put_slice(b"txt:");
                self.to.put_slice(value.as_bytes());
                self.to.put_slice(b"\r\n");
            }
        }
    }

    pub fn nil(&mut self) {
        self.to.put_slice(match self.resp {
            Resp::Two => b"$-1\r\n",
            Resp::Three => b"_\r\n",
        });
    }

    pub fn nil_array(&mut self) {
        self.to.put_slice(match self.resp {
            Resp::Two => b"*-1\r\n",
            Resp::Three => b"_\r\n",
        });
    }

    /// So many replies follow.
    pub fn array(&mut self, count: usize) {
        self.header(b'*', count);
    }

    /// So many replies follow, in no order.
    pub fn set(&mut self, count: usize) {
        self.header(if self.resp == Resp::Two { b'*' } else { b'~' }, count);
    }

    /// So many pairs of replies follow.
    pub fn map(&mut self, pairs: usize) {
        match self.resp {
            Resp::Two => self.header(b'*', 2 * pairs),
            Resp::Three => self.header(b'%', pairs),
        }
    }

    /// A result of the store; an error in its place if it is not one, so that a reply is whole
    /// whatever comes.
    pub fn result(&mut self, encoded: &[u8]) {
        let start = self.to.len();
        if self.tokens(encoded).is_none() {
            self.to.truncate(start);
            self.error("ERR the replicas run a service that is not the key-value store");
        }
    }

    fn tokens(&mut self, encoded: &[u8]) -> Option<()> {
        let mut tokens = Tokens::new(encoded);
        let mut missing = 1usize;
        while missing > 0 {
            missing -= 1;
            match tokens.read().ok()? {
                Token::Ok => self.ok(),
                Token::Status(text) => self.line(b'+', text),
                Token::Int(value) => self.int(value),
                Token::Bulk(value) => self.bulk(value),
                Token::Nil => self.nil(),
                Token::NilArray => self.nil_array(),
                Token::Array(count) => {
                    missing += count as usize;
                    self.array(count as usize);
                }
                Token::Set(count) => {
                    missing += count as usize;
                    self.set(count as usize);
                }
                Token::Map(count) => {
                    missing += 2 * count as usize;
                    self.map(count as usize);
                }
                Token::Pairs(count) => self.pairs(&mut tokens, count as usize)?,
                Token::Double(text) => self.double(text),
                Token::Error(kind, text) => {
                    self.to.put_u8(b'-');
                    self.to.put_slice(kind.word().as_bytes());
                    self.line(b' ', text);
                }
            }
        }
        tokens.is_empty().then_some(())
    }

    /// Pairs of single values: one array in RESP2, an array of arrays in RESP3.
    fn pairs(&mut self, tokens: &mut Tokens<'_>, count: usize) -> Option<()> {
        let flat = self.resp == Resp::Two;
        self.array(if flat { 2 * count } else { count });
        for _ in 0..count {
            if !flat {
                self.array(2);
            }
            for _ in 0..2 {
                match tokens.read().ok()? {
                    Token::Bulk(value) => self.bulk(value),
                    Token::Double(text) => self.double(text),
                    _ => return None,
                }
            }
        }
        Some(())
    }

    /// A floating-point number in its spelling.
    fn double(&mut self, text: &[u8]) {
        match self.resp {
            Resp::Two => self.bulk(text),
            Resp::Three => self.line(b',', text),
        }
    }

    fn header(&mut self, marker: u8, count: usize) {
        // What is counted lies in memory.
        self.line(marker, Spelled::new(count as i64).as_bytes());
    }

    /// A line, whatever the text: what would end it early becomes a space.
    fn line(&mut self, marker: u8, text: &[u8]) {
        self.to.put_u8(marker);
        let start = self.to.len();
        self.to.put_slice(text);
        for byte in &mut self.to[start..] {
            if matches!(byte, b'\r' | b'\n') {
                *byte = b' ';
            }
        }
        self.to.put_slice(b"\r\n");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;
    use pentarchy_services::kv::{ErrorKind, Reply};
    use redis_protocol::resp2::decode::decode as decode2;
    use redis_protocol::resp3::decode::complete::decode as decode3;

    fn rendered(reply: &[u8], resp: Resp) -> String {
        let mut buffer = BytesMut::new();
        Encoder::new(&mut buffer, resp).result(reply);
        String::from_utf8(buffer.to_vec()).unwrap()
    }

    #[test]
    fn replies_are_what_an_independent_decoder_reads() {
        let reply = Reply::Array(vec![
            Reply::Ok,
            Reply::Status(Bytes::from_static(b"list")),
            Reply::Int(999_999_999_999_999_999),
            Reply::Int(i64::MIN),
            Reply::Bulk(Bytes::from_static(b"")),
            Reply::Nil,
            Reply::NilArray,
            Reply::Array(vec![]),
            Reply::Error(ErrorKind::WrongType, Bytes::from_static(b"a\r\nb")),
        ]);
        let two = rendered(&reply.encode(), Resp::Two);
        let body = "+OK\r\n+list\r\n:999999999999999999\r\n:-9223372036854775808\r\n$0\r\n\r\n";
        let wanted = format!("*9\r\n{body}$-1\r\n*-1\r\n*0\r\n-WRONGTYPE a  b\r\n");
        assert_eq!(two, wanted);
        assert_eq!(decode2(two.as_bytes()).unwrap().unwrap().1, two.len());
        let three = rendered(&reply.encode(), Resp::Three);
        assert_eq!(three, format!("*9\r\n{body}_\r\n_\r\n*0\r\n-WRONGTYPE a  b\r\n"));
        assert_eq!(decode3(three.as_bytes()).unwrap().unwrap().1, three.len());
    }

    #[test]
    fn sets_maps_pairs_and_floats_differ_by_version() {
        let bulk = |text| Reply::Bulk(Bytes::from_static(text));
        let double = || Reply::Double(Bytes::from_static(b"1.5"));
        let reply = Reply::Array(vec![
            Reply::Set(vec![bulk(b"a")]),
            Reply::Map(vec![bulk(b"b"), Reply::Int(1)]),
            Reply::Pairs(vec![bulk(b"c"), double(), bulk(b"d"), double()]),
            double(),
        ]);
        for (resp, wanted) in [
            (Resp::Two, "*4 *1 $1 a *2 $1 b :1 *4 $1 c $3 1.5 $1 d $3 1.5 $3 1.5 "),
            (Resp::Three, "*4 ~1 $1 a %1 $1 b :1 *2 *2 $1 c ,1.5 *2 $1 d ,1.5 ,1.5 "),
        ] {
            assert_eq!(rendered(&reply.encode(), resp).replace("\r\n", " "), wanted);
        }
        let deep = Reply::Pairs(vec![bulk(b"a"), Reply::Array(vec![])]);
        assert!(rendered(&deep.encode(), Resp::Two).starts_with("-ERR"));
    }

    #[test]
    fn what_is_no_reply_becomes_one_error() {
        for bad in [&b""[..], &[9], &[6, 2, 0, 0, 0, 0], &[0, 0], &[6, 1, 0, 0, 0]] {
            let line = rendered(bad, Resp::Two);
            assert!(line.starts_with("-ERR the replicas run") && line.ends_with("\r\n"), "{line}");
        }
    }

    #[test]
    fn maps_and_prose_differ_by_version() {
        for (resp, wanted) in [
            (Resp::Two, "*2\r\n$1\r\na\r\n$2\r\nhi\r\n"),
            (Resp::Three, "%1\r\n$1\r\na\r\n=6\r\ntxt:hi\r\n"),
        ] {
            let mut buffer = BytesMut::new();
            let mut encoder = Encoder::new(&mut buffer, resp);
            encoder.map(1);
            encoder.text("a");
            encoder.prose("hi");
            assert_eq!(buffer, wanted);
        }
    }
}
