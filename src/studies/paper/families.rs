//! Functions of four families (polynomial, periodic, saturating, localised) and three regimes of how many of them features are made of.
//!
//! Invariant: a regime and a feature name one function on every machine; all have mean square about one over [-1, 1] once centred.

use harmonia_graph::seed::{Purpose, Rng, Stream};
use serde::{Deserialize, Serialize};

/// Points that functions are compared at, over [-1, 1].
pub const GRID: usize = 201;

/// Point `at` of the grid.
pub fn point(at: usize) -> f64 {
    -1.0 + 2.0 * at as f64 / (GRID - 1) as f64
}

/// How many families there are among the features.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Regime {
    /// Polynomials alone.
    Low,
    /// Polynomials and sines.
    Medium,
    /// All four.
    High,
}

impl Regime {
    /// All.
    pub const ALL: [Regime; 3] = [Regime::Low, Regime::Medium, Regime::High];

    /// For people and keys.
    pub fn name(self) -> &'static str {
        match self {
            Regime::Low => "low",
            Regime::Medium => "medium",
            Regime::High => "high",
        }
    }

    fn families(self) -> usize {
        match self {
            Regime::Low => 1,
            Regime::Medium => 2,
            Regime::High => 4,
        }
    }

    /// One function for each of so many features; families take turns.
    pub fn functions(self, count: usize) -> Vec<Drawn> {
        let one = |k: usize| {
            let family = Family::ALL[k % self.families()];
            Drawn::new(family, &mut Stream::new(k as u64, Purpose::Studies, 30 + self as u32).rng())
        };
        (0..count).map(one).collect()
    }
}

/// A kind of function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    /// a x + b x^2 + c x^3.
    Polynomial,
    /// sin(a x + b).
    Periodic,
    /// tanh(a (x - b)).
    Saturating,
    /// exp(-a (x - b)^2).
    Localised,
}

impl Family {
    const ALL: [Family; 4] = [Family::Polynomial, Family::Periodic, Family::Saturating, Family::Localised];

    /// For people.
    pub fn name(self) -> &'static str {
        match self {
            Family::Polynomial => "polynomial",
            Family::Periodic => "periodic",
            Family::Saturating => "saturating",
            Family::Localised => "localised",
        }
    }
}

/// One function, centred and scaled over the grid.
#[derive(Clone, Copy, Debug)]
pub struct Drawn {
    /// Its kind.
    pub family: Family,
    numbers: [f64; 3],
    centre: f64,
    scale: f64,
}

impl Drawn {
    fn new(family: Family, rng: &mut Rng) -> Drawn {
        let mut between = |low: f64, high: f64| low + (high - low) * rng.uniform();
        let numbers = match family {
            Family::Polynomial => [between(-1.0, 1.0), between(-1.0, 1.0), between(-1.0, 1.0)],
            Family::Periodic => [between(3.0, 7.0), between(0.0, std::f64::consts::TAU), 0.0],
            Family::Saturating => [between(3.0, 8.0), between(-0.5, 0.5), 0.0],
            Family::Localised => [between(8.0, 30.0), between(-0.6, 0.6), 0.0],
        };
        let mut drawn = Drawn { family, numbers, centre: 0.0, scale: 1.0 };
        let values = drawn.on_grid();
        drawn.centre = values.iter().sum::<f64>() / GRID as f64;
        let square = values.iter().map(|value| (value - drawn.centre).powi(2)).sum::<f64>() / GRID as f64;
        drawn.scale = square.sqrt().recip();
        drawn
    }

    /// Its value.
    pub fn value(&self, x: f64) -> f64 {
        let [a, b, c] = self.numbers;
        let plain = match self.family {
            Family::Polynomial => x * (a + x * (b + x * c)),
            Family::Periodic => (a * x + b).sin(),
            Family::Saturating => (a * (x - b)).tanh(),
            Family::Localised => (-a * (x - b) * (x - b)).exp(),
        };
        self.scale * (plain - self.centre)
    }

    /// Its values on the grid.
    pub fn on_grid(&self) -> Vec<f64> {
        (0..GRID).map(|at| self.value(point(at))).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_are_centred_scaled_and_of_the_families_of_their_regime() {
        for (regime, kinds) in Regime::ALL.into_iter().zip([1, 2, 4]) {
            let functions = regime.functions(16);
            let mut seen: Vec<&str> = functions.iter().map(|drawn| drawn.family.name()).collect();
            seen.sort_unstable();
            seen.dedup();
            assert_eq!(seen.len(), kinds);
            for drawn in &functions {
                let values = drawn.on_grid();
                let mean = values.iter().sum::<f64>() / GRID as f64;
                let square = values.iter().map(|value| value * value).sum::<f64>() / GRID as f64;
                assert!(mean.abs() < 1e-9 && (square - 1.0).abs() < 1e-9, "{drawn:?}");
            }
            assert_eq!(functions[3].on_grid(), regime.functions(4)[3].on_grid());
            assert_ne!(functions[0].on_grid(), functions[kinds].on_grid());
        }
    }
}
