//! How long a walk keeps telling its steps apart: D_t, the horizon H_epsilon and the theorem's bound.
//!
//! On a reversible walk D_t = || M^{t+1} - M^t || in the norm weighted by degrees, and equals the largest |x|^t |1 -
//! x| over all eigenvalues x of M. Stationary modes have x = 1 and count for nothing, so several components do no
//! harm. |x|^t never grows with t, hence neither does D_t, and H_epsilon is the first t with D_t <= epsilon.
//!
//! Where eigenvalues are only known to lie in intervals, D_t and H_epsilon lie between two bounds: every interval that
//! holds some eigenvalue gives a lower one, and the intervals that hold all eigenvalues give an upper one.

use serde::Serialize;

/// Beyond this many steps a horizon is taken for infinite.
const LONGEST: u64 = 1 << 40;

/// A stretch of the real line.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Interval {
    /// Lower end.
    pub low: f64,
    /// Upper end.
    pub high: f64,
}

impl Interval {
    /// `radius` around a number, as far as it lies in [-1, 1].
    pub fn around(value: f64, radius: f64) -> Interval {
        Interval { low: (value - radius).max(-1.0), high: (value + radius).min(1.0) }
    }
}

/// What is known about the eigenvalues of the part of a walk that decays or alternates.
#[derive(Clone, Debug, Default)]
pub struct Modes {
    /// Eigenvalues known to rounding.
    pub exact: Vec<f64>,
    /// Intervals, each of which holds at least one eigenvalue.
    pub held: Vec<Interval>,
    /// Intervals in which all eigenvalues lie that are not in `exact`.
    pub within: Vec<Interval>,
}

/// Two bounds of a number that is not known better.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Bracket {
    /// At least this.
    pub low: f64,
    /// At most this.
    pub high: f64,
}

/// D_t of one walk length.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Distance {
    /// Length of the walks.
    pub t: u64,
    /// At least this.
    pub low: f64,
    /// At most this.
    pub high: f64,
}

/// Two bounds of the horizon; `None` is infinite.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Horizon {
    /// At least this.
    pub low: Option<u64>,
    /// At most this.
    pub high: Option<u64>,
}

/// How the steps of a walk become alike.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Decay {
    /// rho: the largest |eigenvalue| of the non-stationary part.
    pub rho: Bracket,
    /// D_t for t = 0, 1, ...
    pub distances: Vec<Distance>,
    /// H_epsilon.
    pub horizon: Horizon,
    /// The theorem's bound on H_epsilon, by the upper bound of rho; `None` where rho may be 1.
    pub bound: Option<u64>,
    /// H_epsilon + 1, by the upper bound of H_epsilon; `None` where that is infinite.
    pub recommended_hops: Option<u64>,
}

impl Modes {
    /// Bounds of rho, 0 where nothing but stationary modes is left.
    pub fn rho(&self) -> Bracket {
        let exact = largest(self.exact.iter().map(|x| x.abs()));
        let least = |held: &Interval| {
            if held.low <= 0.0 && held.high >= 0.0 { 0.0 } else { held.low.abs().min(held.high.abs()) }
        };
        let most = |within: &Interval| within.low.abs().max(within.high.abs());
        Bracket {
            low: exact.max(largest(self.held.iter().map(least))),
            high: exact.max(largest(self.within.iter().map(most))),
        }
    }

    /// Bounds of D_t.
    pub fn distance(&self, t: u64) -> Bracket {
        let exact = largest(self.exact.iter().map(|&x| difference(x, t)));
        Bracket {
            low: exact.max(largest(self.held.iter().map(|held| least_difference(*held, t)))),
            high: exact.max(largest(self.within.iter().map(|within| largest_difference(*within, t)))),
        }
    }

    /// D_t for at least `hops` walk lengths and on to the horizon if that is near, H_epsilon, and what follows.
    pub fn decay(&self, epsilon: f64, hops: usize) -> Decay {
        /// A horizon below this is listed whatever was asked for.
        const LISTED: u64 = 40;
        let horizon = Horizon {
            low: first_below(epsilon, |t| self.distance(t).low),
            high: first_below(epsilon, |t| self.distance(t).high),
        };
        let rho = self.rho();
        let near = horizon.high.filter(|&horizon| horizon < LISTED);
        let listed = (hops as u64).max(near.map_or(0, |horizon| horizon + 1));
        let distance = |t| {
            let Bracket { low, high } = self.distance(t);
            Distance { t, low, high }
        };
        Decay {
            rho,
            distances: (0..listed).map(distance).collect(),
            horizon,
            bound: bound(rho.high, epsilon),
            recommended_hops: horizon.high.map(|horizon| horizon + 1),
        }
    }
}

/// The smallest t with (1 + rho) rho^t <= epsilon.
pub fn bound(rho: f64, epsilon: f64) -> Option<u64> {
    if rho >= 1.0 {
        return None;
    }
    if 1.0 + rho <= epsilon {
        return Some(0);
    }
    let steps = if rho == 0.0 { 1.0 } else { (((1.0 + rho) / epsilon).ln() / -rho.ln()).ceil() };
    (steps <= LONGEST as f64).then_some(steps as u64)
}

fn largest(values: impl Iterator<Item = f64>) -> f64 {
    values.fold(0.0, f64::max)
}

/// |x|^t |1 - x|
fn difference(x: f64, t: u64) -> f64 {
    x.abs().powf(t as f64) * (1.0 - x).abs()
}

/// The largest |x|^t |1 - x| of an interval in [-1, 1]: below 0 it grows with |x|, above 0 it has one peak, at t / (t
/// + 1).
fn largest_difference(interval: Interval, t: u64) -> f64 {
    let peak = (t as f64 / (t as f64 + 1.0)).clamp(interval.low, interval.high);
    largest([interval.low, interval.high, peak].into_iter().map(|x| difference(x, t)))
}

/// The smallest |x|^t |1 - x| of an interval in [-1, 1]. Between 0 and its ends it has no other low point.
fn least_difference(interval: Interval, t: u64) -> f64 {
    let zero = 0f64.clamp(interval.low, interval.high);
    [interval.low, interval.high, zero].into_iter().map(|x| difference(x, t)).fold(f64::INFINITY, f64::min)
}

/// The first t at which a function that never grows is at most `epsilon`; `None` where there is none up to [`LONGEST`].
fn first_below(epsilon: f64, value: impl Fn(u64) -> f64) -> Option<u64> {
    if value(0) <= epsilon {
        return Some(0);
    }
    let (mut above, mut below) = (0, 1);
    while value(below) > epsilon {
        (above, below) = (below, 2 * below);
        if below > LONGEST {
            return None;
        }
    }
    while below - above > 1 {
        let middle = above + (below - above) / 2;
        if value(middle) > epsilon { above = middle } else { below = middle }
    }
    Some(below)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_of_intervals_enclose_every_point_of_them() {
        for (low, high) in [(-1.0, -0.7), (-0.3, 0.2), (0.0, 0.5), (0.4, 0.9), (0.6, 1.0), (-1.0, 1.0)] {
            for t in 0..12 {
                let interval = Interval { low, high };
                let points = (0..=1000).map(|i| difference(low + (high - low) * f64::from(i) / 1000.0, t));
                let (least, most) = points.fold((f64::INFINITY, 0.0), |(a, b): (f64, f64), x| (a.min(x), b.max(x)));
                // A thousand points come as close to the peak as the square of their distance.
                assert!(least_difference(interval, t) <= least && least - least_difference(interval, t) < 1e-12);
                assert!(largest_difference(interval, t) >= most && largest_difference(interval, t) - most < 1e-4);
            }
        }
    }

    #[test]
    fn the_bound_is_that_of_the_papers_examples() {
        assert_eq!(bound(0.5, 0.05), Some(5));
        assert_eq!(bound(0.9, 0.05), Some(35));
        assert_eq!(bound(1.0, 0.05), None);
        assert_eq!((bound(0.0, 0.05), bound(0.2, 1.5)), (Some(1), Some(0)));
    }

    #[test]
    fn a_horizon_is_found_wherever_it_lies() {
        for expected in [0, 1, 2, 3, 7, 8, 9, 1000, 1_000_003] {
            assert_eq!(first_below(0.5, |t| if t < expected { 1.0 } else { 0.0 }), Some(expected));
        }
        assert_eq!(first_below(0.5, |_| 1.0), None);
    }
}
