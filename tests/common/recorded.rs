//! The host driver, keeping what was launched.

use harmonia::Result;
use harmonia::device::host::{Host, Memory};
use harmonia::device::launcher::{Driver, Fill, Gemm, Launch};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

/// Runs on the host; `launches` learns the most blocks of a launch of each kernel.
pub struct Recorded {
    pub host: Host,
    pub launches: Arc<Mutex<BTreeMap<&'static str, u64>>>,
}

#[allow(unsafe_code)]
impl Driver for Recorded {
    type Memory = Memory;
    type Mailbox = <Host as Driver>::Mailbox;
    type Lane = <Host as Driver>::Lane;

    fn name(&self) -> String {
        self.host.name()
    }
    fn shared_limit(&self) -> usize {
        self.host.shared_limit()
    }
    fn free_bytes(&self) -> Result<Option<usize>> {
        self.host.free_bytes()
    }
    fn allocate(&self, bytes: usize) -> Result<Memory> {
        self.host.allocate(bytes)
    }
    fn address(&self, memory: &Memory) -> u64 {
        self.host.address(memory)
    }
    fn size(&self, memory: &Memory) -> usize {
        self.host.size(memory)
    }
    fn write(&self, memory: &mut Memory, bytes: &[u8]) -> Result<()> {
        self.host.write(memory, bytes)
    }
    fn read(&self, bytes: &mut [u8], memory: &Memory) -> Result<()> {
        self.host.read(bytes, memory)
    }
    fn mailbox(&self, bytes: usize) -> Result<Self::Mailbox> {
        self.host.mailbox(bytes)
    }
    fn send(&self, mailbox: &mut Self::Mailbox, memory: &Memory, bytes: usize) -> Result<()> {
        self.host.send(mailbox, memory, bytes)
    }
    fn receive(&self, bytes: &mut [u8], mailbox: &Self::Mailbox) -> Result<()> {
        self.host.receive(bytes, mailbox)
    }
    fn lane(&self, bytes: usize) -> Result<Self::Lane> {
        self.host.lane(bytes)
    }
    fn place(&self, lane: &Self::Lane, place: usize) -> u64 {
        self.host.place(lane, place)
    }
    fn bring(&self, lane: &mut Self::Lane, place: usize, bytes: usize, fill: Fill<'_>) -> Result<()> {
        self.host.bring(lane, place, bytes, fill)
    }
    fn arrive(&self, lane: &mut Self::Lane, place: usize) -> Result<()> {
        self.host.arrive(lane, place)
    }
    fn leave(&self, lane: &mut Self::Lane, place: usize) -> Result<()> {
        self.host.leave(lane, place)
    }
    fn clear(&self, memory: &mut Memory) -> Result<()> {
        self.host.clear(memory)
    }
    unsafe fn launch(&self, launch: &Launch) -> Result<()> {
        let blocks: u64 = launch.grid.iter().map(|&blocks| u64::from(blocks)).product();
        let mut launches = self.launches.lock().unwrap();
        let most = launches.entry(launch.kernel).or_insert(0);
        *most = blocks.max(*most);
        drop(launches);
        // SAFETY: as the caller promises.
        unsafe { self.host.launch(launch) }
    }
    unsafe fn gemm(&self, product: &Gemm) -> Result<()> {
        // SAFETY: as the caller promises.
        unsafe { self.host.gemm(product) }
    }
}
