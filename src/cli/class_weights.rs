//! `--class-weights balanced|FILE`: the word, or a table `class,weight` as the setting has it. A run keeps the weights, not the
//! path: the file may change or go.

use harmonia_graph::error::{Error, Result};
use harmonia_graph::files;
use std::path::Path;
use toml::Value;

/// What the flag stands for, as `train.class_weights` takes it.
pub fn value(word: &str) -> Result<Value> {
    if matches!(word, "balanced" | "none") {
        return Ok(word.into());
    }
    let path = Path::new(word);
    if !path.exists() {
        return Err(Error::Config(format!(
            "--class-weights {word}: expected balanced, none, or a file of CLASS,WEIGHT lines"
        )));
    }
    let text = files::read_handed(path)?;
    let mut words = Vec::new();
    for (at, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
        let (class, weight) = cells(line).unwrap_or(("", ""));
        let is_header = at == 0 && class.eq_ignore_ascii_case("class") && weight.eq_ignore_ascii_case("weight");
        if is_header {
            continue;
        }
        let number = weight.parse::<f64>().ok().filter(|weight| weight.is_finite() && *weight > 0.0);
        let (false, Some(number)) = (class.is_empty(), number) else {
            let message = format!("line {}: expected CLASS,WEIGHT with a weight above 0, found `{line}`", at + 1);
            return Err(Error::file(path, message));
        };
        words.push(Value::from(format!("{}={number}", class.replace("\"\"", "\""))));
    }
    if words.is_empty() {
        return Err(Error::file(path, "expected lines of CLASS,WEIGHT, found none"));
    }
    Ok(Value::Array(words))
}

/// The name and the weight of a line, by commas, tabs or semicolons: the weight is behind the last of them, so that a name may hold
/// any.
fn cells(line: &str) -> Option<(&str, &str)> {
    let (class, weight) = line.rsplit_once([',', '\t', ';'])?;
    let class = class.trim();
    let bare = class.strip_prefix('"').and_then(|class| class.strip_suffix('"')).unwrap_or(class);
    Some((bare, weight.trim()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str) -> Result<Value> {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("weights.csv");
        std::fs::write(&path, text).unwrap();
        value(&path.display().to_string())
    }

    #[test]
    fn a_table_becomes_the_list_that_the_setting_takes() {
        let expected = Value::Array(vec!["no=1".into(), "yes, but=2.5".into()]);
        assert_eq!(of("class,weight\nno,1\n\"yes, but\",2.5\n").unwrap(), expected);
        assert_eq!(of("no\t1\n\nyes, but\t2.5").unwrap(), expected);
        assert_eq!(value("balanced").unwrap(), Value::from("balanced"));
    }

    #[test]
    fn what_is_no_weight_is_refused_with_its_line() {
        for bad in ["no,1\nyes,0\n", "no,1\nyes,-2\n", "no,1\nyes,nan\n", "no,1\nyes\n", "no,1\n,3\n"] {
            let error = of(bad).unwrap_err().to_string();
            assert!(error.contains("line 2: expected CLASS,WEIGHT"), "{bad:?}: {error}");
        }
        assert!(of("class,weight\n").unwrap_err().to_string().contains("found none"));
        assert!(value("no/such/file").unwrap_err().to_string().contains("expected balanced, none, or a file"));
    }
}
