//! Results as a table of named columns, written as Parquet.
//!
//! A column is whole numbers, numbers or texts; the last two may have gaps. Invariant: all columns are of one length.

use harmonia_graph::error::Error;
use parquet::basic::{Compression, LogicalType, Repetition, Type as Physical};
use parquet::data_type::{ByteArray, ByteArrayType, DoubleType, Int64Type};
use parquet::errors::Result as Written;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::{SerializedFileWriter, SerializedRowGroupWriter};
use parquet::schema::types::Type;
use std::sync::Arc;

/// Rows written together: what a reader holds at once.
const ROWS: usize = 1 << 20;

/// The cells of a column.
#[derive(Clone, Debug, PartialEq)]
pub enum Cells {
    /// Whole numbers.
    Whole(Vec<i64>),
    /// Numbers.
    Numbers(Vec<Option<f64>>),
    /// Texts.
    Texts(Vec<Option<String>>),
}

impl Cells {
    fn len(&self) -> usize {
        match self {
            Cells::Whole(values) => values.len(),
            Cells::Numbers(values) => values.len(),
            Cells::Texts(values) => values.len(),
        }
    }

    fn field(&self, name: &str) -> Written<Type> {
        let (physical, repetition, logical) = match self {
            Cells::Whole(_) => (Physical::INT64, Repetition::REQUIRED, None),
            Cells::Numbers(_) => (Physical::DOUBLE, Repetition::OPTIONAL, None),
            Cells::Texts(_) => (Physical::BYTE_ARRAY, Repetition::OPTIONAL, Some(LogicalType::String)),
        };
        Type::primitive_type_builder(name, physical).with_repetition(repetition).with_logical_type(logical).build()
    }

    /// Writes some of its rows as the next column of a group.
    fn write<W: std::io::Write + Send>(
        &self,
        group: &mut SerializedRowGroupWriter<'_, W>,
        rows: std::ops::Range<usize>,
    ) -> Written<()> {
        let Some(mut column) = group.next_column()? else { return Ok(()) };
        let levels = |there: &mut dyn Iterator<Item = bool>| there.map(i16::from).collect::<Vec<i16>>();
        match self {
            Cells::Whole(values) => {
                column.typed::<Int64Type>().write_batch(&values[rows], None, None)?;
            }
            Cells::Numbers(values) => {
                let levels = levels(&mut values[rows.clone()].iter().map(Option::is_some));
                let known: Vec<f64> = values[rows].iter().copied().flatten().collect();
                column.typed::<DoubleType>().write_batch(&known, Some(&levels), None)?;
            }
            Cells::Texts(values) => {
                let levels = levels(&mut values[rows.clone()].iter().map(Option::is_some));
                let known: Vec<ByteArray> =
                    values[rows].iter().flatten().map(|text| ByteArray::from(&text[..])).collect();
                column.typed::<ByteArrayType>().write_batch(&known, Some(&levels), None)?;
            }
        }
        column.close()
    }
}

/// The file of some columns.
///
/// # Errors
/// Columns of different lengths, or two of one name.
pub fn parquet_bytes(columns: &[(String, Cells)]) -> harmonia_graph::error::Result<Vec<u8>> {
    let refused = |why: String| Error::Data(format!("the table cannot be written as Parquet: {why}"));
    let rows = columns.first().map_or(0, |(_, cells)| cells.len());
    let mut names: Vec<&String> = columns.iter().map(|(name, _)| name).collect();
    names.sort();
    if let Some(pair) = names.windows(2).find(|pair| pair[0] == pair[1]) {
        return Err(refused(format!("two columns are called `{}`", pair[0])));
    }
    if columns.iter().any(|(_, cells)| cells.len() != rows) {
        return Err(refused("its columns are of different lengths".into()));
    }
    let write = || -> Written<Vec<u8>> {
        let fields = columns.iter().map(|(name, cells)| Ok(Arc::new(cells.field(name)?)));
        let fields = fields.collect::<Written<Vec<_>>>()?;
        let schema = Arc::new(Type::group_type_builder("table").with_fields(fields).build()?);
        let properties = WriterProperties::builder().set_compression(Compression::SNAPPY).build();
        let mut writer = SerializedFileWriter::new(Vec::new(), schema, Arc::new(properties))?;
        for start in (0..rows.max(1)).step_by(ROWS) {
            let mut group = writer.next_row_group()?;
            for (_, cells) in columns {
                cells.write(&mut group, start..rows.min(start + ROWS))?;
            }
            group.close()?;
        }
        writer.into_inner()
    };
    write().map_err(|error| refused(error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use parquet::file::reader::{FileReader, SerializedFileReader};
    use parquet::record::RowAccessor;

    #[test]
    fn what_is_written_reads_back() {
        let columns = [
            ("node".to_string(), Cells::Whole(vec![7, -1])),
            ("p".to_string(), Cells::Numbers(vec![Some(0.25), None])),
            ("name".to_string(), Cells::Texts(vec![None, Some("Ünal, \"x\"".into())])),
        ];
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), parquet_bytes(&columns).unwrap()).unwrap();
        let reader = SerializedFileReader::new(file.reopen().unwrap()).unwrap();
        let rows: Vec<_> = reader.get_row_iter(None).unwrap().map(Result::unwrap).collect();
        assert_eq!((rows.len(), rows[0].get_long(0).unwrap(), rows[0].get_double(1).unwrap()), (2, 7, 0.25));
        assert_eq!(rows[1].get_string(2).unwrap(), "Ünal, \"x\"");
        assert!(rows[1].get_double(1).is_err() && rows[0].get_string(2).is_err(), "gaps");
        assert!(parquet_bytes(&[columns[0].clone(), columns[0].clone()]).is_err());
        let uneven = [columns[0].clone(), ("q".to_string(), Cells::Whole(vec![1]))];
        assert!(parquet_bytes(&uneven).is_err());
        assert!(parquet_bytes(&[("node".to_string(), Cells::Whole(Vec::new()))]).is_ok());
    }
}
