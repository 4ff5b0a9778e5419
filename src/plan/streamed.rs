//! What is larger than the device: it stays in the host's memory, or in mapped files, and comes to the device in panels of rows.

/// What comes in panels, and how large they are. Results do not depend on it, to the bit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Streamed {
    /// Rows of a panel of X; F is never whole then, but made again of each panel. 0: both stay on the device.
    pub feature_rows: usize,
    /// Bytes of a panel of the walk's matrix, which every hop goes through. 0: it stays.
    pub walk_bytes: usize,
    /// Bytes of a panel of a table of walks: of the rows of a batch. 0: all of it stays.
    pub table_bytes: usize,
}

/// Bytes of a panel beyond which nothing is gained: a bus has its full rate, and a GPU enough to do, long before.
pub const PANEL_BYTES: usize = 64 << 20;

impl Streamed {
    /// Everything stays on the device.
    pub const NOTHING: Streamed = Streamed { feature_rows: 0, walk_bytes: 0, table_bytes: 0 };
}
