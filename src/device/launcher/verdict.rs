//! Verdicts on the device, and how they reach the host: launches of the last kernels of `kernels/reduce.cu`.

use super::{Buffer, Driver, Grid, Launcher, THREADS, abi, stretches};
use crate::device::Judgement;
use harmonia_graph::error::{Error, Result};

/// Verdicts that may be on their way at once.
const UNDER_WAY: usize = 4;

/// What the device knows of the step at hand, and what it sent of others.
pub struct DeviceVerdict<V: Driver> {
    /// One `abi::Verdict`.
    words: Buffer<V, u8>,
    mailboxes: Vec<V::Mailbox>,
    posted: usize,
    collected: usize,
}

#[allow(unsafe_code)]
impl<V: Driver> Launcher<V> {
    pub(super) fn new_verdict(&self) -> Result<DeviceVerdict<V>> {
        let bytes = size_of::<abi::Verdict>();
        let mailboxes = (0..UNDER_WAY).map(|_| self.driver.mailbox(bytes)).collect::<Result<_>>()?;
        Ok(DeviceVerdict { words: self.zeroed(bytes)?, mailboxes, posted: 0, collected: 0 })
    }

    /// Where kernels find it.
    pub(super) fn verdict_at(&self, verdict: &DeviceVerdict<V>) -> *mut abi::Verdict {
        self.at(&verdict.words, 0).cast_mut().cast()
    }

    pub(super) fn post_verdict(&self, verdict: &mut DeviceVerdict<V>) -> Result<()> {
        if verdict.posted - verdict.collected == UNDER_WAY {
            return Err(Error::Device(format!("{UNDER_WAY} steps are under way, and nobody asks what became of them")));
        }
        let mailbox = &mut verdict.mailboxes[verdict.posted % UNDER_WAY];
        self.send(mailbox, &verdict.words)?;
        verdict.posted += 1;
        Ok(())
    }

    pub(super) fn collect_verdict(&self, verdict: &mut DeviceVerdict<V>) -> Result<Judgement> {
        if verdict.posted == verdict.collected {
            return Err(Error::Device("no step is under way".into()));
        }
        let mut words = [0u64; size_of::<abi::Verdict>() / size_of::<u64>()];
        let mailbox = &verdict.mailboxes[verdict.collected % UNDER_WAY];
        self.driver.receive(bytemuck::cast_slice_mut(&mut words), mailbox)?;
        verdict.collected += 1;
        let [loss, norm, flags] = words;
        let (halted, pieces) = (flags as u32, (flags >> 32) as usize);
        Ok(Judgement {
            loss: f64::from_bits(loss),
            norm: f64::from_bits(norm),
            pieces,
            diverged: halted & abi::HARMONIA_HALT_NUMBER != 0,
            crowded: halted & abi::HARMONIA_HALT_ROOM != 0,
        })
    }

    pub(super) fn resume_verdict(&self, verdict: &mut DeviceVerdict<V>) -> Result<()> {
        self.wipe(&mut verdict.words)
    }

    /// Adds up the partial losses of blocks.
    pub(super) fn judge_loss(
        &self,
        verdict: &mut DeviceVerdict<V>,
        partial: &Buffer<V, f64>,
        count: f64,
    ) -> Result<()> {
        self.judge("judge_loss", verdict, partial, count)
    }

    pub(super) fn norm(&self, verdict: &mut DeviceVerdict<V>, gradient: &Buffer<V, f32>) -> Result<()> {
        let (blocks, block_length) = stretches(gradient.len() as u64, 1 << 12, 1 << 10);
        let mut partial = self.allocate::<f64>(blocks as usize)?;
        let arguments = abi::SquareSums {
            partial: self.at_mut(&mut partial, 0),
            values: self.at(gradient, 0),
            length: gradient.len() as u64,
            block_length,
        };
        // SAFETY: one partial sum per block; `length` is the buffer's.
        unsafe { self.run("square_sums", Grid::new([blocks, 1], [THREADS, 1]), &arguments)? };
        self.judge("judge_norm", verdict, &partial, 1.0)
    }

    fn judge(
        &self,
        kernel: &'static str,
        verdict: &mut DeviceVerdict<V>,
        partial: &Buffer<V, f64>,
        count: f64,
    ) -> Result<()> {
        let arguments = abi::Judge {
            verdict: self.verdict_at(verdict),
            partial: self.at(partial, 0),
            length: partial.len() as u64,
            count,
        };
        // SAFETY: the verdict is one struct, and lengths are those of the buffers.
        unsafe { self.run(kernel, Grid::new([1, 1], [THREADS, 1]), &arguments) }
    }
}
