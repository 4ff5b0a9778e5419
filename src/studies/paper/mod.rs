//! The tables and figures of the paper, each by one command: `harmonia study NAME`.
//!
//! A study is one file here that implements [`Study`], and one line of [`STUDIES`]:
//!
//! - `jobs` lists what there is to do at a [`Size`], each job with a key and a closure that makes its record (anything that
//!   serde can write). Jobs run side by side on a thread each; they look at `scene.stop` where they take long.
//! - `findings` reads all records and makes [`Table`]s with the paper's figures beside ours, [`Figure`]s and [`Claim`]s. A
//!   theorem that does not hold fails the command; what the paper merely reports is only said to hold or not.
//!
//! A study whose tables have rows of PyTorch Geometric lists their jobs in `peer_jobs`: [`Peers`] runs them where the user has one.
//!
//! The rest is done for all: the journal, resuming, progress, `results.json`, `results.csv`, `results.md`, pictures and the
//! page. Models of a table are [`rows`]: a name and what differs in settings.

mod accuracy;
mod capacity;
mod experts_map;
mod faithfulness;
mod families;
mod findings;
mod hop_recovery;
mod horizon;
mod linear;
mod linear_vs_dnn;
mod normalisation;
mod parameters;
mod peers;
mod real;
mod recovery;
mod removal;
mod responses;
mod routing;
pub mod rows;
mod runner;
mod specialisation;
mod stability;
mod study;
mod world;

pub use findings::{Axis, Cell, Claim, Drawing, Figure, Findings, Number, Series, Spread, Style, Table};
pub use peers::Peers;
pub use runner::{Listener, Outcome, Silent, run};
pub use study::{Job, Records, Scene, Size, Study};

use harmonia_graph::error::{Error, Result, suggestion};

/// Every study, as `harmonia study list` shows them.
pub const STUDIES: &[&dyn Study] = &[
    &accuracy::NODES,
    &accuracy::GRAPHS,
    &recovery::Recovery,
    &normalisation::Normalisation,
    &linear_vs_dnn::LinearVsDnn,
    &responses::Responses,
    &specialisation::Specialisation,
    &capacity::Capacity,
    &routing::Routing,
    &hop_recovery::HopRecovery,
    &horizon::Horizon,
    &removal::Removal,
    &stability::Stability,
    &experts_map::ExpertsMap,
    &parameters::Parameters,
];

/// The study a user named.
///
/// # Errors
/// There is none of that name.
pub fn named(name: &str) -> Result<&'static dyn Study> {
    STUDIES.iter().copied().find(|study| study.name() == name).ok_or_else(|| {
        let names = STUDIES.iter().map(|study| study.name());
        Error::Config(format!(
            "there is no study `{name}`{}; expected {}",
            suggestion(name, names.clone()),
            names.collect::<Vec<_>>().join(", ")
        ))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn names_are_words_and_keys_name_one_job() {
        let names: BTreeSet<&str> = STUDIES.iter().map(|study| study.name()).collect();
        assert_eq!(names.len(), STUDIES.len());
        for study in STUDIES {
            assert!(study.name().chars().all(|c| c.is_ascii_lowercase() || c == '-'), "{}", study.name());
            for size in [Size::Smallest, Size::Quick, Size::Full] {
                let jobs = study.jobs(size).unwrap();
                let keys: BTreeSet<&str> = jobs.iter().map(|job| job.key.as_str()).collect();
                assert!(!jobs.is_empty() && keys.len() == jobs.len(), "{} {}", study.name(), size.name());
            }
        }
        assert!(named("horizn").err().unwrap().to_string().contains("horizon"));
    }
    #[test]
    fn tables_can_be_made_before_anything_is_finished() {
        for study in STUDIES {
            let findings = study.findings(Size::Full, &Records::new(Vec::new())).unwrap();
            assert!(!findings.tables.is_empty(), "{}", study.name());
        }
    }
}
