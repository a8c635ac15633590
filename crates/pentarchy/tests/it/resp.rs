//! A Redis client of a few lines, for tests that must know which writes were acknowledged.

use crate::support::PATIENCE;
use std::io::{BufRead as _, BufReader, ErrorKind, Read as _, Result, Write as _};
use std::net::{Ipv4Addr, TcpStream};

/// One connection.
pub struct Connection(BufReader<TcpStream>);

impl Connection {
    /// Connects to a gateway on this machine.
    pub fn open(port: u16) -> Self {
        let stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).expect("the gateway listens");
        Self::over(stream)
    }

    /// Takes over a stream that is connected to a gateway.
    pub fn over(stream: TcpStream) -> Self {
        stream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
        stream.set_nodelay(true).expect("no delay");
        Self(BufReader::new(stream))
    }

    /// Sends a command and reads its answer.
    pub fn call(&mut self, words: &[&str]) -> Option<String> {
        self.try_call(words).expect("the gateway answers")
    }

    /// The same, with a gateway that may be killed meanwhile.
    ///
    /// # Errors
    /// What the system says of a connection that is closed.
    pub fn try_call(&mut self, words: &[&str]) -> Result<Option<String>> {
        self.try_send(words)?;
        self.try_receive()
    }

    /// Sends a command.
    pub fn send(&mut self, words: &[&str]) {
        self.try_send(words).expect("the gateway reads");
    }

    fn try_send(&mut self, words: &[&str]) -> Result<()> {
        let mut command = format!("*{}\r\n", words.len());
        for word in words {
            command.push_str(&format!("${}\r\n{word}\r\n", word.len()));
        }
        self.0.get_mut().write_all(command.as_bytes())
    }

    /// Reads an answer: a simple string, an error, a number or a bulk string, as text; `None` if
    /// there is no value.
    pub fn receive(&mut self) -> Option<String> {
        self.try_receive().expect("the gateway answers")
    }

    fn try_receive(&mut self) -> Result<Option<String>> {
        let mut line = String::new();
        self.0.read_line(&mut line)?;
        if !line.ends_with('\n') {
            return Err(ErrorKind::UnexpectedEof.into());
        }
        let (kind, rest) = line.trim_end().split_at(1);
        Ok(match (kind, rest) {
            ("$", "-1") | ("_", _) => None,
            ("$", length) => {
                let mut value = vec![0; length.parse::<usize>().expect("a length") + 2];
                self.0.read_exact(&mut value)?;
                value.truncate(value.len() - 2);
                Some(String::from_utf8(value).expect("text"))
            }
            _ => Some(line.trim_end().to_owned()),
        })
    }
}
