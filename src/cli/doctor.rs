//! `ttwu doctor`.

use clap::Args;

use super::{Common, Failure, output};
use crate::record::snapshot::Root;
use crate::record::tracefs::Tracefs;
use crate::record::{doctor, events};
use crate::report;

/// Say what can be recorded here, and what is missing for the rest
///
/// Checks events, tracefs, perf, counters, probes and the sources of the topology, by trying. Every ✗ comes with the
/// command that mends it, or says that the kernel was built without.
#[derive(Debug, Args)]
pub struct Doctor {}

impl Doctor {
    pub fn run(&self, common: Common) -> Result<(), Failure> {
        let events = match Tracefs::find() {
            Ok(tracefs) => events::expected(&tracefs),
            Err(_) => events::DEFAULT
                .map(|(system, name, _)| (system, name))
                .to_vec(),
        };
        let sections = doctor::examine(&Root::host(), &events);
        output::to_stdout(&report::doctor::render(&sections), common)
    }
}
