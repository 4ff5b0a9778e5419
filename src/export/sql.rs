//! A model as an SQL script: responses as pieces of lines, hops as joins.
//!
//! What a feature adds where it is 0 does not depend on the data and is part of the intercept; so a value that is not listed is
//! 0, and sparse features stay so. Written for SQLite; nothing in it is beyond SQL of 1999 but temporary tables and `ln`.

use super::lines_of;
use crate::explain::Shape;
use crate::runs::SavedModel;
use harmonia_graph::dataset::{ColumnKind, Level, MISSING, Scaling, Structure, StructureWord, TableColumn};
use harmonia_graph::error::{Error, Result};
use std::fmt::Write;

/// Rows of one INSERT.
const ROWS: usize = 200;

/// The script.
///
/// # Errors
/// Responses that are smooth, or structural features that would take a program.
pub fn to_sql(saved: &SavedModel) -> Result<String> {
    let SavedModel { metadata, model, factors, .. } = saved;
    let (d, hops, outputs) = (factors.features(), factors.hops(), factors.outputs());
    let shapes = lines_of(saved, "SQL")?;
    let mut out = String::from(INPUT);
    let graphs = metadata.level == Some(Level::Graph);
    if graphs {
        out += "-- Nodes have a column graph as well: a prediction is of a graph.\n";
    }
    table(
        &mut out,
        "harmonia_piece",
        "feature INTEGER, low REAL, high REAL, slope REAL, intercept REAL",
        pieces(&shapes),
    );
    let weights = (0..d)
        .flat_map(|k| (0..hops).map(move |t| (k, t)))
        .map(|(k, t)| format!("{k}, {t}, {}", real(factors.theta(t, k))));
    table(&mut out, "harmonia_hop", "feature INTEGER, hop INTEGER, weight REAL", weights);
    let readout = (0..d).flat_map(|k| (0..outputs).map(move |o| (k, o)));
    let readout = readout.map(|(k, o)| format!("{k}, {o}, {}", real(factors.weight[k * outputs + o])));
    table(&mut out, "harmonia_readout", "feature INTEGER, output INTEGER, weight REAL", readout);
    // Per node; of a graph task every node brings the constant of its features.
    let constant = |o: usize| -> f64 {
        let of = |k: usize| factors.weight[k * outputs + o] * factors.total_theta(k) * shapes[k].value(0.0);
        (0..d).map(of).sum()
    };
    let name = |o: usize| {
        let class = if outputs == 1 && metadata.class_names.len() == 2 { 1 } else { o };
        text(metadata.class_names.get(class).map_or("", String::as_str))
    };
    let rows = (0..outputs).map(|o| format!("{o}, {}, {}, {}", name(o), real(factors.bias[o]), real(constant(o))));
    table(&mut out, "harmonia_output", "output INTEGER, class TEXT, bias REAL, constant REAL", rows);

    out += "\n-- Features: what is not listed is 0.\n";
    out += "DROP TABLE IF EXISTS harmonia_x;\nCREATE TEMP TABLE harmonia_x (node, feature INTEGER, x REAL, CONSTRAINT \
            \"expected numbers and dates where the model reads them, missing ones only where it has seen such\" CHECK (typeof(x) = \
            'real'));\n";
    let schema = metadata.table();
    for (column, range) in schema.columns.iter().zip(schema.ranges()) {
        cells(&mut out, column, range.start);
    }
    edges(&mut out, metadata.weighted, metadata.directed);
    if let Some(structure) = &model.structure {
        structural(&mut out, structure)?;
    }
    if let Some(Scaling::Rows) = &model.scaling {
        let own = metadata.own_features();
        let _ = write!(
            out,
            "DROP TABLE IF EXISTS harmonia_sum;\nCREATE TEMP TABLE harmonia_sum AS SELECT node, SUM(x) AS total FROM harmonia_x \
             WHERE feature < {own} GROUP BY node;\nCREATE UNIQUE INDEX temp.harmonia_sum_node ON harmonia_sum (node);\n\
             UPDATE harmonia_x SET x = x / (SELECT total FROM harmonia_sum s WHERE s.node = harmonia_x.node)\n  WHERE feature < {own} \
             AND (SELECT total FROM harmonia_sum s WHERE s.node = harmonia_x.node) <> 0;\n"
        );
    }
    walk(&mut out, model.walk.self_loops, model.walk.lazy);
    sums(&mut out, hops);
    out += if graphs { OF_GRAPHS } else { OF_NODES };
    Ok(out)
}

const INPUT: &str = "\
-- A trained HARMONIA model for SQLite: sqlite3 -bail data.db < this file.
-- Reads nodes (id, and the columns of the model) and edges (source, target, and weight where the model knows weights).
-- Leaves the temporary table harmonia_prediction (id, output, class, logit); of a regression, logit is the number.

";

const OF_NODES: &str = "
DROP TABLE IF EXISTS harmonia_prediction;
CREATE TEMP TABLE harmonia_prediction AS
  SELECT n.id AS id, o.output AS output, o.class AS class, o.bias + o.constant + COALESCE(s.value, 0) AS logit
  FROM nodes n CROSS JOIN harmonia_output o LEFT JOIN harmonia_s0 s ON s.node = n.id AND s.output = o.output;
SELECT id, class, logit FROM harmonia_prediction ORDER BY id, output;
";

const OF_GRAPHS: &str = "
DROP TABLE IF EXISTS harmonia_prediction;
CREATE TEMP TABLE harmonia_prediction AS
  SELECT n.graph AS id, o.output AS output, o.class AS class,
         o.bias + SUM(o.constant + COALESCE(s.value, 0)) AS logit
  FROM nodes n CROSS JOIN harmonia_output o LEFT JOIN harmonia_s0 s ON s.node = n.id AND s.output = o.output
  GROUP BY n.graph, o.output, o.class, o.bias;
SELECT id, class, logit FROM harmonia_prediction ORDER BY id, output;
";

/// A number that reads back as it is.
fn real(value: f64) -> String {
    match value {
        f64::INFINITY => "9e999".into(),
        f64::NEG_INFINITY => "-9e999".into(),
        value => format!("{value:e}"),
    }
}

fn text(value: &str) -> String {
    format!("'{}'", value.replace('\'', "''"))
}

/// A name of a column.
fn name(value: &str) -> String {
    format!("\"{}\"", value.replace('"', "\"\""))
}

fn table(out: &mut String, called: &str, columns: &str, rows: impl Iterator<Item = String>) {
    // Writing to a string cannot fail.
    let _ = write!(out, "DROP TABLE IF EXISTS {called};\nCREATE TEMP TABLE {called} ({columns});\n");
    let rows: Vec<String> = rows.map(|row| format!("({row})")).collect();
    for part in rows.chunks(ROWS) {
        let _ = writeln!(out, "INSERT INTO {called} VALUES\n  {};", part.join(",\n  "));
    }
}

/// Lines of f(x) - f(0), each from its low end to below its high end.
fn pieces(shapes: &[Shape]) -> impl Iterator<Item = String> + '_ {
    shapes.iter().enumerate().flat_map(|(k, shape)| {
        let zero = shape.value(0.0);
        let ends: Vec<f64> = shape.knots.iter().map(|knot| knot[0]).collect();
        (0..=ends.len()).map(move |at| {
            let low = at.checked_sub(1).map_or(f64::NEG_INFINITY, |below| ends[below]);
            let high = ends.get(at).copied().unwrap_or(f64::INFINITY);
            let slope = shape.slope_before(at);
            let [x, f] = shape.knots[at.min(ends.len() - 1)];
            format!("{k}, {}, {}, {}, {}", real(low), real(high), real(slope), real(f - slope * x - zero))
        })
    })
}

/// The features of a column of the table.
fn cells(out: &mut String, column: &TableColumn, first: usize) {
    let cell = name(&column.name);
    let word = format!("LOWER(TRIM(CAST({cell} AS TEXT)))");
    let gaps = MISSING.iter().map(|word| text(word)).collect::<Vec<_>>().join(", ");
    let absent = format!("{cell} IS NULL OR {word} IN ('', {gaps})");
    let listed = |values: &[String]| values.iter().map(|value| text(value)).collect::<Vec<_>>().join(", ");
    let value = match column.kind {
        ColumnKind::Category => {
            for (at, value) in column.values.iter().enumerate() {
                let _ = writeln!(
                    out,
                    "INSERT INTO harmonia_x SELECT id, {}, 1.0 FROM nodes WHERE CAST({cell} AS TEXT) = {};",
                    first + at,
                    text(value)
                );
            }
            if column.gaps {
                let _ = writeln!(
                    out,
                    "INSERT INTO harmonia_x SELECT id, {}, 1.0 FROM nodes WHERE {cell} IS NULL OR CAST({cell} AS TEXT) NOT IN ({});",
                    first + column.values.len(),
                    listed(&column.values)
                );
            }
            return;
        }
        // A cast makes 0 of a word that is no number: it stays a word, which harmonia_x refuses.
        ColumnKind::Number | ColumnKind::Boolean => format!(
            "CASE WHEN {absent} THEN NULL WHEN {word} = 'true' THEN 1.0 WHEN {word} = 'false' THEN 0.0 WHEN {word} GLOB \
             '*[^0-9.e+-]*' OR {word} NOT GLOB '*[0-9]*' THEN {word} ELSE CAST({cell} AS REAL) END"
        ),
        ColumnKind::Date => {
            format!("CASE WHEN {absent} THEN NULL ELSE COALESCE(julianday({cell}) - 2440587.5, {word}) END")
        }
        ColumnKind::Ordered => {
            let places =
                column.values.iter().enumerate().map(|(at, value)| format!(" WHEN {} THEN {at}.0", text(value)));
            format!("CASE CAST({cell} AS TEXT){} END", places.collect::<String>())
        }
    };
    let median = if column.median.is_finite() { real(f64::from(column.median)) } else { "NULL".into() };
    let _ = writeln!(
        out,
        "INSERT INTO harmonia_x SELECT id, {first}, x FROM (SELECT id, COALESCE({value}, {median}) AS x FROM nodes) WHERE x IS NULL OR x <> 0;"
    );
    if column.gaps {
        let _ =
            writeln!(out, "INSERT INTO harmonia_x SELECT id, {}, 1.0 FROM nodes WHERE ({value}) IS NULL;", first + 1);
    }
}

/// Every pair once; both ways unless edges have a direction, or weighted ones are listed both ways already.
fn edges(out: &mut String, weighted: bool, directed: bool) {
    let weight = if weighted { "SUM(1.0 * weight)" } else { "1.0" };
    let back = match (directed, weighted) {
        (true, _) => "",
        (false, false) => "\n  UNION SELECT target, source, weight FROM harmonia_listed",
        (false, true) => {
            "\n  UNION ALL SELECT target, source, weight FROM harmonia_listed WHERE source <> target AND EXISTS (\n    \
             SELECT 1 FROM harmonia_listed a WHERE NOT EXISTS (\n      \
             SELECT 1 FROM harmonia_listed b WHERE b.source = a.target AND b.target = a.source AND b.weight = a.weight))"
        }
    };
    let _ = write!(
        out,
        "\n-- Edges, then the walk M = D^-1 A.\nDROP TABLE IF EXISTS harmonia_listed;\nCREATE TEMP TABLE harmonia_listed AS\n  SELECT \
         source, target, {weight} AS weight FROM edges GROUP BY source, target;\nCREATE UNIQUE INDEX temp.harmonia_listed_pair ON \
         harmonia_listed (source, target);\nDROP TABLE IF EXISTS harmonia_edge;\nCREATE TEMP TABLE harmonia_edge AS\n  SELECT source, \
         target, SUM(weight) AS weight FROM (\n  SELECT source, target, weight FROM harmonia_listed{back})\n  GROUP BY source, target;\n"
    );
}

/// Columns that follow from the graph.
fn structural(out: &mut String, structure: &Structure) -> Result<()> {
    let mut next = structure.features();
    *out += "DROP TABLE IF EXISTS harmonia_degree;\nCREATE TEMP TABLE harmonia_degree AS\n  SELECT n.id AS node, COUNT(e.target) AS \
             degree FROM nodes n LEFT JOIN harmonia_edge e ON e.source = n.id AND e.target <> n.id GROUP BY n.id;\n";
    for word in structure.asked() {
        let value = match word {
            StructureWord::Degree => "1.0 * degree",
            StructureWord::LogDegree => "ln(1.0 + degree)",
            StructureWord::Bias => "1.0",
            StructureWord::LabelByDegree => {
                let last = Structure::LAST_BUCKET;
                for (k, bucket) in structure.kept() {
                    let _ = writeln!(
                        out,
                        "INSERT INTO harmonia_x SELECT x.node, {next}, x.x FROM harmonia_x x JOIN harmonia_degree g ON g.node = x.node \
                         WHERE x.feature = {k} AND MIN(g.degree, {last}) = {bucket};"
                    );
                    next += 1;
                }
                continue;
            }
            StructureWord::Returns | StructureWord::LogReturns | StructureWord::Triangles => {
                return Err(Error::Data(format!(
                    "the structural feature {} would take a program: it cannot be written as SQL; export python does",
                    word.name()
                )));
            }
        };
        let _ = writeln!(out, "INSERT INTO harmonia_x SELECT node, {next}, {value} FROM harmonia_degree;");
        next += 1;
    }
    Ok(())
}

fn walk(out: &mut String, self_loops: bool, lazy: bool) {
    *out +=
        "INSERT INTO harmonia_edge SELECT id, id, 1.0 FROM nodes WHERE id NOT IN (SELECT source FROM harmonia_edge);\n";
    if self_loops {
        *out += "INSERT INTO harmonia_edge SELECT id, id, 1.0 FROM nodes WHERE id NOT IN\n  (SELECT source FROM harmonia_edge WHERE \
                 source = target);\n";
    }
    let (share, stay) = if lazy { ("0.5 * ", "\n  UNION ALL SELECT id, id, 0.5 FROM nodes") } else { ("", "") };
    let _ = write!(
        out,
        "DROP TABLE IF EXISTS harmonia_walk;\nCREATE TEMP TABLE harmonia_walk AS\n  SELECT e.source AS source, e.target AS target, \
         {share}e.weight / d.total AS p\n  FROM harmonia_edge e JOIN (SELECT source, SUM(weight) AS total FROM harmonia_edge GROUP BY \
         source) d ON d.source = e.source{stay};\nCREATE INDEX temp.harmonia_walk_target ON harmonia_walk (target);\n"
    );
}

/// The sum over features, then one hop after the other, the longest walks first.
fn sums(out: &mut String, hops: usize) {
    *out += "
-- Responses, and what they add by hop and output.
CREATE INDEX temp.harmonia_piece_feature ON harmonia_piece (feature, low);
CREATE INDEX temp.harmonia_readout_feature ON harmonia_readout (feature);
CREATE INDEX temp.harmonia_hop_feature ON harmonia_hop (feature);
DROP TABLE IF EXISTS harmonia_term;
CREATE TEMP TABLE harmonia_term AS
  SELECT x.node AS node, h.hop AS hop, r.output AS output, SUM((p.slope * x.x + p.intercept) * h.weight * r.weight) AS value
  FROM harmonia_x x JOIN harmonia_piece p ON p.feature = x.feature AND x.x >= p.low AND x.x < p.high
  JOIN harmonia_hop h ON h.feature = x.feature JOIN harmonia_readout r ON r.feature = x.feature
  GROUP BY x.node, h.hop, r.output;
";
    for hop in (0..hops).rev() {
        let farther = match hop + 1 == hops {
            true => String::new(),
            false => format!(
                "\n    UNION ALL SELECT w.source, s.output, w.p * s.value FROM harmonia_s{} s JOIN harmonia_walk w ON w.target = s.node",
                hop + 1
            ),
        };
        let _ = write!(
            out,
            "DROP TABLE IF EXISTS harmonia_s{hop};\nCREATE TEMP TABLE harmonia_s{hop} AS SELECT node, output, SUM(value) AS value FROM (\n    \
             SELECT node, output, value FROM harmonia_term WHERE hop = {hop}{farther})\n  GROUP BY node, output;\n"
        );
    }
}
