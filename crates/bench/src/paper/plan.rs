//! What is to be measured for a table or a figure: its rows by their conditions, and the
//! unreplicated server in turn with them.

use super::item::{Item, Measured, Row, Shown};
use crate::case::{Case, KeyChoice, Service, System};
use crate::conditions::{PlannedCase, replicated};
use crate::plan::{Plan, Timing};
use pentarchy_console::failure::Outcome;

/// Clients of the load `many`.
const CLIENTS: usize = 200;

impl Item {
    /// None if this command measures nothing for it.
    pub fn plan(&self, timing: Timing) -> Outcome<Option<Plan>> {
        let Shown::Measured(measured) = &self.shown else { return Ok(None) };
        let mut cases: Vec<PlannedCase> = Vec::new();
        for row in &measured.rows {
            let Some(system) = row.system()? else { continue };
            let case = measured.case(row);
            match cases.iter_mut().find(|(known, _)| *known == case) {
                Some((_, systems)) => systems.push(system),
                None => cases.push((case, vec![system])),
            }
        }
        // It has no backup to kill.
        for (_, systems) in cases.iter_mut().filter(|(case, _)| !case.crash) {
            systems.push(System::baseline());
        }
        Ok(Some(Plan { cases, timing }))
    }
}

impl Measured {
    /// Under which conditions a row is measured.
    pub fn case(&self, row: &Row) -> Case {
        let request_auth = self.request_auth.into();
        let payload = row.payload.unwrap_or(self.payload);
        let uniform = |keys| Service::Kv { keys, choice: KeyChoice::Uniform };
        Case {
            payload,
            request_auth,
            service: self.keys.map_or(Service::Null, uniform),
            reads: row.reads,
            crash: self.crash,
            batch: row.batch,
            ..self.load.case(CLIENTS)
        }
    }
}

impl Row {
    /// What is measured; none if the paper's system is not built here.
    pub fn system(&self) -> Outcome<Option<System>> {
        self.protocol.as_deref().map(|protocol| replicated(protocol, self.f)).transpose()
    }
}
