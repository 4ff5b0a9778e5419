//! What all processes have of some values, added up on the device: launches of `sum_ranks` (`kernels/reduce.cu`).

use super::{Buffer, Driver, Grid, Launcher, abi};
use harmonia_graph::error::{Error, Result};

#[allow(unsafe_code)]
impl<V: Driver> Launcher<V> {
    /// Of devices that are connected; nobody waits.
    pub(super) fn join_connected(&self, values: &mut Buffer<V, f32>) -> Result<()> {
        let ranks = self.driver.connected();
        let mut parts = self.allocate(ranks * values.len())?;
        self.gather_ranks(&mut parts, values)?;
        self.sum_ranks(values, &parts, ranks)
    }

    /// Sums the rows of ranks x length, from the first to the last in f64; nobody waits.
    ///
    /// # Errors
    /// There are not as many rows, or the device fails.
    pub fn sum_ranks(&self, sum: &mut Buffer<V, f32>, parts: &Buffer<V, f32>, ranks: usize) -> Result<()> {
        if parts.len() != ranks * sum.len() {
            return Err(Error::Internal(format!("{} numbers of {ranks} processes with {}", parts.len(), sum.len())));
        }
        let length = sum.len() as u64;
        let arguments =
            abi::SumRanks { sum: self.at_mut(sum, 0), parts: self.at(parts, 0), length, ranks: ranks as u64 };
        // SAFETY: `length` elements, and as many for each rank.
        unsafe { self.run("sum_ranks", Grid::flat(sum.len()), &arguments) }
    }
}
