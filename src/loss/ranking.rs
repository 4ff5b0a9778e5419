//! How often numbers of one kind are above those of another: ROC-AUC, exactly, ties counting half.
//!
//! Of forty classes every score is held against forty sets of positives. A search among them for each score would take longer than
//! the step that is scored; so positives are sorted once, and spread over buckets by their values. A score in a bucket without any
//! is above as many as lie in the buckets below: nothing is compared. Counts are integers: no order of work changes a bit.

use harmonia_graph::simd::simd;
use rayon::prelude::*;

/// Buckets: as many for each number, and bounds of how many there are. At most 32 KiB, which stay in the nearest cache.
const BUCKETS_EACH: usize = 8;
const LEAST: usize = 64;
const MOST: usize = 1 << 13;
/// Numbers of a bucket up to which all are looked at.
const FEW: usize = 8;
/// Scores that are looked up together.
const BLOCK: usize = 512;
/// A number below 2^32 added to 2^52 has itself, rounded, in its lowest bits.
const TO_BITS: f64 = (1u64 << 52) as f64;

/// Numbers in order, and in buckets of equal width.
struct Sorted {
    values: Vec<f64>,
    /// Of each bucket, how many numbers are in those before it; their count at the end.
    begin: Vec<u32>,
    lowest: f64,
    /// Buckets in one, and the bucket of the lowest: those before it and behind the highest are empty, as most scores are there.
    scale: f64,
    first_bucket: f64,
    last_bucket: f64,
}

/// Room for what is found out about a block of scores.
struct Block {
    scores: Vec<f64>,
    buckets: Vec<u32>,
    /// Those that share a bucket with numbers.
    shared: Vec<f64>,
}

impl Block {
    fn new() -> Block {
        Block { scores: vec![0.0; BLOCK], buckets: vec![0; BLOCK], shared: vec![0.0; BLOCK + 1] }
    }
}

impl Sorted {
    /// Of at least one number.
    fn new(mut values: Vec<f64>) -> Sorted {
        values.sort_unstable_by(f64::total_cmp);
        let buckets = (BUCKETS_EACH * values.len()).next_power_of_two().clamp(LEAST, MOST);
        let (lowest, last_bucket) = (values[0], (buckets - 1) as f64);
        let scale = (last_bucket - 2.0) / (values[values.len() - 1] - lowest);
        // Where all are the same, or some infinite, one bucket has them and everything else.
        let (scale, first_bucket) = if scale.is_normal() { (scale, 1.0) } else { (0.0, 0.0) };
        let mut sorted = Sorted { values, begin: vec![0; buckets + 1], lowest, scale, first_bucket, last_bucket };
        for at in 0..sorted.values.len() {
            let bucket = sorted.bucket(sorted.values[at]) as usize;
            sorted.begin[bucket + 1] += 1;
        }
        (0..buckets).for_each(|bucket| sorted.begin[bucket + 1] += sorted.begin[bucket]);
        sorted
    }

    /// Every operation rounds upwards or downwards alike, so that no number comes into a bucket before that of a smaller one.
    #[inline(always)]
    fn bucket(&self, x: f64) -> u32 {
        let bucket = ((x - self.lowest) * self.scale + self.first_bucket).max(0.0).min(self.last_bucket);
        (bucket + TO_BITS).to_bits() as u32
    }

    /// Twice how many are below x, and those that equal it once: of its own bucket.
    fn twice_below_in_bucket(&self, x: f64) -> usize {
        let bucket = self.bucket(x) as usize;
        let own = &self.values[self.begin[bucket] as usize..self.begin[bucket + 1] as usize];
        if own.len() > FEW {
            return own.partition_point(|&other| other < x) + own.partition_point(|&other| other <= x);
        }
        own.iter().map(|&other| usize::from(other < x) + usize::from(other <= x)).sum()
    }

    /// The same of all buckets, summed over the first scores of a block. No branch depends on a score until some share buckets.
    fn twice_below(&self, block: &mut Block, count: usize) -> usize {
        let Block { scores, buckets, shared } = block;
        simd(|| {
            for (bucket, &x) in buckets.iter_mut().zip(&scores[..count]) {
                *bucket = self.bucket(x);
            }
        });
        let (mut below, mut sharing) = (0, 0);
        for (&bucket, &x) in buckets.iter().zip(&scores[..count]) {
            let (first, last) = (self.begin[bucket as usize], self.begin[bucket as usize + 1]);
            below += first as usize;
            shared[sharing] = x;
            sharing += usize::from(first < last);
        }
        2 * below + shared[..sharing].iter().map(|&x| self.twice_below_in_bucket(x)).sum::<usize>()
    }
}

/// Share of the pairs in which the positive is above, by twice the number of positives below negatives.
fn area(positives: usize, negatives: usize, twice_below: usize) -> Option<f64> {
    let pairs = positives * negatives;
    // What is not a number is in no order; then this is one, too.
    (pairs > 0).then(|| (2 * pairs).saturating_sub(twice_below) as f64 / 2.0 / pairs as f64)
}

/// Probability that a random positive scores above a random negative; none where there is only one kind.
pub(super) fn roc_auc(scores: impl Iterator<Item = f64>, positive: impl Iterator<Item = bool>) -> Option<f64> {
    let (mut positives, mut negatives) = (Vec::new(), Vec::new());
    for (score, positive) in scores.zip(positive) {
        (if positive { &mut positives } else { &mut negatives }).push(score);
    }
    let (above, below) = (positives.len(), negatives.len());
    if above * below == 0 {
        return None;
    }
    // The fewer are sorted; how many negatives are below positives is the rest of all pairs.
    let is_rare = above <= below;
    let (few, many) = if is_rare { (positives, negatives) } else { (negatives, positives) };
    let sorted = Sorted::new(few);
    let mut block = Block::new();
    let mut twice = 0;
    for part in many.chunks(BLOCK) {
        block.scores[..part.len()].copy_from_slice(part);
        twice += sorted.twice_below(&mut block, part.len());
    }
    area(above, below, if is_rare { twice } else { 2 * above * below - twice })
}

/// [`roc_auc`] of every class: `score` of (row, class) among `rows` x `classes`, where `truth` is the class of each row.
pub(super) fn roc_auc_of_classes(
    truth: &[usize],
    classes: usize,
    score: impl Fn(usize, usize) -> f64 + Sync,
) -> Vec<Option<f64>> {
    let mut positives = vec![Vec::new(); classes];
    for (row, &class) in truth.iter().enumerate() {
        positives[class].push(score(row, class));
    }
    let sorted: Vec<Option<Sorted>> =
        positives.into_par_iter().map(|own| (!own.is_empty()).then(|| Sorted::new(own))).collect();
    let twice = (truth.par_chunks(BLOCK).enumerate())
        .fold(
            || (vec![0; classes], Block::new()),
            |(mut twice, mut block), (chunk, rows)| {
                for (class, sorted) in sorted.iter().enumerate() {
                    let Some(sorted) = sorted else { continue };
                    for (at, to) in block.scores[..rows.len()].iter_mut().enumerate() {
                        *to = score(chunk * BLOCK + at, class);
                    }
                    twice[class] += sorted.twice_below(&mut block, rows.len());
                }
                (twice, block)
            },
        )
        .map(|(twice, _)| twice)
        .reduce(|| vec![0; classes], |a, b| a.into_iter().zip(b).map(|(a, b)| a + b).collect());
    let of_class = |(sorted, twice): (&Option<Sorted>, usize)| {
        let own = sorted.as_ref()?.values.len();
        // Positives were held against themselves as well: of two, one is above or both count once, and each counts once for itself.
        area(own, truth.len() - own, twice.saturating_sub(own * own))
    };
    sorted.iter().zip(twice).map(of_class).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use harmonia_graph::seed::{Purpose, Stream};

    /// Every pair.
    fn slow(scores: &[f64], positive: &[bool]) -> Option<f64> {
        let of =
            |kind: bool| scores.iter().zip(positive).filter(move |(_, own)| **own == kind).map(|(score, _)| *score);
        let (mut above, mut pairs) = (0.0, 0.0);
        for a in of(true) {
            for b in of(false) {
                above += if a > b { 1.0 } else { f64::from(u8::from(a == b)) / 2.0 };
                pairs += 1.0;
            }
        }
        (pairs > 0.0).then(|| above / pairs)
    }

    fn fast(scores: &[f64], positive: &[bool]) -> Option<f64> {
        roc_auc(scores.iter().copied(), positive.iter().copied())
    }

    #[test]
    fn pairs_by_hand() {
        let positive = [true, false, true, false, false];
        assert_eq!(fast(&[3.0, 1.0, 2.0, 0.0, 1.5], &positive), Some(1.0));
        assert_eq!(fast(&[0.0; 5], &positive), Some(0.5));
        // Pairs (positive, negative): 2>1, 2>0, 2=2 half; 1=1 half, 1>0, 1<2: 4 of 6.
        assert_eq!(fast(&[2.0, 1.0, 1.0, 0.0, 2.0], &positive), Some(4.0 / 6.0));
        assert_eq!(fast(&[1.0, 2.0], &[true, true]), None);
    }

    #[test]
    fn as_by_every_pair() {
        let mut rng = Stream::new(17, Purpose::SyntheticGraph, 0).rng();
        for case in 0..60 {
            let count = 2 + rng.below(1500);
            let values = [3, 40, 100_000][case % 3];
            let rare = [0.01, 0.3, 0.9][case / 3 % 3];
            // With ties, close together, far apart, and infinite.
            let mut scores: Vec<f64> = (0..count)
                .map(|_| match case % 4 {
                    0 => rng.below(values) as f64,
                    1 => 1.0 + rng.below(values) as f64 * f64::EPSILON,
                    2 => (rng.uniform() * 300.0).exp2() * if rng.below(2) == 0 { 1.0 } else { -1.0 },
                    _ => (rng.below(values) as f64 - 20.0) / 7.0,
                })
                .collect();
            if case % 5 == 0 {
                scores[0] = f64::NEG_INFINITY;
                scores[count / 2] = if case % 2 == 0 { f64::INFINITY } else { 1e308 };
            }
            let positive: Vec<bool> = (0..count).map(|_| rng.uniform() < rare).collect();
            assert_eq!(fast(&scores, &positive), slow(&scores, &positive), "case {case}");
        }
    }

    #[test]
    fn every_class_as_alone_on_any_number_of_threads() {
        let mut rng = Stream::new(18, Purpose::SyntheticGraph, 0).rng();
        // The last class is nobody's, and one is everybody's in the second case.
        for (rows, classes, everybody) in [(2000, 7, false), (700, 3, true), (1, 4, false)] {
            let truth: Vec<usize> = (0..rows).map(|_| if everybody { 1 } else { rng.below(classes - 1) }).collect();
            let scores: Vec<f64> = (0..rows * classes).map(|_| rng.below(500) as f64 / 16.0).collect();
            let all = |threads: usize| {
                let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
                pool.install(|| roc_auc_of_classes(&truth, classes, |row, class| scores[row * classes + class]))
            };
            let alone: Vec<Option<f64>> = (0..classes)
                .map(|class| {
                    let own: Vec<f64> = scores.chunks_exact(classes).map(|row| row[class]).collect();
                    slow(&own, &truth.iter().map(|&other| other == class).collect::<Vec<_>>())
                })
                .collect();
            assert_eq!(all(1), alone);
            assert_eq!(all(3), alone);
        }
    }

    /// What makes it quick: most scores are compared with nothing, and no bucket is searched that holds many.
    #[test]
    fn scores_are_compared_with_next_to_nothing() {
        let mut rng = Stream::new(19, Purpose::SyntheticGraph, 0).rng();
        let mut normal = || (0..12).map(|_| rng.uniform()).sum::<f64>() - 6.0;
        let sorted = Sorted::new((0..750).map(|_| normal() + 2.0).collect());
        let scores: Vec<f64> = (0..30_000).map(|_| normal()).collect();
        let compared = |&x: &f64| {
            let bucket = sorted.bucket(x) as usize;
            (sorted.begin[bucket + 1] - sorted.begin[bucket]) as usize
        };
        let compared: usize = scores.iter().map(compared).sum();
        // A search by halves: ten for each.
        assert!(compared < scores.len() / 10, "{compared} comparisons of {} scores", scores.len());
    }
}
