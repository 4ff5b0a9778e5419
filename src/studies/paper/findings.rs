//! What a study finds: tables with the paper's figures beside ours, pictures, and claims that hold or do not.
//!
//! Nothing here is formatted; a table in Markdown, a picture or a page is made elsewhere.

use serde::Serialize;

/// Everything a study says.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Findings {
    /// Ours and the paper's.
    pub tables: Vec<Table>,
    /// Pictures.
    pub figures: Vec<Figure>,
    /// What theory promises, and what was expected.
    pub claims: Vec<Claim>,
}

/// A table.
#[derive(Clone, Debug, Serialize)]
pub struct Table {
    /// For files: a word.
    pub name: &'static str,
    /// For people.
    pub title: String,
    /// Names of the columns.
    pub head: Vec<String>,
    /// As many cells each as the head.
    pub rows: Vec<Vec<Cell>>,
    /// How it was measured, and where that differs from the paper.
    pub note: String,
}

/// A cell of a table.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(untagged)]
pub enum Cell {
    /// What a row is about.
    Text(String),
    /// What was measured.
    Number(Number),
}

/// A measured number and the paper's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Number {
    /// Ours; none where it was not measured.
    pub value: Option<f64>,
    /// Its standard deviation.
    pub spread: Option<f64>,
    /// The paper's; none where it prints none.
    pub paper: Option<f64>,
    /// The deviation the paper prints.
    pub paper_spread: Option<f64>,
    /// Digits behind the point; none: as many as tell it, powers of ten where it is large or small.
    #[serde(skip)]
    pub decimals: Option<usize>,
}

impl Cell {
    /// A word.
    pub fn text(text: impl Into<String>) -> Cell {
        Cell::Text(text.into())
    }

    /// Nothing.
    pub fn empty() -> Cell {
        Cell::text("")
    }

    /// A whole number.
    pub fn count(value: impl Into<u64>) -> Cell {
        Cell::number(value.into() as f64, 0)
    }

    /// A number with so many digits behind the point.
    pub fn number(value: f64, decimals: usize) -> Cell {
        Cell::Number(Number { value: Some(value), decimals: Some(decimals), ..Number::default() })
    }

    /// A number of any size.
    pub fn any(value: f64) -> Cell {
        Cell::Number(Number { value: Some(value), ..Number::default() })
    }

    /// A mean and its deviation; nothing where nothing was measured.
    pub fn spread(of: Option<Spread>, decimals: usize) -> Cell {
        Cell::Number(Number {
            value: of.map(|spread| spread.mean),
            spread: of.and_then(|spread| spread.deviation),
            decimals: Some(decimals),
            ..Number::default()
        })
    }

    /// The same beside the paper's.
    pub fn beside(self, paper: Option<f64>, paper_spread: Option<f64>) -> Cell {
        match self {
            Cell::Number(number) => Cell::Number(Number { paper, paper_spread, ..number }),
            text => text,
        }
    }
}

/// Mean and sample standard deviation.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Spread {
    /// The mean.
    pub mean: f64,
    /// None of a single value.
    pub deviation: Option<f64>,
}

impl Spread {
    /// Of some values; none where there is none.
    pub fn of(values: &[f64]) -> Option<Spread> {
        let count = values.len() as f64;
        let mean = values.iter().sum::<f64>() / count;
        let squares: f64 = values.iter().map(|value| (value - mean) * (value - mean)).sum();
        let deviation = (values.len() > 1).then(|| (squares / (count - 1.0)).sqrt());
        (!values.is_empty()).then_some(Spread { mean, deviation })
    }

    /// As the paper aggregates: means of the values that have a group in common, then mean and deviation of those means.
    pub fn of_groups<G: PartialEq>(values: &[(G, f64)]) -> Option<Spread> {
        let mut groups: Vec<(&G, Vec<f64>)> = Vec::new();
        for (group, value) in values {
            match groups.iter_mut().find(|(known, _)| *known == group) {
                Some((_, values)) => values.push(*value),
                None => groups.push((group, vec![*value])),
            }
        }
        let means: Vec<f64> =
            groups.iter().map(|(_, values)| values.iter().sum::<f64>() / values.len() as f64).collect();
        Spread::of(&means)
    }
}

/// A picture.
#[derive(Clone, Debug, Serialize)]
pub struct Figure {
    /// For files: a word.
    pub name: &'static str,
    /// For people.
    pub title: String,
    /// What is drawn.
    pub drawing: Drawing,
}

/// What a picture shows.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "lowercase", tag = "kind")]
pub enum Drawing {
    /// Curves and dots.
    Plot {
        /// From left to right.
        x: Axis,
        /// From below to above.
        y: Axis,
        /// What is drawn, in the order of the legend.
        series: Vec<Series>,
    },
    /// A value for every row and column, darker where it is larger.
    Grid {
        /// Their names, from above.
        rows: Vec<String>,
        /// Their names, from the left.
        columns: Vec<String>,
        /// rows x columns.
        values: Vec<Vec<f64>>,
        /// Digits behind the point.
        decimals: usize,
    },
}

/// An axis.
#[derive(Clone, Debug, Serialize)]
pub struct Axis {
    /// What it shows.
    pub label: String,
    /// By powers of ten; values that are not above zero are left out.
    pub logarithmic: bool,
}

impl Axis {
    /// Equal steps.
    pub fn linear(label: impl Into<String>) -> Axis {
        Axis { label: label.into(), logarithmic: false }
    }

    /// By powers of ten.
    pub fn logarithmic(label: impl Into<String>) -> Axis {
        Axis { label: label.into(), logarithmic: true }
    }
}

/// Points that belong together.
#[derive(Clone, Debug, Serialize)]
pub struct Series {
    /// In the legend.
    pub name: String,
    /// (x, y).
    pub points: Vec<[f64; 2]>,
    /// How they are drawn.
    pub style: Style,
}

/// How points are drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Style {
    /// Joined.
    Line,
    /// Joined by dashes: a bound, or a reference.
    Dashed,
    /// One by one.
    Dots,
}

/// A sentence that is true or not.
#[derive(Clone, Debug, Serialize)]
pub struct Claim {
    /// The sentence.
    pub text: String,
    /// Whether it is true of these records.
    pub holds: bool,
    /// The number it rests on.
    pub detail: String,
    /// Proven: where it does not hold, the program is wrong. Else: what the paper reports, which other data may contradict.
    pub theorem: bool,
}

impl Claim {
    /// What theory promises.
    pub fn theorem(text: impl Into<String>, holds: bool, detail: impl Into<String>) -> Claim {
        Claim { text: text.into(), holds, detail: detail.into(), theorem: true }
    }

    /// What the paper reports.
    pub fn reported(text: impl Into<String>, holds: bool, detail: impl Into<String>) -> Claim {
        Claim { text: text.into(), holds, detail: detail.into(), theorem: false }
    }
}

#[cfg(test)]
mod tests {
    use super::Spread;

    #[test]
    fn groups_count_once_however_many_values_they_have() {
        let values = [(0, 1.0), (0, 2.0), (0, 3.0), (1, 6.0), (2, 4.0)];
        let spread = Spread::of_groups(&values).unwrap();
        // Means 2, 6 and 4.
        assert_eq!((spread.mean, spread.deviation), (4.0, Some(2.0)));
        assert_eq!(Spread::of(&[3.0]), Some(Spread { mean: 3.0, deviation: None }));
        assert_eq!(Spread::of(&[]), None);
    }
}
