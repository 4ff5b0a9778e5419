//! How long walks keep telling their steps apart: D_t and H_epsilon of lazy walks on rings, blocks and complete graphs, against the
//! theorem D_t <= (1 + rho) rho^t and its bound on H_epsilon.
//!
//! D_t is measured on the powers themselves, || M^{t+1} - M^t || in the norm weighted by degrees, one product after the other; the
//! theorem speaks of eigenvalues of M. Neither is computed from the other, so that the comparison can fail.

use super::findings::{Axis, Cell, Claim, Drawing, Figure, Findings, Series, Style, Table};
use super::study::{Job, Records, Scene, Size, Study};
use crate::diagnose::dense::eigenvalues;
use crate::diagnose::horizon::bound;
use harmonia_graph::error::Result;
use harmonia_graph::graph::{Direction, Graph, Transition, Walk};
use harmonia_graph::seed::{Purpose, Stream};
use serde::{Deserialize, Serialize};

/// Resolutions of H.
const EPSILONS: [f64; 4] = [0.1, 0.03, 0.01, 0.003];
/// Walk lengths of the figure.
const SHOWN: usize = 60;
/// Two computations of a norm of numbers below two, by some hundred products of matrices of at most 128 rows.
const ROUNDING: f64 = 1e-10;
/// Probability of an edge inside a block and between blocks.
const BLOCK_EDGES: [f64; 2] = [0.4, 0.01];

/// The study.
pub struct Horizon;

/// A graph whose walks are followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Family {
    /// Every node has two neighbours: mixes slowly.
    Ring,
    /// Communities: mixes within them, slowly between them.
    Block,
    /// Everybody is a neighbour: mixes at once.
    Complete,
}

impl Family {
    /// From slow to fast.
    pub const ALL: [Family; 3] = [Family::Ring, Family::Block, Family::Complete];

    /// For people.
    pub fn name(self) -> &'static str {
        match self {
            Family::Ring => "ring",
            Family::Block => "block",
            Family::Complete => "complete",
        }
    }

    /// Its edges; a block graph has four blocks, joined in a circle so that it is connected.
    pub fn edges(self, nodes: usize, seed: u64) -> Vec<(u32, u32)> {
        let pairs = || (0..nodes as u32).flat_map(|i| (0..i).map(move |j| (j, i)));
        match self {
            Family::Ring => (0..nodes as u32).map(|i| (i, (i + 1) % nodes as u32)).collect(),
            Family::Complete => pairs().collect(),
            Family::Block => {
                let size = (nodes / 4).max(1) as u32;
                let mut rng = Stream::new(seed, Purpose::Studies, 0).rng();
                let mut edges: Vec<(u32, u32)> = pairs()
                    .filter(|(j, i)| {
                        // Neighbours by number are joined: blocks are connected, and so is the circle of blocks.
                        let [inside, between] = BLOCK_EDGES;
                        let likely = if i / size == j / size { inside } else { between };
                        rng.uniform() < likely || *i == *j + 1
                    })
                    .collect();
                edges.sort_unstable();
                edges
            }
        }
    }
}

#[derive(Serialize, Deserialize)]
struct Record {
    family: Family,
    nodes: usize,
    rho: f64,
    /// D_t by powers, t = 0, 1, ...
    distances: Vec<f64>,
    /// The same by eigenvalues.
    spectral: Vec<f64>,
    /// H for every epsilon.
    horizons: Vec<usize>,
    /// The theorem's bound for every epsilon.
    bounds: Vec<u64>,
}

/// D^{1/2} M D^{-1/2}, dense and symmetric.
fn symmetric(transition: &Transition) -> Vec<f64> {
    let n = transition.nodes();
    let root: Vec<f64> = transition.degree().iter().map(|degree| degree.sqrt()).collect();
    let mut matrix = vec![0.0; n * n];
    for i in 0..n {
        for (j, weight) in transition.matrix().row_entries(i) {
            matrix[i * n + j] = f64::from(weight) / (root[i] * root[j]);
        }
    }
    matrix
}

/// a b, n x n.
fn product(a: &[f64], b: &[f64], n: usize) -> Vec<f64> {
    let mut made = vec![0.0; n * n];
    for (made, row) in made.chunks_exact_mut(n).zip(a.chunks_exact(n)) {
        for (&x, from) in row.iter().zip(b.chunks_exact(n)).filter(|(x, _)| **x != 0.0) {
            made.iter_mut().zip(from).for_each(|(to, from)| *to += x * from);
        }
    }
    made
}

fn measure(family: Family, nodes: usize, scene: &Scene<'_>) -> Result<Record> {
    let edges = family.edges(nodes, nodes as u64);
    let graph = Graph::from_edges(nodes, &edges, None, Direction::Undirected)?;
    let walk = symmetric(&Transition::new(&graph, Walk { lazy: true, ..Walk::default() }));
    let spectrum = eigenvalues(walk.clone(), nodes);
    // A connected graph has one eigenvalue 1, the last.
    let modes = &spectrum[..nodes - 1];
    let largest = |values: &mut dyn Iterator<Item = f64>| values.fold(0.0, |most: f64, x| most.max(x.abs()));
    let rho = largest(&mut modes.iter().copied());
    let least = EPSILONS.into_iter().fold(f64::INFINITY, f64::min);
    let mut power: Vec<f64> = (0..nodes * nodes).map(|at| f64::from(at / nodes == at % nodes)).collect();
    let (mut distances, mut by_modes) = (Vec::new(), Vec::new());
    loop {
        scene.stop.check()?;
        let next = product(&power, &walk, nodes);
        let step: Vec<f64> = next.iter().zip(&power).map(|(next, power)| next - power).collect();
        let distance = largest(&mut eigenvalues(step, nodes).into_iter());
        let t = distances.len() as i32;
        by_modes.push(largest(&mut modes.iter().map(|x| x.powi(t) * (1.0 - x))));
        distances.push(distance);
        power = next;
        // It never grows: what is below once stays below.
        if distance <= least && distances.len() >= 3 {
            break;
        }
    }
    let horizon = |epsilon: f64| distances.iter().position(|distance| *distance <= epsilon);
    Ok(Record {
        family,
        nodes,
        rho,
        spectral: by_modes,
        horizons: EPSILONS.iter().filter_map(|&epsilon| horizon(epsilon)).collect(),
        bounds: EPSILONS.iter().filter_map(|&epsilon| bound(rho, epsilon)).collect(),
        distances,
    })
}

impl Study for Horizon {
    fn name(&self) -> &'static str {
        "horizon"
    }

    fn about(&self) -> &'static str {
        "how soon steps of a walk become alike: D_t and H against the theorem's bounds"
    }

    fn source(&self) -> &'static str {
        "figure of the empirical structural horizon"
    }

    fn jobs(&self, size: Size) -> Result<Vec<Job>> {
        let sizes: &[usize] = size.of(&[12], &[16, 32], &[16, 32, 64, 128]);
        let all = sizes.iter().flat_map(|&nodes| Family::ALL.map(|family| (family, nodes)));
        let job = |(family, nodes): (Family, usize)| {
            Job::new(format!("{} {nodes}", family.name()), move |scene| measure(family, nodes, scene))
        };
        Ok(all.map(job).collect())
    }

    fn findings(&self, _: Size, records: &Records) -> Result<Findings> {
        let records = records.read::<Record>()?;
        let mut head: Vec<String> = ["graph", "nodes", "rho"].map(String::from).to_vec();
        for epsilon in EPSILONS {
            head.extend([format!("H({epsilon})"), format!("bound({epsilon})")]);
        }
        let row = |record: &Record| {
            let mut row = vec![
                Cell::text(record.family.name()),
                Cell::text(record.nodes.to_string()),
                Cell::number(record.rho, 4),
            ];
            for (&horizon, &bound) in record.horizons.iter().zip(&record.bounds) {
                row.extend([Cell::count(horizon as u64), Cell::count(bound)]);
            }
            row
        };
        let table = Table {
            name: "horizon",
            title: "Horizon of lazy walks and the theorem's bound".into(),
            head,
            rows: records.iter().map(row).collect(),
            note: format!(
                "Block graphs have four blocks, edges inside with probability {}, between with {}. The paper prints no numbers, \
                 only that every H lies below its bound.",
                BLOCK_EDGES[0], BLOCK_EDGES[1]
            ),
        };
        let largest = records.iter().map(|record| record.nodes).max().unwrap_or(0);
        let mut series = Vec::new();
        for record in records.iter().filter(|record| record.nodes == largest) {
            let name = format!("{}, {} nodes", record.family.name(), record.nodes);
            let points = record.distances.iter().take(SHOWN).enumerate().map(|(t, &distance)| [t as f64, distance]);
            let bounds = (0..record.distances.len().min(SHOWN)).map(|t| [t as f64, ceiling(record.rho, t)]);
            series.push(Series { name: name.clone(), points: points.collect(), style: Style::Line });
            series.push(Series { name: format!("{name}: bound"), points: bounds.collect(), style: Style::Dashed });
        }
        let decay = Drawing::Plot { x: Axis::linear("t"), y: Axis::logarithmic("D_t"), series };
        let dots = |family: Family| Series {
            name: family.name().into(),
            points: (records.iter().filter(|record| record.family == family))
                .flat_map(|record| record.bounds.iter().zip(&record.horizons))
                .map(|(&bound, &horizon)| [bound as f64, horizon as f64])
                .collect(),
            style: Style::Dots,
        };
        let most = records.iter().flat_map(|record| &record.bounds).copied().max().unwrap_or(1) as f64;
        let identity = Series { name: "identity".into(), points: vec![[1.0, 1.0], [most, most]], style: Style::Dashed };
        let against = Drawing::Plot {
            x: Axis::logarithmic("bound"),
            y: Axis::logarithmic("H"),
            series: Family::ALL.into_iter().map(dots).chain([identity]).collect(),
        };
        Ok(Findings {
            tables: vec![table],
            figures: vec![
                Figure { name: "decay", title: "Difference of consecutive steps D_t".into(), drawing: decay },
                Figure { name: "bound", title: "Measured horizon against the bound".into(), drawing: against },
            ],
            claims: claims(&records),
        })
    }
}

/// (1 + rho) rho^t
fn ceiling(rho: f64, t: usize) -> f64 {
    (1.0 + rho) * rho.powi(t as i32)
}

fn claims(records: &[Record]) -> Vec<Claim> {
    let steps = |record: &Record| record.distances.len();
    let all: usize = records.iter().map(steps).sum();
    let apart = (records.iter())
        .flat_map(|record| record.distances.iter().zip(&record.spectral))
        .fold(0.0, |most: f64, (measured, spectral)| most.max((measured - spectral).abs()));
    let above = (records.iter())
        .flat_map(|record| record.distances.iter().enumerate().map(|(t, d)| d - ceiling(record.rho, t)))
        .fold(f64::NEG_INFINITY, f64::max);
    let pairs = || records.iter().flat_map(|record| record.horizons.iter().zip(&record.bounds));
    let broken = pairs().filter(|(horizon, bound)| **horizon as u64 > **bound).count();
    let complete =
        records.iter().all(|record| record.horizons.len() == EPSILONS.len() && record.bounds.len() == EPSILONS.len());
    // At the finest resolution, among the largest graphs: blocks of four nodes are no communities.
    let largest = records.iter().map(|record| record.nodes).max().unwrap_or(0);
    let slow_first = Family::ALL.windows(2).all(|pair| {
        let of =
            |family: Family| records.iter().filter(move |record| record.family == family && record.nodes == largest);
        of(pair[0]).all(|slow| {
            of(pair[1]).filter(|fast| fast.nodes == slow.nodes).all(|fast| fast.horizons.last() <= slow.horizons.last())
        })
    });
    vec![
        Claim::theorem(
            "D_t is the largest |x|^t |1 - x| over eigenvalues x",
            apart <= ROUNDING,
            format!("largest difference {apart:.1e} over {all} steps"),
        ),
        Claim::theorem(
            "D_t <= (1 + rho) rho^t",
            above <= ROUNDING,
            format!("D_t - bound is at most {above:.1e} over {all} steps"),
        ),
        Claim::theorem(
            "H_epsilon lies below the spectral bound",
            broken == 0 && complete,
            format!("{broken} of {} settings above it", pairs().count()),
        ),
        Claim::reported(
            "complete graphs have shorter horizons than block graphs, and these than rings",
            slow_first,
            "at the finest resolution, among the largest graphs",
        ),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use harmonia_graph::stop::Stop;

    #[test]
    fn a_complete_graph_by_hand() {
        // M = (I + (J - I) / 3) / 2 on four nodes: the other eigenvalue is 1/3, so D_t = (2/3) / 3^t.
        let stop = Stop::new();
        let record = measure(Family::Complete, 4, &Scene { stop: &stop, data_dir: "", peers: None }).unwrap();
        assert!((record.rho - 1.0 / 3.0).abs() < ROUNDING);
        for (t, distance) in record.distances.iter().enumerate() {
            assert!((distance - 2.0 / 3f64.powi(t as i32 + 1)).abs() < ROUNDING);
        }
        // 2/9 > 0.1 >= 2/27.
        assert_eq!((record.horizons[0], record.bounds[0]), (2, 3));
    }

    #[test]
    fn a_bound_that_is_broken_is_found_out() {
        let record = |distances: Vec<f64>, horizons: Vec<usize>| Record {
            family: Family::Ring,
            nodes: 3,
            rho: 0.5,
            spectral: vec![1.0, 0.5],
            distances,
            horizons,
            bounds: vec![4; 4],
        };
        let holds = |record: Record| claims(&[record]).iter().map(|claim| claim.holds).collect::<Vec<_>>();
        assert_eq!(holds(record(vec![1.0, 0.5], vec![4; 4])), [true; 4]);
        assert_eq!(holds(record(vec![1.6, 0.5], vec![4, 4, 4, 5])), [false, false, false, true]);
        assert_eq!(holds(record(vec![1.0, 0.5], vec![4])), [true, true, false, true]);
    }
}
