//! Calibration: logits z become a z + offset, so that probabilities are as good as the validation units let them be.
//!
//! a = 1 / temperature. Softmax and several labels: a alone, so that no unit changes its class. A binary task: both (Platt
//! scaling), so that probability 1/2 is the threshold it should be. Minimised is
//!
//! F(a, shift) = sum of losses + K (a - 1 - ln a) + R (sqrt(1 + shift^2) - 1)     offset = m (1 - a) + shift, m the mean logit
//!
//! The two priors are 0 where nothing is changed and positive elsewhere, so the sum of losses at the minimum is never above
//! that of the logits as they were. They keep a finite and above 0 where few units, or units that one threshold tells
//! apart, would let it run away. F is strictly convex: Newton's method with halved steps finds its one minimum, in f64 and
//! in the order of the units, to the same bits every time.

use super::{Objective, Scored};
use serde::{Deserialize, Serialize};

/// K and R: what a prior is worth, in validation units.
const SCALE_PRIOR: f64 = 1.0;
const SHIFT_PRIOR: f64 = 1.0;
/// Newton's method is done where a step promises less than this share of F.
const PROMISE: f64 = 1e-14;
/// Steps take a dozen; this is for logits of any size.
const MOST_STEPS: usize = 200;
/// Halvings of one step.
const MOST_HALVINGS: usize = 60;

/// How the logits of a model were calibrated; they are in its readout already.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Calibration {
    /// What logits were divided by.
    pub temperature: f64,
    /// What was added to the quotient; 0 but for binary tasks.
    pub offset: f64,
    /// Mean negative log-likelihood of the validation units as training left the model.
    pub validation_nll_before: f64,
    /// The same, of the calibrated model.
    pub validation_nll_after: f64,
}

impl Calibration {
    /// For people: "temperature 1.83, offset -0.42, fitted on validation".
    pub fn text(&self) -> String {
        let offset = if self.offset == 0.0 { String::new() } else { format!(", offset {:.2}", self.offset) };
        format!("temperature {:.2}{offset}, fitted on validation", self.temperature)
    }
}

/// a z + offset.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Line {
    /// 1 / temperature.
    pub scale: f64,
    /// 0 but for binary tasks.
    pub offset: f64,
}

impl Objective {
    /// The line that calibrates logits; none of a regression, of no units, and where all labels are the same. `weights`: how
    /// often each unit of the dataset counts, up to a factor.
    pub fn calibrate(self, scored: &Scored<'_>, weights: Option<&[f32]>) -> Option<Line> {
        let truths = self.guesses(scored);
        let first = truths.first()?.truth;
        let weight = |&unit: &u32| weights.map_or(1.0, |weights| f64::from(weights[unit as usize]));
        let mut each: Vec<f64> = scored.units.iter().map(weight).collect();
        // Together they count as many as they are: priors are worth what they are without weights.
        let mean = each.iter().sum::<f64>() / each.len() as f64;
        each.iter_mut().for_each(|weight| *weight /= mean);
        truths.iter().any(|guess| guess.truth != first).then(|| self.line(scored, &each)).flatten()
    }
}

/// The sum of losses as a function of (a, shift), with its derivatives.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Expansion {
    value: f64,
    gradient: [f64; 2],
    /// By a and a, a and shift, shift and shift.
    hessian: [f64; 3],
}

impl Expansion {
    fn with_prior(mut self, a: f64, shift: f64) -> Expansion {
        let root = 1f64.hypot(shift);
        self.value += SCALE_PRIOR * (a - 1.0 - a.ln()) + SHIFT_PRIOR * (root - 1.0);
        self.gradient[0] += SCALE_PRIOR * (1.0 - 1.0 / a);
        self.gradient[1] += SHIFT_PRIOR * shift / root;
        self.hessian[0] += SCALE_PRIOR / (a * a);
        self.hessian[2] += SHIFT_PRIOR / root.powi(3);
        self
    }

    /// Newton's step; `free` says whether the shift moves too.
    fn step(&self, free: bool) -> [f64; 2] {
        let ([g_a, g_shift], [h_a, h_both, h_shift]) = (self.gradient, self.hessian);
        let determinant = h_a * h_shift - h_both * h_both;
        match (free, determinant > 0.0) {
            (true, true) => {
                [(h_both * g_shift - h_shift * g_a) / determinant, (h_both * g_a - h_a * g_shift) / determinant]
            }
            // Rounding has eaten the determinant: down along the axes.
            (true, false) => [-g_a / (2.0 * h_a), -g_shift / (2.0 * h_shift)],
            (false, _) => [-g_a / h_a, 0.0],
        }
    }
}

/// Rows of logits under one softmax, and their classes.
pub(super) fn softmax_line(rows: &[Vec<f64>], truth: &[usize], weights: &[f64]) -> Option<Line> {
    minimum(false, |a, _| {
        let mut sum = Expansion::default();
        for ((row, &class), &times) in rows.iter().zip(truth).zip(weights) {
            let largest = row.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            let (mut total, mut first, mut second) = (0.0, 0.0, 0.0);
            for &z in row {
                // Differences to the largest: squares of large logits would cancel.
                let (weight, z) = ((a * (z - largest)).exp(), z - largest);
                total += weight;
                first += weight * z;
                second += weight * z * z;
            }
            let mean = first / total;
            sum.value += times * (total.ln() - a * (row[class] - largest));
            sum.gradient[0] += times * (mean - (row[class] - largest));
            sum.hessian[0] += times * (second / total - mean * mean).max(0.0);
        }
        sum
    })
    .map(|[scale, _]| Line { scale, offset: 0.0 })
}

/// Logits that stand for themselves, each with its yes or no, as many of a unit as there are more of them than weights; `free`
/// says whether there is an offset.
pub(super) fn sigmoid_line(logits: &[f64], truth: &[usize], weights: &[f64], free: bool) -> Option<Line> {
    let outputs = logits.len() / weights.len().max(1);
    let weighted = || logits.iter().zip(weights).map(|(z, weight)| weight * z).sum::<f64>();
    let middle = if free { weighted() / weights.iter().sum::<f64>() } else { 0.0 };
    minimum(free, |a, shift| {
        let mut sum = Expansion::default();
        for (at, (&z, &truth)) in logits.iter().zip(truth).enumerate() {
            let (from, y, times) = (z - middle, truth as f64, weights[at / outputs]);
            let s = a * from + middle + shift;
            let error = times * (crate::real::sigmoid(s) - y);
            let curvature = times * (crate::real::sigmoid(s) * crate::real::sigmoid(-s));
            sum.value += times * (s.max(0.0) - s * y + (-s.abs()).exp().ln_1p());
            sum.gradient[0] += error * from;
            sum.gradient[1] += error;
            sum.hessian[0] += curvature * from * from;
            sum.hessian[1] += curvature * from;
            sum.hessian[2] += curvature;
        }
        sum
    })
    .map(|[scale, shift]| Line { scale, offset: middle * (1.0 - scale) + shift })
}

/// (a, shift) of least F, from (1, 0) downwards; none where F is not a number there.
fn minimum(free: bool, losses: impl Fn(f64, f64) -> Expansion) -> Option<[f64; 2]> {
    let at = |[a, shift]: [f64; 2]| losses(a, shift).with_prior(a, shift);
    let mut place = [1.0, 0.0];
    let mut here = at(place);
    if !here.value.is_finite() {
        return None;
    }
    for _ in 0..MOST_STEPS {
        let step = here.step(free);
        let promise = here.gradient[0] * step[0] + here.gradient[1] * step[1];
        let promising = promise < -PROMISE * (1.0 + here.value.abs());
        // Not a number is no promise either.
        if !promising {
            break;
        }
        let shorter = (0..MOST_HALVINGS).find_map(|halvings| {
            let share = 0.5f64.powi(halvings as i32);
            let next = [place[0] + share * step[0], place[1] + share * step[1]];
            let there = (next[0] > 0.0).then(|| at(next))?;
            (there.value < here.value + 1e-4 * share * promise).then_some((next, there))
        });
        let Some((next, there)) = shorter else { break };
        (place, here) = (next, there);
    }
    Some(place)
}

#[cfg(test)]
mod tests {
    use super::*;
    use harmonia_graph::dataset::Labels;
    use harmonia_graph::seed::{Purpose, Rng, Stream};

    fn rng(seed: u64) -> Rng {
        Stream::new(seed, Purpose::Noise, 0).rng()
    }

    fn nll(objective: Objective, labels: &Labels, logits: &[f32]) -> f64 {
        let units: Vec<u32> = (0..(logits.len() / labels.outputs()) as u32).collect();
        objective.score(&Scored { labels, units: &units, logits, scaling: None }).get("nll").unwrap()
    }

    fn line(objective: Objective, labels: &Labels, logits: &[f32]) -> Option<Line> {
        let units: Vec<u32> = (0..(logits.len() / labels.outputs()) as u32).collect();
        objective.calibrate(&Scored { labels, units: &units, logits, scaling: None }, None)
    }

    fn changed(line: Line, logits: &[f32]) -> Vec<f32> {
        logits.iter().map(|&z| (line.scale * f64::from(z) + line.offset) as f32).collect()
    }

    /// Classes drawn from softmax(z), and z times the temperature.
    fn drawn(temperature: f64, units: usize, classes: usize) -> (Labels, Vec<f32>) {
        let mut rng = rng(7);
        let (mut ids, mut logits) = (Vec::new(), Vec::new());
        for _ in 0..units {
            let row: Vec<f64> = (0..classes).map(|_| 4.0 * rng.uniform() - 2.0).collect();
            let total: f64 = row.iter().map(|z| z.exp()).sum();
            let mut left = rng.uniform() * total;
            let class = row.iter().position(|z| {
                left -= z.exp();
                left <= 0.0
            });
            ids.push(class.unwrap_or(classes - 1) as u32);
            logits.extend(row.iter().map(|z| (z * temperature) as f32));
        }
        (Labels::Classes { ids, classes }, logits)
    }

    #[test]
    fn a_known_temperature_is_found_again() {
        // 20,000 draws: the scale has a standard error of about one per cent.
        for temperature in [0.4, 1.0, 3.0] {
            let (labels, logits) = drawn(temperature, 20_000, 4);
            let fitted = line(Objective::Softmax, &labels, &logits).unwrap();
            assert!((1.0 / fitted.scale / temperature - 1.0).abs() < 0.04, "{temperature}: {fitted:?}");
            assert_eq!(fitted.offset, 0.0);
        }
    }

    #[test]
    fn temperature_and_offset_of_a_binary_task_are_found_again() {
        let mut rng = rng(3);
        let clean: Vec<f64> = (0..20_000).map(|_| 6.0 * rng.uniform() - 3.0).collect();
        let ids: Vec<usize> = clean.iter().map(|z| usize::from(rng.uniform() < 1.0 / (1.0 + (-z).exp()))).collect();
        // As a model that is too sure and far off says it: 2 z + 5.
        let logits: Vec<f64> = clean.iter().map(|z| 2.0 * z + 5.0).collect();
        let fitted = sigmoid_line(&logits, &ids, &[1.0; 20_000], true).unwrap();
        assert!((fitted.scale - 0.5).abs() < 0.02 && (fitted.offset + 2.5).abs() < 0.08, "{fitted:?}");
    }

    #[test]
    fn the_gradient_vanishes_at_the_minimum() {
        let (labels, logits) = drawn(2.0, 60, 3);
        let fitted = line(Objective::Softmax, &labels, &logits).unwrap();
        let penalised = |a: f64| {
            60.0 * nll(Objective::Softmax, &labels, &changed(Line { scale: a, offset: 0.0 }, &logits))
                + SCALE_PRIOR * (a - 1.0 - a.ln())
        };
        let best = penalised(fitted.scale);
        // Logits are rounded to f32 here: sums of 60 are off by some 1e-6.
        for factor in [0.5, 0.9, 0.99, 1.01, 1.1, 2.0] {
            assert!(penalised(fitted.scale * factor) > best - 1e-5, "{factor}");
        }
        assert!(penalised(fitted.scale * 0.8) > best + 1e-3 && penalised(fitted.scale * 1.25) > best + 1e-3);
    }

    #[test]
    fn units_that_a_threshold_tells_apart_give_a_finite_line() {
        for (count, size) in [(2, 1e-3), (18, 1e-3), (18, 1.0), (18, 50.0), (1000, 1e4)] {
            let logits: Vec<f64> =
                (0..count).map(|i| 7.0 * size + if i % 2 == 0 { -size } else { size * (1.0 + i as f64) }).collect();
            let truth: Vec<usize> = (0..count).map(|i| i % 2).collect();
            let fitted = sigmoid_line(&logits, &truth, &vec![1.0; count], true).unwrap();
            assert!(fitted.scale.is_finite() && fitted.scale > 0.0 && fitted.offset.is_finite(), "{count} {size}");
            // Without the prior, nothing would stop it.
            assert!(fitted.scale < 20.0, "{count} {size}: {fitted:?}");
        }
        let (labels, logits) =
            (Labels::Classes { ids: vec![0, 1, 2], classes: 3 }, [9f32, 0., 0., 0., 9., 0., 0., 0., 9.]);
        let fitted = line(Objective::Softmax, &labels, &logits).unwrap();
        assert!(fitted.scale > 0.5 && fitted.scale < 2.0, "{fitted:?}");
    }

    #[test]
    fn the_likelihood_is_never_worse() {
        let mut rng = rng(11);
        for round in 0..300 {
            let units = 2 + (rng.uniform() * 20.0) as usize;
            let size = 10f64.powf(6.0 * rng.uniform() - 3.0);
            for (objective, labels) in [
                (
                    Objective::Softmax,
                    Labels::Classes { ids: (0..units).map(|_| (3.0 * rng.uniform()) as _).collect(), classes: 3 },
                ),
                (
                    Objective::Sigmoid,
                    Labels::Classes { ids: (0..units).map(|_| (2.0 * rng.uniform()) as _).collect(), classes: 2 },
                ),
                (
                    Objective::Sigmoid,
                    Labels::Multi { bits: (0..2 * units).map(|_| (2.0 * rng.uniform()) as _).collect(), width: 2 },
                ),
            ] {
                let shift = size * (4.0 * rng.uniform() - 2.0);
                let logits: Vec<f32> = (0..units * labels.outputs())
                    .map(|_| (size * (2.0 * rng.uniform() - 1.0) + shift) as f32)
                    .collect();
                let Some(fitted) = line(objective, &labels, &logits) else { continue };
                let (before, after) =
                    (nll(objective, &labels, &logits), nll(objective, &labels, &changed(fitted, &logits)));
                // f32 logits.
                assert!(after <= before * (1.0 + 1e-5) + 1e-6, "round {round}: {before} {after} {fitted:?}");
                assert_eq!(fitted.offset != 0.0, objective == Objective::Sigmoid && labels.is_classes(), "{fitted:?}");
            }
        }
    }

    #[test]
    fn a_weight_is_how_often_a_unit_counts() {
        let mut rng = rng(23);
        let ids: Vec<usize> = (0..40).map(|_| rng.below(3)).collect();
        let rows: Vec<Vec<f64>> = (0..40).map(|_| (0..3).map(|_| 4.0 * rng.uniform() - 2.0).collect()).collect();
        let times: Vec<f64> = (0..40).map(|unit| f64::from(1 + unit % 3)).collect();
        let repeated: Vec<usize> = (0..40).flat_map(|unit| std::iter::repeat_n(unit, times[unit] as usize)).collect();
        let copies: Vec<usize> = repeated.iter().map(|&unit| ids[unit]).collect();
        let same = |found: Option<Line>, expected: Option<Line>| {
            let (found, expected) = (found.unwrap(), expected.unwrap());
            let off = (found.scale - expected.scale).abs() + (found.offset - expected.offset).abs();
            assert!(off < 1e-6, "{found:?} {expected:?}");
        };
        let copied: Vec<Vec<f64>> = repeated.iter().map(|&unit| rows[unit].clone()).collect();
        let ones = vec![1.0; repeated.len()];
        same(softmax_line(&rows, &ids, &times), softmax_line(&copied, &copies, &ones));
        let first = |rows: &[Vec<f64>]| rows.iter().map(|row| row[0]).collect::<Vec<f64>>();
        let is_one = |ids: &[usize]| ids.iter().map(|&id| usize::from(id == 1)).collect::<Vec<usize>>();
        let expected = sigmoid_line(&first(&copied), &is_one(&copies), &ones, true);
        same(sigmoid_line(&first(&rows), &is_one(&ids), &times, true), expected);

        // Only ratios matter.
        let labels = Labels::Classes { ids: ids.iter().map(|&id| id as u32).collect(), classes: 3 };
        let (units, logits): (Vec<u32>, Vec<f32>) =
            ((0..40).collect(), rows.concat().iter().map(|&z| z as f32).collect());
        let scored = Scored { labels: &labels, units: &units, logits: &logits, scaling: None };
        let plain = Objective::Softmax.calibrate(&scored, None);
        assert_eq!(Objective::Softmax.calibrate(&scored, Some(&[0.25; 40])), plain);
    }

    #[test]
    fn what_cannot_be_calibrated_is_left_alone() {
        let values = Labels::Values { values: vec![0.5, 1.0], width: 1 };
        assert_eq!(line(Objective::Squared, &values, &[0.1, 0.2]), None);
        let same = Labels::Classes { ids: vec![1, 1], classes: 2 };
        assert_eq!(line(Objective::Sigmoid, &same, &[0.1, 0.2]), None);
        assert_eq!(
            Objective::Sigmoid.calibrate(&Scored { labels: &same, units: &[], logits: &[], scaling: None }, None),
            None
        );
        let both = Labels::Classes { ids: vec![1, 0], classes: 2 };
        assert_eq!(line(Objective::Sigmoid, &both, &[f32::NAN, 0.2]), None);
    }

    #[test]
    fn the_words_name_an_offset_only_where_there_is_one() {
        let calibration =
            Calibration { temperature: 1.834, offset: 0.0, validation_nll_before: 1.0, validation_nll_after: 0.9 };
        assert_eq!(calibration.text(), "temperature 1.83, fitted on validation");
        let text = Calibration { offset: -0.421, ..calibration }.text();
        assert_eq!(text, "temperature 1.83, offset -0.42, fitted on validation");
    }
}
