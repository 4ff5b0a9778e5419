//! The files of a study: everything as JSON, numbers as CSV, tables as Markdown, pictures and the page.

use super::{page, picture};
use crate::cli::reading::{number, table};
use crate::cli::version;
use crate::studies::paper::{Cell, Findings, Number, Outcome, Size, Study, Table};
use harmonia_graph::error::Result;
use harmonia_graph::files;
use serde_json::{Value, json};
use std::path::Path;

/// `results.json`, and what `--json` prints.
pub fn json(study: &dyn Study, size: Size, outcome: &Outcome) -> Value {
    let records: Vec<Value> =
        outcome.records.iter().map(|(key, record)| json!({ "key": key, "record": record })).collect();
    json!({
        "study": study.name(),
        "source": study.source(),
        "size": size.name(),
        "program": version::SHORT,
        "job_seconds": outcome.seconds,
        "tables": outcome.findings.tables,
        "claims": outcome.findings.claims,
        "figures": outcome.findings.figures,
        "records": records,
    })
}

/// Writes all files.
///
/// # Errors
/// The disk is full or not writable.
pub fn write(directory: &Path, study: &dyn Study, size: Size, outcome: &Outcome, results: &Value) -> Result<()> {
    let findings = &outcome.findings;
    let put = |name: &str, text: &str| files::write_atomic(&directory.join(name), text.as_bytes());
    for figure in &findings.figures {
        put(&format!("{}.svg", figure.name), &picture::svg(figure))?;
    }
    put("results.csv", &csv(&findings.tables))?;
    put("results.md", &markdown(study, size, findings))?;
    put("index.html", &page::html(study, size, findings))?;
    put("results.json", &format!("{results:#}\n"))
}

/// Ours, as shown.
pub fn ours(shown: &Number) -> String {
    let digits = |value: f64| match shown.decimals {
        Some(decimals) => format!("{:.decimals$}", value + 0.0),
        None => number(value),
    };
    match (shown.value, shown.spread) {
        (Some(value), Some(spread)) => format!("{} ± {}", digits(value), digits(spread)),
        (Some(value), None) => digits(value),
        (None, _) => "–".into(),
    }
}

/// The paper's, as shown; none where it has none.
pub fn papers(shown: &Number) -> Option<String> {
    let paper = shown.paper?;
    Some(ours(&Number { value: Some(paper), spread: shown.paper_spread, ..*shown }))
}

/// A cell, the paper's figure in brackets.
pub fn cell(cell: &Cell) -> String {
    match cell {
        Cell::Text(text) => text.clone(),
        Cell::Number(shown) => match papers(shown) {
            Some(paper) => format!("{} ({paper})", ours(shown)),
            None => ours(shown),
        },
    }
}

fn has_papers(table: &Table) -> bool {
    let in_brackets = |cell: &Cell| matches!(cell, Cell::Number(Number { paper: Some(_), .. }));
    table.rows.iter().flatten().any(in_brackets)
}

/// A line per number: what it is of, ours and the paper's.
fn csv(tables: &[Table]) -> String {
    let quoted = |text: &str| match text.contains([',', '"', '\n']) {
        true => format!("\"{}\"", text.replace('"', "\"\"")),
        false => text.to_string(),
    };
    let shown = |value: Option<f64>| value.map_or(String::new(), |value| value.to_string());
    let mut out = String::from("table,row,column,value,spread,paper,paper_spread\n");
    for table in tables {
        for row in &table.rows {
            let words: Vec<&str> = row
                .iter()
                .filter_map(|cell| match cell {
                    Cell::Text(text) if !text.is_empty() => Some(text.as_str()),
                    _ => None,
                })
                .collect();
            let row_name = quoted(&words.join(", "));
            for (column, cell) in table.head.iter().zip(row) {
                if let Cell::Number(number) = cell {
                    let values = [number.value, number.spread, number.paper, number.paper_spread].map(shown);
                    out += &format!("{},{row_name},{},{}\n", table.name, quoted(column), values.join(","));
                }
            }
        }
    }
    out
}

fn markdown(study: &dyn Study, size: Size, findings: &Findings) -> String {
    let mut out = format!("# {}\n\n{} ({}), size {}.\n", study.name(), study.about(), study.source(), size.name());
    for table in &findings.tables {
        let line = |cells: Vec<String>| format!("| {} |\n", cells.join(" | ").replace('\n', " "));
        out += &format!("\n## {}\n\n", table.title);
        out += &line(table.head.clone());
        out += &format!("|{}\n", "---|".repeat(table.head.len()));
        table.rows.iter().for_each(|row| out += &line(row.iter().map(cell).collect()));
        let brackets = if has_papers(table) { "In brackets: the paper. " } else { "" };
        out += &format!("\n{brackets}{}\n", table.note);
    }
    if !findings.claims.is_empty() {
        out += "\n## Claims\n\n";
        for claim in &findings.claims {
            let kind = if claim.theorem { "proven" } else { "reported" };
            let verdict = if claim.holds { "holds" } else { "DOES NOT HOLD" };
            out += &format!("- {verdict} ({kind}): {}; {}\n", claim.text, claim.detail);
        }
    }
    for figure in &findings.figures {
        out += &format!("\n![{}]({}.svg)\n", figure.title, figure.name);
    }
    out
}

/// For a terminal.
pub fn text(findings: &Findings) -> String {
    let mut out = String::new();
    for shown in &findings.tables {
        let brackets = if has_papers(shown) { " (in brackets: the paper)" } else { "" };
        out += &format!("{}{brackets}\n", shown.title);
        let words = |row: &Vec<Cell>| row.iter().take_while(|cell| matches!(cell, Cell::Text(_))).count();
        let left = shown.rows.iter().map(words).min().unwrap_or(0);
        let rows = shown.rows.iter().map(|row| row.iter().map(cell).collect());
        let rows: Vec<Vec<String>> = [shown.head.clone()].into_iter().chain(rows).collect();
        out += &table(&rows, left);
        out.push('\n');
    }
    for claim in &findings.claims {
        let kind = if claim.theorem { "proven" } else { "reported" };
        let verdict = if claim.holds { "holds" } else { "DOES NOT HOLD" };
        out += &format!("{verdict} ({kind}): {}; {}\n", claim.text, claim.detail);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn example() -> Table {
        let measured = Number {
            value: Some(0.25),
            spread: Some(0.01),
            paper: Some(0.3),
            paper_spread: Some(0.02),
            decimals: Some(3),
        };
        let unmeasured = Number { value: None, spread: None, ..measured };
        Table {
            name: "example",
            title: "Example".into(),
            head: ["model", "error, all"].map(String::from).to_vec(),
            rows: vec![
                vec![Cell::text("a \"b\""), Cell::Number(measured)],
                vec![Cell::text("c"), Cell::Number(unmeasured)],
            ],
            note: String::new(),
        }
    }

    #[test]
    fn the_papers_figures_stand_beside_ours() {
        let table = example();
        assert_eq!(cell(&table.rows[0][1]), "0.250 ± 0.010 (0.300 ± 0.020)");
        assert_eq!(cell(&table.rows[1][1]), "– (0.300 ± 0.020)");
        assert_eq!(cell(&Cell::number(-0.0, 1)), "0.0");
        assert_eq!(
            csv(&[table]),
            "table,row,column,value,spread,paper,paper_spread\n\
             example,\"a \"\"b\"\"\",\"error, all\",0.25,0.01,0.3,0.02\n\
             example,c,\"error, all\",,,0.3,0.02\n"
        );
    }
}
