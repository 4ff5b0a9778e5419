//! Drivers that are the host's but for something: `forward_driver!` writes the methods that only hand on to `self.host`.

/// Inside `impl Driver for ...` of a type with a field `host: Host`: the types, and these methods.
macro_rules! forward_driver {
    ($($method:ident)*) => {
        type Memory = harmonia::device::host::Memory;
        type Mailbox = <harmonia::device::host::Host as harmonia::device::launcher::Driver>::Mailbox;
        type Lane = <harmonia::device::host::Host as harmonia::device::launcher::Driver>::Lane;

        fn name(&self) -> String {
            self.host.name()
        }
        fn shared_limit(&self) -> usize {
            self.host.shared_limit()
        }
        fn free_bytes(&self) -> harmonia::Result<Option<usize>> {
            self.host.free_bytes()
        }
        fn address(&self, memory: &Self::Memory) -> u64 {
            self.host.address(memory)
        }
        fn size(&self, memory: &Self::Memory) -> usize {
            self.host.size(memory)
        }
        fn allocate(&self, bytes: usize) -> harmonia::Result<Self::Memory> {
            self.host.allocate(bytes)
        }
        fn mailbox(&self, bytes: usize) -> harmonia::Result<Self::Mailbox> {
            self.host.mailbox(bytes)
        }
        fn lane(&self, bytes: usize) -> harmonia::Result<Self::Lane> {
            self.host.lane(bytes)
        }
        fn place(&self, lane: &Self::Lane, place: usize) -> u64 {
            self.host.place(lane, place)
        }
        fn bring(
            &self,
            lane: &mut Self::Lane,
            place: usize,
            bytes: usize,
            fill: harmonia::device::launcher::Fill<'_>,
        ) -> harmonia::Result<()> {
            self.host.bring(lane, place, bytes, fill)
        }
        $($crate::common::forward::forward_method!($method);)*
    };
}

macro_rules! forward_method {
    (write) => {
        fn write(&self, memory: &mut Self::Memory, bytes: &[u8]) -> harmonia::Result<()> {
            self.host.write(memory, bytes)
        }
    };
    (read) => {
        fn read(&self, bytes: &mut [u8], memory: &Self::Memory) -> harmonia::Result<()> {
            self.host.read(bytes, memory)
        }
    };
    (send) => {
        fn send(&self, mailbox: &mut Self::Mailbox, memory: &Self::Memory, bytes: usize) -> harmonia::Result<()> {
            self.host.send(mailbox, memory, bytes)
        }
    };
    (receive) => {
        fn receive(&self, bytes: &mut [u8], mailbox: &Self::Mailbox) -> harmonia::Result<()> {
            self.host.receive(bytes, mailbox)
        }
    };
    (arrive) => {
        fn arrive(&self, lane: &mut Self::Lane, place: usize) -> harmonia::Result<()> {
            self.host.arrive(lane, place)
        }
    };
    (leave) => {
        fn leave(&self, lane: &mut Self::Lane, place: usize) -> harmonia::Result<()> {
            self.host.leave(lane, place)
        }
    };
    (clear) => {
        fn clear(&self, memory: &mut Self::Memory) -> harmonia::Result<()> {
            self.host.clear(memory)
        }
    };
    (gemm) => {
        unsafe fn gemm(&self, product: &harmonia::device::launcher::Gemm) -> harmonia::Result<()> {
            // SAFETY: as the caller promises.
            unsafe { self.host.gemm(product) }
        }
    };
    (launch) => {
        unsafe fn launch(&self, launch: &harmonia::device::launcher::Launch) -> harmonia::Result<()> {
            // SAFETY: as the caller promises.
            unsafe { self.host.launch(launch) }
        }
    };
}

#[allow(unused_imports)] // not every test has a driver of its own
pub(crate) use {forward_driver, forward_method};
