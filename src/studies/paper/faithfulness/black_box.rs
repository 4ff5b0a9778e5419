//! The same measures of a model that is not additive: what explainers say of it, and what its logits do when it is asked, held
//! against the generator by the code that additive models are measured by.

use super::features::{Probes, probed, rated};
use super::{Lens, OfEdges, OfNodes, TARGETS};
use crate::studies::paper::world::World;
use harmonia_data::synthetic::{FEATURES, NODES};
use harmonia_graph::error::{Error, Result};
use serde::{Deserialize, Serialize};
use std::ops::Range;

/// What is asked of it.
#[derive(Debug, Serialize)]
pub struct Questions {
    /// First instance that is explained, and the one behind the last.
    instances: [usize; 2],
    /// Nodes of an instance.
    nodes: usize,
    /// Nodes that are explained in each.
    targets: [usize; TARGETS.len()],
    /// Candidate edges of each target.
    edges: Vec<Vec<(u32, u32)>>,
    /// Column, node and number of every probe: it moves there from 0.
    probes: Vec<(usize, usize, f64)>,
    /// What the features of a node are replaced by.
    mean: Vec<f64>,
}

/// What one explainer answers.
#[derive(Debug, Default, Deserialize)]
pub struct Answer {
    /// Of every feature.
    pub features: Option<Vec<f64>>,
    /// Of every candidate: targets x instances x edges.
    pub edges: Option<Vec<Vec<Vec<f64>>>>,
    /// Of every node: instances x targets x nodes.
    pub nodes: Option<Vec<[Vec<f64>; TARGETS.len()]>>,
    /// Whether the latter are changes of the logit with their sign.
    #[serde(default)]
    pub signed: bool,
}

/// Scores of one explainer, in the order of the paper's tables; none of what it does not say.
#[derive(Debug, Default)]
pub struct Scores {
    /// Precision, NDCG, Spearman.
    pub features: Option<[f64; 3]>,
    /// The candidates.
    pub edges: Option<OfEdges>,
    /// Those with a sign mean nothing where [`Answer::signed`] is not.
    pub nodes: Option<OfNodes>,
}

/// A world, and the targets that are explained in it.
pub struct Examiner<'a> {
    world: &'a World,
    truth: Lens<'a>,
    instances: Range<usize>,
}

impl<'a> Examiner<'a> {
    /// Of some test instances.
    pub fn new(world: &'a World, instances: Range<usize>) -> Examiner<'a> {
        Examiner { world, truth: Lens::new(&world.oracle, &world.topology), instances }
    }

    /// What to ask.
    pub fn questions(&self) -> Questions {
        Questions {
            instances: [self.instances.start, self.instances.end],
            nodes: NODES,
            targets: TARGETS,
            edges: TARGETS.map(|target| super::edges::candidates(&self.world.topology, target)).to_vec(),
            probes: probed(self.world),
            mean: self.world.training_mean(),
        }
    }

    /// Scores of an answer.
    ///
    /// # Errors
    /// It is not one to these questions.
    pub fn score(&self, answer: Answer) -> Result<Scores> {
        let count = self.instances.len();
        let misfit = |what: &str| Error::Data(format!("scores of {what} are not as many as were asked for"));
        let features = match answer.features {
            Some(found) if found.len() != FEATURES => return Err(misfit("features")),
            found => found.map(|found| rated(&found, &self.truth, self.world, self.instances.clone())),
        };
        let edges = answer.edges.map(|found| {
            let sizes = self.questions().edges;
            let fits = |(found, edges): (&Vec<Vec<f64>>, &Vec<(u32, u32)>)| {
                found.len() == count && found.iter().all(|scores| scores.len() == edges.len())
            };
            let fits = found.len() == sizes.len() && found.iter().zip(&sizes).all(fits);
            let found = <[_; TARGETS.len()]>::try_from(found).ok().filter(|_| fits).ok_or_else(|| misfit("edges"))?;
            Ok(OfEdges::scored(found, &self.truth, self.world, self.instances.clone()))
        });
        let nodes = answer.nodes.map(|found| {
            match found.len() == count && found.iter().flatten().all(|scores| scores.len() == NODES) {
                true => Ok(OfNodes::scored(found.into_iter(), &self.truth, self.world, self.instances.clone())),
                false => Err(misfit("nodes")),
            }
        });
        Ok(Scores { features, edges: edges.transpose()?, nodes: nodes.transpose()? })
    }

    /// L1 distance of probed profiles from the true ones, share of right top hops, coverage.
    ///
    /// # Errors
    /// These are not the probes that were asked for.
    pub fn hops(&self, changes: Vec<Vec<f64>>) -> Result<[Option<f64>; 3]> {
        Ok(Probes::of(self.world, changes)?.scores(self.world))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Asked as a black box, the generator finds itself.
    #[test]
    fn scores_are_those_of_an_additive_model() {
        let world = World::published(2).unwrap();
        let examiner = Examiner::new(&world, 320..322);
        let (truth, questions) = (Lens::new(&world.oracle, &world.topology), examiner.questions());
        let logits = |instance: usize| truth.logits(world.instance(instance));
        let replaced = |instance: usize, node: usize| {
            let mut x = world.instance(instance).to_vec();
            x[node * FEATURES..][..FEATURES].iter_mut().zip(&questions.mean).for_each(|(x, mean)| *x = *mean as f32);
            truth.logits(&x)
        };
        let effect = |instance: usize, target: usize| {
            (0..NODES).map(|node| logits(instance)[target] - replaced(instance, node)[target]).collect()
        };
        let without = |target: usize, instance: usize, &(i, j): &(u32, u32)| {
            let reach = truth.without(target, &[(i, j), (j, i)]);
            (logits(instance)[target] - truth.logit(&reach, &truth.projected(world.instance(instance)))).abs()
        };
        let edges = TARGETS.iter().zip(&questions.edges).map(|(&target, edges)| {
            (320..322).map(|at| edges.iter().map(|edge| without(target, at, edge)).collect()).collect()
        });
        let answer = Answer {
            edges: Some(edges.collect()),
            nodes: Some((320..322).map(|at| TARGETS.map(|target| effect(at, target))).collect()),
            ..Answer::default()
        };
        let scores = examiner.score(answer).unwrap();
        assert_eq!(scores.edges.unwrap().precision, Some(1.0));
        let nodes = scores.nodes.unwrap();
        assert!(nodes.precision == 1.0 && nodes.signed_nrmse < 1e-3, "{nodes:?}");
        let moved = |&(k, node, to): &(usize, usize, f64)| {
            let logits = |to: f64| {
                let mut x = world.instance(320).to_vec();
                x[node * FEATURES + k] = to as f32;
                truth.logits(&x)
            };
            logits(to).iter().zip(logits(0.0)).map(|(a, b)| a - b).collect::<Vec<f64>>()
        };
        let hops = examiner.hops(questions.probes.iter().map(moved).collect()).unwrap();
        assert!(hops[0].unwrap() < 1e-6 && hops[1] == Some(1.0) && hops[2] == Some(1.0), "{hops:?}");
        // Too few answers are no answers.
        assert!(examiner.hops(vec![vec![0.0; NODES]]).is_err());
        let short = Answer { features: Some(vec![1.0]), ..Answer::default() };
        assert!(examiner.score(short).unwrap_err().to_string().contains("features"));
    }
}
