//! Other data in the order of a model: columns and classes are what their names say, not where they stand.

use harmonia_graph::dataset::{Dataset, Labels, UNLABELLED};
use harmonia_graph::error::one_line;
use std::collections::HashMap;
use std::sync::Arc;

/// How columns of other data were matched with those of a model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Matched {
    /// The same names in the same order.
    Alike,
    /// The same names in another order.
    Reordered,
    /// One of the two has no names.
    ByNumber,
}

/// Puts columns in the order of the model's names.
///
/// # Errors
/// Both have names, and not the same ones: what differs first.
pub fn match_columns(dataset: &mut Dataset, names: &[String]) -> Result<Matched, String> {
    if !are_names(names) || !are_names(&dataset.feature_names) || dataset.feature_names.len() != names.len() {
        return Ok(Matched::ByNumber);
    }
    let Some(k) = (0..names.len()).find(|&k| dataset.feature_names.get(k) != names.get(k)) else {
        return Ok(Matched::Alike);
    };
    let place: HashMap<&String, usize> = dataset.feature_names.iter().zip(0..).collect();
    let columns: Option<Vec<usize>> = names.iter().map(|name| place.get(name).copied()).collect();
    let Some(columns) = columns.filter(|_| place.len() == names.len()) else {
        let (own, other) = (one_line(&names[k]), one_line(&dataset.feature_names[k]));
        return Err(format!("feature {k} is called `{own}` in the model and `{other}` in {}", one_line(&dataset.name)));
    };
    dataset.features = Arc::new(dataset.features.columns(&columns));
    dataset.feature_names = names.to_vec();
    Ok(Matched::Reordered)
}

/// Puts classes in the order of the model's names.
///
/// # Errors
/// They have other names, or labels cannot be put in another order.
pub fn match_classes(dataset: &mut Dataset, names: &[String]) -> Result<(), String> {
    if names.is_empty() || dataset.class_names == names {
        return Ok(());
    }
    let place: HashMap<&String, u32> = names.iter().zip(0..).collect();
    let new: Option<Vec<u32>> = dataset.class_names.iter().map(|name| place.get(name).copied()).collect();
    let new = new.filter(|new| new.len() == names.len() && place.len() == names.len());
    match (new, &mut dataset.labels) {
        (Some(new), Labels::Classes { ids, .. }) => {
            for id in ids.iter_mut().filter(|id| **id != UNLABELLED) {
                *id = new.get(*id as usize).copied().unwrap_or(*id);
            }
            dataset.class_names = names.to_vec();
            Ok(())
        }
        _ => {
            let list = |names: &[String]| one_line(names.join(", "));
            Err(format!("its classes are {}, those of the model {}", list(&dataset.class_names), list(names)))
        }
    }
}

/// Whether these are names that somebody gave, rather than numbers in words.
pub(super) fn are_names(names: &[String]) -> bool {
    names.iter().enumerate().any(|(k, name)| *name != format!("feature {k}"))
}
