//! Text of `cluster.toml` to [`ClusterConfig`], with a place for every complaint.

use super::file::{AdministratorsTable, ClientsTable, File, ReplicaTable, TimeoutsTable};
use super::usual_timeouts;
use super::{ClusterConfig, ConfigError, CounterPlace, Durability, FORMAT, ReplicaEntry};
use super::{LOG_MIB, LOG_MIB_MAX, LOG_MIB_MIN};
use pentarchy_core::configuration::{Access, Administrators};
use pentarchy_core::ids::{ClientId, GroupId, Incarnation};
use pentarchy_core::limits::{
    ADDRESS_BYTES_MAX, ADMINISTRATORS_MAX, CLIENTS_LISTED_MAX, PILLARS_MAX, REPLICAS_MAX,
};
use pentarchy_core::membership::PillarConfig;
use pentarchy_core::protocol::{Timeouts, Tuning};
use pentarchy_crypto::verifier::RequestMode;
use std::collections::BTreeSet;
use std::ops::Range;
use std::path::Path;
use toml::Spanned;

/// A complaint about a range of bytes.
struct Complaint(Range<usize>, String);

type Checked<T> = Result<T, Complaint>;

fn complain<T, V>(about: &Spanned<V>, message: impl Into<String>) -> Checked<T> {
    Err(Complaint(about.span(), message.into()))
}

impl ClusterConfig {
    /// Checks the text of a file; `path` is only for messages.
    ///
    /// # Errors
    /// [`ConfigError`] with line and column.
    pub fn parse(path: &Path, text: &str) -> Result<Self, ConfigError> {
        let file: File = toml::from_str(text).map_err(|error| match error.span() {
            Some(span) => {
                let message = advise(error.message(), &text[..span.start.min(text.len())]);
                ConfigError::at(path, text, span, message)
            }
            None => ConfigError::whole(path, advise(error.message(), "")),
        })?;
        check(file).map_err(|Complaint(span, message)| ConfigError::at(path, text, span, message))
    }
}

/// What the parser says, in words that do not presume Rust, and what to do about it. `before` is
/// the text before the place that is meant.
fn advise(message: &str, before: &str) -> String {
    let line = before.rsplit('\n').next().unwrap_or_default();
    let whole = "a whole number without quotes, sign or unit";
    let whole =
        if line.contains("_ms") { format!("{whole}, of milliseconds") } else { whole.into() };
    let said = message.replace("expected u64", &format!("expected {whole}"));
    let said = said.replace("expected usize", &format!("expected {whole}")).replace(" as i128", "");
    let said = said.replace("expected a sequence", "expected double brackets: [[replica]]");
    if line.contains("_ms") && said.starts_with("string values must be quoted") {
        return format!("expected {whole}");
    }
    if said.starts_with("duplicate key") && line.starts_with('[') {
        return format!(
            "{said}: a table is written once, and replicas in double brackets: [[replica]]"
        );
    }
    if said.starts_with("duplicate key") {
        return format!("{said}: remove all but one");
    }
    if said.starts_with("missing field") {
        return format!(
            "{said}: take this file as `pentarchy init` made it, the same on every host"
        );
    }
    said
}

fn check(file: File) -> Checked<ClusterConfig> {
    if *file.format.get_ref() != FORMAT {
        return complain(
            &file.format,
            format!("this is format {}; this program reads format {FORMAT}", file.format.get_ref()),
        );
    }
    let group = GroupId(hex_array(&file.group, "the group's name")?);
    let f = *file.f.get_ref();
    let protocol = protocol(&file.protocol)?;
    check_size(&file)?;
    let lane = lane(&file)?;
    let request_auth = request_auth(&file)?;
    let session_key = session_key(request_auth, &file)?;
    let durability = durability(file.durability.as_ref())?;
    let counter = counter(&file)?;
    let replicas = replicas(file.replica.into_inner())?;
    let config = ClusterConfig {
        group,
        protocol,
        f,
        lane,
        request_auth,
        session_key,
        durability,
        counter,
        log_mib: log_mib(file.log_mib.as_ref())?,
        timeouts: timeouts(&file.timeouts)?,
        tuning: Tuning::default(),
        access: access(&file.clients)?,
        administrators: administrators(file.administrators.as_ref())?,
        replicas,
        later: None,
    };
    match config.configuration().check() {
        Ok(()) => Ok(config),
        Err(error) => complain(&file.protocol, error.to_string()),
    }
}

fn protocol(name: &Spanned<String>) -> Checked<String> {
    if crate::protocols::find(name.get_ref()).is_some() {
        return Ok(name.get_ref().clone());
    }
    let known: Vec<_> = crate::protocols::names().collect();
    complain(name, format!("no protocol {:?}; there is: {}", name.get_ref(), known.join(", ")))
}

/// How the order is split; of an older file not at all.
fn lane(file: &File) -> Checked<PillarConfig> {
    let pillars = file.pillars.as_ref().map_or(1, |pillars| *pillars.get_ref());
    let rotates = file.rotate_leader.as_ref().is_some_and(|rotates| *rotates.get_ref());
    let lane = u8::try_from(pillars).map(|pillars| PillarConfig { pillars, rotates, pillar: None });
    let checked = match lane {
        Ok(lane) => crate::protocols::check_lane(file.protocol.get_ref(), lane).map(|()| lane),
        Err(_) => Err(format!("{pillars} pillars; 1 to {PILLARS_MAX} work")),
    };
    let pillars = file.pillars.as_ref().map(Spanned::span);
    let span = pillars.or_else(|| file.rotate_leader.as_ref().map(Spanned::span));
    checked.map_err(|message| Complaint(span.unwrap_or_else(|| file.protocol.span()), message))
}

fn check_size(file: &File) -> Checked<()> {
    let (n, f) = (file.replica.get_ref().len(), *file.f.get_ref());
    if f > REPLICAS_MAX {
        return complain(&file.f, format!("f = {f} is more than any group tolerates"));
    }
    let needed = crate::protocols::replicas_needed(file.protocol.get_ref(), f);
    if n > REPLICAS_MAX {
        return complain(&file.replica, format!("{n} replicas; at most {REPLICAS_MAX} work"));
    }
    if needed != Some(n) {
        let needed = needed.map_or_else(|| "another number of".to_owned(), |n| n.to_string());
        return complain(
            &file.f,
            format!("f = {f} needs {needed} [[replica]] tables, and there are {n}"),
        );
    }
    Ok(())
}

fn replicas(tables: Vec<ReplicaTable>) -> Checked<Vec<ReplicaEntry>> {
    let mut keys = BTreeSet::new();
    let mut addresses = BTreeSet::new();
    let mut entries = Vec::with_capacity(tables.len());
    for table in tables {
        let address = address(&table.address)?;
        if !addresses.insert(address.clone()) {
            return complain(&table.address, format!("two replicas have the address {address}"));
        }
        let key = hex_array(&table.key, "a public key")?;
        if !keys.insert(key) {
            return complain(&table.key, "two replicas have this key");
        }
        // Of a group that was made by an earlier version, it is the same one.
        let signing = match &table.signing {
            Some(text) => hex_array(text, "a public key")?,
            None => key,
        };
        if signing != key && !keys.insert(signing) {
            let signing = table.signing.as_ref().map_or_else(|| table.key.span(), Spanned::span);
            return Err(Complaint(signing, "another replica has this key".to_owned()));
        }
        let device_key = match &table.device_key {
            Some(text) => hex_array(text, "a public key")?,
            None => [0; 32],
        };
        let incarnation = hex_array(&table.incarnation, "an incarnation")?;
        let incarnation = Incarnation(u64::from_be_bytes(incarnation));
        entries.push(ReplicaEntry { address, key, signing, incarnation, device_key });
    }
    Ok(entries)
}

fn address(text: &Spanned<String>) -> Checked<String> {
    match check_address(text.get_ref()) {
        Ok(()) => Ok(text.get_ref().clone()),
        Err(message) => complain(text, message),
    }
}

/// Whether this is `host:port` with a port other than 0.
///
/// # Errors
/// What is wrong with it.
pub fn check_address(text: &str) -> Result<(), String> {
    let good = text.rsplit_once(':').is_some_and(|(host, port)| {
        let host = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
        let characters = |c: char| c.is_ascii_alphanumeric() || "-._:".contains(c);
        !host.is_empty()
            && text.len() <= ADDRESS_BYTES_MAX
            && host.chars().all(characters)
            && port.parse::<u16>().is_ok_and(|port| port != 0)
    });
    if good { Ok(()) } else { Err(format!("{text:?} is no address; write host:port, like a:7000")) }
}

fn request_auth(file: &File) -> Checked<RequestMode> {
    let Some(name) = &file.request_auth else { return Ok(RequestMode::default()) };
    match name.get_ref().as_str() {
        "signature" => Ok(RequestMode::Signature),
        "mac" => Ok(RequestMode::Mac),
        "session" if !crate::protocols::takes_sessions(file.protocol.get_ref()) => {
            let protocol = file.protocol.get_ref();
            complain(name, format!("{protocol} has no trusted devices that could check sessions"))
        }
        "session" => Ok(RequestMode::Session),
        other => complain(
            name,
            format!("no request_auth {other:?}; write \"signature\", \"session\" or \"mac\""),
        ),
    }
}

/// The key that goes with sessions and with nothing else. Devices that have keys of their own share
/// none with which clients could agree.
fn session_key(mode: RequestMode, file: &File) -> Checked<Option<[u8; 32]>> {
    match (mode, &file.request_auth, &file.session_key) {
        (RequestMode::Session, Some(name), None) => {
            complain(name, "sessions need a session_key, which is made with the cluster")
        }
        (RequestMode::Session, _, Some(key)) => {
            let own = file.replica.get_ref().iter().find_map(|table| table.device_key.as_ref());
            if let Some(own) = own {
                return complain(
                    own,
                    "this trusted device has a key of its own, and sessions need devices that \
                     share one: write request_auth = \"signature\"",
                );
            }
            hex_array(key, "a public key").map(Some)
        }
        (_, _, Some(key)) => {
            complain(key, "a session_key goes with request_auth = \"session\" only")
        }
        (_, _, None) => Ok(None),
    }
}

fn counter(file: &File) -> Checked<CounterPlace> {
    let Some(name) = &file.counter else { return Ok(CounterPlace::default()) };
    let own = || file.replica.get_ref().iter().find_map(|table| table.device_key.as_ref());
    match name.get_ref().as_str() {
        "in-process" => Ok(CounterPlace::InProcess),
        "process" if !crate::protocols::takes_sessions(file.protocol.get_ref()) => {
            complain(name, format!("{} has no trusted counters", file.protocol.get_ref()))
        }
        "process" => match own() {
            None => Ok(CounterPlace::Process),
            Some(key) => complain(
                key,
                "this trusted device has a key of its own, and those run in their replica's \
                 process: write counter = \"in-process\"",
            ),
        },
        other => complain(
            name,
            format!("no place {other:?} for counters; write \"in-process\" or \"process\""),
        ),
    }
}

fn durability(name: Option<&Spanned<String>>) -> Checked<Durability> {
    let Some(name) = name else { return Ok(Durability::default()) };
    let known = [Durability::Memory, Durability::Async, Durability::Sync];
    match known.into_iter().find(|mode| mode.name() == name.get_ref()) {
        Some(mode) => Ok(mode),
        None => {
            let other = name.get_ref();
            complain(
                name,
                format!("no durability {other:?}; write \"sync\", \"async\" or \"memory\""),
            )
        }
    }
}

fn log_mib(value: Option<&Spanned<u64>>) -> Checked<u64> {
    let Some(value) = value else { return Ok(LOG_MIB) };
    match *value.get_ref() {
        mib @ LOG_MIB_MIN..=LOG_MIB_MAX => Ok(mib),
        _ => complain(value, format!("a log has {LOG_MIB_MIN} to {LOG_MIB_MAX} MiB")),
    }
}

fn timeouts(table: &TimeoutsTable) -> Checked<Timeouts> {
    let default = usual_timeouts();
    Ok(Timeouts {
        request_ms: millis(table.request_ms.as_ref(), default.request_ms)?,
        view_change_ms: millis(table.view_change_ms.as_ref(), default.view_change_ms)?,
        resend_ms: millis(table.resend_ms.as_ref(), default.resend_ms)?,
        client_retry_ms: millis(table.client_retry_ms.as_ref(), default.client_retry_ms)?,
    })
}

fn millis(value: Option<&Spanned<u64>>, default: u64) -> Checked<u64> {
    let Some(value) = value else { return Ok(default) };
    match *value.get_ref() {
        millis @ 1..=Timeouts::DELAY_MAX_MS => Ok(millis),
        _ => complain(value, format!("a time is 1 to {} milliseconds", Timeouts::DELAY_MAX_MS)),
    }
}

fn access(table: &ClientsTable) -> Checked<Access> {
    let Some(keys) = &table.allow else { return Ok(Access::Open) };
    if let Some(extra) = keys.get_ref().get(CLIENTS_LISTED_MAX) {
        let what = format!("a group lists at most {CLIENTS_LISTED_MAX} clients");
        return complain(extra, what);
    }
    if keys.get_ref().is_empty() {
        return complain(keys, "nobody is listed; leave `allow` out to serve everyone");
    }
    let mut seen = BTreeSet::new();
    let mut admitted = Vec::with_capacity(keys.get_ref().len());
    for key in keys.get_ref() {
        let id = ClientId(hex_array(key, "a client's public key")?);
        if !seen.insert(id) {
            return complain(key, "this client is listed twice: remove one of the two");
        }
        admitted.push(id);
    }
    Ok(Access::only(admitted))
}

/// Nobody changes a group whose file names none.
fn administrators(table: Option<&AdministratorsTable>) -> Checked<Administrators> {
    let Some(AdministratorsTable { threshold, keys: texts }) = table else {
        return Ok(Administrators::default());
    };
    if let Some(extra) = texts.get_ref().get(ADMINISTRATORS_MAX) {
        return complain(extra, format!("a group has at most {ADMINISTRATORS_MAX} administrators"));
    }
    let mut keys = Vec::with_capacity(texts.get_ref().len());
    for text in texts.get_ref() {
        let key = hex_array(text, "an administrator's public key")?;
        if keys.contains(&key) {
            return complain(text, "this administrator is listed twice: remove one of the two");
        }
        keys.push(key);
    }
    match u8::try_from(*threshold.get_ref()) {
        Ok(threshold) if (1..=keys.len()).contains(&threshold.into()) => {
            Ok(Administrators { threshold, keys })
        }
        _ => complain(
            threshold,
            format!("a threshold is 1 to {}, as many as are listed", keys.len()),
        ),
    }
}

fn hex_array<const N: usize>(text: &Spanned<String>, what: &str) -> Checked<[u8; N]> {
    let mut bytes = [0; N];
    match hex::decode_to_slice(text.get_ref(), &mut bytes) {
        Ok(()) => Ok(bytes),
        Err(_) => complain(text, format!("{what} is {} hexadecimal digits", 2 * N)),
    }
}
