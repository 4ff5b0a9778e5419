//! The words that choose structural features, and reading lists of them.

use crate::error::{Error, Result, one_line, suggestion};
use serde::{Deserialize, Deserializer, Serialize, de};

/// A kind of structural feature.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum StructureWord {
    /// Number of neighbours; of a directed graph, of nodes that it reads from. A self-loop is none.
    Degree,
    /// ln(1 + degree).
    LogDegree,
    /// (M^t)_ii for t = 2, 3, 4: the probability that a walk is back after t steps.
    Returns,
    /// ln((M^t)_ii + 1e-6) for the same t: returns of large graphs span orders of magnitude.
    LogReturns,
    /// ln(1 + triangles that the node is a corner of), edges taken both ways.
    Triangles,
    /// Every column of X once for every number of neighbours: x where the node has that many, else 0.
    LabelByDegree,
    /// 1 for every node: summed over a graph, its walks count nodes and degrees.
    Bias,
}

impl StructureWord {
    /// All of them.
    pub const ALL: [StructureWord; 7] = [
        StructureWord::Degree,
        StructureWord::LogDegree,
        StructureWord::Returns,
        StructureWord::LogReturns,
        StructureWord::Triangles,
        StructureWord::LabelByDegree,
        StructureWord::Bias,
    ];

    /// As settings have it.
    pub fn name(self) -> &'static str {
        match self {
            StructureWord::Degree => "degree",
            StructureWord::LogDegree => "log-degree",
            StructureWord::Returns => "returns",
            StructureWord::LogReturns => "log-returns",
            StructureWord::Triangles => "triangles",
            StructureWord::LabelByDegree => "label-by-degree",
            StructureWord::Bias => "bias",
        }
    }

    /// The word called so.
    ///
    /// # Errors
    /// There is none; the message has the closest.
    pub fn parse(text: &str) -> Result<StructureWord> {
        let names = StructureWord::ALL.map(StructureWord::name);
        StructureWord::ALL.into_iter().find(|word| word.name() == text).ok_or_else(|| {
            Error::Config(format!(
                "there is no structural feature `{}`, expected some of {}{}",
                one_line(text),
                names.join(", "),
                suggestion(text, names)
            ))
        })
    }

    /// Reads a list: an array, or one text with commas.
    ///
    /// # Errors
    /// Something else, or a word that does not exist.
    pub fn list<'de, D: Deserializer<'de>>(deserializer: D) -> std::result::Result<Vec<StructureWord>, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged, expecting = "expected words, as in degree,log-degree")]
        enum Given {
            Text(String),
            List(Vec<String>),
        }
        let words = match Given::deserialize(deserializer)? {
            Given::Text(text) => text
                .trim_matches(['[', ']'])
                .split(',')
                .map(|word| word.trim().to_string())
                .filter(|word| !word.is_empty())
                .collect(),
            Given::List(words) => words,
        };
        words.iter().map(|word| StructureWord::parse(word)).collect::<Result<_>>().map_err(de::Error::custom)
    }
}
