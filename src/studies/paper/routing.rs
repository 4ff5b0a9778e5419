//! What a wrong route costs: expert spaces are fixed, features are sent to wrong ones, and E_route - E_global = R_route - Gamma.
//!
//! Expert spaces are the best B directions of the functions of a group, found by turns (functions to spaces, spaces to functions); the global
//! space is the best B directions of all. e_k(c) = ||f_k - projection onto space c||^2, the mean over the grid. E_route is measured on
//! the residuals of least squares by the routed space, R_route and Gamma on the table of e_k(c): they share no number.

use super::families::{GRID, Regime};
use super::findings::{Axis, Cell, Claim, Drawing, Figure, Findings, Series, Style, Table};
use super::linear::least_squares;
use super::study::{Job, Records, Size, Study};
use crate::diagnose::dense::jacobi;
use crate::explain::ranking;
use harmonia_graph::error::{Error, Result};
use harmonia_graph::seed::{Purpose, Stream};
use serde::{Deserialize, Serialize};

/// d.
const FEATURES: usize = 24;
/// C.
const EXPERTS: usize = 4;
/// B.
const BASES: usize = 2;
/// Turns of functions and spaces; they settle after a few.
const TURNS: usize = 20;
/// Differences of means of 24 numbers below one.
const ROUNDING: f64 = 1e-10;

/// The study.
pub struct Routing;

/// Which wrong expert a feature is sent to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Policy {
    Nearest,
    Random,
    Farthest,
}

impl Policy {
    const ALL: [Policy; 3] = [Policy::Nearest, Policy::Random, Policy::Farthest];

    fn name(self) -> &'static str {
        match self {
            Policy::Nearest => "nearest-wrong",
            Policy::Random => "random-wrong",
            Policy::Farthest => "farthest-wrong",
        }
    }
}

#[derive(Clone, Serialize, Deserialize)]
struct Record {
    regime: Regime,
    policy: Policy,
    /// Share of features that are sent wrong.
    corruption: f64,
    /// Share whose expert is the best one.
    accuracy: f64,
    e_route: f64,
    e_global: f64,
    e_oracle: f64,
    r_route: f64,
    gamma: f64,
}

/// B orthonormal functions on the grid, in the inner product of the mean.
type Space = Vec<Vec<f64>>;

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>() / GRID as f64
}

/// The B directions that leave least of some functions.
fn best_space(functions: &[&Vec<f64>]) -> Space {
    let count = functions.len();
    if count == 0 {
        return Vec::new();
    }
    // Eigenvectors of the small Gram matrix, carried over to functions.
    let gram = (0..count * count).map(|at| dot(functions[at / count], functions[at % count])).collect();
    let (values, vectors) = jacobi(gram, count);
    let mut space = Space::new();
    for at in (0..count).rev().take(BASES).filter(|&at| values[at] > 1e-12) {
        let mut direction = vec![0.0; GRID];
        for (member, function) in functions.iter().enumerate() {
            let share = vectors[member * count + at];
            direction.iter_mut().zip(*function).for_each(|(to, f)| *to += share * f);
        }
        let length = dot(&direction, &direction).sqrt();
        direction.iter_mut().for_each(|value| *value /= length);
        space.push(direction);
    }
    space
}

/// ||f - projection||^2.
fn cost(function: &[f64], space: &Space) -> f64 {
    let kept: f64 = space.iter().map(|direction| dot(direction, function).powi(2)).sum();
    (dot(function, function) - kept).max(0.0)
}

/// Experts of a regime and everything they cost.
struct Stage {
    functions: Vec<Vec<f64>>,
    spaces: Vec<Space>,
    global: Space,
    /// e_k(c), features x experts.
    costs: Vec<Vec<f64>>,
    /// z*.
    oracle: Vec<usize>,
}

fn cheapest(costs: &[f64]) -> usize {
    (0..costs.len()).min_by(|&a, &b| costs[a].total_cmp(&costs[b])).unwrap_or(0)
}

impl Stage {
    fn new(regime: Regime) -> Stage {
        let functions: Vec<Vec<f64>> = regime.functions(FEATURES).iter().map(|drawn| drawn.on_grid()).collect();
        let mut routes: Vec<usize> = (0..FEATURES).map(|k| k % EXPERTS).collect();
        let (mut spaces, mut costs) = (Vec::new(), Vec::new());
        for _ in 0..TURNS {
            let members = |c: usize| {
                functions.iter().zip(&routes).filter(|(_, route)| **route == c).map(|(f, _)| f).collect::<Vec<_>>()
            };
            spaces = (0..EXPERTS).map(|c| best_space(&members(c))).collect::<Vec<Space>>();
            costs = functions.iter().map(|f| spaces.iter().map(|space| cost(f, space)).collect()).collect();
            let next: Vec<usize> = costs.iter().map(|costs: &Vec<f64>| cheapest(costs)).collect();
            if next == routes {
                break;
            }
            routes = next;
        }
        let oracle = costs.iter().map(|costs| cheapest(costs)).collect();
        let global = best_space(&functions.iter().collect::<Vec<_>>());
        Stage { functions, spaces, global, costs, oracle }
    }

    /// Experts but the best, by the distance of their space from its.
    fn wrong(&self, k: usize) -> Vec<usize> {
        let best = &self.spaces[self.oracle[k]];
        // ||P_a - P_b||_F^2 = dim a + dim b - 2 ||a^T b||^2.
        let distance = |c: usize| {
            let shared: f64 = best.iter().flat_map(|a| self.spaces[c].iter().map(move |b| dot(a, b).powi(2))).sum();
            (best.len() + self.spaces[c].len()) as f64 - 2.0 * shared
        };
        let distances: Vec<f64> = (0..EXPERTS).map(distance).collect();
        let mut order = ranking(&distances);
        order.reverse();
        order.retain(|&c| c != self.oracle[k]);
        order
    }

    fn measure(&self, regime: Regime, policy: Policy, tenth: usize) -> Result<Record> {
        let mut order: Vec<usize> = (0..FEATURES).collect();
        Stream::new(0, Purpose::Studies, 40 + regime as u32).rng().shuffle(&mut order);
        let corrupted = (FEATURES * tenth).div_ceil(10);
        let mut routes = self.oracle.clone();
        let mut rng = Stream::new(tenth as u64, Purpose::Studies, 43 + regime as u32).rng();
        for &k in &order[..corrupted] {
            let wrong = self.wrong(k);
            routes[k] = match policy {
                Policy::Nearest => wrong[0],
                Policy::Random => wrong[rng.below(wrong.len())],
                Policy::Farthest => wrong[wrong.len() - 1],
            };
        }
        let mean = |values: &mut dyn Iterator<Item = f64>| values.sum::<f64>() / FEATURES as f64;
        let mut e_route = 0.0;
        for (function, &route) in self.functions.iter().zip(&routes) {
            let space = &self.spaces[route];
            let coefficients = least_squares(space, function)
                .ok_or_else(|| Error::Internal("a basis that is not independent".into()))?;
            let left: Vec<f64> = (0..GRID)
                .map(|at| function[at] - space.iter().zip(&coefficients).map(|(b, c)| b[at] * c).sum::<f64>())
                .collect();
            e_route += dot(&left, &left) / FEATURES as f64;
        }
        let e_global = mean(&mut self.functions.iter().map(|f| cost(f, &self.global)));
        let e_oracle = mean(&mut self.costs.iter().zip(&self.oracle).map(|(costs, &best)| costs[best]));
        let penalty = |k: usize| self.costs[k][routes[k]] - self.costs[k][self.oracle[k]];
        let right = routes.iter().zip(&self.oracle).filter(|(a, b)| a == b).count();
        Ok(Record {
            regime,
            policy,
            corruption: tenth as f64 / 10.0,
            accuracy: right as f64 / FEATURES as f64,
            e_route,
            e_global,
            e_oracle,
            r_route: mean(&mut (0..FEATURES).map(penalty)),
            gamma: e_global - e_oracle,
        })
    }
}

impl Study for Routing {
    fn name(&self) -> &'static str {
        "routing"
    }

    fn about(&self) -> &'static str {
        "what wrong routes cost: E_route - E_global = R_route - Gamma, by three policies of corruption"
    }

    fn source(&self) -> &'static str {
        "figure of routing quality and specialisation gain"
    }

    fn jobs(&self, size: Size) -> Result<Vec<Job>> {
        let tenths: &[usize] =
            size.of(&[0, 5, 10], &[0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10], &[0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10]);
        let mut jobs = Vec::new();
        for regime in Regime::ALL {
            for policy in Policy::ALL {
                for &tenth in tenths {
                    let key = format!("{} {} {}%", regime.name(), policy.name(), 10 * tenth);
                    jobs.push(Job::new(key, move |_| Stage::new(regime).measure(regime, policy, tenth)));
                }
            }
        }
        Ok(jobs)
    }

    fn findings(&self, _: Size, records: &Records) -> Result<Findings> {
        let records = records.read::<Record>()?;
        let series = |name: &str, policy: Option<Policy>, point: fn(&Record) -> [f64; 2]| Series {
            name: name.into(),
            points: (records.iter())
                .filter(|record| policy.is_none_or(|policy| record.policy == policy))
                .map(point)
                .collect(),
            style: Style::Dots,
        };
        let by_policy = |point: fn(&Record) -> [f64; 2]| {
            Policy::ALL.map(|policy| series(policy.name(), Some(policy), point)).to_vec()
        };
        let sides = |record: &Record| [record.r_route - record.gamma, record.e_route - record.e_global];
        let ends = records.iter().map(|record| sides(record)[0]);
        let (low, high) = (ends.clone().fold(f64::INFINITY, f64::min), ends.fold(f64::NEG_INFINITY, f64::max));
        let mut identity = vec![series("settings", None, sides)];
        identity.push(Series { name: "identity".into(), points: vec![[low, low], [high, high]], style: Style::Dashed });
        let figure = |name, title: &str, x: &str, y: &str, series| Figure {
            name,
            title: title.into(),
            drawing: Drawing::Plot { x: Axis::linear(x), y: Axis::linear(y), series },
        };
        Ok(Findings {
            tables: vec![table(&records)],
            figures: vec![
                figure("identity", "The decomposition", "R_route - Gamma", "E_route - E_global", identity),
                figure(
                    "accuracy",
                    "Error against routing accuracy",
                    "routing accuracy",
                    "E_route",
                    by_policy(|record| [record.accuracy, record.e_route]),
                ),
                figure(
                    "penalty",
                    "Damage against the cost-weighted penalty",
                    "R_route",
                    "E_route - E_oracle",
                    by_policy(|record| [record.r_route, record.e_route - record.e_oracle]),
                ),
            ],
            claims: claims(&records),
        })
    }
}

fn table(records: &[Record]) -> Table {
    let row = |(regime, policy): (Regime, Policy)| {
        let own: Vec<&Record> =
            records.iter().filter(|record| record.regime == regime && record.policy == policy).collect();
        let at = |corruption: f64| {
            let found = own.iter().find(|record| record.corruption == corruption);
            found.map_or(Cell::text("–"), |record| Cell::number(record.e_route, 4))
        };
        let first = own.first().map(|record| [record.gamma, record.e_global]).unwrap_or_default();
        let lost = own.iter().find(|record| record.r_route >= record.gamma).map(|record| record.corruption);
        vec![
            Cell::text(regime.name()),
            Cell::text(policy.name()),
            Cell::number(first[0], 4),
            Cell::number(first[1], 4),
            at(0.0),
            at(0.5),
            at(1.0),
            lost.map_or(Cell::text("never"), |corruption| Cell::number(corruption, 1)),
        ]
    };
    let all = Regime::ALL.into_iter().flat_map(|regime| Policy::ALL.map(|policy| (regime, policy)));
    Table {
        name: "routing",
        title: "Approximation error under corrupted routes".into(),
        head: [
            "heterogeneity",
            "policy",
            "Gamma",
            "E_global",
            "E_route, none wrong",
            "half wrong",
            "all wrong",
            "specialisation is lost at",
        ]
        .map(String::from)
        .to_vec(),
        rows: all.map(row).collect(),
        note: format!(
            "{FEATURES} functions of mean square one, {EXPERTS} experts of {BASES} bases; distance of experts is that of their projections. The paper \
             prints no numbers: it shows the identity and that policies of the same accuracy differ."
        ),
    }
}

fn claims(records: &[Record]) -> Vec<Claim> {
    let gap = |record: &Record| (record.e_route - record.e_global - (record.r_route - record.gamma)).abs();
    let worst = records.iter().map(gap).fold(0.0, f64::max);
    let margin = |record: &&Record| (record.r_route - record.gamma).abs() > ROUNDING;
    let astray = records
        .iter()
        .filter(margin)
        .filter(|record| (record.r_route < record.gamma) != (record.e_route < record.e_global))
        .count();
    let negative = records.iter().filter(|record| record.r_route < -ROUNDING).count();
    let pairs = || {
        let nearest = records.iter().filter(|record| record.policy == Policy::Nearest && record.corruption > 0.0);
        nearest.filter_map(|near| {
            let far = records.iter().find(|far| {
                far.policy == Policy::Farthest && far.regime == near.regime && far.corruption == near.corruption
            })?;
            Some((near, far))
        })
    };
    let worse = pairs().filter(|(near, far)| far.e_route >= near.e_route).count();
    vec![
        Claim::theorem(
            "E_route - E_global = R_route - Gamma",
            worst <= ROUNDING,
            format!("largest difference {worst:.1e} over {} settings", records.len()),
        ),
        Claim::theorem(
            "specialisation pays exactly where R_route < Gamma",
            astray == 0,
            format!("{astray} of {} settings differ", records.len()),
        ),
        Claim::theorem(
            "no route is better than the oracle's",
            negative == 0,
            format!("{negative} settings with a negative penalty"),
        ),
        Claim::reported(
            "at the same accuracy, farthest-wrong routes cost at least as much as nearest-wrong ones",
            worse == pairs().count(),
            format!("{worse} of {} pairs", pairs().count()),
        ),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn unit(function: &[f64]) -> Vec<f64> {
        let length = dot(function, function).sqrt();
        function.iter().map(|value| value / length).collect()
    }

    #[test]
    fn spaces_hold_their_functions_and_costs_are_residuals() {
        let stage = Stage::new(Regime::High);
        for (k, function) in stage.functions.iter().enumerate() {
            assert_eq!(stage.oracle[k], cheapest(&stage.costs[k]));
            assert!(cost(function, &vec![unit(function)]) < 1e-12);
            let wrong = stage.wrong(k);
            assert!(wrong.len() == EXPERTS - 1 && !wrong.contains(&stage.oracle[k]));
        }
        for space in &stage.spaces {
            assert!(space.len() == BASES && dot(&space[0], &space[1]).abs() < 1e-9);
        }
        let clean = stage.measure(Regime::High, Policy::Nearest, 0).unwrap();
        assert_eq!((clean.accuracy, clean.r_route), (1.0, 0.0));
        assert!(clean.gamma > 0.0 && (clean.e_route - clean.e_oracle).abs() < ROUNDING);
    }

    #[test]
    fn an_identity_that_does_not_hold_is_found_out() {
        let record = Record {
            regime: Regime::Low,
            policy: Policy::Nearest,
            corruption: 0.0,
            accuracy: 1.0,
            e_route: 0.3,
            e_global: 0.2,
            e_oracle: 0.1,
            r_route: -0.05,
            gamma: 0.1,
        };
        assert!(claims(&[record]).iter().take(3).all(|claim| !claim.holds));
    }
}
