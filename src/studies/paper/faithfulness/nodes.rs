//! Which source nodes matter: the change of a target's logit when all features of one node are replaced by the training mean, by the
//! model and by the generator. All nodes are candidates, the target too.

use super::scores::{mean, ndcg, nrmse, precision};
use super::{Lens, TARGETS};
use crate::explain::ranking;
use crate::explain::stability::spearman;
use crate::studies::paper::world::World;
use serde::{Deserialize, Serialize};
use std::ops::Range;

/// Nodes that are looked for.
const FIRST: usize = 4;

/// Of one model: means over its targets.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct OfNodes {
    /// Over all nodes, by size.
    pub spearman: f64,
    /// Of the first four.
    pub precision: f64,
    /// Of the first four.
    pub ndcg: f64,
    /// Of effects with their sign.
    pub signed_nrmse: f64,
    /// Share of the generator's first four whose sign is right.
    pub sign_agreement: f64,
}

impl OfNodes {
    pub(super) fn of(learned: &Lens<'_>, truth: &Lens<'_>, world: &World, instances: Range<usize>) -> OfNodes {
        let rest = learned.row(world.training_mean().into_iter());
        let found = |instance: usize| {
            let projected = learned.projected(world.instance(instance));
            TARGETS.map(|target| effects(learned, target, &projected, &rest))
        };
        OfNodes::scored(instances.clone().map(found), truth, world, instances.clone())
    }

    /// Of effects that something finds of every node on the targets of some instances.
    pub(super) fn scored(
        found: impl Iterator<Item = [Vec<f64>; TARGETS.len()]>,
        truth: &Lens<'_>,
        world: &World,
        instances: Range<usize>,
    ) -> OfNodes {
        let rest = truth.row(world.training_mean().into_iter());
        let mut all: [Vec<f64>; 5] = Default::default();
        for (instance, found) in instances.zip(found) {
            let projected = truth.projected(world.instance(instance));
            for (target, found) in TARGETS.into_iter().zip(found) {
                let known = effects(truth, target, &projected, &rest);
                let [sizes, relevance] =
                    [&found, &known].map(|effects| effects.iter().map(|effect| effect.abs()).collect::<Vec<_>>());
                let first = &ranking(&relevance)[..FIRST];
                let agree = first.iter().filter(|&&j| sign(found[j]) == sign(known[j])).count() as f64;
                let scores = [
                    spearman(&sizes, &relevance).unwrap_or(0.0),
                    precision(&sizes, &relevance, FIRST),
                    ndcg(&sizes, &relevance, FIRST),
                    nrmse(&found, &known),
                    agree / FIRST as f64,
                ];
                all.iter_mut().zip(scores).for_each(|(all, score)| all.push(score));
            }
        }
        let [spearman, precision, ndcg, signed_nrmse, sign_agreement] = all.map(|values| mean(&values));
        OfNodes { spearman, precision, ndcg, signed_nrmse, sign_agreement }
    }
}

/// -1, 0 or 1.
fn sign(value: f64) -> i8 {
    i8::from(value > 0.0) - i8::from(value < 0.0)
}

/// eta - eta with node j at rest, for every j.
fn effects(lens: &Lens<'_>, target: usize, projected: &[Vec<f64>], rest: &[f64]) -> Vec<f64> {
    let effect = |j: usize| {
        let terms = lens.reach(target).iter().zip(projected).zip(rest);
        terms.map(|((r, g), rest)| r[j] * (g[j] - rest)).sum()
    };
    (0..lens.nodes()).map(effect).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use harmonia_data::synthetic::FEATURES;

    #[test]
    fn an_effect_is_the_difference_of_two_predictions() {
        let world = World::published(4).unwrap();
        let truth = Lens::new(&world.oracle, &world.topology);
        let (instance, target, centre) = (330, 32, world.training_mean());
        let rest = truth.row(centre.iter().copied());
        let found = effects(&truth, target, &truth.projected(world.instance(instance)), &rest);
        let before = truth.logits(world.instance(instance))[target];
        for j in 0..truth.nodes() {
            let mut x = world.instance(instance).to_vec();
            x[j * FEATURES..][..FEATURES].iter_mut().zip(&centre).for_each(|(x, mean)| *x = *mean as f32);
            // The mean is rounded to f32 here and not there.
            assert!((before - truth.logits(&x)[target] - found[j]).abs() < 1e-6);
        }
        assert!(found.iter().filter(|effect| **effect != 0.0).count() > 1);
        let scores = OfNodes::of(&truth, &truth, &world, instance..instance + 2);
        assert!(scores.signed_nrmse < 1e-9 && scores.sign_agreement == 1.0 && scores.precision == 1.0);
    }
}
