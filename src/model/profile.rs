//! Where the time of training steps goes, op by op.
//!
//! [`Timed`] has a method for every op of [`crate::device::ops`]: the device's own, with its time added up while a profile
//! is kept. Times are those of calls: they tell something on a device that has finished when a call returns, as the CPU
//! has; on a GPU they would be times of launches.

use crate::architecture::Layout;
use crate::device::ops::each_op;
use crate::device::{
    AdamStep, BufferOf, Device, Dropout, HopsOf, InputsOf, KnotsOf, MatrixOf, Op, Responses, Routing, ScopeOf,
    VerdictOf,
};
use harmonia_graph::error::Result;
use harmonia_graph::seed::Stream;
use std::time::{Duration, Instant};

/// Time spent in each op since profiling began, in the order ops were first called.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Profile {
    ops: Vec<(Op, Duration)>,
}

impl Profile {
    /// (op, time) of every op that was called.
    pub fn ops(&self) -> &[(Op, Duration)] {
        &self.ops
    }

    /// Time of all ops.
    pub fn total(&self) -> Duration {
        self.ops.iter().map(|(_, time)| *time).sum()
    }

    fn add(&mut self, op: Op, time: Duration) {
        match self.ops.iter_mut().find(|(known, _)| *known == op) {
            Some((_, sum)) => *sum += time,
            None => self.ops.push((op, time)),
        }
    }
}

/// A device whose ops are timed where a profile is kept.
pub struct Timed<'a, D: Device> {
    device: &'a D,
    profile: Option<Profile>,
}

macro_rules! timed_ops {
    ($($(#[$about:meta])* $op:ident: fn $name:ident($($argument:ident: $type:ty),* $(,)?) -> $result:ty
        = $module:ident::$function:ident;)*) => {
        impl<D: Device> Timed<'_, D> {
            $(
                $(#[$about])*
                ///
                /// # Errors
                /// The device failed.
                #[allow(clippy::too_many_arguments)] // what a kernel launch takes
                pub fn $name(&mut self, $($argument: $type),*) -> Result<$result> {
                    let device = self.device;
                    timed(&mut self.profile, Op::$op, || device.$name($($argument),*))
                }
            )*
        }
    };
}
each_op!(timed_ops, D);

impl<'a, D: Device> Timed<'a, D> {
    /// Without a profile.
    pub fn new(device: &'a D) -> Self {
        Timed { device, profile: None }
    }

    /// Adds up the time of every op from now on, from nothing.
    pub fn profile(&mut self) {
        self.profile = Some(Profile::default());
    }

    /// What was added up; adding up ends.
    pub fn take_profile(&mut self) -> Option<Profile> {
        self.profile.take()
    }

    /// Goes on adding to a profile.
    pub fn resume_profile(&mut self, profile: Option<Profile>) {
        self.profile = profile;
    }
}

/// Runs an op; where there is a profile, its time is added to it.
#[inline]
fn timed<R>(profile: &mut Option<Profile>, op: Op, work: impl FnOnce() -> R) -> R {
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
        for op in [Op::RouteForward, Op::Loss, Op::RouteForward] {
            assert_eq!(timed(&mut profile, op, || 7), 7);
        }
        let profile = profile.unwrap();
        assert_eq!(profile.ops().iter().map(|(op, _)| *op).collect::<Vec<_>>(), [Op::RouteForward, Op::Loss]);
        assert_eq!(profile.total(), profile.ops()[0].1 + profile.ops()[1].1);
        let mut off = None;
        assert_eq!(timed(&mut off, Op::Loss, || 7), 7);
        assert_eq!(off, None);
    }

    #[test]
    fn ops_are_named_as_the_methods_are() {
        assert_eq!(Op::RouteForward.name(), "route_forward");
        assert_eq!(Op::ALL.len(), 24);
    }
}
