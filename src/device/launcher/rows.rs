//! Some rows of logits on their way to the host: gathered on the device, sent through page-locked memory.

use super::{Buffer, Driver, Grid, Launcher, abi};
use harmonia_graph::error::{Error, Result};

/// Which rows, and where they are gathered and sent to.
pub struct DeviceRowReader<V: Driver> {
    rows: Buffer<V, u32>,
    width: usize,
    gathered: Buffer<V, f32>,
    mailbox: V::Mailbox,
}

#[allow(unsafe_code)]
impl<V: Driver> Launcher<V> {
    pub(super) fn new_row_reader(&self, rows: &[u32], width: usize) -> Result<DeviceRowReader<V>> {
        Ok(DeviceRowReader {
            rows: self.copy(rows)?,
            width,
            gathered: self.allocate(rows.len() * width)?,
            mailbox: self.driver.mailbox(rows.len() * width * size_of::<f32>())?,
        })
    }

    pub(super) fn send_gathered(&self, reader: &mut DeviceRowReader<V>, buffer: &Buffer<V, f32>) -> Result<()> {
        let DeviceRowReader { rows, width, gathered, mailbox } = reader;
        if rows.is_empty() {
            return Ok(());
        }
        if !buffer.len().is_multiple_of(*width) {
            return Err(Error::Device(format!("rows of {width} of {} numbers", buffer.len())));
        }
        let arguments = abi::ReadRows {
            out: self.at_mut(gathered, 0),
            values: self.at(buffer, 0),
            rows: self.at(rows, 0),
            row_count: rows.len() as u64,
            width: *width as u32,
        };
        // SAFETY: rows are those of the batch whose logits these are; as many are gathered as there is room for.
        unsafe { self.run("read_rows", Grid::flat(gathered.len()), &arguments)? };
        self.send(mailbox, gathered)
    }

    pub(super) fn receive_gathered(&self, values: &mut Vec<f32>, reader: &mut DeviceRowReader<V>) -> Result<()> {
        values.clear();
        values.resize(reader.gathered.len(), 0.0);
        if values.is_empty() {
            return Ok(());
        }
        self.driver.receive(bytemuck::cast_slice_mut(values), &reader.mailbox)
    }
}
