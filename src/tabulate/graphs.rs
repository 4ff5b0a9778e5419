//! Rows of graphs: `P[G,t,k,q]` = sum over the nodes j of G of v_t[j] phi_kq(x_jk), without a walk.

use super::TablePlan;
use harmonia_graph::dataset::{Dataset, Values};
use harmonia_graph::graph::NodeWeights;
use harmonia_graph::walk_table::Columns;
use rayon::prelude::*;
use std::ops::Range;

/// rows x width of a block.
pub fn values(dataset: &Dataset, weights: &NodeWeights, plan: &TablePlan, features: Range<usize>) -> Vec<f32> {
    let (grid, hops) = (&plan.grid, plan.contents.hops);
    let columns: Vec<Columns> = features.clone().map(|k| Columns::of(grid, hops, &features, k)).collect();
    let width = hops * grid.stored_of(features.clone());
    let mut values = vec![0f32; plan.contents.units.len() * width];
    if width == 0 {
        return values;
    }
    values.par_chunks_mut(width).zip(&plan.contents.units).for_each(|(row, &graph)| {
        let nodes = dataset.graph_nodes(graph as usize);
        let mut sums = vec![0f64; width];
        let mut add = |k: usize, x: f32, weight: &dyn Fn(usize) -> f64| {
            let (q, share) = grid.place(k, x);
            let (columns, stored) = (columns[k - features.start], grid.stored(k));
            for (q, share) in [(q, 1.0 - share), (q + 1, share)] {
                if (1..=stored).contains(&q) && share > 0.0 {
                    for t in 0..hops {
                        sums[columns.at(t * stored + q - 1)] += f64::from(share) * weight(t);
                    }
                }
            }
        };
        let of_node = |j: usize| &weights.values()[j * hops..][..hops];
        match dataset.features.values() {
            Values::Sparse(sparse) => {
                // What nodes with an entry weigh; the rest of the graph is at zero.
                let mut seen = vec![0f64; features.len() * hops];
                for j in nodes.clone() {
                    let inside = sparse.row(j).skip_while(|&(k, _)| k < features.start);
                    for (k, x) in inside.take_while(|&(k, _)| k < features.end) {
                        let weight = of_node(j);
                        add(k, x, &|t| weight[t]);
                        let seen = &mut seen[(k - features.start) * hops..][..hops];
                        seen.iter_mut().zip(weight).for_each(|(sum, weight)| *sum += weight);
                    }
                }
                for k in features.clone() {
                    let seen = &seen[(k - features.start) * hops..][..hops];
                    add(k, 0.0, &|t| nodes.len() as f64 - seen[t]);
                }
            }
            _ => {
                let mut scratch = Vec::new();
                for j in nodes {
                    let weight = of_node(j);
                    let x = dataset.features.row(j, &mut scratch);
                    features.clone().for_each(|k| add(k, x[k], &|t| weight[t]));
                }
            }
        }
        row.iter_mut().zip(&sums).for_each(|(to, &sum)| *to = sum as f32);
    });
    values
}
