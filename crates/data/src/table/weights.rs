//! How much each node or graph counts while a model is fitted: one column, wherever the labels are.

use super::Columns;
use super::column::{Key, Table, is_missing, shortened};
use super::faults::Faults;
use harmonia_graph::dataset::{Labels, UnitWeights, is_weight};
use harmonia_graph::error::Result;

/// The weights in a table; `units` is the unit of each row. None where it has no such column.
///
/// # Errors
/// A cell that is no number above 0, or an empty one of a unit that has a label.
pub(super) fn of(table: &Table, columns: &Columns, units: &[u32], labels: &Labels) -> Result<Option<UnitWeights>> {
    let Some(column) = table.column(|name| columns.is_unit_weight(name)) else { return Ok(None) };
    let mut faults = Faults::new(&table.path);
    let mut values = vec![1f32; labels.units()];
    let mut seen = vec![false; labels.units()];
    for (row, &unit) in units.iter().enumerate() {
        let key = column.values.key(row);
        let weight = match key {
            Key::Text(text) if is_missing(text) => continue,
            Key::Integer(value) => Some(value as f32),
            Key::Text(text) => text.parse::<f32>().ok(),
        };
        match (weight.filter(|&weight| is_weight(weight)), values.get_mut(unit as usize)) {
            (Some(weight), Some(to)) => (*to, seen[unit as usize]) = (weight, true),
            (Some(_), None) => {}
            (None, _) => faults.add(|| {
                format!(
                    "{}: column `{}`: expected a weight, a number above 0, found `{key}`; what should not count is left \
                     without a label or a split",
                    table.places.of(row),
                    shortened(&column.name)
                )
            }),
        }
        if faults.is_full() {
            break;
        }
    }
    let without = |unit: &usize| !seen[*unit] && labels.is_labelled(*unit);
    if let Some(unit) = (0..values.len()).find(without) {
        let row = units.iter().position(|&other| other as usize == unit);
        let at = row.map_or_else(|| format!("unit {unit}"), |row| table.places.of(row));
        faults.add(|| {
            format!("{at}: column `{}`: expected a weight beside the label, found none", shortened(&column.name))
        });
    }
    faults.finish()?;
    Ok(Some(UnitWeights { column: column.name.clone(), values }))
}
