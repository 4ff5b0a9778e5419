//! Units that do not count alike. A weight is how often a unit counts: for whatever is fitted (the training loss, the validation
//! loss that epochs are compared by, calibration), not for the scores that are reported, where every unit counts once.

use super::{Chance, Loss, Objective, ScoreKind, Scored, Target, TargetScaling, on_loss};
use harmonia_graph::dataset::Labels;

/// The validation loss that epochs are compared by where units are weighted.
pub const WEIGHTED_LOSS: ScoreKind = ScoreKind {
    name: "weighted_loss",
    label: "weighted loss",
    title: "Weighted loss",
    percent: false,
    higher: false,
    drawn: false,
    undefined: f64::MAX,
};

impl Objective {
    /// sum_i w_i loss_i / sum_i w_i over some units; `weights` are those of all units. None without units.
    pub fn weighted_loss(self, scored: &Scored<'_>, weights: &[f32]) -> Option<f64> {
        let Scored { labels, units, logits, scaling } = *scored;
        let outputs = labels.outputs();
        let rows: Vec<(u32, u32)> = (0..).zip(units.iter().copied()).collect();
        let targets = self.targets(labels, units.len(), &rows, scaling);
        let width = self.width(outputs);
        let (mut sum, mut total) = (0.0, 0.0);
        on_loss!(self, L => {
            let targets = <<L as Loss>::Target as Target>::of(&targets).ok()?;
            let mut slope = vec![0.0; outputs];
            let each = units.iter().zip(logits.chunks_exact(outputs)).zip(targets.chunks_exact(width));
            for ((&unit, logits), targets) in each {
                // Numbers are in the units of the target: the loss sees them as training does.
                let scaled = |(output, &z): (usize, &f32)| {
                    scaling.map_or(f64::from(z), |scaling| scaling.scaled(output, f64::from(z)))
                };
                let row: Vec<f64> = logits.iter().enumerate().map(scaled).collect();
                let weight = f64::from(weights[unit as usize]);
                sum += weight * L::row::<f64>(&mut slope, &row, targets);
                total += weight;
            }
        });
        (total > 0.0).then(|| sum / total)
    }

    /// What the best constant prediction would get where units are weighted.
    pub fn weighted_chance(
        self,
        labels: &Labels,
        train: &[u32],
        valid: &[u32],
        scaling: Option<&TargetScaling>,
        weights: &[f32],
    ) -> Chance {
        let constant = self.weighted_constant(labels, train, Some(weights));
        let loss = |units: &[u32]| {
            let logits = constant.repeat(units.len());
            self.weighted_loss(&Scored { labels, units, logits: &logits, scaling }, weights)
        };
        let plain = self.chance(labels, train, valid, scaling);
        Chance { train_loss: loss(train).unwrap_or(0.0), valid: plain.valid.with(WEIGHTED_LOSS.name, loss(valid)) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_weight_is_how_often_a_unit_counts() {
        let labels = Labels::Classes { ids: vec![0, 1, 2], classes: 3 };
        let row = [[0.3f32, -1.0, 0.7], [2.0, 0.1, 0.2], [0.0, 0.5, -0.4]];
        let of = |units: &[u32]| {
            let logits: Vec<f32> = units.iter().flat_map(|&unit| row[unit as usize]).collect();
            Objective::Softmax
                .score(&Scored { labels: &labels, units, logits: &logits, scaling: None })
                .get("nll")
                .unwrap()
        };
        let scored = Scored { labels: &labels, units: &[0, 1, 2], logits: &row.concat(), scaling: None };
        let weighted = Objective::Softmax.weighted_loss(&scored, &[1.0, 2.0, 0.5]).unwrap();
        assert!((weighted - of(&[0, 0, 1, 1, 1, 1, 2])).abs() < 1e-6, "{weighted}");
    }

    #[test]
    fn numbers_are_weighed_in_the_scale_of_training() {
        let labels = Labels::Values { values: vec![10.0, 20.0], width: 1 };
        let scaling = TargetScaling { mean: vec![15.0], deviation: vec![5.0] };
        let scored = Scored { labels: &labels, units: &[0, 1], logits: &[15.0, 15.0], scaling: Some(&scaling) };
        assert_eq!(Objective::Squared.weighted_loss(&scored, &[3.0, 1.0]), Some(0.5));
        // The best constant is the weighted mean.
        let chance = Objective::Squared.weighted_chance(&labels, &[0, 1], &[1], Some(&scaling), &[3.0, 1.0]);
        let errors = [0.5 * 0.25f64, 0.5 * 2.25];
        assert!((chance.train_loss - (3.0 * errors[0] + errors[1]) / 4.0).abs() < 1e-6, "{chance:?}");
        assert!((chance.valid.get(WEIGHTED_LOSS.name).unwrap() - errors[1]).abs() < 1e-6, "{chance:?}");
    }
}
