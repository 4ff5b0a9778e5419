//! `report.html`: one self-contained page about a run, for people. No script, no network.

mod data;

pub use data::*;

use crate::config::Config;
use crate::datasets::Dataset;
use crate::error::Result;
use crate::train::session::RunSummary;
use crate::train::{EpochRecord, Scores};
use std::fmt::Write;

const STYLE: &str = "\
:root{color-scheme:light dark;--line:#2b6cb0;--line2:#c05621;--rule:#8884}
body{font:16px/1.5 system-ui,sans-serif;max-width:56rem;margin:2rem auto;padding:0 1rem}
table{border-collapse:collapse}th,td{padding:.25rem .75rem;text-align:right;border-bottom:1px solid var(--rule)}
th:first-child,td:first-child{text-align:left}
pre{overflow-x:auto;padding:.75rem;border:1px solid var(--rule)}
svg{width:100%;height:auto}text{font-size:12px;fill:currentColor}
@media(prefers-color-scheme:dark){:root{--line:#63b3ed;--line2:#f6ad55}}";

/// The page.
///
/// # Errors
/// The configuration cannot be written as TOML.
pub fn html(dataset: &Dataset, config: &Config, summary: &RunSummary, history: &[EpochRecord]) -> Result<String> {
    let mut page = String::new();
    // Writing to a string cannot fail.
    let _ = body(&mut page, dataset, summary, history);
    let _ = write!(page, "<h2>Settings</h2>\n<pre>{}</pre>\n</main></body></html>\n", escape(&config.to_toml()?));
    Ok(page)
}

fn body(page: &mut String, dataset: &Dataset, summary: &RunSummary, history: &[EpochRecord]) -> std::fmt::Result {
    let name = escape(&dataset.name);
    writeln!(
        page,
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><meta name=\"viewport\" \
         content=\"width=device-width,initial-scale=1\"><title>HARMONIA: {name}, {run}</title>\
         <style>{STYLE}</style></head><body><main>\n<h1>{name}, {run}</h1>\n<p>{} nodes, {} directed edges, {} \
         features. {} parameters. Best epoch {} of {}{}, {:.1} s on {}.</p>",
        dataset.graph.nodes(),
        dataset.graph.directed_edges(),
        dataset.features.cols,
        summary.parameters,
        summary.best_epoch,
        summary.epochs,
        if summary.stopped_early { " (stopped early)" } else { "" },
        summary.seconds,
        escape(&summary.device),
        run = summary.name(),
    )?;
    writeln!(
        page,
        "<h2>Scores of the best epoch</h2>\n<table><tr><th>units</th><th>accuracy</th><th>ROC-AUC</th><th>negative log-likelihood</th><th>macro-F1</th></tr>"
    )?;
    for (part, scores) in [("test", &summary.test), ("validation", &summary.validation), ("train", &summary.train)] {
        score_row(page, part, scores)?;
    }
    writeln!(page, "</table>")?;
    if let Some(recovery) = &summary.recovery {
        writeln!(page, "<h2>What was found again of the generator</h2>\n<pre>{}</pre>", escape(&recovery.to_string()))?;
        if let Some(nll) = summary.generator_nll {
            writeln!(page, "<p>The generator's own test negative log-likelihood is {nll:.4}.</p>")?;
        }
    }
    writeln!(page, "<h2>Learning curves</h2>")?;
    let losses = [
        ("training loss", history.iter().map(|r| Some(r.train_loss)).collect::<Vec<_>>()),
        ("validation loss", history.iter().map(|r| r.validation.nll).collect()),
    ];
    chart(page, "Loss by epoch", &losses, summary.best_epoch)?;
    let scores = [
        ("validation accuracy", history.iter().map(|r| r.validation.accuracy).collect::<Vec<_>>()),
        ("validation ROC-AUC", history.iter().map(|r| r.validation.roc_auc).collect()),
    ];
    chart(page, "Validation scores by epoch", &scores, summary.best_epoch)
}

fn score_row(page: &mut String, part: &str, scores: &Scores) -> std::fmt::Result {
    let percent = |value: Option<f64>| value.map_or("–".into(), |value| format!("{:.2} %", 100.0 * value));
    writeln!(
        page,
        "<tr><td>{part}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td></tr>",
        percent(scores.accuracy),
        percent(scores.roc_auc),
        scores.nll.map_or("–".into(), |value| format!("{value:.4}")),
        percent(scores.macro_f1),
    )
}

/// Lines over epochs, with the best epoch marked.
fn chart(page: &mut String, title: &str, lines: &[(&str, Vec<Option<f64>>)], best_epoch: usize) -> std::fmt::Result {
    const WIDTH: f64 = 720.0;
    const HEIGHT: f64 = 220.0;
    // Margins, for labels.
    const LEFT: f64 = 56.0;
    const TOP: f64 = 24.0;
    const BOTTOM: f64 = 28.0;
    const COLORS: [&str; 2] = ["var(--line)", "var(--line2)"];
    let values: Vec<f64> = lines.iter().flat_map(|(_, line)| line.iter().flatten().copied()).collect();
    let epochs = lines.iter().map(|(_, line)| line.len()).max().unwrap_or(0);
    if values.is_empty() {
        return Ok(());
    }
    let low = values.iter().copied().fold(f64::INFINITY, f64::min);
    let high = values.iter().copied().fold(f64::NEG_INFINITY, f64::max).max(low + 1e-9);
    let x = |epoch: usize| LEFT + (WIDTH - LEFT - 8.0) * (epoch as f64 - 1.0) / (epochs.max(2) - 1) as f64;
    let y = |value: f64| TOP + (HEIGHT - TOP - BOTTOM) * (high - value) / (high - low);
    writeln!(page, "<figure><svg viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" aria-label=\"{title}\">")?;
    for value in [low, (low + high) / 2.0, high] {
        writeln!(
            page,
            "<line x1=\"{LEFT}\" x2=\"{WIDTH}\" y1=\"{0:.1}\" y2=\"{0:.1}\" stroke=\"var(--rule)\"/><text x=\"{1}\" y=\"{2:.1}\" text-anchor=\"end\">{value:.3}</text>",
            y(value),
            LEFT - 6.0,
            y(value) + 4.0
        )?;
    }
    writeln!(
        page,
        "<line x1=\"{0:.1}\" x2=\"{0:.1}\" y1=\"{TOP}\" y2=\"{1}\" stroke=\"currentColor\" stroke-dasharray=\"3 3\"/>\
         <text x=\"{LEFT}\" y=\"{2}\">1</text><text x=\"{3}\" y=\"{2}\" text-anchor=\"end\">{epochs}</text>",
        x(best_epoch.max(1)),
        HEIGHT - BOTTOM,
        HEIGHT - 8.0,
        WIDTH - 8.0
    )?;
    for ((name, line), (at, color)) in lines.iter().zip(COLORS.iter().enumerate()) {
        let points: Vec<String> = (line.iter().enumerate())
            .filter_map(|(epoch, value)| value.map(|value| format!("{:.1},{:.1}", x(epoch + 1), y(value))))
            .collect();
        writeln!(
            page,
            "<polyline fill=\"none\" stroke=\"{color}\" stroke-width=\"1.5\" points=\"{}\"/><text x=\"{}\" y=\"14\" style=\"fill:{color}\">{name}</text>",
            points.join(" "),
            LEFT + 160.0 * at as f64
        )?;
    }
    writeln!(page, "</svg><figcaption>{title}. The dashed line is the best epoch.</figcaption></figure>")
}

/// Names come from data: nothing in them may act as markup.
fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_cannot_act_as_markup() {
        assert_eq!(escape("<script>\"&"), "&lt;script&gt;&quot;&amp;");
    }

    #[test]
    fn a_chart_survives_one_epoch_and_no_validation() {
        let mut page = String::new();
        chart(&mut page, "t", &[("a", vec![Some(1.0)]), ("b", vec![None])], 1).unwrap();
        assert!(page.contains("polyline") && !page.contains("NaN"), "{page}");
        let mut empty = String::new();
        chart(&mut empty, "t", &[("a", vec![])], 0).unwrap();
        assert!(empty.is_empty());
    }
}
