//! What became of a step: found out by the device, looked at later.
//!
//! A device keeps the loss of the step at hand, the norm of its gradient, and whether it has come to a halt: from then on
//! updates leave parameters as they are, so that nobody has to wait for a step before the next is asked for.

/// What a device found out about a step.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Judgement {
    /// Mean loss.
    pub loss: f64,
    /// Euclidean norm of the gradient.
    pub norm: f64,
    /// Pieces of the expert that has most, at least.
    pub pieces: usize,
    /// Loss or norm is not a number, now or since the device came to a halt.
    pub diverged: bool,
    /// Compiled experts had more pieces than room: responses mean nothing.
    pub crowded: bool,
}

impl Judgement {
    /// Whether updates are left out.
    pub fn is_halted(&self) -> bool {
        self.diverged || self.crowded
    }
}

/// The verdict of a device that has finished when a call returns: what was posted waits here.
#[derive(Clone, Debug, Default)]
pub struct Posted {
    /// Of the step at hand.
    pub now: Judgement,
    waiting: std::collections::VecDeque<Judgement>,
}

impl Posted {
    /// Keeps what is known now.
    pub fn post(&mut self) {
        self.waiting.push_back(self.now);
    }

    /// The oldest that was posted.
    pub fn collect(&mut self) -> Option<Judgement> {
        self.waiting.pop_front()
    }
}
