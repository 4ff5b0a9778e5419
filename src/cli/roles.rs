//! `--table ROLE=FILE` and `--column ROLE=NAME`: tables and columns that are not called as the format has it, when data are converted
//! and when a trained model reads new ones.

use harmonia_data::table::{Columns, Options};
use harmonia_graph::error::{Error, Result, suggestion};

/// Files by their roles.
///
/// # Errors
/// A word is not ROLE=FILE.
pub fn files(options: &mut Options, words: &[String]) -> Result<()> {
    let Options { edges, nodes, features, labels, splits, graphs, .. } = options;
    let files = [
        ("edges", edges),
        ("nodes", nodes),
        ("features", features),
        ("labels", labels),
        ("splits", splits),
        ("graphs", graphs),
    ];
    assign("--table", "FILE", words, files)
}

/// Columns by their roles.
///
/// # Errors
/// A word is not ROLE=NAME.
pub fn columns(columns: &mut Columns, words: &[String]) -> Result<()> {
    let Columns { source, target, weight, id, label, split, graph, .. } = columns;
    let names = [
        ("source", source),
        ("target", target),
        ("weight", weight),
        ("id", id),
        ("label", label),
        ("split", split),
        ("graph", graph),
    ];
    assign("--column", "NAME", words, names)
}

/// Puts the values of `role=value` words in their places.
fn assign<T: for<'a> From<&'a str>, const ROLES: usize>(
    flag: &str,
    value_name: &str,
    words: &[String],
    mut places: [(&str, &mut Option<T>); ROLES],
) -> Result<()> {
    for word in words {
        let (role, value) = word.split_once('=').unwrap_or((word, ""));
        match places.iter_mut().find(|(known, _)| *known == role) {
            Some((_, place)) if !value.is_empty() => **place = Some(value.into()),
            place => {
                let is_known = place.is_some();
                let roles: Vec<&str> = places.iter().map(|(role, _)| *role).collect();
                // The role may be right and the value missing: then there is nothing to suggest.
                let close = if is_known { String::new() } else { suggestion(role, roles.iter().copied()) };
                let roles = roles.join(", ");
                let message = format!("{flag} {word}: expected ROLE={value_name}, ROLE one of {roles}{close}");
                return Err(Error::Config(message));
            }
        }
    }
    Ok(())
}
