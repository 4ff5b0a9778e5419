//! Panels of what is larger than the device, on their way to it: while one is worked on, the next is brought.

use super::{Driver, Fill, Launcher};
use harmonia_graph::error::{Error, Result};

/// Which panel: of which batch or matrix, and its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Panel {
    pub(super) of: u64,
    pub(super) at: usize,
}

/// Two places for panels. What they hold stays there until it makes room: whoever asks for it again before has it at once.
pub(super) struct Belt<V: Driver> {
    lane: V::Lane,
    holds: [Option<Panel>; 2],
    /// The place that was used last, which the next panel does not go to.
    last: usize,
}

impl<V: Driver> Belt<V> {
    /// For panels of so many bytes.
    pub(super) fn new(launcher: &Launcher<V>, bytes: usize) -> Result<Self> {
        Ok(Belt { lane: launcher.driver.lane(bytes)?, holds: [None; 2], last: 1 })
    }

    /// Starts to bring a panel, unless it is there or on its way.
    pub(super) fn bring(&mut self, launcher: &Launcher<V>, panel: Panel, bytes: usize, fill: Fill<'_>) -> Result<()> {
        if self.holds.contains(&Some(panel)) {
            return Ok(());
        }
        let place = 1 - self.last;
        self.holds[place] = None;
        launcher.driver.bring(&mut self.lane, place, bytes, fill)?;
        self.holds[place] = Some(panel);
        Ok(())
    }

    /// Has work use a panel that was brought, at this address.
    pub(super) fn arrive(&mut self, launcher: &Launcher<V>, panel: Panel) -> Result<u64> {
        let place = self.place(panel)?;
        launcher.driver.arrive(&mut self.lane, place)?;
        self.last = place;
        Ok(launcher.driver.place(&self.lane, place))
    }

    /// No work asked for from here on uses the panel.
    pub(super) fn leave(&mut self, launcher: &Launcher<V>, panel: Panel) -> Result<()> {
        let place = self.place(panel)?;
        launcher.driver.leave(&mut self.lane, place)
    }

    fn place(&self, panel: Panel) -> Result<usize> {
        let place = self.holds.iter().position(|held| *held == Some(panel));
        place.ok_or_else(|| Error::Device(format!("panel {panel:?} was not brought to the device")))
    }

    /// Work on panel after panel. `bring` has one brought; the next is on its way before the present one is done, and at the end,
    /// of panels that are gone through again, the first.
    pub(super) fn each(
        &mut self,
        launcher: &Launcher<V>,
        of: u64,
        panels: usize,
        again: bool,
        bring: &dyn Fn(&mut Self, Panel) -> Result<()>,
        work: &mut dyn FnMut(usize, u64) -> Result<()>,
    ) -> Result<()> {
        for at in 0..panels {
            let panel = Panel { of, at };
            bring(self, panel)?;
            let address = self.arrive(launcher, panel)?;
            let done = work(at, address);
            self.leave(launcher, panel)?;
            done?;
            if at + 1 < panels || again {
                bring(self, Panel { of, at: (at + 1) % panels })?;
            }
        }
        Ok(())
    }
}
