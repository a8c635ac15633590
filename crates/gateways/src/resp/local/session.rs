//! The state of a connection and the commands that change it.

use super::super::encoder::{Encoder, Resp};
use super::super::server::Shared;
use super::{fail, is};
use pentarchy_services::kv::number::parse_i64;
use pentarchy_services::kv::{Error, database};
use std::net::SocketAddr;

/// Bytes of a name that a client gives itself or its library.
const NAME_BYTES_MAX: usize = 256;

/// The version of Redis whose commands and errors are spoken. Clients choose features by it.
pub(super) const REDIS_VERSION: &str = "7.0.15";

const NO_PASSWORD: &str = "AUTH <password> called without any password configured for the default \
                           user. Are you sure your configuration is correct?";

/// What a client said about itself.
pub(crate) struct Session {
    pub id: u64,
    pub resp: Resp,
    /// It said good-bye.
    pub quits: bool,
    pub(super) name: Vec<u8>,
    pub(super) client_library: Vec<u8>,
    pub(super) client_version: Vec<u8>,
    peer: SocketAddr,
    local: SocketAddr,
}

impl Session {
    pub fn new(id: u64, peer: SocketAddr, shared: &Shared) -> Self {
        let session = Self {
            id,
            resp: Resp::Two,
            quits: false,
            name: Vec::new(),
            client_library: Vec::new(),
            client_version: Vec::new(),
            peer,
            local: shared.address,
        };
        shared.describe(id, session.line());
        session
    }

    /// As `CLIENT LIST` shows it.
    pub(super) fn line(&self) -> String {
        let text = String::from_utf8_lossy;
        format!(
            "id={} addr={} laddr={} name={} db=0 lib-name={} lib-ver={} resp={}\n",
            self.id,
            self.peer,
            self.local,
            text(&self.name),
            text(&self.client_library),
            text(&self.client_version),
            self.resp.number(),
        )
    }

    /// Takes a name if it fits on a line without spaces.
    pub(super) fn set_name(&mut self, name: &[u8], shared: &Shared) -> Result<(), Error> {
        self.name = checked_name(name, "Client names")?;
        shared.describe(self.id, self.line());
        Ok(())
    }

    /// Takes the name or the version of the client's library.
    pub(super) fn set_library(
        &mut self,
        what: &[u8],
        value: &[u8],
        shared: &Shared,
    ) -> Result<(), Error> {
        if is(what, "LIB-NAME") {
            self.client_library = checked_name(value, "lib-name")?;
        } else if is(what, "LIB-VER") {
            self.client_version = checked_name(value, "lib-ver")?;
        } else {
            let what = String::from_utf8_lossy(&what[..what.len().min(64)]).into_owned();
            return Err(Error::other(format!("Unrecognized option '{what}'")));
        }
        shared.describe(self.id, self.line());
        Ok(())
    }
}

fn checked_name(name: &[u8], what: &str) -> Result<Vec<u8>, Error> {
    if !name.iter().all(u8::is_ascii_graphic) {
        let rule = "cannot contain spaces, newlines or special characters.";
        return Err(Error::other(format!("{what} {rule}")));
    }
    if name.len() > NAME_BYTES_MAX {
        return Err(Error::other(format!("{what} cannot be longer than {NAME_BYTES_MAX} bytes.")));
    }
    Ok(name.to_vec())
}

pub fn ping(_: &mut Session, _: &Shared, args: &[&[u8]], out: &mut Encoder<'_>) {
    match args {
        [_] => out.status("PONG"),
        [_, message] => out.bulk(message),
        _ => fail(out, &Error::wrong_arity("ping")),
    }
}

pub fn echo(_: &mut Session, _: &Shared, args: &[&[u8]], out: &mut Encoder<'_>) {
    out.bulk(args[1]);
}

pub fn quit(session: &mut Session, _: &Shared, _: &[&[u8]], out: &mut Encoder<'_>) {
    session.quits = true;
    out.ok();
}

pub fn auth(_: &mut Session, _: &Shared, args: &[&[u8]], out: &mut Encoder<'_>) {
    let refused = if args.len() > 3 { "syntax error" } else { NO_PASSWORD };
    fail(out, &Error::other(refused));
}

pub fn select(_: &mut Session, _: &Shared, args: &[&[u8]], out: &mut Encoder<'_>) {
    match database(args[1]) {
        Ok(0) => out.ok(),
        Ok(_) => fail(out, &Error::other("DB index is out of range")),
        Err(error) => fail(out, &error),
    }
}

pub fn reset(session: &mut Session, shared: &Shared, _: &[&[u8]], out: &mut Encoder<'_>) {
    session.resp = Resp::Two;
    session.name.clear();
    shared.describe(session.id, session.line());
    out.status("RESET");
}

pub fn hello(session: &mut Session, shared: &Shared, args: &[&[u8]], out: &mut Encoder<'_>) {
    match hello_options(session, args) {
        Err(line) => out.error(&line),
        Ok((resp, name)) => {
            if let Some(Err(error)) = name.map(|name| session.set_name(name, shared)) {
                return fail(out, &error);
            }
            session.resp = resp;
            shared.describe(session.id, session.line());
            out.switch(resp);
            describe(session.id, resp, out);
        }
    }
}

/// The version and the name that are asked for, or the line of an error.
fn hello_options<'a>(
    session: &Session,
    args: &[&'a [u8]],
) -> Result<(Resp, Option<&'a [u8]>), String> {
    let mut name = None;
    let Some((version, mut rest)) = args[1..].split_first() else {
        return Ok((session.resp, None));
    };
    let resp = match parse_i64(version) {
        Some(2) => Resp::Two,
        Some(3) => Resp::Three,
        Some(_) => return Err("NOPROTO unsupported protocol version".into()),
        None => return Err("ERR Protocol version is not an integer or out of range".into()),
    };
    loop {
        match rest {
            [] => return Ok((resp, name)),
            [word, _, _, ..] if is(word, "AUTH") => return Err(format!("ERR {NO_PASSWORD}")),
            [word, value, after @ ..] if is(word, "SETNAME") => {
                name = Some(*value);
                rest = after;
            }
            [word, ..] => {
                let word = String::from_utf8_lossy(&word[..word.len().min(64)]);
                return Err(format!("ERR Syntax error in HELLO option '{word}'"));
            }
        }
    }
}

fn describe(id: u64, resp: Resp, out: &mut Encoder<'_>) {
    out.map(7);
    out.text("server");
    out.text("redis");
    out.text("version");
    out.text(REDIS_VERSION);
    out.text("proto");
    out.int(resp.number());
    out.text("id");
    out.int(i64::try_from(id).unwrap_or(i64::MAX));
    out.text("mode");
    out.text("standalone");
    out.text("role");
    out.text("master");
    out.text("modules");
    out.array(0);
}
