//! `index.html`: tables and pictures of a study in one file that loads nothing.

use super::picture;
use super::writing::{ours, papers};
use crate::cli::xml::escape;
use crate::studies::paper::{Cell, Findings, Size, Study, Table};

const STYLE: &str = "body{font:15px/1.5 system-ui,sans-serif;max-width:70rem;margin:2rem auto;padding:0 1rem;color:#222}\
table{border-collapse:collapse;margin:1rem 0}td,th{padding:.25rem .7rem;border-bottom:1px solid #ddd;text-align:right}\
td:first-child,th:first-child{text-align:left}.paper{color:#888;display:block;font-size:85%}.note{color:#555}\
.holds::before{content:'\\2713  '}.broken{color:#b00}.broken::before{content:'\\2717  '}svg{max-width:100%;height:auto}";

/// The page.
pub fn html(study: &dyn Study, size: Size, findings: &Findings) -> String {
    let mut out = format!(
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>{0}: HARMONIA</title><style>{STYLE}</style></head>\n\
         <body><h1>{0}</h1><p>{1} ({2}), size {3}. Small and grey: the paper.</p>\n",
        escape(study.name()),
        escape(study.about()),
        escape(study.source()),
        size.name()
    );
    findings.tables.iter().for_each(|table| out += &of_table(table));
    if !findings.claims.is_empty() {
        out += "<h2>Claims</h2>\n<ul>\n";
        for claim in &findings.claims {
            let class = if claim.holds { "holds" } else { "broken" };
            let kind = if claim.theorem { "proven" } else { "reported" };
            out += &format!("<li class=\"{class}\">{} ({kind}): {}</li>\n", escape(&claim.text), escape(&claim.detail));
        }
        out += "</ul>\n";
    }
    for figure in &findings.figures {
        out += &format!("<h2>{}</h2>\n{}", escape(&figure.title), picture::svg(figure));
    }
    out + "</body></html>\n"
}

fn of_table(table: &Table) -> String {
    let mut out = format!("<h2>{}</h2>\n<table><tr>", escape(&table.title));
    table.head.iter().for_each(|name| out += &format!("<th>{}</th>", escape(name)));
    out += "</tr>\n";
    for row in &table.rows {
        out += "<tr>";
        for cell in row {
            out += &match cell {
                Cell::Text(text) => format!("<td>{}</td>", escape(text)),
                Cell::Number(shown) => {
                    let paper = papers(shown)
                        .map_or(String::new(), |paper| format!("<span class=\"paper\">{}</span>", escape(&paper)));
                    format!("<td>{}{paper}</td>", escape(&ours(shown)))
                }
            };
        }
        out += "</tr>\n";
    }
    out + &format!("</table>\n<p class=\"note\">{}</p>\n", escape(&table.note))
}
