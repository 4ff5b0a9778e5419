//! A session of several processes: the first has the directory and tells the others what is in it; all train.

use crate::team::{Team, any, numbers, of_first};
use crate::train::trainer::{Progress, State};
use bytemuck::cast_slice;
use harmonia_graph::error::{Error, Result};
use serde::Serialize;
use serde::de::DeserializeOwned;

/// Whether this process is the one that reads and writes what is on disk of a run.
pub(super) fn leads(team: Option<&dyn Team>) -> bool {
    team.is_none_or(|team| team.rank() == 0)
}

/// Whether anybody was asked to stop: all stop after the same epoch.
///
/// # Errors
/// Another rank has failed.
pub(super) fn agreed(team: Option<&dyn Team>, asked: bool) -> Result<bool> {
    team.map_or(Ok(asked), |team| any(team, asked))
}

/// What the first process has of something: every process hands in its own, and all get that.
///
/// # Errors
/// Another rank has failed.
pub(super) fn told<T: Serialize + DeserializeOwned>(team: Option<&dyn Team>, mine: Option<T>) -> Result<Option<T>> {
    let Some(team) = team else { return Ok(mine) };
    let garbled = |error: serde_json::Error| Error::Internal(format!("between processes: {error}"));
    let text = serde_json::to_vec(&mine).map_err(garbled)?;
    serde_json::from_slice(&of_first(team, &text)?).map_err(garbled)
}

/// Where a run goes on, and the seconds spent on it: from a checkpoint that any number of processes has left.
///
/// # Errors
/// As [`told`].
pub(super) fn restored(team: Option<&dyn Team>, mine: Option<(State, f64)>) -> Result<Option<(State, f64)>> {
    let Some(team) = team else { return Ok(mine) };
    let (arrays, about) = match mine {
        None => (Vec::new(), None),
        Some((State { progress, parameters, first_moment, second_moment, best }, seconds)) => {
            ([parameters, first_moment, second_moment, best].concat(), Some((progress, seconds)))
        }
    };
    let about: Option<(Progress, f64)> = told(Some(team), about)?;
    let arrays: Vec<f32> = numbers(&of_first(team, cast_slice(&arrays))?)?;
    let Some((progress, seconds)) = about else { return Ok(None) };
    let mut parts = arrays.chunks_exact((arrays.len() / 4).max(1)).map(<[f32]>::to_vec);
    let mut next = || parts.next().unwrap_or_default();
    let [parameters, first_moment, second_moment, best] = [next(), next(), next(), next()];
    Ok(Some((State { progress, parameters, first_moment, second_moment, best }, seconds)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::team::threads::together;

    #[test]
    fn all_go_on_where_the_first_has_left() {
        let state = |at: f32| State {
            progress: Progress { epoch: 3, step: 9, ..Progress::default() },
            parameters: vec![at, 1.5],
            first_moment: vec![at, 0.1],
            second_moment: vec![at, 1e-30],
            best: vec![at, -0.0],
        };
        let ends = together(3, |team| {
            let mine = (team.rank() == 0).then(|| (state(0.3), 12.5));
            assert_eq!(restored(Some(team), None)?, None);
            assert_eq!(told(Some(team), (team.rank() == 0).then_some(0.1f64))?, Some(0.1));
            restored(Some(team), mine)
        });
        assert!(ends.unwrap().into_iter().all(|end| end == Some((state(0.3), 12.5))));
    }
}
