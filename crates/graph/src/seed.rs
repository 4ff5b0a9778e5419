//! Randomness as a function: Philox 4x32-10, a counter-based generator.
//!
//! A value depends on (seed, purpose, step, index) and on nothing else, so any thread may compute any value in any
//! order, a resumed run needs no generator state, and a GPU kernel can produce the same bits.

use rayon::prelude::*;

/// What a stream of random numbers is for. Different purposes never share numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Purpose {
    /// Initial parameters; the step is the parameter group.
    Initialisation = 1,
    /// Routing noise; the step is the optimizer step.
    Noise = 2,
    /// Dropout masks; the step is the optimizer step.
    Dropout = 3,
    /// Order of batches; the step is the epoch.
    Batches = 4,
    /// Random train/validation/test splits.
    Splits = 5,
    /// Synthetic data: topology.
    SyntheticGraph = 6,
    /// Synthetic data: features.
    SyntheticFeatures = 7,
    /// Synthetic data: labels.
    SyntheticLabels = 8,
    /// Synthetic data: which columns carry signal.
    SyntheticColumns = 9,
    /// Generated datasets: sizes of communities (step 0) and the order of node ids (step 1).
    GenerateCommunities = 10,
    /// Generated datasets: endpoints of edges.
    GenerateEdges = 11,
    /// Generated datasets: noise of the features.
    GenerateFeatures = 12,
    /// Generated datasets: which columns carry signal (step 0) and their community means (step 1 + column).
    GenerateColumns = 13,
    /// Generated datasets: noise of the labels.
    GenerateLabels = 14,
    /// Generated datasets: order in which the split takes nodes.
    GenerateSplit = 15,
    /// Diagnosis: random signs that probe the walk; the step counts groups of 32 probes.
    DiagnoseProbes = 16,
    /// Diagnosis: where the search for eigenvalues starts; the step is the component.
    DiagnoseStart = 17,
    /// Features that remove-and-retrain takes at random.
    Removal = 18,
    /// Signs of the random combinations that walk lengths are compared by.
    HopBasis = 19,
    /// Walks that correct a coarse table; the step is the optimizer step, the largest number that of validation.
    Walks = 20,
    /// How much each training unit counts in a run of several.
    Bagging = 21,
    /// What a study draws for itself: graphs, assignments, disturbances; the step says which.
    Studies = 40,
}

/// A random stream: index it, or draw from it in order with [`Stream::rng`].
#[derive(Clone, Copy, Debug)]
pub struct Stream {
    key: [u32; 2],
    purpose: u32,
    step: u32,
    /// Where words are counted from.
    first: u64,
}

impl Stream {
    /// The stream of `purpose` at `step` for a run seeded with `seed`.
    pub fn new(seed: u64, purpose: Purpose, step: u32) -> Self {
        Self { key: [seed as u32, (seed >> 32) as u32], purpose: purpose as u32, step, first: 0 }
    }

    /// The same stream with its words counted from one of them: those of whoever has what lies behind it.
    pub fn counted_from(self, first: u64) -> Self {
        Stream { first, ..self }
    }

    /// (key, purpose, step): what a kernel needs to draw the same bits.
    pub fn words(&self) -> ([u32; 2], u32, u32) {
        (self.key, self.purpose, self.step)
    }

    /// 128 random bits.
    #[inline(always)]
    pub fn block(&self, index: u64) -> [u32; 4] {
        philox([index as u32, (index >> 32) as u32, self.purpose, self.step], self.key)
    }

    /// 32 random bits.
    #[inline(always)]
    pub fn bits(&self, index: u64) -> u32 {
        let index = index + self.first;
        self.block(index >> 2)[(index & 3) as usize]
    }

    /// Words `first`.. of the stream, as [`Stream::bits`] gives them one by one; several blocks at a time.
    #[inline(always)]
    pub fn fill(&self, first: u64, words: &mut [u32]) {
        const LANES: usize = 16;
        let first = first + self.first;
        let mut skip = (first & 3) as usize;
        let mut block = first >> 2;
        let mut rest = words;
        while !rest.is_empty() {
            let low = std::array::from_fn(|lane| (block + lane as u64) as u32);
            let high = std::array::from_fn(|lane| ((block + lane as u64) >> 32) as u32);
            let blocks = philox_lanes([low, high, [self.purpose; LANES], [self.step; LANES]], self.key);
            let count = (4 * LANES - skip).min(rest.len());
            let (now, later) = rest.split_at_mut(count);
            for (at, word) in now.iter_mut().enumerate() {
                *word = blocks[(at + skip) % 4][(at + skip) / 4];
            }
            (rest, block, skip) = (later, block + LANES as u64, 0);
        }
    }

    /// Standard normal number `index` of the stream.
    pub fn normal(&self, index: u64) -> f64 {
        let pair = self.normal_pair(index >> 1);
        if index & 1 == 0 { pair[0] } else { pair[1] }
    }

    /// The first standard normal numbers of the stream, as many as there are places.
    pub fn normals(&self, values: &mut [f32]) {
        // Enough for a task to be worth its start.
        const TASK: usize = 1 << 10;
        values.par_chunks_mut(2).enumerate().with_min_len(TASK).for_each(|(index, values)| {
            values.iter_mut().zip(self.normal_pair(index as u64)).for_each(|(to, value)| *to = value as f32);
        });
    }

    /// Numbers 2 x `index` and 2 x `index` + 1 (Box-Muller).
    pub fn normal_pair(&self, index: u64) -> [f64; 2] {
        let [a, b, c, d] = self.block(index);
        let radius = (-2.0 * (1.0 - unit(a, b)).ln()).sqrt();
        let (sine, cosine) = (std::f64::consts::TAU * unit(c, d)).sin_cos();
        [radius * cosine, radius * sine]
    }

    /// Uniform number `index` of the stream in [0, 1), with 53 random bits.
    pub fn uniform(&self, index: u64) -> f64 {
        let [a, b, c, d] = self.block(index >> 1);
        if index & 1 == 0 { unit(a, b) } else { unit(c, d) }
    }

    /// Uniform numbers 2 x `index` and 2 x `index` + 1 of the stream, for the price of one.
    #[inline(always)]
    pub fn uniform_pair(&self, index: u64) -> (f64, f64) {
        let [a, b, c, d] = self.block(index);
        (unit(a, b), unit(c, d))
    }

    /// Draws one number after the other.
    pub fn rng(self) -> Rng {
        Rng { stream: self, next: 0 }
    }
}

/// Sequential view of a [`Stream`].
#[derive(Clone, Debug)]
pub struct Rng {
    stream: Stream,
    next: u64,
}

impl Rng {
    /// Uniform in [0, 1).
    pub fn uniform(&mut self) -> f64 {
        self.next += 1;
        self.stream.uniform(self.next - 1)
    }

    /// Uniform in 0..bound (bound at least 1).
    pub fn below(&mut self, bound: usize) -> usize {
        ((self.uniform() * bound as f64) as usize).min(bound.saturating_sub(1))
    }

    /// Fisher-Yates.
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            items.swap(last, self.below(last + 1));
        }
    }
}

#[inline(always)]
fn unit(high: u32, low: u32) -> f64 {
    let bits = (u64::from(high) << 32 | u64::from(low)) >> 11;
    bits as f64 * (1.0 / (1u64 << 53) as f64)
}

/// Salmon et al., "Parallel random numbers: as easy as 1, 2, 3" (2011), ten rounds.
#[inline(always)]
fn philox(mut counter: [u32; 4], mut key: [u32; 2]) -> [u32; 4] {
    for _ in 0..10 {
        let first = 0xD251_1F53_u64 * u64::from(counter[0]);
        let second = 0xCD9E_8D57_u64 * u64::from(counter[2]);
        counter = [
            (second >> 32) as u32 ^ counter[1] ^ key[0],
            second as u32,
            (first >> 32) as u32 ^ counter[3] ^ key[1],
            first as u32,
        ];
        key = [key[0].wrapping_add(0x9E37_79B9), key[1].wrapping_add(0xBB67_AE85)];
    }
    counter
}

/// The same for several counters side by side.
#[inline(always)]
fn philox_lanes<const LANES: usize>(mut counters: [[u32; LANES]; 4], mut key: [u32; 2]) -> [[u32; LANES]; 4] {
    for _ in 0..10 {
        let [zero, one, two, three] = counters;
        for lane in 0..LANES {
            let first = 0xD251_1F53_u64 * u64::from(zero[lane]);
            let second = 0xCD9E_8D57_u64 * u64::from(two[lane]);
            counters[0][lane] = (second >> 32) as u32 ^ one[lane] ^ key[0];
            counters[1][lane] = second as u32;
            counters[2][lane] = (first >> 32) as u32 ^ three[lane] ^ key[1];
            counters[3][lane] = first as u32;
        }
        key = [key[0].wrapping_add(0x9E37_79B9), key[1].wrapping_add(0xBB67_AE85)];
    }
    counters
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn philox_gives_the_published_vectors() {
        assert_eq!(philox([0; 4], [0; 2]), [0x6627_e8d5, 0xe169_c58d, 0xbc57_ac4c, 0x9b00_dbd8]);
        assert_eq!(philox([u32::MAX; 4], [u32::MAX; 2]), [0x408f_276d, 0x41c8_3b0e, 0xa20b_c7c6, 0x6d54_51fd]);
        assert_eq!(
            philox([0x243f_6a88, 0x85a3_08d3, 0x1319_8a2e, 0x0370_7344], [0xa409_3822, 0x299f_31d0]),
            [0xd16c_fe09, 0x94fd_cceb, 0x5001_e420, 0x2412_6ea1]
        );
    }

    #[test]
    fn normals_have_mean_zero_and_variance_one() {
        let stream = Stream::new(3, Purpose::Noise, 0);
        let count = 100_000;
        let (sum, squares) = (0..count).map(|i| stream.normal(i)).fold((0.0, 0.0), |(s, q), x| (s + x, q + x * x));
        // Standard errors: 0.003 and 0.0045; five of each.
        assert!((sum / count as f64).abs() < 0.016);
        assert!((squares / count as f64 - 1.0).abs() < 0.023);
    }

    #[test]
    fn purposes_steps_and_seeds_do_not_share_numbers() {
        let base = Stream::new(1, Purpose::Noise, 0).bits(0);
        assert_ne!(base, Stream::new(1, Purpose::Dropout, 0).bits(0));
        assert_ne!(base, Stream::new(1, Purpose::Noise, 1).bits(0));
        assert_ne!(base, Stream::new(2, Purpose::Noise, 0).bits(0));
    }

    #[test]
    fn many_normals_are_those_of_the_stream() {
        let stream = Stream::new(4, Purpose::Noise, 2);
        let mut values = vec![0.0; 5001];
        stream.normals(&mut values);
        assert!(values.iter().zip(0..).all(|(&value, index)| value == stream.normal(index) as f32));
    }

    #[test]
    fn filled_words_are_those_of_the_stream() {
        let stream = Stream::new(9, Purpose::Dropout, 3);
        for first in [0, 1, 7, (1 << 34) - 5] {
            let mut words = [0; 150];
            stream.fill(first, &mut words);
            assert!((first..).zip(words).all(|(index, word)| word == stream.bits(index)));
        }
    }

    #[test]
    fn a_pair_is_two_numbers_of_the_stream() {
        let stream = Stream::new(5, Purpose::GenerateEdges, 2);
        assert_eq!(stream.uniform_pair(21), (stream.uniform(42), stream.uniform(43)));
    }

    #[test]
    fn a_shuffle_is_a_permutation() {
        let mut items: Vec<usize> = (0..100).collect();
        Stream::new(0, Purpose::Batches, 7).rng().shuffle(&mut items);
        assert_ne!(items, (0..100).collect::<Vec<_>>());
        items.sort_unstable();
        assert_eq!(items, (0..100).collect::<Vec<_>>());
    }
}
