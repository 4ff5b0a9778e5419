//! Steps from a table of walks: cells are read once forward and once backward, in order.

use super::super::stretches;
use super::super::table::{FORWARD, STRETCH, STRETCHES, SUMS};
use super::{Bytes, F, StepTraffic, TableCells};

impl StepTraffic<'_> {
    /// Rows, features, hops, columns; bytes of all cells.
    fn table_sizes(&self) -> Option<([f64; 4], f64, TableCells)> {
        let (cells, a) = (self.problem.table?, self.architecture());
        let [n, d, t, columns] = [self.problem.nodes, a.features, a.hops, cells.columns].map(|size| size as f64);
        Some(([n, d, t, columns], n * columns * cells.bits.bytes() as f64, cells))
    }

    pub(super) fn table_forward(&mut self) {
        let Some(([n, d, t, columns], bytes, cells)) = self.table_sizes() else { return };
        // A weight and two numbers of the scale per column, two constants and theta per feature.
        let weights = Bytes::streamed(F * (3.0 * columns + d * (t + 2.0)));
        self.add("table_weights", d, 4.0 * columns, weights);
        // F in, H out, and the number of each row once per block.
        let rows = F * (2.0 * n * d + cells.blocks as f64 * n);
        let kernel = FORWARD[cells.bits as usize];
        self.add(kernel, n * d, 2.0 * n * (columns + 2.0 * d), Bytes::streamed(bytes + rows + F * columns));
        self.repeat(kernel, cells.blocks);
    }

    pub(super) fn table_backward(&mut self) {
        let Some(([n, d, t, columns], bytes, cells)) = self.table_sizes() else { return };
        let (parts, _) = stretches(self.problem.nodes as u64, STRETCH, STRETCHES);
        let kernel = SUMS[cells.bits as usize];
        let partial = Bytes::extra(F * parts as f64 * columns);
        let rows = F * (n * d + cells.blocks as f64 * n);
        self.add(kernel, n * columns, 2.0 * n * columns, Bytes::streamed(bytes + rows + F * columns) + partial);
        self.repeat(kernel, cells.blocks);
        (0..cells.blocks).for_each(|_| self.column_sums(parts, cells.columns / cells.blocks));
        // dH and F in.
        let partial = Bytes::extra(F * parts as f64 * 3.0 * d);
        self.add("table_row_sums", n * d, 5.0 * n * d, Bytes::streamed(2.0 * F * n * d) + partial);
        self.column_sums(parts, 3 * self.architecture().features);
        let bytes = F * (3.0 * columns + d * (2.0 * t + 3.0));
        self.add("table_finish", d, 8.0 * columns, Bytes::streamed(bytes));
        // dH in, dF out.
        self.add("table_own", n * d, n * d, Bytes::streamed(2.0 * F * n * d));
    }

    /// What was counted once is launched once per block.
    fn repeat(&mut self, kernel: &str, launches: usize) {
        self.work.iter_mut().filter(|work| work.kernel == kernel).for_each(|work| work.launches = launches);
    }
}
