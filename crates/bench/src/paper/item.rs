//! What a file says about a table or a figure.

use crate::case::Payload;
use crate::protocols::LoadChoice;
use clap::ValueEnum;
use pentarchy_console::options::AuthChoice;
use serde::{Deserialize, Deserializer, Serialize};

/// A table or a figure of a paper.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Item {
    /// What it shows, in one sentence.
    pub title: String,
    /// What shows it here.
    pub shown: Shown,
}

/// What shows a table or a figure here.
#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Shown {
    /// This command measures it.
    Measured(Measured),
    /// Another command does.
    Command(Command),
    /// It explains something, or is computed: a document of the repository has it.
    Page(Page),
    /// Nothing does yet.
    Missing(Missing),
}

/// See [`Shown::Command`].
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Command {
    /// As it is typed.
    pub command: String,
}

/// See [`Shown::Page`].
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Page {
    /// From the repository's top folder.
    pub page: String,
}

/// See [`Shown::Missing`].
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Missing {
    /// What is not built yet.
    pub why: String,
}

/// Rows, and what they have in common.
#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Measured {
    /// What a row's figure is.
    pub figure: Figure,
    /// What is offered.
    #[serde(deserialize_with = "word")]
    pub load: LoadChoice,
    /// How clients convince replicas.
    #[serde(deserialize_with = "word")]
    pub request_auth: AuthChoice,
    /// Sizes of request and reply, where a row does not say.
    #[serde(default = "nothing", deserialize_with = "payload")]
    pub payload: Payload,
    /// Keys of the store, from which clients read and to which they write values of the reply's
    /// size; the service does nothing where there are none.
    pub keys: Option<usize>,
    /// A backup is killed before anything is measured.
    #[serde(default)]
    pub crash: bool,
    /// Why the paper's figures and those of this machine differ, and what is to be compared.
    pub differs: String,
    /// In the order of the paper.
    pub rows: Vec<Row>,
}

/// One figure.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Row {
    /// What it is the figure of.
    pub what: String,
    /// As `bench protocols --protocol` has it; none if the system is not built here.
    pub protocol: Option<String>,
    /// Faults to tolerate.
    #[serde(default = "one")]
    pub f: usize,
    /// Sizes of request and reply.
    #[serde(default, deserialize_with = "some_payload")]
    pub payload: Option<Payload>,
    /// Percentage of operations that read from the store, by the protocol's fast path.
    #[serde(default)]
    pub reads: u8,
    /// Requests that a batch may hold; all that wait if it does not say.
    pub batch: Option<usize>,
    /// The paper's figure, in [`Figure::unit`]; none if its text does not give it.
    pub paper: Option<f64>,
}

/// What a row's figure is.
#[derive(Deserialize, Serialize, Clone, Copy, PartialEq, Eq, Debug)]
#[serde(rename_all = "kebab-case")]
pub enum Figure {
    /// Operations completed in a second.
    Throughput,
    /// The median, in microseconds.
    Latency,
}

impl Figure {
    /// In words.
    pub const fn unit(self) -> &'static str {
        match self {
            Self::Throughput => "operations a second",
            Self::Latency => "µs, median",
        }
    }
}

const fn one() -> usize {
    1
}

const fn nothing() -> Payload {
    Payload { request: 0, reply: 0 }
}

/// As an option of the command line has it.
fn word<'de, D: Deserializer<'de>, T: ValueEnum>(from: D) -> Result<T, D::Error> {
    T::from_str(&String::deserialize(from)?, false).map_err(serde::de::Error::custom)
}

fn payload<'de, D: Deserializer<'de>>(from: D) -> Result<Payload, D::Error> {
    String::deserialize(from)?.parse().map_err(serde::de::Error::custom)
}

fn some_payload<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Payload>, D::Error> {
    payload(from).map(Some)
}
