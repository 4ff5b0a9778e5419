//! Memory of compiled experts: used again, it changes no bit, and soon no more of it is needed.

use super::*;
use harmonia_graph::seed::{Purpose, Stream};

/// Layers of these widths, parameters one after the other, and room for them.
fn expert(widths: &[usize]) -> (Vec<Layer>, usize) {
    let mut end = 0;
    let layers = widths.windows(2).map(|pair| {
        let weight = end..end + pair[0] * pair[1];
        let bias = weight.end..weight.end + pair[1];
        end = bias.end;
        Layer { inputs: pair[0], outputs: pair[1], weight, bias }
    });
    (layers.collect(), end)
}

fn drawn(seed: u64, count: usize) -> Vec<f32> {
    let mut rng = Stream::new(seed, Purpose::Initialisation, 0).rng();
    (0..count).map(|_| rng.uniform() as f32 - 0.5).collect()
}

/// Room of every buffer.
fn capacities(pieces: &Pieces<f32>, scratch: &Scratch) -> Vec<usize> {
    let Pieces { thresholds, slope, intercept, levels, work } = pieces;
    let lines = |lines: &Lines| [lines.slope.capacity(), lines.intercept.capacity()];
    let mut all = vec![thresholds.capacity(), slope.capacity(), intercept.capacity(), levels.capacity()];
    for level in levels {
        all.push(level.parents.capacity());
        all.extend(lines(&level.lines));
    }
    all.extend([work.dense.weights.capacity(), work.dense.biases.capacity(), work.ends.capacity()]);
    all.extend([work.on.capacity(), work.crossings.capacity(), scratch.weight.capacity(), scratch.bias.capacity()]);
    all.extend([&work.units, &scratch.outputs, &scratch.inputs, &scratch.row].into_iter().flat_map(lines));
    all
}

/// Bits of the compiled form and of a gradient made from it.
fn bits(pieces: &Pieces<f32>, scratch: &mut Scratch, layers: &[Layer], parameters: &[f32]) -> Vec<u64> {
    let (d_slope, d_intercept) = (&pieces.slope, &pieces.intercept);
    let mut gradient = vec![0.0; parameters.len()];
    pieces.backward(&mut gradient, scratch, layers, parameters, d_slope, d_intercept);
    let narrow = pieces.thresholds.iter().chain(&gradient).map(|value| u64::from(value.to_bits()));
    narrow.chain(d_slope.iter().chain(d_intercept).map(|value| value.to_bits())).collect()
}

#[test]
fn warm_memory_gives_the_bits_of_new() {
    let (mut pieces, mut scratch) = (Pieces::default(), Scratch::default());
    let shapes: [&[usize]; 6] = [&[1, 16, 8, 8], &[1, 3], &[1, 20, 20, 20, 5], &[1, 1, 1], &[1, 7, 2], &[1, 16, 8, 8]];
    for (seed, widths) in shapes.into_iter().enumerate() {
        let (layers, count) = expert(widths);
        let parameters = drawn(seed as u64, count);
        pieces.compile(&layers, &parameters);
        let warm = bits(&pieces, &mut scratch, &layers, &parameters);
        let fresh = bits(&Pieces::new(&layers, &parameters), &mut Scratch::default(), &layers, &parameters);
        assert_eq!(warm, fresh, "{widths:?}");
    }
}

#[test]
fn the_steady_state_allocates_nothing() {
    let (layers, count) = expert(&[1, 16, 8, 8]);
    let steps: Vec<Vec<f32>> = (0..20).map(|seed| drawn(seed, count)).collect();
    let (mut pieces, mut scratch) = (Pieces::default(), Scratch::default());
    // Which of two buffers is swapped out depends on the number of steps: an even number is one whole round.
    let mut epoch = || {
        let mut counts = Vec::new();
        for parameters in &steps {
            pieces.compile(&layers, parameters);
            bits(&pieces, &mut scratch, &layers, parameters);
            counts.push(pieces.count());
        }
        (capacities(&pieces, &scratch), counts)
    };
    epoch();
    let (warm, counts) = epoch();
    assert!(counts.iter().min() < counts.iter().max(), "all steps have the same number of pieces");
    assert_eq!(epoch().0, warm);
}
