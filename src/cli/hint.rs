//! The line below an error that says how to do here what the library proposes: it knows settings, not flags.

use crate::settings::Layers;
use harmonia_graph::error::Error;

/// Settings that have a flag of their own.
const FLAGS: &[(&str, &str)] = &[("run.device", "--device"), ("data.dir", "--data-dir"), ("run.folds", "--folds")];

/// What the user can type; `settable` says whether the command has flags for settings.
pub fn of(error: &Error, settable: bool) -> Option<String> {
    match error {
        Error::Data(message) if message.starts_with("this model predicts graphs, not nodes") => {
            Some("use --graph NUMBER; --by node shows what its nodes add".into())
        }
        Error::Data(message) if message.starts_with("this model predicts nodes, not graphs") => {
            Some("use --node NUMBER".into())
        }
        Error::File { message, .. } if message.starts_with("is not a store") => {
            Some("--dataset NAME --data-dir DIR for raw files, harmonia data convert for other data".into())
        }
        Error::Interrupted { run } => Some(format!("continue with: harmonia-train --resume {}", run.display())),
        _ if settable => settings(&error.to_string(), &Layers::new().ok()?.keys()),
        _ => None,
    }
}

/// Reads `set section.key = value` where a message proposes it.
fn settings(message: &str, known: &[String]) -> Option<String> {
    let words: Vec<&str> = message.split_whitespace().collect();
    let flags: Vec<String> = (words.windows(4))
        .filter(|four| four[0].trim_start_matches('(') == "set" && four[2] == "=")
        .filter(|four| known.iter().any(|key| key == four[1]))
        .map(|four| {
            let value = four[3].trim_end_matches([',', ';', ':', '.', ')']);
            match FLAGS.iter().find(|(key, _)| *key == four[1]) {
                Some((_, flag)) => format!("{flag} {value}"),
                None => format!("--set {}={value}", four[1]),
            }
        })
        .collect();
    (!flags.is_empty()).then(|| format!("set it with {}", flags.join(" or ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_setting_that_a_message_proposes_becomes_a_flag() {
        let known = Layers::new().unwrap().keys();
        for (message, expected) in [
            ("too many: set engine.sparse = off", Some("set it with --set engine.sparse=off")),
            ("no GPU; add one, or set run.device = cpu", Some("set it with --device cpu")),
            (
                "lazy (set walk.lazy = true) or set run.device = cpu.",
                Some("set it with --set walk.lazy=true or --device cpu"),
            ),
            ("train.dropout is 2; expected [0, 1)", None),
            ("set nothing.known = 1", None),
            ("set", None),
        ] {
            assert_eq!(settings(message, &known).as_deref(), expected, "{message}");
        }
        let interrupted = Error::Interrupted { run: "runs/a".into() };
        assert_eq!(of(&interrupted, false).unwrap(), "continue with: harmonia-train --resume runs/a");
    }
}
