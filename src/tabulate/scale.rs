//! Numbers of a block as cells: every column is scaled so that its cells span from its least to its largest number.

use harmonia_graph::walk_table::{CellBits, Cells};
use rayon::prelude::*;

/// Rows of a task.
const ROWS: usize = 1 << 12;

/// Cells, and (low, step) of each column.
pub fn cells(values: Vec<f32>, width: usize, bits: CellBits) -> (Cells, Vec<[f32; 2]>) {
    let largest = match bits {
        CellBits::Eight => f32::from(u8::MAX),
        CellBits::Sixteen => f32::from(u16::MAX),
        CellBits::Float => return (Cells::Float(values.into()), vec![[0.0, 1.0]; width]),
    };
    let scales: Vec<[f32; 2]> = (ranges(&values, width).into_iter())
        .map(|[low, high]| if high > low { [low, (high - low) / largest] } else { [low, 0.0] })
        .collect();
    // Divisions are slow, and there are billions of cells.
    let factors: Vec<[f32; 2]> =
        scales.iter().map(|&[low, step]| [low, if step > 0.0 { 1.0 / step } else { 0.0 }]).collect();
    let number = |at: usize, value: f32| {
        let [low, factor] = factors[at];
        ((value - low) * factor).round_ties_even().clamp(0.0, largest)
    };
    let cells = match bits {
        CellBits::Eight => Cells::Eight(rounded(&values, width, |at, value| number(at, value) as u8).into()),
        _ => Cells::Sixteen(rounded(&values, width, |at, value| number(at, value) as u16).into()),
    };
    (cells, scales)
}

/// `cell(column, value)` of every value.
fn rounded<C: Copy + Default + Send>(values: &[f32], width: usize, cell: impl Fn(usize, f32) -> C + Sync) -> Vec<C> {
    let mut cells = vec![C::default(); values.len()];
    let size = ROWS * width.max(1);
    cells.par_chunks_mut(size).zip(values.par_chunks(size)).for_each(|(cells, values)| {
        for (cells, values) in cells.chunks_mut(width.max(1)).zip(values.chunks(width.max(1))) {
            cells.iter_mut().zip(values).enumerate().for_each(|(at, (to, &value))| *to = cell(at, value));
        }
    });
    cells
}

/// Least and largest number of each column.
fn ranges(values: &[f32], width: usize) -> Vec<[f32; 2]> {
    let nothing = || vec![[f32::INFINITY, f32::NEG_INFINITY]; width];
    let mut ranges = (values.par_chunks(ROWS * width.max(1)))
        .map(|part| {
            let mut ranges = nothing();
            for row in part.chunks_exact(width) {
                for (range, &value) in ranges.iter_mut().zip(row) {
                    *range = [range[0].min(value), range[1].max(value)];
                }
            }
            ranges
        })
        .reduce(nothing, |mut a, b| {
            a.iter_mut().zip(&b).for_each(|(a, b)| *a = [a[0].min(b[0]), a[1].max(b[1])]);
            a
        });
    // A table of no rows.
    ranges.iter_mut().filter(|range| range[0] > range[1]).for_each(|range| *range = [0.0, 0.0]);
    ranges
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_keep_their_ends_and_are_rounded_by_half_a_step() {
        let values: Vec<f32> = (0..3000).flat_map(|i| [i as f32 / 3000.0, 0.25, 40.0 - i as f32 * 0.01]).collect();
        for (bits, largest) in [(CellBits::Eight, 255.0), (CellBits::Sixteen, 65535.0)] {
            let (cells, scales) = cells(values.clone(), 3, bits);
            for (at, &value) in values.iter().enumerate() {
                let cell = match &cells {
                    Cells::Eight(cells) => f32::from(cells[at]),
                    Cells::Sixteen(cells) => f32::from(cells[at]),
                    Cells::Float(_) => panic!("rounded"),
                };
                let [low, step] = scales[at % 3];
                assert!((low + step * cell - value).abs() <= 0.51 * step + 1e-6, "{value} {cell} {low} {step}");
            }
            assert!((scales[0][0], scales[1]) == (0.0, [0.25, 0.0]));
            assert!((scales[0][1] * largest - 2999.0 / 3000.0).abs() < 1e-6);
        }
        assert_eq!(cells(values.clone(), 3, CellBits::Float).0, Cells::Float(values.into()));
    }
}
