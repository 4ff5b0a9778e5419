//! Places that are filled in turn, on the host: at once, and with an eye on the order.
//!
//! A GPU would compute with half of one panel and half of another where somebody fills a place that is in use, or uses one that
//! has not arrived; here it is an error, and whatever was in a place before is NaN.

use super::{Memory, POISON};
use crate::device::launcher::Fill;
use harmonia_graph::error::{Error, Result};

/// Bytes handed to whoever fills a place at a time: few, so that small panels have several pieces.
const PIECE: usize = 1 << 12;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Empty,
    /// Nobody uses it.
    Filled,
    InUse,
}

/// Two places.
pub struct Lane {
    memory: [Memory; 2],
    states: [State; 2],
}

impl Lane {
    pub(super) fn new(memory: [Memory; 2]) -> Lane {
        Lane { memory, states: [State::Empty; 2] }
    }

    pub(super) fn memory(&self, place: usize) -> &Memory {
        &self.memory[place]
    }

    pub(super) fn bring(&mut self, place: usize, bytes: usize, fill: Fill<'_>) -> Result<()> {
        let memory = &mut self.memory[place];
        if self.states[place] == State::InUse {
            return Err(Error::Device(format!("place {place} of a lane is filled while it is in use")));
        }
        if bytes > memory.bytes {
            return Err(Error::Device(format!("{bytes} bytes brought to a place of {}", memory.bytes)));
        }
        self.states[place] = State::Filled;
        if memory.bytes == 0 {
            return Ok(());
        }
        // SAFETY: the block has this many bytes, and nobody else has a reference into it.
        let all = unsafe { std::slice::from_raw_parts_mut(memory.address.as_ptr(), memory.bytes) };
        all.fill(POISON);
        for (at, piece) in all[..bytes].chunks_mut(PIECE).enumerate() {
            fill(at * PIECE, piece);
        }
        Ok(())
    }

    pub(super) fn arrive(&mut self, place: usize) -> Result<()> {
        self.turn(place, State::Filled, State::InUse)
    }

    pub(super) fn leave(&mut self, place: usize) -> Result<()> {
        self.turn(place, State::InUse, State::Filled)
    }

    fn turn(&mut self, place: usize, from: State, to: State) -> Result<()> {
        let found = std::mem::replace(&mut self.states[place], to);
        if found == from {
            Ok(())
        } else {
            Err(Error::Device(format!("place {place} of a lane is {found:?}, not {from:?}")))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::Host;
    use crate::device::launcher::Driver;

    #[test]
    fn a_place_is_filled_piece_by_piece_and_never_while_it_is_in_use() {
        let host = Host::new().unwrap();
        let mut lane = host.lane(10_000).unwrap();
        let mut pieces = Vec::new();
        host.bring(&mut lane, 0, 9_000, &mut |first, piece| {
            pieces.push((first, piece.len()));
            piece.fill(first as u8);
        })
        .unwrap();
        assert_eq!(pieces, [(0, 4096), (4096, 4096), (8192, 808)]);
        // Not before it has arrived, and not in a place that is empty.
        assert!(host.leave(&mut lane, 0).is_err());
        let mut lane = host.lane(64).unwrap();
        assert!(host.arrive(&mut lane, 0).is_err());
        let mut lane = host.lane(64).unwrap();
        host.bring(&mut lane, 1, 64, &mut |_, piece| piece.fill(1)).unwrap();
        host.arrive(&mut lane, 1).unwrap();
        let message = host.bring(&mut lane, 1, 64, &mut |_, _| ()).unwrap_err().to_string();
        assert!(message.contains("filled while it is in use"), "{message}");
        host.leave(&mut lane, 1).unwrap();
        // What is there may be used again, and then make room.
        host.arrive(&mut lane, 1).unwrap();
        host.leave(&mut lane, 1).unwrap();
        host.bring(&mut lane, 1, 8, &mut |_, piece| piece.fill(2)).unwrap();
        assert!(host.bring(&mut lane, 0, 65, &mut |_, _| ()).unwrap_err().to_string().contains("a place of 64"));
    }
}
