//! Where features stand once they are trained with 3, 5, 7 and 9 experts: each a point by its routing and its learned shape, placed on the
//! two directions of largest variance; a score says how far the groups of an expert are apart.
//!
//! A feature is the list of its gates and of its curve over [0, 1] (centred, and over the size of all curves). Principal components
//! of these lists are classical scaling of their distances, which keeps distances as well as two straight axes can. Score: the mean
//! silhouette, (b - a) / max(a, b) with a the mean distance to the own group and b to the nearest other one; by the lists, and by
//! the two coordinates. A group is the features whose largest gate is the same expert's.

use super::findings::{Axis, Cell, Claim, Drawing, Figure, Findings, Series, Spread, Style, Table};
use super::real;
use super::rows::HARMONIA;
use super::study::{Job, Records, Scene, Size, Study};
use crate::diagnose::dense::jacobi;
use crate::explain::{Factors, experts};
use harmonia_graph::error::Result;
use serde::{Deserialize, Serialize};

/// C, as in the paper.
const EXPERTS: &[usize] = &[3, 5, 7, 9];
/// Points of a curve.
const POINTS: usize = 11;
/// Pictures, in the order of [`EXPERTS`].
const NAMES: [&str; 4] = ["map-3", "map-5", "map-7", "map-9"];
/// Rounding of distances that are kept whole.
const ROUNDING: f64 = 1e-9;

/// The study.
pub struct ExpertsMap;

#[derive(Serialize, Deserialize)]
struct Record {
    experts: usize,
    dataset: String,
    seed: u64,
    /// None where the dataset is not here.
    map: Option<Map>,
}

/// Features on a plane.
#[derive(Serialize, Deserialize)]
struct Map {
    points: Vec<[f64; 2]>,
    /// The expert of the largest gate of each.
    group: Vec<usize>,
    /// Share of the variance that the plane has.
    kept: f64,
    /// Mean silhouette by all numbers of a feature.
    whole: Option<f64>,
    /// By its place on the plane.
    plane: Option<f64>,
    /// How much longer any distance is on the plane than by all numbers; 0 where none is.
    stretched: f64,
}

fn train(count: usize, dataset: &str, seed: u64, size: Size, scene: &Scene<'_>) -> Result<Record> {
    let mut set = vec![format!("model.experts={count}")];
    set.extend((size == Size::Smallest).then(|| "train.epochs=3".to_string()));
    let config = real::config(&HARMONIA, dataset, seed, &set, scene)?;
    let mut record = Record { experts: count, dataset: dataset.into(), seed, map: None };
    if let Some(whole) = real::load(&config, scene)? {
        let factors = Factors::of(&real::train(&whole, &config, scene)?.model)?;
        record.map = Some(Map::of(&described(&factors), grouped(&factors)));
    }
    Ok(record)
}

/// Gates and curve of every feature.
fn described(factors: &Factors) -> Vec<Vec<f64>> {
    let curve = |k: usize| {
        let values: Vec<f64> = (0..POINTS).map(|at| factors.response(k, at as f64 / (POINTS - 1) as f64)).collect();
        let mean = values.iter().sum::<f64>() / POINTS as f64;
        values.into_iter().map(|value| value - mean).collect::<Vec<f64>>()
    };
    let curves: Vec<Vec<f64>> = (0..factors.features()).map(curve).collect();
    let square: f64 = curves.iter().flatten().map(|value| value * value).sum();
    // So that curves count as much as gates, which have size at most one.
    let scale = (square / curves.len() as f64).sqrt().max(f64::MIN_POSITIVE);
    let list = |(k, curve): (usize, Vec<f64>)| {
        let gates = experts::gates(factors, k).into_iter().map(|gate| gate.unwrap_or(0.0));
        gates.chain(curve.into_iter().map(|value| value / scale)).collect()
    };
    curves.into_iter().enumerate().map(list).collect()
}

/// The expert of the largest gate of every feature.
fn grouped(factors: &Factors) -> Vec<usize> {
    let largest = |k: usize| {
        let gates = experts::gates(factors, k);
        (0..gates.len()).fold(0, |best, c| if gates[c] > gates[best] { c } else { best })
    };
    (0..factors.features()).map(largest).collect()
}

impl Map {
    fn of(lists: &[Vec<f64>], group: Vec<usize>) -> Map {
        let width = lists.first().map_or(0, Vec::len);
        let mean: Vec<f64> =
            (0..width).map(|at| lists.iter().map(|list| list[at]).sum::<f64>() / lists.len() as f64).collect();
        let centred: Vec<Vec<f64>> =
            lists.iter().map(|list| list.iter().zip(&mean).map(|(value, mean)| value - mean).collect()).collect();
        let mut covariance = vec![0.0; width * width];
        for list in &centred {
            for (i, a) in list.iter().enumerate() {
                list.iter().enumerate().for_each(|(j, b)| covariance[i * width + j] += a * b);
            }
        }
        let (values, vectors) = jacobi(covariance, width);
        let along = |list: &Vec<f64>, back: usize| match width.checked_sub(back) {
            Some(column) => list.iter().enumerate().map(|(i, value)| value * vectors[i * width + column]).sum(),
            None => 0.0,
        };
        let points: Vec<[f64; 2]> = centred.iter().map(|list| [along(list, 1), along(list, 2)]).collect();
        let all: f64 = values.iter().sum();
        let kept = values.iter().rev().take(2).sum::<f64>() / all.max(f64::MIN_POSITIVE);
        let stretched = pairs(lists.len())
            .map(|(a, b)| distance(points[a], points[b]) - distance(&centred[a], &centred[b]))
            .fold(0.0, f64::max);
        let (whole, plane) = (silhouette(&centred, &group), silhouette(&points, &group));
        Map { points, group, kept, whole, plane, stretched }
    }
}

fn pairs(count: usize) -> impl Iterator<Item = (usize, usize)> {
    (0..count).flat_map(move |a| (a + 1..count).map(move |b| (a, b)))
}

fn distance(a: impl AsRef<[f64]>, b: impl AsRef<[f64]>) -> f64 {
    let squares = a.as_ref().iter().zip(b.as_ref()).map(|(a, b)| (a - b) * (a - b));
    squares.sum::<f64>().sqrt()
}

/// Mean silhouette of points in groups; none where there is only one group. A point that is alone in its group counts 0.
fn silhouette<P: AsRef<[f64]>>(points: &[P], group: &[usize]) -> Option<f64> {
    let groups = group.iter().max().map_or(0, |largest| largest + 1);
    let mut sizes = vec![0usize; groups];
    group.iter().for_each(|&own| sizes[own] += 1);
    if sizes.iter().filter(|&&size| size > 0).count() < 2 {
        return None;
    }
    let of_point = |(at, &own): (usize, &usize)| {
        let mut sums = vec![0.0; groups];
        points.iter().zip(group).for_each(|(other, &theirs)| sums[theirs] += distance(&points[at], other));
        if sizes[own] < 2 {
            return 0.0;
        }
        let inside = sums[own] / (sizes[own] - 1) as f64;
        let others = (0..groups).filter(|&g| g != own && sizes[g] > 0).map(|g| sums[g] / sizes[g] as f64);
        let outside = others.fold(f64::INFINITY, f64::min);
        (outside - inside) / inside.max(outside).max(f64::MIN_POSITIVE)
    };
    Some(group.iter().enumerate().map(of_point).sum::<f64>() / group.len() as f64)
}

impl Study for ExpertsMap {
    fn name(&self) -> &'static str {
        "experts-map"
    }

    fn about(&self) -> &'static str {
        "features of Cora placed by routing and learned shape, for 3, 5, 7 and 9 experts"
    }

    fn source(&self) -> &'static str {
        "figure of Cora features with different numbers of experts"
    }

    fn jobs(&self, size: Size) -> Result<Vec<Job>> {
        let dataset = size.of("synthetic", "cora", "cora");
        let (counts, seeds) = (size.of(&EXPERTS[..2], EXPERTS, EXPERTS), size.of(1, 1, 5));
        let job = |count: usize, seed: u64| {
            let work = move |scene: &Scene<'_>| train(count, dataset, seed, size, scene);
            Job::of_machine(format!("{dataset} C={count} seed {seed}"), work, |record| record.map.is_none())
        };
        Ok(counts.iter().flat_map(|&count| (0..seeds).map(move |seed| job(count, seed))).collect())
    }

    fn findings(&self, _: Size, records: &Records) -> Result<Findings> {
        let records = records.read::<Record>()?;
        let maps = |count: usize| {
            records.iter().filter(move |record| record.experts == count).filter_map(|record| record.map.as_ref())
        };
        let row = |&count: &usize| {
            let spread = |of: &dyn Fn(&Map) -> Option<f64>| {
                Cell::spread(Spread::of(&maps(count).filter_map(of).collect::<Vec<_>>()), 3)
            };
            vec![
                Cell::text(count.to_string()),
                spread(&|map| map.whole),
                spread(&|map| map.plane),
                spread(&|map| Some(map.kept)),
                spread(&|map| Some(used(map) as f64)),
            ]
        };
        let counts: Vec<usize> =
            EXPERTS.iter().copied().filter(|&count| records.iter().any(|record| record.experts == count)).collect();
        let table = Table {
            name: "separation",
            title: "How far apart the features of different experts are".into(),
            head: ["experts C", "silhouette", "silhouette on the plane", "variance on the plane", "experts that lead"]
                .map(String::from)
                .to_vec(),
            rows: counts.iter().map(row).collect(),
            note: "Mean and deviation over seeds. The paper shows embeddings by UMAP and prints no number; here the plane is that of \
                   the two largest principal components. Experts that lead: those with the largest gate of some feature."
                .into(),
        };
        let figures =
            EXPERTS.iter().zip(NAMES).filter_map(|(&count, name)| Some(picture(count, name, maps(count).next()?)));
        let all = || records.iter().filter_map(|record| record.map.as_ref());
        let stretched = all().map(|map| map.stretched).fold(0.0, f64::max);
        let bounded = all().flat_map(|map| [map.whole, map.plane]).flatten().all(|score| score.abs() <= 1.0);
        let mean = |count: usize| Spread::of(&maps(count).filter_map(|map| map.whole).collect::<Vec<_>>());
        let means: Vec<(usize, f64)> = counts.iter().filter_map(|&count| Some((count, mean(count)?.mean))).collect();
        let best =
            means.iter().copied().fold((0, f64::NEG_INFINITY), |best, one| if one.1 > best.1 { one } else { best });
        let mut claims = vec![
            Claim::theorem(
                "no distance is longer on the plane than by all numbers",
                stretched <= ROUNDING,
                format!("longest by {stretched:.1e}"),
            ),
            Claim::theorem("silhouettes are between -1 and 1", bounded, format!("{} maps", all().count())),
        ];
        if means.len() == EXPERTS.len() {
            claims.push(Claim::reported(
                "neither the fewest nor the most experts separate features best",
                best.0 != EXPERTS[0] && best.0 != EXPERTS[EXPERTS.len() - 1],
                format!("C = {}, silhouette {:.3}", best.0, best.1),
            ));
        }
        Ok(Findings { tables: vec![table], figures: figures.collect(), claims })
    }
}

/// Experts with the largest gate of some feature.
fn used(map: &Map) -> usize {
    let mut group = map.group.clone();
    group.sort_unstable();
    group.dedup();
    group.len()
}

fn picture(count: usize, name: &'static str, map: &Map) -> Figure {
    let series = |expert: usize| Series {
        name: format!("expert {expert}"),
        points: map.points.iter().zip(&map.group).filter(|(_, own)| **own == expert).map(|(point, _)| *point).collect(),
        style: Style::Dots,
    };
    Figure {
        name,
        title: format!("Features with {count} experts (seed 0)"),
        drawing: Drawing::Plot {
            x: Axis::linear("first component"),
            y: Axis::linear("second component"),
            series: (0..count).map(series).collect(),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn silhouettes_by_hand() {
        // Two groups on a line: 0 and 1, 10 and 11.
        let points = [[0.0], [1.0], [10.0], [11.0]];
        let score = |inside: f64, outside: f64| (outside - inside) / outside;
        let expected = (2.0 * score(1.0, 10.5) + 2.0 * score(1.0, 9.5)) / 4.0;
        assert!((silhouette(&points, &[0, 0, 2, 2]).unwrap() - expected).abs() < 1e-12);
        assert!(silhouette(&points, &[0, 2, 0, 2]).unwrap() < 0.0);
        assert_eq!(silhouette(&points, &[1, 1, 1, 1]), None);
        assert_eq!(silhouette(&[[0.0], [1.0]], &[0, 1]), Some(0.0));
    }

    #[test]
    fn what_lies_in_a_plane_keeps_its_distances() {
        // Points of a plane in four dimensions.
        let lists: Vec<Vec<f64>> = (0..9)
            .map(|at| {
                let (a, b) = (f64::from(at % 3), f64::from(at / 3));
                vec![a, a + b, b, a - 2.0 * b]
            })
            .collect();
        let map = Map::of(&lists, (0..9).map(|at| at % 3).collect());
        assert!((map.kept - 1.0).abs() < 1e-12 && map.stretched < 1e-12);
        for (a, b) in pairs(9) {
            assert!((distance(map.points[a], map.points[b]) - distance(&lists[a], &lists[b])).abs() < 1e-12);
        }
        assert!((map.whole.unwrap() - map.plane.unwrap()).abs() < 1e-12);
    }
}
