//! How many numbers models learn as features are added: GNAN, G-NAMRFF and HARMONIA with K = 47 classes, by the paper's formulas.
//!
//! The paper fixes "all other hyperparameters" without naming them. Ours: those it names elsewhere, see [`SIZES`]. What HARMONIA
//! counts is what the program would allocate; the formula is only held against it.

use super::findings::{Axis, Cell, Claim, Drawing, Figure, Findings, Series, Style, Table};
use super::study::{Job, Records, Size, Study};
use crate::architecture::{Architecture, Family, HopWeights};
use harmonia_graph::error::Result;
use serde::{Deserialize, Serialize};

/// K.
const CLASSES: u64 = 47;
/// GNAN: hidden width H_u and hidden layers L, as in the paper's synthetic study.
const GNAN: [u64; 2] = [16, 2];
/// G-NAMRFF: random features M and filter order R, as there.
const G_NAMRFF: [u64; 2] = [64, 3];
/// D.
const FEATURES: &[u64] = &[10, 20, 50, 100, 200, 500, 1000, 2000, 5000];
/// In words.
const SIZES: &str = "GNAN with 2 hidden layers of 16, G-NAMRFF with M = 64 and R = 3 (both as in the paper's synthetic study), \
                     HARMONIA with its default experts (4 of 1-16-8-8, q = 16, T = 4); the paper does not say which sizes it drew.";

/// The study.
pub struct Parameters;

#[derive(Serialize, Deserialize)]
struct Record {
    features: u64,
    gnan: u64,
    g_namrff: u64,
    harmonia: u64,
    /// By the paper's formula.
    harmonia_formula: u64,
}

/// HARMONIA with the program's default sizes.
fn harmonia(features: u64) -> Architecture {
    Architecture {
        features: features as usize,
        outputs: CLASSES as usize,
        experts: 4,
        active: 2,
        bases: 8,
        hidden: vec![16, 8],
        embedding: 16,
        hops: 4,
        hop_weights: HopWeights::Simplex,
        family: Family::default(),
    }
}

/// (D + 1) [H^2 (L - 1) + (L + K + 1) H + K]
fn gnan(features: u64) -> u64 {
    let [width, layers] = GNAN;
    (features + 1) * (width * width * (layers - 1) + (layers + CLASSES + 1) * width + CLASSES)
}

/// D M K + R + 1
fn g_namrff(features: u64) -> u64 {
    let [random, order] = G_NAMRFF;
    features * random * CLASSES + order + 1
}

/// E P_psi + 2 q E + D (B + q + T + K) + K
fn formula(sizes: &Architecture) -> u64 {
    let (experts, embedding) = (sizes.experts as u64, sizes.embedding as u64);
    let (bases, hops) = (sizes.bases as u64, sizes.hops as u64);
    // 1 -> 16 -> 8 -> 8, weights and biases.
    let expert = (16 + 16) + (16 * 8 + 8) + (8 * 8 + 8);
    experts * expert + 2 * embedding * experts + sizes.features as u64 * (bases + embedding + hops + CLASSES) + CLASSES
}

impl Study for Parameters {
    fn name(&self) -> &'static str {
        "parameters"
    }

    fn about(&self) -> &'static str {
        "parameters against the number of features, 47 classes"
    }

    fn source(&self) -> &'static str {
        "figure of parameter complexity"
    }

    fn jobs(&self, size: Size) -> Result<Vec<Job>> {
        let features = size.of(&FEATURES[..3], FEATURES, FEATURES);
        let job = |&features: &u64| {
            Job::new(format!("D={features}"), move |_| {
                let sizes = harmonia(features);
                sizes.check()?;
                Ok(Record {
                    features,
                    gnan: gnan(features),
                    g_namrff: g_namrff(features),
                    harmonia: sizes.parameters() as u64,
                    harmonia_formula: formula(&sizes),
                })
            })
        };
        Ok(features.iter().map(job).collect())
    }

    fn findings(&self, _: Size, records: &Records) -> Result<Findings> {
        let records = records.read::<Record>()?;
        let ratio = |count: u64, record: &Record| count as f64 / record.harmonia as f64;
        let row = |record: &Record| {
            // The paper prints orders of magnitude, at D = 5000 alone.
            let paper = |order: f64| (record.features == 5000).then_some(order);
            vec![
                Cell::text(record.features.to_string()),
                Cell::count(record.harmonia).beside(paper(1e5), None),
                Cell::count(record.gnan).beside(paper(1e7), None),
                Cell::count(record.g_namrff).beside(paper(1e7), None),
                Cell::number(ratio(record.gnan, record), 1),
                Cell::number(ratio(record.g_namrff, record), 1),
            ]
        };
        let table = Table {
            name: "parameters",
            title: format!("Learned numbers, {CLASSES} classes"),
            head: ["D", "HARMONIA", "GNAN", "G-NAMRFF", "GNAN / HARMONIA", "G-NAMRFF / HARMONIA"]
                .map(String::from)
                .to_vec(),
            rows: records.iter().map(row).collect(),
            note: format!("{SIZES} The paper's figures are orders of magnitude."),
        };
        let series = |name: &str, count: fn(&Record) -> u64| Series {
            name: name.into(),
            points: records.iter().map(|record| [record.features as f64, count(record) as f64]).collect(),
            style: Style::Line,
        };
        let figure = Figure {
            name: "parameters",
            title: format!("Parameters against features, {CLASSES} classes"),
            drawing: Drawing::Plot {
                x: Axis::logarithmic("features D"),
                y: Axis::logarithmic("parameters"),
                series: vec![
                    series("HARMONIA", |record| record.harmonia),
                    series("GNAN", |record| record.gnan),
                    series("G-NAMRFF", |record| record.g_namrff),
                ],
            },
        };
        let off = records.iter().find(|record| record.harmonia != record.harmonia_formula);
        let smaller = records.iter().all(|record| record.harmonia < record.gnan.min(record.g_namrff));
        let claims = vec![
            Claim::theorem(
                "what the program allocates is what the formula counts",
                off.is_none(),
                off.map_or("at every D".into(), |record| {
                    format!("D = {}: {} against {}", record.features, record.harmonia, record.harmonia_formula)
                }),
            ),
            Claim::reported(
                "HARMONIA has fewer parameters than GNAN and G-NAMRFF at every D",
                smaller,
                format!("{} values of D", records.len()),
            ),
        ];
        Ok(Findings { tables: vec![table], figures: vec![figure], claims })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formulas_by_hand() {
        // 11 networks 1-16-16-47: (16 + 16) + (256 + 16) + (752 + 47) each.
        assert_eq!(gnan(10), 11 * (32 + 272 + 799));
        assert_eq!(g_namrff(10), 10 * 64 * 47 + 4);
        assert_eq!(u128::from(formula(&harmonia(10))), harmonia(10).parameters());
    }
}
