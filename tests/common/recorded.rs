//! The host driver, keeping what was launched.

use super::forward::forward_driver;
use harmonia::Result;
use harmonia::device::host::Host;
use harmonia::device::launcher::{Driver, Launch};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

/// Runs on the host; `launches` learns the most blocks of a launch of each kernel.
pub struct Recorded {
    pub host: Host,
    pub launches: Arc<Mutex<BTreeMap<&'static str, u64>>>,
}

#[allow(unsafe_code)]
impl Driver for Recorded {
    forward_driver!(write read send receive arrive leave clear gemm);

    unsafe fn launch(&self, launch: &Launch) -> Result<()> {
        let blocks: u64 = launch.grid.iter().map(|&blocks| u64::from(blocks)).product();
        let mut launches = self.launches.lock().unwrap();
        let most = launches.entry(launch.kernel).or_insert(0);
        *most = blocks.max(*most);
        drop(launches);
        // SAFETY: as the caller promises.
        unsafe { self.host.launch(launch) }
    }
}
