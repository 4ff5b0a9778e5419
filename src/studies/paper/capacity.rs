//! How many experts, how many bases: the error of learned curves over C = 1, 3, 5, 7 and B = 4, 8, 16, in three regimes of heterogeneity.
//!
//! Data, training and error are those of the study of specialisation; m = min(2, C).

use super::families::Regime;
use super::findings::{Cell, Claim, Drawing, Figure, Findings, Spread, Table};
use super::specialisation::{Trained, config, epochs, train};
use super::study::{Job, Records, Size, Study};
use crate::architecture::Kind;
use harmonia_graph::error::Result;
use serde::{Deserialize, Serialize};

/// C.
const EXPERTS: [usize; 4] = [1, 3, 5, 7];
/// B.
const BASES: [usize; 3] = [4, 8, 16];

/// What the paper prints: (regime, C, B, error).
const PAPERS: [(Regime, usize, usize, f64); 11] = [
    (Regime::Low, 1, 16, 0.009),
    (Regime::Low, 5, 16, 0.007),
    (Regime::Low, 7, 16, 0.008),
    (Regime::Medium, 1, 16, 0.086),
    (Regime::Medium, 5, 16, 0.052),
    (Regime::Medium, 7, 16, 0.054),
    (Regime::High, 1, 16, 0.080),
    (Regime::High, 5, 4, 0.056),
    (Regime::High, 5, 8, 0.045),
    (Regime::High, 5, 16, 0.041),
    (Regime::High, 7, 16, 0.043),
];

/// The study.
pub struct Capacity;

#[derive(Serialize, Deserialize)]
struct Record {
    regime: Regime,
    experts: usize,
    bases: usize,
    seed: u64,
    trained: Trained,
}

impl Study for Capacity {
    fn name(&self) -> &'static str {
        "capacity"
    }

    fn about(&self) -> &'static str {
        "experts against bases: the error of learned curves in three regimes"
    }

    fn source(&self) -> &'static str {
        "figure of expert count and basis capacity"
    }

    fn jobs(&self, size: Size) -> Result<Vec<Job>> {
        let seeds = size.of(1, 1, 3);
        let regimes = size.of(&Regime::ALL[2..], &Regime::ALL, &Regime::ALL);
        let (all_experts, all_bases) =
            (size.of(&EXPERTS[..2], &EXPERTS, &EXPERTS), size.of(&BASES[..1], &BASES, &BASES));
        let mut jobs = Vec::new();
        for &regime in regimes {
            for &experts in all_experts {
                for &bases in all_bases {
                    for seed in 0..seeds {
                        let key = format!("{} C={experts} B={bases} seed {seed}", regime.name());
                        jobs.push(Job::new(key, move |scene| {
                            let set = [
                                format!("model.experts={experts}"),
                                format!("model.active={}", experts.min(2)),
                                format!("model.bases={bases}"),
                            ];
                            let trained =
                                train(regime, seed, &config(Kind::Harmonia, epochs(size), seed, &set)?, scene)?;
                            Ok(Record { regime, experts, bases, seed, trained })
                        }));
                    }
                }
            }
        }
        Ok(jobs)
    }

    fn findings(&self, _: Size, records: &Records) -> Result<Findings> {
        let records = records.read::<Record>()?;
        let spread = |regime: Regime, experts: usize, bases: usize| {
            let own = records
                .iter()
                .filter(|record| (record.regime, record.experts, record.bases) == (regime, experts, bases));
            Spread::of(&own.map(|record| record.trained.error).collect::<Vec<_>>())
        };
        let row = |(regime, experts): (Regime, usize)| {
            let mut cells = vec![Cell::text(regime.name()), Cell::text(experts.to_string())];
            for bases in BASES {
                let paper = PAPERS.iter().find(|known| (known.0, known.1, known.2) == (regime, experts, bases));
                cells.push(Cell::spread(spread(regime, experts, bases), 4).beside(paper.map(|known| known.3), None));
            }
            cells
        };
        let all = Regime::ALL.into_iter().flat_map(|regime| EXPERTS.map(|experts| (regime, experts)));
        let table = Table {
            name: "capacity",
            title: "Centred NRMSE by experts and bases".into(),
            head: ["heterogeneity", "experts C", "B = 4", "B = 8", "B = 16"].map(String::from).to_vec(),
            rows: all.map(row).collect(),
            note: "The paper's functions and settings are not published: orders can be compared, sizes hardly.".into(),
        };
        let figure = |(regime, name): (Regime, &'static str)| {
            let value = |experts: usize, bases: usize| spread(regime, experts, bases).map_or(f64::NAN, |one| one.mean);
            Figure {
                name,
                title: format!("Centred NRMSE, {} heterogeneity", regime.name()),
                drawing: Drawing::Grid {
                    rows: EXPERTS.map(|experts| format!("C = {experts}")).to_vec(),
                    columns: BASES.map(|bases| format!("B = {bases}")).to_vec(),
                    values: EXPERTS.map(|experts| BASES.map(|bases| value(experts, bases)).to_vec()).to_vec(),
                    decimals: 3,
                },
            }
        };
        let figures = Regime::ALL.into_iter().zip(["low", "medium", "high"]).map(figure).collect();
        let mut claims = Vec::new();
        let mean = |regime, experts| spread(regime, experts, 16).map(|one| one.mean);
        for regime in [Regime::Medium, Regime::High] {
            if let (Some(one), Some(five)) = (mean(regime, 1), mean(regime, 5)) {
                claims.push(Claim::reported(
                    format!("five experts of 16 bases are better than one at {} heterogeneity", regime.name()),
                    five < one,
                    format!("{five:.4} against {one:.4}"),
                ));
            }
        }
        Ok(Findings { tables: vec![table], figures, claims })
    }
}
