//! Did the model find what the data were made of? Feature importance and dominant hops against the known generator.
//!
//! Importance of a feature = mean over the given units of |contribution - its mean over those units|. A constant
//! shift of a contribution cannot be told from the intercept, so it must not count for or against a feature. Truth
//! and model are measured in the same way on the same units.

use harmonia_data::synthetic::{FEATURES, HOPS, INFORMATIVE, Truth, feature_name};
use harmonia_graph::error::{Error, Result};
use serde::{Deserialize, Serialize};
use std::fmt;

/// One informative feature, as made and as found. Ranks count from 1.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RecoveredFeature {
    /// Column of X.
    pub column: usize,
    /// Name of the column.
    pub name: String,
    /// Formula of the true response.
    pub response: String,
    /// Rank by true importance, 1 to 4.
    pub true_rank: usize,
    /// Rank by the model's importance among all features.
    pub recovered_rank: usize,
    /// Importance in the generator.
    pub true_importance: f64,
    /// Importance in the model.
    pub importance: f64,
    /// Walk order with the largest true weight.
    pub true_hop: usize,
    /// Walk order with the largest weight (in absolute value) in the model.
    pub recovered_hop: usize,
    /// Sum over walk orders of |theta - theta*|: 0 for equal profiles, 2 for disjoint ones.
    pub hop_l1: f64,
}

/// The comparison; `Display` prints it as a table.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Recovery {
    /// Share of the model's four most important features that carry signal.
    pub precision_at_4: f64,
    /// How much true importance the model's first four hold, discounted by position; 1 for the true order.
    pub ndcg_at_4: f64,
    /// Share of the informative features whose dominant hop was found.
    pub hop_accuracy: f64,
    /// The informative features, the truly most important first.
    pub rows: Vec<RecoveredFeature>,
    /// All columns, the model's most important first.
    pub ranking: Vec<usize>,
}

/// Compares a trained model with the generator.
///
/// * `units`: the nodes to compare on, usually the test nodes.
/// * `contributions`: units x d, row-major: `w_k H[i,k]`, what each feature adds to the logit of each of `units`.
/// * `hop_weights`: T x d, theta of the model; T need not be the generator's.
///
/// # Errors
/// Lengths that do not fit, a unit the generator does not have, or values that are not finite.
pub fn recover(truth: &Truth, units: &[u32], contributions: &[f64], hop_weights: &[f64]) -> Result<Recovery> {
    check(truth, units, contributions, hop_weights)?;
    let true_contributions: Vec<f64> =
        units.iter().flat_map(|&i| (0..INFORMATIVE).map(move |r| truth.contribution(i as usize, r))).collect();
    let importance = importances(contributions, FEATURES);
    let ranking = descending(&importance);
    let informative = importances(&true_contributions, INFORMATIVE);
    let true_order = descending(&informative);

    let mut relevance = [0.0; FEATURES];
    truth.columns.iter().zip(&informative).for_each(|(&column, &value)| relevance[column] = value);
    let ideal: Vec<usize> = true_order.iter().map(|&r| truth.columns[r]).collect();
    let hits = ranking[..INFORMATIVE].iter().filter(|&column| truth.columns.contains(column)).count();

    let row = |(rank, &r): (usize, &usize)| {
        let column = truth.columns[r];
        let profile: Vec<f64> = hop_weights.iter().skip(column).step_by(FEATURES).copied().collect();
        RecoveredFeature {
            column,
            name: feature_name(column),
            response: truth.responses[r].label().to_string(),
            true_rank: rank + 1,
            recovered_rank: 1 + ranking.iter().take_while(|&&other| other != column).count(),
            true_importance: informative[r],
            importance: importance[column],
            true_hop: truth.dominant_hop(r),
            recovered_hop: descending(&profile.iter().map(|weight| weight.abs()).collect::<Vec<_>>())[0],
            hop_l1: hop_l1(&profile, &truth.hop_weights[r]),
        }
    };
    let rows: Vec<RecoveredFeature> = true_order.iter().enumerate().map(row).collect();
    let hops_found = rows.iter().filter(|row| row.true_hop == row.recovered_hop).count();
    Ok(Recovery {
        precision_at_4: hits as f64 / INFORMATIVE as f64,
        ndcg_at_4: discounted_gain(&ranking, &relevance) / discounted_gain(&ideal, &relevance),
        hop_accuracy: hops_found as f64 / INFORMATIVE as f64,
        rows,
        ranking,
    })
}

fn check(truth: &Truth, units: &[u32], contributions: &[f64], hop_weights: &[f64]) -> Result<()> {
    // One unit has no spread: every importance would be 0.
    if units.len() < 2 || contributions.len() != units.len() * FEATURES {
        return Err(Error::Data(format!(
            "recovery needs {FEATURES} contributions for each of at least 2 nodes, found {} for {} nodes",
            contributions.len(),
            units.len()
        )));
    }
    if let Some(unit) = units.iter().find(|&&unit| unit as usize >= truth.logits.len()) {
        return Err(Error::Data(format!("recovery of node {unit}: the generator has {} nodes", truth.logits.len())));
    }
    if hop_weights.is_empty() || !hop_weights.len().is_multiple_of(FEATURES) {
        return Err(Error::Data(format!("{} hop weights are not rows of {FEATURES} features", hop_weights.len())));
    }
    match contributions.iter().chain(hop_weights).find(|value| !value.is_finite()) {
        Some(value) => Err(Error::Data(format!("recovery needs finite contributions and hop weights, found {value}"))),
        None => Ok(()),
    }
}

/// Mean absolute deviation from the mean of each column of a row-major matrix.
fn importances(contributions: &[f64], width: usize) -> Vec<f64> {
    let rows = (contributions.len() / width) as f64;
    let column = |k: usize| contributions.iter().skip(k).step_by(width);
    let importance = |k: usize| {
        let mean = column(k).sum::<f64>() / rows;
        column(k).map(|value| (value - mean).abs()).sum::<f64>() / rows
    };
    (0..width).map(importance).collect()
}

/// Indices from the largest value to the smallest; ties keep the lower index first.
fn descending(values: &[f64]) -> Vec<usize> {
    let mut order: Vec<usize> = (0..values.len()).collect();
    order.sort_by(|&left, &right| values[right].total_cmp(&values[left]));
    order
}

/// DCG@4: relevance / log2(1 + position), positions from 1.
fn discounted_gain(ranking: &[usize], relevance: &[f64]) -> f64 {
    let positions = ranking.iter().take(INFORMATIVE).enumerate();
    positions.map(|(at, &column)| relevance[column] / (at as f64 + 2.0).log2()).sum()
}

/// L1 distance of two hop profiles; walk orders that only one side has count as 0 on the other.
fn hop_l1(profile: &[f64], truth: &[f64; HOPS]) -> f64 {
    // Scale and sign of unconstrained weights belong to the response; constrained ones already sum to 1.
    let size: f64 = profile.iter().map(|weight| weight.abs()).sum();
    let scale = if size > 0.0 { profile.iter().sum::<f64>().signum() / size } else { 0.0 };
    let at = |weights: &[f64], t: usize| weights.get(t).copied().unwrap_or(0.0);
    (0..profile.len().max(HOPS)).map(|t| (scale * at(profile, t) - at(truth, t)).abs()).sum()
}

impl fmt::Display for Recovery {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{:<9}{:<14}{:>15}{:>14}{:>15}", "", "", "importance", "rank", "top hop")?;
        writeln!(
            f,
            "{:<9}{:<14}{:>8}{:>7}{:>8}{:>6}{:>9}{:>6}{:>9}",
            "feature", "response", "true", "found", "true", "found", "true", "found", "hop L1"
        )?;
        for row in &self.rows {
            writeln!(
                f,
                "{:<9}{:<14}{:>8.3}{:>7.3}{:>8}{:>6}{:>9}{:>6}{:>9.3}",
                row.name,
                row.response,
                row.true_importance,
                row.importance,
                row.true_rank,
                row.recovered_rank,
                row.true_hop,
                row.recovered_hop,
                row.hop_l1
            )?;
        }
        let carries_signal = |column: &usize| self.rows.iter().any(|row| row.column == *column);
        let first = self.ranking.iter().take(INFORMATIVE);
        let mistaken: Vec<String> = first.filter(|&k| !carries_signal(k)).map(|&k| feature_name(k)).collect();
        if !mistaken.is_empty() {
            writeln!(f, "Ranked in the first four without carrying signal: {}", mistaken.join(", "))?;
        }
        let hops_found = self.rows.iter().filter(|row| row.true_hop == row.recovered_hop).count();
        write!(
            f,
            "Precision@4 {:.3}, NDCG@4 {:.3}, dominant hops {hops_found}/{}",
            self.precision_at_4,
            self.ndcg_at_4,
            self.rows.len()
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use harmonia_data::synthetic::{Design, Profile, TrueResponse};

    /// A generator of three nodes with importances 4, 3, 2, 1 (times 2/3) for columns 7, 2, 0, 11.
    fn truth() -> Truth {
        let contributions = [-1.0, 0.0, 1.0].iter().flat_map(|x| [4.0, 3.0, 2.0, 1.0].map(|size| size * x)).collect();
        Truth {
            data_index: 0,
            columns: [7, 2, 0, 11],
            responses: TrueResponse::ALL,
            profiles: Profile::ALL,
            hop_weights: Profile::ALL.map(Profile::hop_weights),
            centres: [0.0; INFORMATIVE],
            intercept: 0.0,
            contributions,
            logits: vec![0.0; 3],
            design: Design { condition: 1.0, correlation: 0.0 },
        }
    }

    /// A model with the given size of each informative column, every contribution shifted by a constant.
    fn contributions(truth: &Truth, sizes: [f64; INFORMATIVE]) -> Vec<f64> {
        let mut values = vec![100.0; 3 * FEATURES];
        for (row, x) in values.chunks_exact_mut(FEATURES).zip([-1.0, 0.0, 1.0]) {
            truth.columns.iter().zip(sizes).for_each(|(&column, size)| row[column] = size * x - 50.0);
        }
        values
    }

    fn hop_weights(truth: &Truth) -> Vec<f64> {
        let mut theta = vec![0.25; HOPS * FEATURES];
        for (r, &column) in truth.columns.iter().enumerate() {
            (0..HOPS).for_each(|t| theta[t * FEATURES + column] = truth.hop_weights[r][t]);
        }
        theta
    }

    #[test]
    fn the_truth_recovers_itself_whatever_the_constants() {
        let truth = truth();
        let recovery =
            recover(&truth, &[0, 1, 2], &contributions(&truth, [4.0, 3.0, 2.0, 1.0]), &hop_weights(&truth)).unwrap();
        assert_eq!((recovery.precision_at_4, recovery.ndcg_at_4, recovery.hop_accuracy), (1.0, 1.0, 1.0));
        assert_eq!(recovery.ranking[..5], [7, 2, 0, 11, 1]);
        for (at, row) in recovery.rows.iter().enumerate() {
            assert_eq!((row.true_rank, row.recovered_rank), (at + 1, at + 1));
            assert!((row.importance - row.true_importance).abs() < 1e-12 && row.hop_l1 < 1e-12);
        }
        let table = recovery.to_string();
        assert!(table.ends_with("Precision@4 1.000, NDCG@4 1.000, dominant hops 4/4"), "{table}");
        let widths: Vec<usize> = table.lines().take(6).map(str::len).collect();
        assert!(widths[1..].iter().all(|&width| width == widths[1]), "{table}");
        assert!(!table.contains("without carrying signal"));
    }

    #[test]
    fn a_wrong_model_is_found_out() {
        let truth = truth();
        // Column 7 is missed, columns 2 and 0 change places, column 5 carries noise; hops all at order 4.
        let mut values = contributions(&truth, [0.0, 2.0, 3.0, 1.0]);
        values.chunks_exact_mut(FEATURES).zip([-9.0, 0.0, 9.0]).for_each(|(row, x)| row[5] = x);
        let mut theta = vec![0.0; 5 * FEATURES];
        theta[4 * FEATURES..].fill(1.0);
        let recovery = recover(&truth, &[0, 1, 2], &values, &theta).unwrap();
        assert_eq!(recovery.ranking[..4], [5, 0, 2, 11]);
        assert_eq!((recovery.precision_at_4, recovery.hop_accuracy), (0.75, 0.0));
        let discount = |position: f64| (position + 1.0).log2().recip();
        let gain = 2.0 * discount(2.0) + 3.0 * discount(3.0) + discount(4.0);
        let ideal = 4.0 * discount(1.0) + 3.0 * discount(2.0) + 2.0 * discount(3.0) + discount(4.0);
        assert!((recovery.ndcg_at_4 - gain / ideal).abs() < 1e-12);
        assert!(recovery.rows.iter().all(|row| row.recovered_hop == 4 && (row.hop_l1 - 2.0).abs() < 1e-12));
        assert_eq!(recovery.rows[0].recovered_rank, 9); // after the four, then columns 1, 3, 4 and 6 with the same importance of 0
        let table = recovery.to_string();
        assert!(table.contains("without carrying signal: x5\n"), "{table}");
    }

    #[test]
    fn unconstrained_hop_weights_are_compared_up_to_scale_and_sign() {
        let truth = truth();
        let theta: Vec<f64> = hop_weights(&truth).iter().map(|weight| -3.0 * weight).collect();
        let recovery = recover(&truth, &[0, 1, 2], &contributions(&truth, [1.0; INFORMATIVE]), &theta).unwrap();
        assert_eq!(recovery.hop_accuracy, 1.0);
        assert!(recovery.rows.iter().all(|row| row.hop_l1 < 1e-12));
    }

    #[test]
    fn misfits_are_refused() {
        let truth = truth();
        let (values, theta) = (contributions(&truth, [1.0; INFORMATIVE]), hop_weights(&truth));
        let message = |units: &[u32], values: &[f64], theta: &[f64]| {
            recover(&truth, units, values, theta).unwrap_err().to_string()
        };
        assert!(message(&[0, 1], &values, &theta).contains("found 60 for 2 nodes"));
        assert!(message(&[0, 1, 3], &values, &theta).contains("node 3"));
        assert!(message(&[0, 1, 2], &values, &theta[1..]).contains("79 hop weights"));
        assert!(message(&[0, 1, 2], &vec![f64::NAN; 60], &theta).contains("NaN"));
        assert!(message(&[], &[], &theta).contains("at least 2 nodes"));
    }

    #[test]
    fn it_survives_the_summary_file() {
        let truth = truth();
        let recovery =
            recover(&truth, &[0, 1, 2], &contributions(&truth, [1.0; INFORMATIVE]), &hop_weights(&truth)).unwrap();
        let json = serde_json::to_value(&recovery).unwrap();
        assert_eq!(json["precision_at_4"], 1.0);
        assert_eq!((&json["rows"][0]["name"], &json["rows"][0]["response"]), (&"x7".into(), &"2x".into()));
        assert_eq!(serde_json::from_value::<Recovery>(json).unwrap(), recovery);
    }
}
