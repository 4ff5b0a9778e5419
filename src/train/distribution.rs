//! The numbers that features have in the training part, all features together: what batch norm takes its means and variances of.

use crate::architecture::Distribution;
use harmonia_graph::dataset::{Dataset, Level};
use rayon::prelude::*;

/// Numbers that are told apart; more are taken together by equal shares.
const MOST: usize = 1024;

/// Those of the nodes of the training part.
pub(super) fn of_training(dataset: &Dataset) -> Distribution {
    let nodes_of = |&unit: &u32| match dataset.level {
        Level::Node => unit as usize..unit as usize + 1,
        Level::Graph => dataset.graph_ptr[unit as usize]..dataset.graph_ptr[unit as usize + 1],
    };
    let nodes: Vec<usize> = dataset.split.train.iter().flat_map(nodes_of).collect();
    let cols = dataset.features.cols;
    let mut values = vec![0f32; nodes.len() * cols];
    values.par_chunks_mut(cols).zip(&nodes).for_each(|(row, &node)| dataset.features.fill_row(node, row));
    of(values)
}

fn of(mut values: Vec<f32>) -> Distribution {
    if values.is_empty() {
        return Distribution::default();
    }
    values.par_sort_unstable_by(f32::total_cmp);
    let all = values.len();
    let runs = || values.chunk_by(|a, b| a == b);
    let groups: Vec<&[f32]> = match runs().take(MOST + 1).count() <= MOST {
        true => runs().collect(),
        false => (0..MOST).map(|at| &values[at * all / MOST..(at + 1) * all / MOST]).collect(),
    };
    let mean = |group: &&[f32]| group.iter().map(|&value| f64::from(value)).sum::<f64>() / group.len() as f64;
    let share = |group: &&[f32]| group.len() as f64 / all as f64;
    Distribution { values: groups.iter().map(mean).collect(), shares: groups.iter().map(share).collect() }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Mean and variance.
    fn moments(of: &Distribution) -> (f64, f64) {
        let mean: f64 = of.values.iter().zip(of.shares.iter()).map(|(value, share)| value * share).sum();
        let square = |(value, share): (&f64, &f64)| share * (value - mean) * (value - mean);
        (mean, of.values.iter().zip(of.shares.iter()).map(square).sum())
    }

    #[test]
    fn few_numbers_are_all_there_and_many_keep_mean_and_variance() {
        let few = of([1.0, 0.0, 0.0, 2.5, 0.0, 1.0, 0.0, 0.0].to_vec());
        assert_eq!((&few.values[..], &few.shares[..]), (&[0.0, 1.0, 2.5][..], &[0.625, 0.25, 0.125][..]));
        // Uniform numbers: mean 1/2, variance 1/12.
        let many = of((0..20_000).map(|at| (at as f32 * 0.618_034).fract()).collect());
        assert_eq!(many.values.len(), MOST);
        let (mean, variance) = moments(&many);
        assert!((mean - 0.5).abs() < 1e-3 && (variance - 1.0 / 12.0).abs() < 1e-4, "{mean} {variance}");
        assert!((many.shares.iter().sum::<f64>() - 1.0).abs() < 1e-12);
    }
}
