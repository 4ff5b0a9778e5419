//! Can hop weights be read off an operator? theta* is found again from P* = sum_t theta*_t M^t, exactly or disturbed by ||E||_F = epsilon:
//! the error of the coefficients against that of the operator, and the bound ||theta - theta*|| <= 2 epsilon / gamma_T.
//!
//! What is found is the point of the simplex whose operator comes nearest to the disturbed one, by trying every set of walk lengths
//! that may have weight: then the bound is a theorem. gamma_T is the smallest singular value of the walk powers on changes that
//! sum to zero, by rotations that keep its digits however small it is.

use super::findings::{Axis, Cell, Claim, Drawing, Figure, Findings, Series, Style, Table};
use super::horizon::Family;
use super::linear::{least_squares, smallest_singular_value};
use super::study::{Job, Records, Scene, Size, Study};
use crate::diagnose::dense::jacobi;
use harmonia_graph::error::Result;
use harmonia_graph::graph::{Direction, Graph, Transition, Walk};
use harmonia_graph::seed::{Purpose, Stream};
use serde::{Deserialize, Serialize};

/// How the operator is disturbed: not at all, or by ||E||_F = epsilon.
const LEVELS: [(f64, Noise); 13] = [
    (0.0, Noise::Spread),
    (1e-5, Noise::Spread),
    (1e-5, Noise::Aligned),
    (1e-4, Noise::Spread),
    (1e-4, Noise::Aligned),
    (1e-3, Noise::Spread),
    (1e-3, Noise::Aligned),
    (1e-2, Noise::Spread),
    (1e-2, Noise::Aligned),
    (3e-2, Noise::Spread),
    (3e-2, Noise::Aligned),
    (1e-1, Noise::Spread),
    (1e-1, Noise::Aligned),
];
/// That of the figure.
const SHOWN: f64 = 1e-2;
/// T.
const HOPS: [usize; 4] = [3, 4, 6, 8];
/// Powers that are less apart are the same to f64; as in the paper.
const SINGULAR: f64 = 1e-12;
/// What is found is the nearest operator up to this: products and sums of a thousand numbers of size one.
const ROUNDING: f64 = 1e-11;

/// The study.
pub struct HopRecovery;

/// Whose walks are told apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Topology {
    Path,
    Ring,
    Tree,
    Block,
    Complete,
}

impl Topology {
    const ALL: [Topology; 5] = [Topology::Path, Topology::Ring, Topology::Tree, Topology::Block, Topology::Complete];

    fn name(self) -> &'static str {
        match self {
            Topology::Path => "path",
            Topology::Ring => "ring",
            Topology::Tree => "tree",
            Topology::Block => "block",
            Topology::Complete => "complete",
        }
    }

    fn edges(self, nodes: usize) -> Vec<(u32, u32)> {
        let seed = nodes as u64;
        match self {
            Topology::Path => (1..nodes as u32).map(|i| (i - 1, i)).collect(),
            Topology::Ring => Family::Ring.edges(nodes, seed),
            // Every node joins one of those before it.
            Topology::Tree => {
                let mut rng = Stream::new(seed, Purpose::Studies, 3).rng();
                (1..nodes).map(|i| (rng.below(i) as u32, i as u32)).collect()
            }
            Topology::Block => Family::Block.edges(nodes, seed),
            Topology::Complete => Family::Complete.edges(nodes, seed),
        }
    }
}

/// Where a disturbance lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Noise {
    /// In all entries alike: hardly any of it looks like a change of hop weights.
    Spread,
    /// Along the change of hop weights that moves the operator least: the worst there is.
    Aligned,
}

#[derive(Clone, Copy)]
struct Setting {
    topology: Topology,
    hops: usize,
    lazy: bool,
    /// Which of [`LEVELS`].
    level: usize,
    nodes: usize,
}

#[derive(Serialize, Deserialize)]
struct Record {
    topology: Topology,
    hops: usize,
    lazy: bool,
    epsilon: f64,
    noise: Noise,
    gamma: f64,
    /// ||theta - theta*||.
    coefficients: f64,
    /// ||P - P*||_F.
    operator: f64,
}

impl Setting {
    fn key(&self) -> String {
        let Setting { topology, hops, lazy, level, .. } = *self;
        let walk = if lazy { "lazy" } else { "plain" };
        let (epsilon, noise) = LEVELS[level];
        let noise = if noise == Noise::Aligned { " aligned" } else { "" };
        format!("{} T={hops} {walk} epsilon={epsilon:e}{noise}", topology.name())
    }

    fn measure(&self, scene: &Scene<'_>) -> Result<Record> {
        let Setting { topology, hops, lazy, level, nodes } = *self;
        let graph = Graph::from_edges(nodes, &topology.edges(nodes), None, Direction::Undirected)?;
        let powers = powers(&Transition::new(&graph, Walk { lazy, ..Walk::default() }), hops);
        let (epsilon, kind) = LEVELS[level];
        // The same truth at every level: only the disturbance differs.
        let seed = (hops * 2 + usize::from(lazy)) as u64 * 16 + topology as u64;
        let truth = simplex(seed, hops);
        let operator = combined(&powers, &truth);
        let noise = Stream::new(seed, Purpose::Studies, 10 + level as u32);
        let spread = || (0..operator.len() as u64).map(|at| noise.normal(at)).collect::<Vec<f64>>();
        let aligned = (kind == Noise::Aligned).then(|| least_direction(&powers));
        // Of powers that are dependent, rounding is all that is left.
        let noise = aligned.filter(|aligned| norm(aligned) > SINGULAR).unwrap_or_else(spread);
        let scale = epsilon / norm(&noise);
        let disturbed: Vec<f64> = operator.iter().zip(&noise).map(|(p, e)| p + scale * e).collect();
        scene.stop.check()?;
        let found = nearest(&powers, &disturbed);
        let apart = |a: &[f64], b: &[f64]| norm(&a.iter().zip(b).map(|(a, b)| a - b).collect::<Vec<_>>());
        Ok(Record {
            topology,
            hops,
            lazy,
            epsilon,
            noise: kind,
            gamma: gamma(&powers),
            coefficients: apart(&found, &truth),
            operator: apart(&combined(&powers, &found), &operator),
        })
    }
}

fn norm(values: &[f64]) -> f64 {
    values.iter().map(|value| value * value).sum::<f64>().sqrt()
}

/// M^0, ..., M^{T-1}, each as its n x n numbers.
fn powers(walk: &Transition, hops: usize) -> Vec<Vec<f64>> {
    let n = walk.nodes();
    let mut powers: Vec<Vec<f64>> = vec![(0..n * n).map(|at| f64::from(u8::from(at / n == at % n))).collect()];
    for t in 1..hops {
        let mut next = vec![0.0; n * n];
        for (i, row) in next.chunks_exact_mut(n).enumerate() {
            for (l, weight) in walk.matrix().row_entries(i) {
                let step = f64::from(weight) / walk.degree()[i];
                row.iter_mut().zip(&powers[t - 1][l * n..][..n]).for_each(|(to, from)| *to += step * from);
            }
        }
        powers.push(next);
    }
    powers
}

fn combined(powers: &[Vec<f64>], theta: &[f64]) -> Vec<f64> {
    let mut sum = vec![0.0; powers[0].len()];
    for (power, weight) in powers.iter().zip(theta) {
        sum.iter_mut().zip(power).for_each(|(sum, p)| *sum += weight * p);
    }
    sum
}

/// Uniform on the simplex.
fn simplex(seed: u64, count: usize) -> Vec<f64> {
    let stream = Stream::new(seed, Purpose::Studies, 4);
    let drawn: Vec<f64> = (0..count as u64).map(|at| -(1.0 - stream.uniform(at)).ln()).collect();
    let sum: f64 = drawn.iter().sum();
    drawn.iter().map(|weight| weight / sum).collect()
}

/// The point of the simplex whose operator is nearest: on every face, the nearest point of the plane it lies in; the best of those that
/// lie in the face.
fn nearest(powers: &[Vec<f64>], target: &[f64]) -> Vec<f64> {
    let hops = powers.len();
    let mut best = (f64::INFINITY, vec![1.0 / hops as f64; hops]);
    for face in 1u32..1 << hops {
        let members: Vec<usize> = (0..hops).filter(|t| face >> t & 1 == 1).collect();
        let (first, others) = (members[0], &members[1..]);
        let minus = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a - b).collect::<Vec<f64>>();
        let directions: Vec<Vec<f64>> = others.iter().map(|&t| minus(&powers[t], &powers[first])).collect();
        // A face whose powers are dependent has smaller ones with the same operators.
        let Some(steps) = least_squares(&directions, &minus(target, &powers[first])) else { continue };
        let mut theta = vec![0.0; hops];
        theta[first] = 1.0 - steps.iter().sum::<f64>();
        others.iter().zip(steps).for_each(|(&t, step)| theta[t] = step);
        if theta.iter().all(|weight| *weight >= 0.0) {
            let distance = norm(&minus(&combined(powers, &theta), target));
            if distance < best.0 {
                best = (distance, theta);
            }
        }
    }
    best.1
}

/// Orthonormal changes of hop weights that sum to zero: (1, ..., 1, -k, 0, ...) / sqrt(k (k + 1)).
fn change(k: usize, hops: usize) -> Vec<f64> {
    let length = ((k * (k + 1)) as f64).sqrt();
    let weight = |t: usize| match t.cmp(&k) {
        std::cmp::Ordering::Less => 1.0 / length,
        std::cmp::Ordering::Equal => -(k as f64) / length,
        std::cmp::Ordering::Greater => 0.0,
    };
    (0..hops).map(weight).collect()
}

/// What each of these changes does to the operator.
fn changes(powers: &[Vec<f64>]) -> Vec<Vec<f64>> {
    (1..powers.len()).map(|k| combined(powers, &change(k, powers.len()))).collect()
}

/// Smallest ||sum_t delta_t M^t||_F of changes delta of size one that sum to zero.
fn gamma(powers: &[Vec<f64>]) -> f64 {
    smallest_singular_value(changes(powers))
}

/// The operator of the change that moves it least, up to what the squares of a Gram matrix tell.
fn least_direction(powers: &[Vec<f64>]) -> Vec<f64> {
    let changes = changes(powers);
    let count = changes.len();
    let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
    let gram = (0..count * count).map(|at| dot(&changes[at / count], &changes[at % count])).collect();
    let (_, vectors) = jacobi(gram, count);
    // Eigenvalues ascend: the first column.
    combined(&changes, &(0..count).map(|member| vectors[member * count]).collect::<Vec<f64>>())
}

impl Study for HopRecovery {
    fn name(&self) -> &'static str {
        "hop-recovery"
    }

    fn about(&self) -> &'static str {
        "hop weights read off an operator: their error against the operator's, and the bound 2 epsilon / gamma"
    }

    fn source(&self) -> &'static str {
        "figure of hop-level explanation reliability"
    }

    fn jobs(&self, size: Size) -> Result<Vec<Job>> {
        let nodes = size.of(8, 16, 32);
        let hops = size.of(&HOPS[..2], &HOPS[..], &HOPS[..]);
        let levels: Vec<usize> = size.of(vec![0, 7, 8], (0..LEVELS.len()).collect(), (0..LEVELS.len()).collect());
        let mut jobs = Vec::new();
        for topology in Topology::ALL {
            for &hops in hops {
                for lazy in [false, true] {
                    for &level in &levels {
                        let setting = Setting { topology, hops, lazy, level, nodes };
                        jobs.push(Job::new(setting.key(), move |scene| setting.measure(scene)));
                    }
                }
            }
        }
        Ok(jobs)
    }

    fn findings(&self, _: Size, records: &Records) -> Result<Findings> {
        let records = records.read::<Record>()?;
        let shown: Vec<&Record> =
            records.iter().filter(|record| record.epsilon == SHOWN && record.gamma > SINGULAR).collect();
        let dots = |name: &str, of: fn(&Record) -> f64| Series {
            name: name.into(),
            points: shown.iter().map(|record| [record.gamma, of(record)]).collect(),
            style: Style::Dots,
        };
        let ends = shown.iter().map(|record| record.gamma);
        let (low, high) = (ends.clone().fold(f64::INFINITY, f64::min), ends.fold(0.0, f64::max));
        // Two points of the simplex are never further apart than sqrt 2.
        let bound = [low, 2f64.sqrt() * SHOWN, high].map(|gamma| [gamma, (2.0 * SHOWN / gamma).min(2f64.sqrt())]);
        let figure = Figure {
            name: "conditioning",
            title: format!("Recovery at epsilon = {SHOWN}"),
            drawing: Drawing::Plot {
                x: Axis::logarithmic("gamma_T"),
                y: Axis::logarithmic("error"),
                series: vec![
                    dots("coefficients", |record| record.coefficients),
                    dots("operator", |record| record.operator),
                    Series { name: "2 epsilon / gamma".into(), points: bound.to_vec(), style: Style::Dashed },
                ],
            },
        };
        Ok(Findings { tables: vec![table(&shown)], figures: vec![figure], claims: claims(&records) })
    }
}

/// Errors by the order of magnitude of gamma.
fn table(shown: &[&Record]) -> Table {
    let classes: [(&str, f64, f64); 4] = [
        ("gamma >= 1", 1.0, f64::INFINITY),
        ("0.1 <= gamma < 1", 0.1, 1.0),
        ("0.01 <= gamma < 0.1", 0.01, 0.1),
        ("gamma < 0.01", 0.0, 0.01),
    ];
    let row = |&(name, low, high): &(&str, f64, f64)| {
        let own: Vec<&&Record> = shown.iter().filter(|record| (low..high).contains(&record.gamma)).collect();
        let range = |of: fn(&Record) -> f64| {
            let values = || own.iter().map(|record| of(record));
            let (least, most) = (values().fold(f64::INFINITY, f64::min), values().fold(0.0, f64::max));
            match own.is_empty() {
                true => [Cell::text("–"), Cell::text("–")],
                false => [Cell::number(least, 4), Cell::number(most, 4)],
            }
        };
        let [least, most] = range(|record| record.coefficients);
        let [least_operator, most_operator] = range(|record| record.operator);
        // Of those the paper calls representative and ill-conditioned.
        let ill = high <= 0.1;
        let paper = |cell: Cell, value: f64| if ill { cell.beside(Some(value), None) } else { cell };
        vec![
            Cell::text(name),
            Cell::count(own.len() as u64),
            paper(least, 0.26),
            paper(most, 0.54),
            paper(least_operator, 0.007),
            paper(most_operator, 0.018),
        ]
    };
    Table {
        name: "conditioning",
        title: format!("Errors at epsilon = {SHOWN}, by conditioning"),
        head: [
            "settings with",
            "how many",
            "least ||theta - theta*||",
            "largest",
            "least ||P - P*||",
            "largest of these",
        ]
        .map(String::from)
        .to_vec(),
        rows: classes.iter().map(row).collect(),
        note: "Settings whose powers are dependent (gamma <= 1e-12) are left out. The paper names \"representative\" ill-conditioned settings \
               without saying which: its range stands beside both lower rows. Graphs, sizes and levels are ours: five graphs, T = 3, 4, 6, 8, \
               plain and lazy walks, thirteen disturbances (none, and six sizes both spread over all entries and along the \
               change of hop weights that moves the operator least), 520 in all."
            .into(),
    }
}

fn claims(records: &[Record]) -> Vec<Claim> {
    let regular = || records.iter().filter(|record| record.gamma > SINGULAR);
    let count = regular().count();
    let broken =
        regular().filter(|record| record.coefficients * record.gamma > 2.0 * record.epsilon + ROUNDING).count();
    let closest = regular()
        .filter(|record| record.epsilon > 0.0)
        .map(|record| record.coefficients * record.gamma / (2.0 * record.epsilon))
        .fold(0.0, f64::max);
    let far = records.iter().filter(|record| record.operator > 2.0 * record.epsilon + ROUNDING).count();
    let exact = regular().filter(|record| record.epsilon == 0.0 && record.gamma > 1e-6);
    let worst = exact.map(|record| record.coefficients).fold(0.0, f64::max);
    let shown = || regular().filter(|record| record.epsilon == SHOWN);
    let ill = shown().min_by(|a, b| a.gamma.total_cmp(&b.gamma));
    let mut claims = vec![
        Claim::theorem(
            "||theta - theta*|| <= 2 epsilon / gamma_T",
            broken == 0,
            format!("{broken} of {count} settings break it; the closest is at {closest:.3} of the bound"),
        ),
        Claim::theorem("||P - P*|| <= 2 epsilon", far == 0, format!("{far} of {} settings break it", records.len())),
        Claim::theorem(
            "without disturbance, weights of a well-conditioned operator are found exactly",
            worst <= 1e-4,
            format!("largest error {worst:.1e} where gamma > 1e-6"),
        ),
    ];
    claims.extend(ill.map(|ill| {
        Claim::reported(
            "the operator is found where its hop weights are not",
            ill.coefficients > 5.0 * ill.operator,
            format!(
                "at gamma = {:.1e}: coefficients off by {:.3}, the operator by {:.4}",
                ill.gamma, ill.coefficients, ill.operator
            ),
        )
    }));
    claims
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gamma_of_two_nodes_by_hand() {
        // M swaps two nodes: M^2 = I. T = 2: delta = (1, -1) / sqrt 2, ||I - M||_F = 2.
        let graph = Graph::from_edges(2, &[(0, 1)], None, Direction::Undirected).unwrap();
        let walk = Transition::new(&graph, Walk::default());
        assert!((gamma(&powers(&walk, 2)) - 2f64.sqrt()).abs() < 1e-12);
        assert!(gamma(&powers(&walk, 3)) < SINGULAR);
    }

    #[test]
    fn what_is_nearest_is_no_further_than_any_point_of_a_fine_grid() {
        let graph = Graph::from_edges(4, &[(0, 1), (1, 2), (2, 3), (0, 2)], None, Direction::Undirected).unwrap();
        let powers = powers(&Transition::new(&graph, Walk::default()), 3);
        let mut target = combined(&powers, &[0.1, 0.0, 0.9]);
        target.iter_mut().enumerate().for_each(|(at, value)| *value += 0.3 * (at as f64).sin());
        let distance =
            |theta: &[f64]| norm(&combined(&powers, theta).iter().zip(&target).map(|(a, b)| a - b).collect::<Vec<_>>());
        let found = nearest(&powers, &target);
        assert!(found.iter().all(|weight| *weight >= 0.0) && (found.iter().sum::<f64>() - 1.0).abs() < 1e-12);
        for a in 0..=50 {
            for b in 0..=50 - a {
                let theta = [f64::from(a) / 50.0, f64::from(b) / 50.0, f64::from(50 - a - b) / 50.0];
                assert!(distance(&found) <= distance(&theta) + 1e-12, "{found:?} {theta:?}");
            }
        }
    }

    #[test]
    fn a_broken_bound_is_found_out() {
        let record = |coefficients: f64, operator: f64| Record {
            topology: Topology::Ring,
            hops: 3,
            lazy: false,
            epsilon: 0.01,
            noise: Noise::Spread,
            gamma: 0.5,
            coefficients,
            operator,
        };
        let holds = |record: Record| claims(&[record]).iter().take(2).map(|claim| claim.holds).collect::<Vec<_>>();
        assert_eq!(holds(record(0.039, 0.019)), [true, true]);
        assert_eq!(holds(record(0.041, 0.021)), [false, false]);
    }
}
