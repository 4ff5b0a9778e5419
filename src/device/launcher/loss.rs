//! Launches of `kernels/loss.cu`.

use super::verdict::DeviceVerdict;
use super::{Buffer, DeviceInputs, Driver, Grid, Launcher, THREADS, abi, stretches};
use harmonia_graph::error::Result;

#[allow(unsafe_code)]
impl<V: Driver> Launcher<V> {
    /// The targets of some rows; without words they have none.
    pub(super) fn set_targets(
        &self,
        targets: &mut Buffer<V, u32>,
        rows: &Buffer<V, u32>,
        words: Option<&Buffer<V, u32>>,
        width: usize,
    ) -> Result<()> {
        let arguments = abi::Retarget {
            targets: self.at_mut(targets, 0),
            rows: self.at(rows, 0),
            words: words.map_or(std::ptr::null(), |words| self.at(words, 0)),
            count: rows.len() as u64,
            width: width as u32,
        };
        // SAFETY: rows are those of targets, `width` words each, and so are the words.
        unsafe { self.run("retarget", Grid::flat(rows.len() * width), &arguments) }
    }

    pub(super) fn loss(
        &self,
        verdict: &mut DeviceVerdict<V>,
        d_logits: &mut Buffer<V, f32>,
        logits: &Buffer<V, f32>,
        inputs: &DeviceInputs<V>,
    ) -> Result<()> {
        let rows = (logits.len() / inputs.outputs) as u64;
        let count = inputs.units.max(1) as f64;
        let (blocks, block_rows) = stretches(rows, u64::from(THREADS / 32), self.blocks.rows);
        let mut partial = self.allocate::<f64>(blocks as usize)?;
        let arguments = abi::Loss {
            d_logits: self.at_mut(d_logits, 0),
            partial: self.at_mut(&mut partial, 0),
            logits: self.at(logits, 0),
            targets: self.at(&inputs.targets, 0),
            rows,
            block_rows,
            outputs: inputs.outputs as u32,
            stride: (inputs.targets.len() as u64 / rows.max(1)) as u32,
            scale: (1.0 / count) as f32,
        };
        // SAFETY: logits and gradient hold rows x L, targets what the loss holds a row of logits against and perhaps its weight,
        // `stride` words; one partial sum per block.
        unsafe { self.run(inputs.objective.kernel(), Grid::new([blocks, 1], [THREADS, 1]), &arguments)? };
        self.judge_loss(verdict, &partial, count)
    }
}
