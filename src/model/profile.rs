//! Where the time of training steps goes, op by op.
//!
//! Invariant: ops are named as the methods of [`crate::device::Device`] are. Times are those of calls: they tell
//! something on a device that has finished when a call returns, as the CPU has; on a GPU they would be times of
//! launches.

use std::time::{Duration, Instant};

/// Time spent in each op since profiling began, in the order ops were first called.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Profile {
    ops: Vec<(&'static str, Duration)>,
}

impl Profile {
    /// (op, time) of every op that was called.
    pub fn ops(&self) -> &[(&'static str, Duration)] {
        &self.ops
    }

    /// Time of all ops.
    pub fn total(&self) -> Duration {
        self.ops.iter().map(|(_, time)| *time).sum()
    }

    fn add(&mut self, op: &'static str, time: Duration) {
        match self.ops.iter_mut().find(|(name, _)| *name == op) {
            Some((_, sum)) => *sum += time,
            None => self.ops.push((op, time)),
        }
    }
}

/// Runs an op; where there is a profile, its time is added to it.
#[inline]
pub(crate) fn timed<R>(profile: &mut Option<Profile>, op: &'static str, work: impl FnOnce() -> R) -> R {
    let Some(profile) = profile else { return work() };
    let start = Instant::now();
    let result = work();
    profile.add(op, start.elapsed());
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_of_one_op_are_added_up_and_nothing_is_kept_when_off() {
        let mut profile = Some(Profile::default());
        for op in ["route_forward", "loss", "route_forward"] {
            assert_eq!(timed(&mut profile, op, || 7), 7);
        }
        let profile = profile.unwrap();
        assert_eq!(profile.ops().iter().map(|(op, _)| *op).collect::<Vec<_>>(), ["route_forward", "loss"]);
        assert_eq!(profile.total(), profile.ops()[0].1 + profile.ops()[1].1);
        let mut off = None;
        assert_eq!(timed(&mut off, "loss", || 7), 7);
        assert_eq!(off, None);
    }
}
