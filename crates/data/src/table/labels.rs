//! Labels: one class per unit, several yes/no labels, or numbers.
//!
//! Integers are classes from 0; words are classes in alphabetical order (or in that of `class_names`), kept as names.
//! Invariant: a unit no row speaks of, or whose cell is empty, is [`UNLABELLED`], never class 0.

use super::Columns;
use super::column::{Column, Key, Table, integer, is_missing};
use super::faults::Faults;
use harmonia_graph::dataset::{Labels, UNLABELLED, UnitWeights};
use harmonia_graph::error::{Error, Result, suggestion};
use std::collections::{BTreeSet, HashMap};
use std::path::{Path, PathBuf};

/// Prefix of the columns of a multi-label table.
pub(super) const PREFIX: &str = "label:";

/// Labels and the names of the classes, empty where they are numbers.
pub(super) struct Named {
    pub(super) labels: Labels,
    pub(super) names: Vec<String>,
    pub(super) path: PathBuf,
    /// How much units count, where the table of the labels says so.
    pub(super) weights: Option<UnitWeights>,
}

/// Makes labels of the label columns of a table; `units` is the unit of each row.
///
/// # Errors
/// A cell that is no label, both kinds of columns, or multi-labels that leave units out.
pub(super) fn of(
    table: &Table,
    columns: &Columns,
    units: &[u32],
    count: usize,
    class_names: Option<&(PathBuf, Vec<String>)>,
) -> Result<Option<Named>> {
    let multi: Vec<&Column> = table.columns.iter().filter(|column| columns.is_multi(&column.name)).collect();
    let single = table.column(|name| columns.is_label(name) && !columns.is_multi(name));
    let path = table.path.clone();
    let (labels, names) = match (single, &multi[..]) {
        (None, []) => return Ok(None),
        (Some(_), [_, ..]) => {
            return Err(Error::file(&path, "has a column label and columns label:<name>; keep one kind"));
        }
        (Some(column), []) if columns.regression => {
            let names = if column.name.is_empty() { "target".into() } else { column.name.clone() };
            (numbers(table, &[column], units, count)?, named(&path, vec![names], class_names)?)
        }
        (Some(column), []) => classes(table, column, units, count, class_names)?,
        (None, multi) => {
            let names = multi.iter().map(|column| column.name.get(PREFIX.len()..).unwrap_or("").to_string()).collect();
            if columns.regression {
                let labels = numbers(table, multi, units, count)?;
                return Ok(Some(Named { labels, names: named(&path, names, class_names)?, path, weights: None }));
            }
            let bits = bits(table, multi, units, count)?;
            (Labels::Multi { bits, width: multi.len() }, named(&path, names, class_names)?)
        }
    };
    Ok(Some(Named { labels, names, path, weights: None }))
}

fn named(path: &Path, own: Vec<String>, given: Option<&(PathBuf, Vec<String>)>) -> Result<Vec<String>> {
    match given {
        None => Ok(own),
        Some((_, given)) if given.len() == own.len() => Ok(given.clone()),
        Some((file, given)) => {
            let origin = path.file_name().unwrap_or_default().to_string_lossy();
            let (expected, found) = (own.len(), given.len());
            Err(Error::file(file, format!("expected the {expected} classes of {origin}, found {found} names")))
        }
    }
}

/// Makes a class the second of two, which is the positive one.
///
/// # Errors
/// There are not two classes, or none of that name.
pub(super) fn put_second(
    positive: &str,
    labels: &mut Labels,
    names: &mut Vec<String>,
) -> std::result::Result<(), String> {
    let Labels::Classes { ids, classes: 2 } = labels else {
        return Err("a positive class is one of two classes; there are not two here".into());
    };
    if names.is_empty() {
        *names = vec!["0".into(), "1".into()];
    }
    match names.iter().position(|name| name == positive) {
        Some(1) => Ok(()),
        Some(_) => {
            names.swap(0, 1);
            ids.iter_mut().filter(|id| **id != UNLABELLED).for_each(|id| *id = 1 - *id);
            Ok(())
        }
        None => {
            let close = suggestion(positive, names.iter().map(String::as_str));
            Err(format!("expected the positive class to be {}, found `{positive}`{close}", names.join(" or ")))
        }
    }
}

/// A label as it stands in its cell.
enum Cell {
    None,
    Class(i64),
    Fraction,
    Word,
}

/// What a cell holds; 1.0 is class 1, as pandas writes integers in a column with gaps.
fn cell(key: Key<'_>) -> Cell {
    let text = match key {
        Key::Integer(value) => return Cell::Class(value),
        Key::Text(text) if is_missing(text) => return Cell::None,
        Key::Text(text) => text,
    };
    match (integer(text), text.parse::<f64>()) {
        (Some(value), _) => Cell::Class(value),
        (None, Ok(value)) if value.fract() == 0.0 && value.abs() < 1e15 => Cell::Class(value as i64),
        (None, Ok(_)) => Cell::Fraction,
        (None, Err(_)) => Cell::Word,
    }
}

fn classes(
    table: &Table,
    column: &Column,
    units: &[u32],
    count: usize,
    class_names: Option<&(PathBuf, Vec<String>)>,
) -> Result<(Labels, Vec<String>)> {
    let key = |row| column.values.key(row);
    let rows = || (0..table.rows).filter(|&row| !matches!(cell(key(row)), Cell::None));
    let Some(_) = rows().next() else {
        return Err(Error::file(&table.path, format!("column `{}`: expected labels, found none", column.name)));
    };
    if rows().any(|row| matches!(cell(key(row)), Cell::Word)) {
        return words(table, column, units, count, class_names);
    }
    let most = class_names.map_or(count.max(2), |(_, names)| names.len());
    let mut faults = Faults::new(&table.path);
    let mut ids = vec![UNLABELLED; count];
    let mut classes = 0;
    for row in rows() {
        let at = || table.places.of(row);
        match cell(key(row)) {
            Cell::Class(class) if class >= 0 && (class as u64) < most as u64 => {
                classes = classes.max(class as usize + 1);
                put(&mut ids, units, row, class as u32);
            }
            Cell::Class(class) if class < 0 => faults.add(|| {
                format!(
                    "{}: expected a class from 0, found {class}; leave the cell empty where there is no label, or write \
                     the classes as words",
                    at()
                )
            }),
            Cell::Class(class) => faults.add(|| match class_names {
                Some((file, names)) => {
                    let file = file.file_name().unwrap_or_default().to_string_lossy();
                    format!("{}: expected one of the {} classes of {file}, found {class}", at(), names.len())
                }
                None => format!(
                    "{}: expected classes from 0 to k-1, found {class} with only {count} labels; write such labels as words",
                    at()
                ),
            }),
            _ => faults.add(|| {
                format!(
                    "{}: expected a class, found the number {}; to fit numbers set regression = true, or sort them into \
                     classes first",
                    at(),
                    key(row)
                )
            }),
        }
        if faults.is_full() {
            break;
        }
    }
    faults.finish()?;
    if class_names.is_none() && !ids.contains(&0) {
        let message = format!(
            "column `{}`: expected classes from 0, found none of class 0; subtract the smallest, write the classes as words, \
             or name them all in class_names.txt",
            column.name
        );
        return Err(Error::file(&table.path, message));
    }
    let names = class_names.map_or(Vec::new(), |(_, names)| names.clone());
    let classes = if names.is_empty() { classes } else { names.len() };
    at_least_two(table, column, classes)?;
    Ok((Labels::Classes { ids, classes }, names))
}

fn words(
    table: &Table,
    column: &Column,
    units: &[u32],
    count: usize,
    class_names: Option<&(PathBuf, Vec<String>)>,
) -> Result<(Labels, Vec<String>)> {
    let text = |row| match column.values.key(row) {
        Key::Text(text) => text,
        Key::Integer(_) => "",
    };
    let names: Vec<String> = match class_names {
        Some((_, names)) => names.clone(),
        None => {
            // "none" and "NA" are words like others here: only an empty cell is no label.
            let distinct: BTreeSet<&str> = (0..table.rows).map(text).filter(|word| !word.is_empty()).collect();
            distinct.into_iter().map(str::to_string).collect()
        }
    };
    let class_of: HashMap<&str, u32> = names.iter().enumerate().map(|(id, name)| (name.as_str(), id as u32)).collect();
    let mut faults = Faults::new(&table.path);
    let mut ids = vec![UNLABELLED; count];
    for row in (0..table.rows).filter(|&row| !text(row).is_empty()) {
        match class_of.get(text(row)) {
            Some(&class) => put(&mut ids, units, row, class),
            None => faults.add(|| {
                let close = suggestion(text(row), names.iter().map(String::as_str));
                format!("{}: label `{}` is not in class_names{close}", table.places.of(row), column.values.key(row))
            }),
        }
        if faults.is_full() {
            break;
        }
    }
    faults.finish()?;
    at_least_two(table, column, names.len())?;
    Ok((Labels::Classes { ids, classes: names.len() }, names))
}

fn put(ids: &mut [u32], units: &[u32], row: usize, class: u32) {
    if let Some(id) = units.get(row).and_then(|&unit| ids.get_mut(unit as usize)) {
        *id = class;
    }
}

fn at_least_two(table: &Table, column: &Column, classes: usize) -> Result<()> {
    if classes < 2 {
        let message = format!("column `{}`: expected at least two classes, found {classes}", column.name);
        return Err(Error::file(&table.path, message));
    }
    Ok(())
}

fn bits(table: &Table, columns: &[&Column], units: &[u32], count: usize) -> Result<Vec<u8>> {
    super::arrays::same_rows(&table.path, units.len(), "unit", count)
        .map_err(|error| Error::file(&table.path, format!("multi-labels leave no unit out: {error}")))?;
    let width = columns.len();
    let mut faults = Faults::new(&table.path);
    let mut bits = vec![0u8; count * width];
    for (row, &unit) in units.iter().enumerate() {
        for (class, column) in columns.iter().enumerate() {
            let key = column.values.key(row);
            let bit = match (cell(key), key) {
                (Cell::Class(bit @ 0..=1), _) => bit as u8,
                (Cell::Word, Key::Text(word)) if word.eq_ignore_ascii_case("true") => 1,
                (Cell::Word, Key::Text(word)) if word.eq_ignore_ascii_case("false") => 0,
                _ => {
                    let at = table.places.of(row);
                    // The stand-in for a fraction in a numpy array has no digits worth showing.
                    let found = if key == Key::Integer(i64::MIN) { "a fraction".into() } else { format!("`{key}`") };
                    faults.add(|| format!("{at}: column `{}`: expected 0 or 1, found {found}", column.name));
                    0
                }
            };
            if let Some(to) = bits.get_mut(unit as usize * width + class) {
                *to = bit;
            }
        }
        if faults.is_full() {
            break;
        }
    }
    faults.finish()?;
    Ok(bits)
}

/// Numbers to be fitted, one column per output; an empty cell is a number that is not known.
fn numbers(table: &Table, columns: &[&Column], units: &[u32], count: usize) -> Result<Labels> {
    let width = columns.len();
    let mut faults = Faults::new(&table.path);
    let mut values = vec![f32::NAN; count * width];
    for (row, &unit) in units.iter().enumerate() {
        for (output, column) in columns.iter().enumerate() {
            let key = column.values.key(row);
            let number = match key {
                Key::Integer(value) => Some(value as f32),
                Key::Text(text) if is_missing(text) => continue,
                Key::Text(text) => text.parse::<f32>().ok().filter(|value| value.is_finite()),
            };
            match (number, values.get_mut(unit as usize * width + output)) {
                (Some(number), Some(to)) => *to = number,
                (Some(_), None) => {}
                (None, _) => faults.add(|| {
                    let at = table.places.of(row);
                    format!(
                        "{at}: column `{}`: expected a number, found `{key}`; leave unknown ones empty",
                        column.name
                    )
                }),
            }
        }
        if faults.is_full() {
            break;
        }
    }
    faults.finish()?;
    Ok(Labels::Values { values, width })
}
