//! `AUTH` and `HELLO`.

use super::super::encoder::{Encoder, Resp};
use super::super::shared::Shared;
use super::session::{REDIS_VERSION, Session};
use super::{fail, is};
use pentarchy_services::kv::Error;
use pentarchy_services::kv::number::parse_i64;

const NO_PASSWORD: &str = "ERR AUTH <password> called without any password configured for the \
                           default user. Are you sure your configuration is correct?";
const WRONG: &str = "WRONGPASS invalid username-password pair or user is disabled.";
const HELLO_NO_AUTH: &str = "NOAUTH HELLO must be called with the client already authenticated, \
                             otherwise the HELLO <proto> AUTH <user> <pass> option can be used to \
                             authenticate the client and select the RESP protocol version at the \
                             same time";

/// Whether this user has this password. `None` is the user `default`, by the old form of `AUTH`.
fn check(shared: &Shared, user: Option<&[u8]>, said: &[u8]) -> Result<(), &'static str> {
    let known = user.is_none_or(|user| user == b"default");
    match &shared.config.password {
        None if user.is_none() => Err(NO_PASSWORD),
        // As in Redis: without a password the user has any.
        None if known => Ok(()),
        Some(password) if password.is(said) && known => Ok(()),
        _ => Err(WRONG),
    }
}

pub fn auth(session: &mut Session, shared: &Shared, args: &[&[u8]], out: &mut Encoder<'_>) {
    let outcome = match args[1..] {
        [said] => check(shared, None, said),
        [user, said] => check(shared, Some(user), said),
        _ => return fail(out, &Error::other("syntax error")),
    };
    match outcome {
        Ok(()) => {
            session.authenticated = true;
            out.ok();
        }
        Err(line) => {
            session.guessed_wrong = line == WRONG;
            out.error(line);
        }
    }
}

pub fn hello(session: &mut Session, shared: &Shared, args: &[&[u8]], out: &mut Encoder<'_>) {
    match hello_options(session, shared, args) {
        Err(line) => {
            session.guessed_wrong = line == WRONG;
            out.error(&line);
        }
        Ok(options) => {
            if let Some(name) = options.name
                && let Err(error) = session.set_name(name, shared)
            {
                return fail(out, &error);
            }
            session.authenticated = true;
            session.resp = options.resp;
            out.switch(options.resp);
            shared.describe(session.id, session.line());
            describe(session.id, options.resp, out);
        }
    }
}

struct Options<'a> {
    resp: Resp,
    name: Option<&'a [u8]>,
}

fn hello_options<'a>(
    session: &Session,
    shared: &Shared,
    args: &[&'a [u8]],
) -> Result<Options<'a>, String> {
    let mut options = Options { resp: session.resp, name: None };
    let mut authenticated = session.authenticated;
    let mut rest = &args[1..];
    if let [version, after @ ..] = rest {
        options.resp = match parse_i64(version) {
            Some(2) => Resp::Two,
            Some(3) => Resp::Three,
            Some(_) => return Err("NOPROTO unsupported protocol version".into()),
            None => return Err("ERR Protocol version is not an integer or out of range".into()),
        };
        rest = after;
    }
    loop {
        match rest {
            [] if authenticated => return Ok(options),
            [] => return Err(HELLO_NO_AUTH.into()),
            [word, user, said, after @ ..] if is(word, "AUTH") => {
                check(shared, Some(user), said)?;
                authenticated = true;
                rest = after;
            }
            [word, value, after @ ..] if is(word, "SETNAME") => {
                options.name = Some(*value);
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
