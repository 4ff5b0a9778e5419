//! The line below an error that says how to do here what the library proposes: it knows settings and options, not flags.

use crate::settings::Layers;
use harmonia_graph::error::Error;

/// What the library proposes, and how that is typed here: `{}` is the value that follows.
const TYPED: &[(&str, &str)] = &[
    ("set run.device =", "--device {}"),
    ("set run.folds =", "--folds {}"),
    ("set data.dataset =", "--dataset {}"),
    ("set data.dir =", "--data-dir {}"),
    ("set yes =", "--yes"),
    ("set offline =", "without --offline"),
    ("set mirror =", "--mirror {}"),
    ("set name =", "--name {}"),
    ("set method =", "--method {}"),
    ("set half =", "without --f16"),
    ("set directed =", "--directed"),
    ("set regression =", "--regression"),
    ("set ignore =", "--ignore {}"),
    ("set relation =", "--relation {}"),
    ("set drop_bad_rows =", "--drop-bad-rows"),
    ("set column.source =", "--column source={}"),
    ("set column.target =", "--column target={}"),
    ("set column.weight =", "--column weight={}"),
    ("set column.id =", "--column id={}"),
    ("set smiles_column =", "--smiles-column {}"),
    ("set label_column =", "--label-column {}"),
    ("fetch dataset", "harmonia data fetch {}"),
    ("convert it to a store", "harmonia data convert"),
];

/// What the user can type; `flags` are those of the command.
pub fn of(error: &Error, flags: &[String]) -> Option<String> {
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
        Error::Device(message) if message.contains("the limit is") => Some("--memory SIZE sets another limit".into()),
        Error::Interrupted { run } => Some(format!("continue with: harmonia-train --resume {}", run.display())),
        _ => typed(&error.to_string(), flags, &Layers::new().ok()?.keys()),
    }
}

/// Everything that `message` proposes and that can be typed, in its order. A setting without a flag of its own goes by
/// `--set`.
fn typed(message: &str, flags: &[String], settings: &[String]) -> Option<String> {
    let settings = settings.iter().map(|key| (format!("set {key} ="), format!("--set {key}={{}}")));
    let ways = TYPED.iter().map(|(proposal, way)| (proposal.to_string(), way.to_string())).chain(settings);
    let has = |way: &str| {
        way.split(' ').filter(|word| word.starts_with("--")).all(|word| flags.iter().any(|flag| flag == word))
    };
    let mut proposed: Vec<(usize, String)> = Vec::new();
    for (proposal, way) in ways.filter(|(_, way)| has(way)) {
        if let Some(at) = message.find(&proposal)
            && proposed.iter().all(|(other, _)| *other != at)
        {
            proposed.push((at, way.replace("{}", &value(&message[at + proposal.len()..]))));
        }
    }
    proposed.sort();
    let proposed: Vec<String> = proposed.into_iter().map(|(_, way)| way).collect();
    (!proposed.is_empty()).then(|| format!("try {}", proposed.join(" or ")))
}

/// The first word, or all that stands in backticks, as a shell takes it.
fn value(text: &str) -> String {
    let text = text.trim_start();
    let value = match text.strip_prefix('`') {
        Some(quoted) => quoted.split('`').next(),
        None => text.split_whitespace().next().map(|word| word.trim_end_matches([',', ';', ':', '.', ')'])),
    };
    let value = value.unwrap_or_default();
    if value.contains(' ') { format!("'{value}'") } else { value.to_string() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::HarmoniaCommand;
    use clap::CommandFactory;

    fn flags(words: &str) -> Vec<String> {
        words.split(' ').map(String::from).collect()
    }

    fn check(command: &[String], expected: &[(&str, Option<&str>)]) {
        let settings = Layers::new().unwrap().keys();
        for (message, expected) in expected {
            assert_eq!(typed(message, command, &settings).as_deref(), *expected, "{message}");
        }
    }

    #[test]
    fn a_setting_that_a_message_proposes_becomes_a_flag() {
        check(
            &flags("--set --device"),
            &[
                ("too many: set engine.sparse = off", Some("try --set engine.sparse=off")),
                ("no GPU; add one, or set run.device = cpu", Some("try --device cpu")),
                (
                    "lazy (set walk.lazy = true) or set run.device = cpu.",
                    Some("try --set walk.lazy=true or --device cpu"),
                ),
                ("train.dropout is 2; expected [0, 1)", None),
                ("set nothing.known = 1", None),
                ("set", None),
            ],
        );
        let interrupted = Error::Interrupted { run: "runs/a".into() };
        assert_eq!(of(&interrupted, &[]).unwrap(), "continue with: harmonia-train --resume runs/a");
    }

    #[test]
    fn an_option_that_a_message_proposes_becomes_a_flag() {
        check(
            &flags("--ignore --column --f16 --directed"),
            &[
                ("drop it, or leave it out (set ignore = NAME)", Some("try --ignore NAME")),
                ("rename `sorce`, or set column.source = `sorce`", Some("try --column source=sorce")),
                ("set column.target = `tar get`; or so", Some("try --column target='tar get'")),
                ("beyond half precision: set half = false", Some("try without --f16")),
                ("or keep directions (set directed = true)", Some("try --directed")),
                (
                    "remove it and fetch dataset cora, or convert it to a store all the same",
                    Some("try harmonia data fetch cora or harmonia data convert"),
                ),
            ],
        );
    }

    #[test]
    fn a_command_is_offered_only_the_flags_that_it_has() {
        let message = "set data.dir = DIR, or set run.device = cpu";
        check(&flags("--data-dir --set"), &[(message, Some("try --data-dir DIR or --set run.device=cpu"))]);
        check(&flags("--data-dir"), &[(message, Some("try --data-dir DIR"))]);
        check(&[], &[(message, None), ("allow it: set yes = true", None)]);
    }

    #[test]
    fn every_flag_that_is_offered_is_one_of_a_command() {
        fn all(command: &clap::Command) -> Vec<String> {
            command.get_subcommands().flat_map(all).chain(crate::cli::flags(command)).collect()
        }
        let known = all(&HarmoniaCommand::command());
        for word in TYPED.iter().flat_map(|(_, way)| way.split(' ')).filter(|word| word.starts_with("--")) {
            assert!(known.iter().any(|flag| flag == word), "{word}");
        }
    }
}
