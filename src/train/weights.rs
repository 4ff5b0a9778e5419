//! How much each unit counts while a run is fitted: the weight of its class times its own, with mean 1 over the training units.
//! Bagging multiplies those of training units by draws from an exponential distribution of mean 1, a Bayesian bootstrap: as often as
//! a resampled unit would come on average, but never not at all, so that no class is lost.
//!
//! With mean 1 the loss of all training units is their weighted mean, and that of a batch, which is divided by its units and not
//! by its weights, is an unbiased estimate of it.

use crate::config::{ClassWeights, Train};
use harmonia_graph::dataset::{Dataset, Level};
use harmonia_graph::error::{Error, Result, suggestion};
use harmonia_graph::seed::{Purpose, Stream};
use std::sync::Arc;

/// Draws of bagging stay this far from what has no logarithm.
const RAREST: f64 = 1e-9;

/// A weight for each unit of a dataset whose split is settled; none where all count alike.
///
/// # Errors
/// Weights of classes that the dataset does not have.
pub fn of_run(dataset: &Dataset, train: &Train, seed: u64) -> Result<Option<Arc<[f32]>>> {
    let by_class = of_classes(dataset, &train.class_weights)?;
    if by_class.is_none() && dataset.weights.is_none() && !train.bagging {
        return Ok(None);
    }
    let ids = dataset.labels.class_ids().unwrap_or(&[]);
    let weight = |unit: usize| {
        let own = dataset.weights.as_ref().map_or(1.0, |weights| f64::from(weights.values[unit]));
        // Who has no label has no class.
        let class = by_class.as_ref().and_then(|weights| weights.get(*ids.get(unit)? as usize).copied());
        own * class.unwrap_or(1.0)
    };
    let mut weights: Vec<f64> = (0..dataset.units()).map(weight).collect();
    let units = &dataset.split.train;
    if train.bagging {
        let stream = Stream::new(seed, Purpose::Bagging, 0);
        for &unit in units {
            // By the number of the source: how nodes are kept changes nothing.
            let known = if dataset.level == Level::Node { dataset.original_id(unit as usize) } else { unit as usize };
            let share = stream.uniform(known as u64).clamp(RAREST, 1.0 - RAREST);
            weights[unit as usize] *= -(1.0 - share).ln();
        }
    }
    let mean = units.iter().map(|&unit| weights[unit as usize]).sum::<f64>() / units.len().max(1) as f64;
    let mean = if mean > 0.0 && mean.is_finite() { mean } else { 1.0 };
    Ok(Some(weights.into_iter().map(|weight| (weight / mean) as f32).collect()))
}

/// The weight of each class.
fn of_classes(dataset: &Dataset, classes: &ClassWeights) -> Result<Option<Vec<f64>>> {
    if *classes == ClassWeights::None {
        return Ok(None);
    }
    let Some(ids) = dataset.labels.class_ids() else {
        let found = if dataset.labels.is_values() { "numbers to be fitted" } else { "several labels a unit" };
        return Err(Error::Config(format!(
            "train.class_weights is for one class a unit, and this dataset has {found}: set train.class_weights = none"
        )));
    };
    let mut weights = vec![1.0; dataset.labels.names()];
    match classes {
        ClassWeights::None => {}
        ClassWeights::Balanced => {
            let mut counts = vec![0usize; weights.len()];
            dataset.split.train.iter().for_each(|&unit| counts[ids[unit as usize] as usize] += 1);
            let present = counts.iter().filter(|&&count| count > 0).count().max(1);
            let share = dataset.split.train.len() as f64 / present as f64;
            for (weight, count) in weights.iter_mut().zip(counts).filter(|(_, count)| *count > 0) {
                *weight = share / count as f64;
            }
        }
        ClassWeights::Named(named) => {
            for (class, weight) in named {
                let names: Vec<String> = (0..weights.len()).map(|class| class_name(dataset, class)).collect();
                let Some(at) = names.iter().position(|name| name == class) else {
                    let names = names.iter().map(String::as_str);
                    let close = suggestion(class, names.clone());
                    let shown: Vec<&str> = names.take(8).collect();
                    return Err(Error::Config(format!(
                        "train.class_weights names a class `{class}`; expected {}{}{close}",
                        shown.join(", "),
                        if weights.len() > shown.len() { ", ..." } else { "" }
                    )));
                };
                weights[at] = *weight;
            }
        }
    }
    Ok(Some(weights))
}

/// As everywhere: by its number where classes have no names.
fn class_name(dataset: &Dataset, class: usize) -> String {
    dataset.class_names.get(class).cloned().unwrap_or_else(|| format!("class {class}"))
}

/// What is weighted, for people; nothing where all count alike.
pub fn line(dataset: &Dataset, train: &Train) -> Result<Option<String>> {
    let by_class = of_classes(dataset, &train.class_weights)?.map(|weights| {
        let named = weights.iter().enumerate().take(8);
        let each = named.map(|(class, weight)| format!("{} {weight:.3}", class_name(dataset, class)));
        let more = if weights.len() > 8 { ", ..." } else { "" };
        format!("classes by {}{more}", each.collect::<Vec<_>>().join(", "))
    });
    let by_unit = dataset.weights.as_ref().map(|weights| format!("units by column {}", weights.column));
    let drawn = train.bagging.then(|| "training units by the draws of bagging".to_string());
    let parts: Vec<String> = by_class.into_iter().chain(by_unit).chain(drawn).collect();
    let text = || {
        format!(
            "weighted: {} (in the training loss, the validation loss that chooses, and calibration; scores count every unit once)",
            parts.join(", ")
        )
    };
    Ok((!parts.is_empty()).then(text))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;
    use harmonia_graph::dataset::{Features, Labels, UNLABELLED, UnitWeights};
    use harmonia_graph::graph::{Direction, Graph, Split};

    fn train(class_weights: ClassWeights, bagging: bool) -> Train {
        Train { class_weights, bagging, ..Config::default().train }
    }

    fn dataset() -> Dataset {
        let graph = Graph::from_edges(6, &[(0, 1)], None, Direction::Undirected).unwrap();
        let features = Features::new(6, 1, vec![0.5; 6]).unwrap();
        let labels = Labels::Classes { ids: vec![0, 0, 0, 1, 1, UNLABELLED], classes: 2 };
        let split = Split { train: vec![0, 1, 2, 3], valid: vec![4], test: vec![] };
        let mut dataset = Dataset::nodes("t", graph, features, labels, split).unwrap();
        dataset.class_names = vec!["no".into(), "yes".into()];
        dataset
    }

    #[test]
    fn balanced_classes_count_alike_together() {
        let weights = of_run(&dataset(), &train(ClassWeights::Balanced, false), 0).unwrap().unwrap();
        // 4 / (2 * 3) and 4 / (2 * 1), whose mean over the training units is 1 as it is.
        let (no, yes) = ((2.0f64 / 3.0) as f32, 2.0);
        assert_eq!(*weights, [no, no, no, yes, yes, 1.0]);
    }

    #[test]
    fn weights_of_classes_and_units_multiply_and_have_mean_one() {
        let mut dataset = dataset();
        dataset.weights = Some(UnitWeights { column: "w".into(), values: vec![1.0, 2.0, 3.0, 4.0, 5.0, 1.0] });
        let named = train(ClassWeights::Named(vec![("yes".into(), 2.0)]), false);
        let weights = of_run(&dataset, &named, 0).unwrap().unwrap();
        let mean = (1.0 + 2.0 + 3.0 + 8.0) / 4.0;
        let expected = [1.0, 2.0, 3.0, 8.0, 10.0, 1.0].map(|weight: f64| (weight / mean) as f32);
        assert_eq!(*weights, expected);
        assert_eq!(of_run(&self::dataset(), &train(ClassWeights::None, false), 0).unwrap(), None);
        let text = line(&dataset, &named).unwrap().unwrap();
        assert!(text.contains("no 1.000, yes 2.000") && text.contains("column w"), "{text}");
    }

    #[test]
    fn classes_that_are_not_there_are_refused() {
        let named = train(ClassWeights::Named(vec![("yess".into(), 2.0)]), false);
        let error = of_run(&dataset(), &named, 0).unwrap_err().to_string();
        assert!(error.contains("`yess`") && error.contains("no, yes") && error.contains("did you mean"), "{error}");
        let mut numbers = dataset();
        numbers.labels = Labels::Values { values: vec![1.0; 6], width: 1 };
        let error = of_run(&numbers, &train(ClassWeights::Balanced, false), 0).unwrap_err().to_string();
        assert!(error.contains("numbers to be fitted"), "{error}");
    }

    #[test]
    fn bagging_draws_weights_of_training_units_by_the_seed() {
        let drawn = |seed| of_run(&dataset(), &train(ClassWeights::None, true), seed).unwrap().unwrap();
        let (one, other) = (drawn(1), drawn(2));
        assert_eq!(one, drawn(1));
        assert!(one[..4].iter().all(|weight| *weight > 0.0) && one[..4] != other[..4]);
        assert!((one[..4].iter().sum::<f32>() - 4.0).abs() < 1e-5, "{one:?}");
        // Those that do not train count alike.
        assert_eq!(one[4], one[5]);
        let draws: Vec<f64> =
            (0..2000).flat_map(|seed| drawn(seed)[..4].iter().map(|&w| f64::from(w)).collect::<Vec<_>>()).collect();
        // Exp(1) over the mean of four: Dirichlet shares, of variance (1 / 4) (3 / 4) / 5 times 16.
        let variance = draws.iter().map(|w| (w - 1.0).powi(2)).sum::<f64>() / draws.len() as f64;
        assert!((variance - 0.6).abs() < 0.05, "{variance}");
    }
}
