//! The shape of `cluster.toml`, as serde sees it. Unknown keys are errors, so that a misspelt
//! setting is never silently ignored.

use serde::Deserialize;
use toml::Spanned;

/// The whole file.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct File {
    pub format: Spanned<u64>,
    pub group: Spanned<String>,
    pub protocol: Spanned<String>,
    pub f: Spanned<usize>,
    #[serde(default)]
    pub pillars: Option<Spanned<u64>>,
    #[serde(default)]
    pub rotate_leader: Option<Spanned<bool>>,
    #[serde(default)]
    pub request_auth: Option<Spanned<String>>,
    #[serde(default)]
    pub session_key: Option<Spanned<String>>,
    #[serde(default)]
    pub durability: Option<Spanned<String>>,
    #[serde(default)]
    pub counter: Option<Spanned<String>>,
    #[serde(default)]
    pub log_mib: Option<Spanned<u64>>,
    #[serde(default)]
    pub timeouts: TimeoutsTable,
    #[serde(default)]
    pub clients: ClientsTable,
    #[serde(default)]
    pub administrators: Option<AdministratorsTable>,
    pub replica: Spanned<Vec<ReplicaTable>>,
}

/// `[timeouts]`: each may be left out.
#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields)]
pub struct TimeoutsTable {
    pub request_ms: Option<Spanned<u64>>,
    pub view_change_ms: Option<Spanned<u64>>,
    pub resend_ms: Option<Spanned<u64>>,
    pub client_retry_ms: Option<Spanned<u64>>,
}

/// `[clients]`: who may ask.
#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields)]
pub struct ClientsTable {
    /// Absent: anyone with a key.
    pub allow: Option<Spanned<Vec<Spanned<String>>>>,
}

/// `[administrators]`: who may change the group while it runs.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AdministratorsTable {
    pub threshold: Spanned<u64>,
    pub keys: Spanned<Vec<Spanned<String>>>,
}

/// One `[[replica]]`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ReplicaTable {
    pub address: Spanned<String>,
    pub key: Spanned<String>,
    #[serde(default)]
    pub signing: Option<Spanned<String>>,
    pub incarnation: Spanned<String>,
    #[serde(default)]
    pub device_key: Option<Spanned<String>>,
}
