//! An additive model on copies of one topology: its terms by walk length and node, in f64.
//!
//! eta_i = beta + sum_t sum_j r_t[i,j] G_t[j], with G_t[j] = sum_k w_k theta[t,k] f_k(x[j,k]). The r_t depend on the topology alone, the
//! G_t on an instance alone, so that every intervention is a sum of a few hundred products. Of a model with two outputs the score is
//! the difference of its logits.

use crate::explain::Factors;
use harmonia_graph::graph::Graph;

/// A model and the topology it is read on.
pub struct Lens<'a> {
    /// What it multiplies.
    pub factors: &'a Factors,
    topology: &'a Graph,
    /// What the model reads behind the columns of X, the same at every node.
    constants: Vec<f64>,
    /// r of every target, as the topology is.
    reach: Vec<Reach>,
    /// By term, what is left of a constant response, mean over all targets.
    kept: Vec<f64>,
}

/// r_t\[j\] of one target, T x n.
pub type Reach = Vec<Vec<f64>>;

impl<'a> Lens<'a> {
    /// Of a model on a graph.
    pub fn new(factors: &'a Factors, topology: &'a Graph) -> Lens<'a> {
        Lens::with_constants(factors, topology, Vec::new())
    }

    /// Of a model that reads some constants behind the columns of X.
    pub fn with_constants(factors: &'a Factors, topology: &'a Graph, constants: Vec<f64>) -> Lens<'a> {
        let mut lens = Lens { factors, topology, constants, reach: Vec::new(), kept: Vec::new() };
        lens.reach = (0..topology.nodes()).map(|target| lens.without(target, &[])).collect();
        let of_term = |t: usize| lens.reach.iter().map(|reach| reach[t].iter().sum::<f64>()).sum::<f64>();
        lens.kept = (0..lens.terms()).map(|t| of_term(t) / topology.nodes() as f64).collect();
        lens
    }

    /// Columns of X.
    pub fn columns(&self) -> usize {
        self.factors.features() - self.constants.len()
    }

    /// What f_k is multiplied by in the logit where the feature is the same at every node, mean over all targets. Of walks, whose
    /// rows sum to one, w_k times the sum of theta.
    pub fn scale(&self, k: usize) -> f64 {
        let terms = self.kept.iter().enumerate();
        self.weight(k) * terms.map(|(t, kept)| kept * self.factors.theta(t, k)).sum::<f64>()
    }

    /// n.
    pub fn nodes(&self) -> usize {
        self.topology.nodes()
    }

    /// T.
    pub fn terms(&self) -> usize {
        self.factors.structure().terms()
    }

    /// r of a target.
    pub fn reach(&self, target: usize) -> &Reach {
        &self.reach[target]
    }

    /// r of a target once some edges are gone; the structure is normalised anew.
    pub fn without(&self, target: usize, dropped: &[(u32, u32)]) -> Reach {
        let sources = self.factors.structure().sources(self.topology, dropped);
        let ball = sources.ball(target as u32..target as u32 + 1);
        let term = |t: usize| {
            let mut row = vec![0.0; self.nodes()];
            ball.nodes.iter().enumerate().for_each(|(at, &node)| row[node as usize] = ball.weight(t, at));
            row
        };
        (0..self.terms()).map(term).collect()
    }

    /// w_k of the score.
    pub fn weight(&self, k: usize) -> f64 {
        self.score(&self.factors.weight, k)
    }

    fn score(&self, values: &[f64], at: usize) -> f64 {
        let outputs = self.factors.outputs();
        let value = |output: usize| values[at * outputs + output];
        value(outputs - 1) - if outputs > 1 { value(0) } else { 0.0 }
    }

    /// G of a row of features, by term.
    pub fn row(&self, x: impl Iterator<Item = f64>) -> Vec<f64> {
        let mut terms = vec![0.0; self.terms()];
        for (k, x) in x.chain(self.constants.iter().copied()).enumerate() {
            let response = self.weight(k) * self.factors.response(k, x);
            terms.iter_mut().enumerate().for_each(|(t, term)| *term += self.factors.theta(t, k) * response);
        }
        terms
    }

    /// G of an instance (its rows of X), T x n.
    pub fn projected(&self, instance: &[f32]) -> Vec<Vec<f64>> {
        let mut projected = vec![vec![0.0; self.nodes()]; self.terms()];
        for (j, row) in instance.chunks_exact(self.columns()).enumerate() {
            let terms = self.row(row.iter().map(|&x| f64::from(x)));
            projected.iter_mut().zip(terms).for_each(|(to, term)| to[j] = term);
        }
        projected
    }

    /// eta of a target, from its r and the G of an instance.
    pub fn logit(&self, reach: &Reach, projected: &[Vec<f64>]) -> f64 {
        let dot = |(r, g): (&Vec<f64>, &Vec<f64>)| r.iter().zip(g).map(|(r, g)| r * g).sum::<f64>();
        self.score(&self.factors.bias, 0) + reach.iter().zip(projected).map(dot).sum::<f64>()
    }

    /// eta of every node of an instance.
    pub fn logits(&self, instance: &[f32]) -> Vec<f64> {
        let projected = self.projected(instance);
        self.reach.iter().map(|reach| self.logit(reach, &projected)).collect()
    }

    /// eta of every node of all instances, whose rows of X follow one another.
    pub fn all_logits(&self, x: &[f32]) -> Vec<f64> {
        x.chunks_exact(self.nodes() * self.columns()).flat_map(|instance| self.logits(instance)).collect()
    }

    /// What feature k adds to a target of an instance.
    pub fn contribution(&self, target: usize, instance: &[f32], k: usize) -> f64 {
        let d = self.columns();
        let response = |j: usize| self.factors.response(k, f64::from(instance[j * d + k]));
        let responses: Vec<f64> = (0..self.nodes()).map(response).collect();
        let term = |(t, r): (usize, &Vec<f64>)| {
            self.factors.theta(t, k) * r.iter().zip(&responses).map(|(r, f)| r * f).sum::<f64>()
        };
        self.weight(k) * self.reach[target].iter().enumerate().map(term).sum::<f64>()
    }
}
