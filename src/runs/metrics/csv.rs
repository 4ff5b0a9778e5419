//! `metrics.csv`: a line per epoch, a column per number; a score that is not defined is an empty field.

use super::LogCopy;
use crate::train::EpochRecord;
use harmonia_graph::error::{Error, Result};
use harmonia_graph::files;
use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};

pub(super) const FILE: &str = "metrics.csv";

/// Open for adding.
pub(super) struct Csv {
    path: PathBuf,
    file: File,
    /// Scores of the validation units, once the first epoch has named them.
    scores: Option<Vec<String>>,
}

impl Csv {
    pub(super) fn begin(directory: &Path, history: &[EpochRecord]) -> Result<Csv> {
        let path = directory.join(FILE);
        let mut scores = None;
        let text: String = history.iter().map(|record| lines(record, &mut scores)).collect();
        files::write_atomic(&path, text.as_bytes())?;
        let file = File::options().append(true).open(&path).map_err(Error::io("write", &path))?;
        Ok(Csv { path, file, scores })
    }
}

impl LogCopy for Csv {
    fn add(&mut self, record: &EpochRecord) -> Result<()> {
        let text = lines(record, &mut self.scores);
        self.file.write_all(text.as_bytes()).map_err(Error::io("write", &self.path))
    }
}

/// The line of an epoch; before the first one, the names of the columns. Names of scores are words without commas.
fn lines(record: &EpochRecord, scores: &mut Option<Vec<String>>) -> String {
    let mut text = String::new();
    let names = scores.get_or_insert_with(|| {
        let names: Vec<String> = record.validation.names().map(String::from).collect();
        text += "epoch,train_loss,learning_rate,best,seconds";
        names.iter().for_each(|name| text += &format!(",validation_{name}"));
        text.push('\n');
        names
    });
    let EpochRecord { epoch, train_loss, learning_rate, best, seconds, .. } = record;
    text += &format!("{epoch},{train_loss},{learning_rate},{best},{seconds}");
    for name in names {
        text += &record.validation.get(name).map_or(",".into(), |value| format!(",{value}"));
    }
    text + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::loss::Scores;

    fn record(epoch: usize, auc: Option<f64>) -> EpochRecord {
        EpochRecord {
            epoch,
            train_loss: 0.1 + 0.2,
            validation: Scores::new([("accuracy", Some(0.5)), ("roc_auc", auc)]),
            learning_rate: 1e-3,
            best: epoch == 1,
            seconds: 1.5,
        }
    }

    #[test]
    fn epochs_become_lines_whether_logged_before_or_now() {
        let home = tempfile::tempdir().unwrap();
        let read = || std::fs::read_to_string(home.path().join(FILE)).unwrap();
        let expected = "epoch,train_loss,learning_rate,best,seconds,validation_accuracy,validation_roc_auc\n\
                        1,0.30000000000000004,0.001,true,1.5,0.5,0.75\n2,0.30000000000000004,0.001,false,1.5,0.5,\n";
        let mut csv = Csv::begin(home.path(), &[]).unwrap();
        csv.add(&record(1, Some(0.75))).unwrap();
        csv.add(&record(2, None)).unwrap();
        assert_eq!(read(), expected);
        csv.add(&record(3, None)).unwrap();
        // A run that goes on after epoch 1: what was behind it is gone.
        let mut csv = Csv::begin(home.path(), &[record(1, Some(0.75))]).unwrap();
        csv.add(&record(2, None)).unwrap();
        assert_eq!(read(), expected);
    }
}
