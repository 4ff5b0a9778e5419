//! Products that sum over rows in parts.

use super::super::split;
use super::{Blocks, Bytes, F, StepTraffic};

/// Rows that are summed over in parts.
pub(super) struct SplitRows {
    pub(super) parts: usize,
    pub(super) rows: usize,
    /// Sums begin with them.
    pub(super) is_first: bool,
}

impl StepTraffic<'_> {
    /// Sums over all rows, added to what is there.
    pub(super) fn readout_gradient(&mut self) {
        let (rows, a) = (self.problem.nodes, self.architecture());
        let (d, outputs) = (a.features, a.outputs);
        let parts = split::parts(d, outputs, rows, Blocks::default());
        let read = Bytes::streamed(F * (rows * (d + outputs)) as f64);
        let (sums, flops) = ((d * outputs) as f64, 2.0 * (rows * d) as f64 * outputs as f64);
        // What they are added to.
        let there = Bytes::streamed(F * sums);
        self.parts("gemm dWo += H' dlogits", sums, flops, read + there, SplitRows { parts, rows, is_first: true });
        self.sum_parts(parts, d * outputs);
    }

    /// A product that sums over some rows, part by part: sums of parts stay in caches that keep anything.
    pub(super) fn parts(&mut self, name: &'static str, sums: f64, flops: f64, read: Bytes, rows: SplitRows) {
        let SplitRows { parts, rows, is_first } = rows;
        let written = F * sums * parts as f64;
        let sums_of_parts = match (parts, is_first) {
            (1, true) => Bytes::streamed(written),
            (1, false) => Bytes::default(),
            (_, true) => Bytes::extra(written),
            (_, false) => Bytes { no_reuse: 2.0 * written, ..Bytes::default() },
        };
        let calls = split::calls(parts, rows);
        self.add(name, sums, flops, read + sums_of_parts);
        (1..calls).for_each(|_| self.add(name, 0.0, 0.0, Bytes::default()));
    }

    /// From sums of parts to their sum.
    pub(super) fn sum_parts(&mut self, parts: usize, sums: usize) {
        if parts > 1 {
            self.column_sums(parts as u64, sums);
        }
    }
}
