//! Which setting somebody meant who wrote another word: a key without its section, in the wrong one, abbreviated or
//! mistyped.

use harmonia_graph::error::suggestion;

/// What people write who come from elsewhere, where neither initials nor the beginning of the key say it.
pub(super) const HABITS: &[(&str, &str)] = &[
    ("decay", "train.weight_decay"),
    ("rate", "train.learning_rate"),
    ("early_stopping", "train.patience"),
    ("clip", "train.clip_norm"),
    ("grad_clip", "train.clip_norm"),
    ("epoch", "train.epochs"),
    ("batch", "train.batch_size"),
    ("layers", "model.hidden"),
    ("walk_length", "model.hops"),
    ("gpu", "run.device"),
];

/// Settings shown at most.
const MOST: usize = 3;

/// `; did you mean ...?`, or nothing.
pub fn closest(word: &str, known: &[String]) -> String {
    let end = |key: &str| key.rsplit('.').next().unwrap_or(key).to_lowercase();
    let (section, wanted) = (word.split_once('.').map(|(section, _)| section), end(word));
    let initials = |key: &str| end(key).split('_').filter_map(|part| part.chars().next()).collect::<String>();
    let matching = |is: &dyn Fn(&str) -> bool| -> Vec<&str> {
        let all: Vec<&str> = known.iter().map(String::as_str).filter(|key| is(key)).collect();
        // The section that was written decides where it can.
        let here: Vec<&str> =
            all.iter().copied().filter(|key| key.split_once('.').map(|(s, _)| s) == section).collect();
        if here.is_empty() { all } else { here }
    };
    let habit = HABITS.iter().find(|(habit, _)| *habit == wanted).map(|(_, key)| *key);
    let ways: [&dyn Fn(&str) -> bool; 4] = [
        &|key| end(key) == wanted,
        &|key| wanted.len() > 1 && initials(key) == wanted,
        &|key| Some(key) == habit,
        &|key| wanted.len() > 2 && end(key).starts_with(&wanted),
    ];
    for (at, way) in ways.into_iter().enumerate() {
        let keys = matching(way);
        if !keys.is_empty() && keys.len() <= MOST {
            let shown: Vec<String> = keys.iter().map(|key| format!("`{key}`")).collect();
            return format!("; did you mean {}?", shown.join(" or "));
        }
        // A typo of a whole key is more likely than an abbreviation.
        let typo = if at == 0 { suggestion(word, known.iter().map(String::as_str)) } else { String::new() };
        if !typo.is_empty() {
            return typo;
        }
    }
    // A typo in a key without its section.
    let ends: Vec<String> = known.iter().map(|key| end(key)).collect();
    known
        .iter()
        .zip(&ends)
        .find(|(_, key)| suggestion(&wanted, ends.iter().map(String::as_str)).contains(&format!("`{key}`")))
        .map_or(String::new(), |(key, _)| format!("; did you mean `{key}`?"))
}
