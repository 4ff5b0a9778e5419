//! The generator behind a synthetic dataset, kept so that a trained model can be held against it.
//!
//! eta*_i = intercept + sum_r c*_ir,  c*_r = sum_t theta*_tr M^t f*_r,  f*_r(x) = phi_r(x) - centre_r.
//! Invariant: `contributions` and `logits` are of the values the model is given, X rounded to f32.

use super::Labels;
use super::design::Design;
use serde::Serialize;

/// Columns that carry signal.
pub const INFORMATIVE: usize = 4;
/// Walk orders of the generator, t = 0..3.
pub const HOPS: usize = 4;

/// How an informative feature acts on the logit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum TrueResponse {
    /// 2x.
    Linear,
    /// 1.5 (x^2 - 1).
    Quadratic,
    /// sin(pi x).
    Sine,
    /// tanh(2x).
    Tanh,
}

impl TrueResponse {
    /// All responses; informative feature r has the r-th.
    pub const ALL: [TrueResponse; INFORMATIVE] =
        [TrueResponse::Linear, TrueResponse::Quadratic, TrueResponse::Sine, TrueResponse::Tanh];

    /// phi(x), before centring.
    pub fn value(self, x: f64) -> f64 {
        match self {
            TrueResponse::Linear => 2.0 * x,
            TrueResponse::Quadratic => 1.5 * (x * x - 1.0),
            TrueResponse::Sine => (std::f64::consts::PI * x).sin(),
            TrueResponse::Tanh => (2.0 * x).tanh(),
        }
    }

    /// The formula, for tables and plots.
    pub fn label(self) -> &'static str {
        match self {
            TrueResponse::Linear => "2x",
            TrueResponse::Quadratic => "1.5(x^2 - 1)",
            TrueResponse::Sine => "sin(pi x)",
            TrueResponse::Tanh => "tanh(2x)",
        }
    }
}

/// How an informative feature spreads over the graph: theta* of the walk orders, summing to 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum Profile {
    /// Mostly the node itself.
    A,
    /// Mostly two steps away.
    B,
    /// Mostly three steps away.
    C,
    /// Mostly the neighbours.
    D,
}

impl Profile {
    /// All profiles, in the order in which data indices rotate them.
    pub const ALL: [Profile; INFORMATIVE] = [Profile::A, Profile::B, Profile::C, Profile::D];

    /// theta* of walk orders 0 to 3.
    pub fn hop_weights(self) -> [f64; HOPS] {
        match self {
            Profile::A => [0.70, 0.20, 0.08, 0.02],
            Profile::B => [0.05, 0.15, 0.65, 0.15],
            Profile::C => [0.05, 0.10, 0.20, 0.65],
            Profile::D => [0.10, 0.55, 0.25, 0.10],
        }
    }

    /// The walk order with the largest weight.
    pub fn dominant_hop(self) -> usize {
        match self {
            Profile::A => 0,
            Profile::B => 2,
            Profile::C => 3,
            Profile::D => 1,
        }
    }
}

/// Everything the labels were drawn from. Index r runs over the informative features.
#[derive(Clone, Debug)]
pub struct Truth {
    /// Which dataset; the first five are the paper's.
    pub data_index: u32,
    /// Column of X of each informative feature.
    pub columns: [usize; INFORMATIVE],
    /// phi of each.
    pub responses: [TrueResponse; INFORMATIVE],
    /// Hop profile of each.
    pub profiles: [Profile; INFORMATIVE],
    /// theta*, the weights of the profiles: `hop_weights[r][t]`.
    pub hop_weights: [[f64; HOPS]; INFORMATIVE],
    /// Mean of phi over the training nodes, taken off so that constants live in the intercept alone.
    pub centres: [f64; INFORMATIVE],
    /// Chosen so that the mean training probability is 1/2.
    pub intercept: f64,
    /// c*, nodes x 4, row-major.
    pub contributions: Vec<f64>,
    /// eta* of every node.
    pub logits: Vec<f64>,
    /// How well the hops can be told apart on this graph.
    pub design: Design,
}

impl Truth {
    /// f*_r(x), the centred response of informative feature `r`.
    pub fn response(&self, r: usize, x: f64) -> f64 {
        self.responses[r].value(x) - self.centres[r]
    }

    /// c*_ir, what informative feature `r` adds to the logit of node `i`.
    pub fn contribution(&self, i: usize, r: usize) -> f64 {
        self.contributions[i * INFORMATIVE + r]
    }

    /// The walk order that matters most for informative feature `r`.
    pub fn dominant_hop(&self, r: usize) -> usize {
        self.profiles[r].dominant_hop()
    }

    /// The probability with which the label of node `i` was drawn as 1.
    pub fn probability(&self, i: usize) -> f64 {
        sigmoid(self.logits[i])
    }

    /// Mean negative log-likelihood of the labels of `units` under the generator itself: what a perfect fit scores.
    /// 0 for no units.
    pub fn nll(&self, labels: &Labels, units: &[u32]) -> f64 {
        let losses = units.iter().map(|&unit| {
            let logit = self.logits[unit as usize];
            // log(1 + e^eta) - y eta, without overflow.
            let log_partition = logit.max(0.0) + (-logit.abs()).exp().ln_1p();
            labels.codes(unit as usize).map(|y| log_partition - f64::from(y) * logit).sum::<f64>()
        });
        losses.sum::<f64>() / units.len().max(1) as f64
    }
}

/// 1 / (1 + exp(-logit)).
pub fn sigmoid(logit: f64) -> f64 {
    (1.0 + (-logit).exp()).recip()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn profiles_sum_to_one_and_peak_where_they_say() {
        for profile in Profile::ALL {
            let weights = profile.hop_weights();
            assert!((weights.iter().sum::<f64>() - 1.0).abs() < 1e-15);
            assert!(weights.iter().all(|&weight| weight <= weights[profile.dominant_hop()]));
        }
        let mut hops = Profile::ALL.map(Profile::dominant_hop);
        hops.sort_unstable();
        assert_eq!(hops, [0, 1, 2, 3]);
    }

    #[test]
    fn nll_is_the_mean_log_loss_and_survives_large_logits() {
        let truth = Truth {
            data_index: 0,
            columns: [0, 1, 2, 3],
            responses: TrueResponse::ALL,
            profiles: Profile::ALL,
            hop_weights: Profile::ALL.map(Profile::hop_weights),
            centres: [0.0; INFORMATIVE],
            intercept: 0.0,
            contributions: Vec::new(),
            logits: vec![0.7, -1.2, 1000.0],
            design: Design { condition: 1.0, correlation: 0.0 },
        };
        let labels = Labels::Classes { ids: vec![1, 1, 0], classes: 2 };
        let expected = -0.5 * (sigmoid(0.7).ln() + sigmoid(-1.2).ln());
        assert!((truth.nll(&labels, &[0, 1]) - expected).abs() < 1e-15);
        assert_eq!(truth.nll(&labels, &[2]), 1000.0);
        assert_eq!(truth.nll(&labels, &[]), 0.0);
    }
}
