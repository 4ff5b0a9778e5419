//! `harmonia shapes`: every feature as what it adds. Numbers by the exact knots of their response, or where it is smooth by points of it;
//! categories by value. A table, CSV, JSON or a picture; the data of training are not needed.

mod svg;

use super::output::OutputFile;
use super::predict::field;
use super::reading::{RunArgument, number, short, table};
use super::{say, voice};
use crate::answers::{NamedShape, shapes_json};
use crate::explain::FeatureShape;
use crate::explain::stability::Compared;
use crate::runs::{Names, ReadModel};
use clap::Args;
use harmonia_graph::error::Result;
use std::fmt::Write;
use std::path::PathBuf;
use svg::About;

pub const EXAMPLES: &str = "\
Examples:
  harmonia shapes runs/synthetic-1 --feature x19
      the knots of one response; of a category, what each of its values adds
  harmonia shapes runs/synthetic-1 --out shapes.svg
      all of them as pictures with axes, by importance; .csv and .json hold every knot
  harmonia shapes runs/synthetic-2 --json
      with several seeds, the band of effects over seeds as well";

#[derive(Args)]
pub struct Arguments {
    #[command(flatten)]
    run: RunArgument,
    /// Only this feature, by name or number; may be repeated
    #[arg(long, value_name = "NAME")]
    feature: Vec<String>,
    /// File to write, by its ending: .csv, .json or .svg; - is standard output, as CSV
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

pub fn run(arguments: &Arguments) -> Result<()> {
    arguments.run.with(|| shapes(arguments))
}

fn shapes(arguments: &Arguments) -> Result<()> {
    let out = match &arguments.out {
        Some(path) => {
            Some(OutputFile::new("--out", path, &["csv", "json", "svg"])?.beside_json("--out", arguments.json)?)
        }
        None => None,
    };
    let models = arguments.run.models(out.as_ref().is_some_and(|out| out.ending() == "svg"))?;
    let model = &models[0];
    let names = Names::of_model(&model.saved);
    let features: Vec<usize> = match arguments.feature.is_empty() {
        true => (0..model.saved.factors.groups().len()).collect(),
        false => arguments.feature.iter().map(|name| names.find_shown(name)).collect::<Result<_>>()?,
    };
    let compared: Vec<Compared<'_>> = models.iter().map(ReadModel::compared).collect();
    let known = model.measured.as_ref().map(|measured| &measured.columns[..]);
    let of = |&feature: &usize| NamedShape {
        name: names.group(feature),
        shape: FeatureShape::of(&compared, feature, names.column(feature), known),
    };
    let curves: Vec<NamedShape> = features.iter().map(of).collect();
    let outputs: Vec<String> = (0..model.saved.factors.outputs()).map(|output| names.output(output)).collect();
    let dataset = &model.saved.metadata.dataset;
    if let Some(out) = &out {
        out.write(&match out.ending() {
            "csv" => csv(&curves, &outputs),
            "json" => format!("{:#}\n", shapes_json(dataset, &curves, &outputs, models.len())),
            _ => picture(model, &names, &curves, &outputs),
        })?;
    }
    if let (Some(path), Some(false)) = (&arguments.out, out.as_ref().map(OutputFile::is_stdout)) {
        voice::line(format_args!("{} features written to {}", curves.len(), path.display()));
    }
    if arguments.json {
        return say(&format!("{:#}\n", shapes_json(dataset, &curves, &outputs, models.len())));
    }
    if arguments.out.is_some() {
        return Ok(());
    }
    say(&text(dataset, &curves, &outputs, models.len()))
}

/// One line per knot and per value; effects stand behind.
fn csv(curves: &[NamedShape], outputs: &[String]) -> String {
    let mut out = "feature,x,f,slope_right".to_string();
    outputs.iter().for_each(|output| out += &format!(",{}", field(&format!("adds({output})"))));
    out += "\n";
    for NamedShape { name, shape } in curves {
        let mut line = |x: &str, f: &str, slope: &str, effects: &[f64]| {
            // Writing to a string cannot fail.
            let _ = write!(out, "{},{},{f},{slope}", field(name), field(x));
            (0..outputs.len()).for_each(|output| {
                let _ = write!(out, ",{}", effects.get(output).map_or(String::new(), f64::to_string));
            });
            out += "\n";
        };
        if let Some(curve) = shape.curve.as_ref().filter(|_| !shape.is_by_value()) {
            // Of a smooth response nothing is said beyond its points.
            if curve.exact {
                line("-inf", "", &curve.left_slope.to_string(), &[]);
            }
            for (at, [x, f]) in curve.knots.iter().enumerate() {
                let last = if curve.exact { curve.right_slope.to_string() } else { String::new() };
                let slope = curve.knots.get(at + 1).map_or(last, |next| ((next[1] - f) / (next[0] - x)).to_string());
                let effects: Vec<f64> = (0..outputs.len()).map(|output| shape.effect(*x, output)).collect();
                line(&x.to_string(), &f.to_string(), &slope, &effects);
            }
        }
        shape.values.iter().for_each(|value| line(&value.name, "", "", &value.effects));
    }
    out
}

fn text(dataset: &str, curves: &[NamedShape], outputs: &[String], runs: usize) -> String {
    if let [curve] = curves {
        return one_text(dataset, curve, outputs);
    }
    let smooth = curves.iter().filter(|curve| curve.shape.curve.as_ref().is_some_and(|curve| !curve.exact)).count();
    let mut out = match smooth {
        0 => format!("{dataset}: {} features, their responses piecewise linear, exact\n\n", curves.len()),
        _ => format!("{dataset}: {} features, {smooth} of them smooth: points over the data\n\n", curves.len()),
    };
    let head = ["feature", "is", "from", "to", "lowest effect", "highest effect", "missing"];
    let missing = curves.iter().any(|curve| curve.shape.values.iter().any(|value| value.missing));
    let mut rows = vec![head[..head.len() - usize::from(!missing)].iter().map(ToString::to_string).collect::<Vec<_>>()];
    rows.extend(curves.iter().map(|curve| row(curve, missing)));
    out += &table(&rows, 2);
    let on = if outputs.len() > 1 { "on any class" } else { "on its one output" };
    out += &format!(
        "\neffects {on}, less their mean over the data; --feature NAME lists all of one, --out FILE.csv|.json|.svg of all\n"
    );
    if runs > 1 {
        out += &format!("{runs} runs: --json and .svg show the band of effects over them\n");
    }
    out
}

/// What a feature is, where its values lie, and how far it moves an output.
fn row(NamedShape { name, shape }: &NamedShape, missing: bool) -> Vec<String> {
    let outputs = 0..shape.weights.len();
    let by_value = shape.is_by_value();
    let effects: Vec<f64> = match by_value {
        true => shape.values.iter().filter(|value| !value.missing).flat_map(|value| value.effects.clone()).collect(),
        false => {
            let [low, high] = shape.range();
            let knots = shape.curve.iter().flat_map(|curve| curve.knots.iter().map(|knot| knot[0]));
            let points = [low, high].into_iter().chain(knots.filter(|x| *x > low && *x < high));
            points.flat_map(|x| outputs.clone().map(move |output| shape.effect(x, output))).collect()
        }
    };
    let [least, most] = effects.iter().fold([f64::INFINITY, f64::NEG_INFINITY], |[a, b], &f| [a.min(f), b.max(f)]);
    let (is, ends) = match (by_value, &shape.curve) {
        (true, _) => {
            let count = shape.values.iter().filter(|value| !value.missing).count();
            (format!("{count} values"), [String::new(), String::new()])
        }
        (false, Some(curve)) => {
            let known = shape.distribution.is_some();
            let ends = shape.range().map(|x| if known { number(x) } else { "?".into() });
            let what = if curve.exact { "knots" } else { "points" };
            let way = if outputs.len() == 1 { shape.direction(0) } else { None };
            (format!("{} {what}{}", curve.knots.len(), way.map_or(String::new(), |way| format!(", {way}"))), ends)
        }
        (false, None) => (String::new(), [String::new(), String::new()]),
    };
    let mut cells = vec![short(name), is];
    cells.extend(ends);
    cells.extend([number(least), number(most)]);
    if missing {
        let gap = shape.values.iter().find(|value| value.missing);
        let largest =
            gap.map(|gap| gap.effects.iter().fold(0.0, |most: f64, &f| if f.abs() > most.abs() { f } else { most }));
        cells.push(largest.map_or(String::new(), number));
    }
    cells
}

fn one_text(dataset: &str, NamedShape { name, shape }: &NamedShape, outputs: &[String]) -> String {
    let name = short(name);
    let mut out = String::new();
    if let Some(curve) = shape.curve.as_ref().filter(|_| !shape.is_by_value()) {
        out += &format!(
            "{dataset}, f of {name}{}: {} {}; {}mean response {}\n\n",
            shape.unit.map_or(String::new(), |unit| format!(" in {unit}")),
            curve.knots.len(),
            if curve.exact { "knots" } else { "points of a smooth curve" },
            shape.distribution.as_ref().map_or(String::new(), |known| {
                format!("data from {} to {}; ", number(known.range[0]), number(known.range[1]))
            }),
            number(shape.centre)
        );
        let mut rows = vec![["x", "f(x)"].map(String::from).to_vec()];
        rows.push(vec!["slope before".into(), number(curve.left_slope)]);
        rows.extend(curve.knots.iter().map(|[x, f]| vec![number(*x), number(*f)]));
        rows.push(vec!["slope after".into(), number(curve.right_slope)]);
        out += &table(&rows, 0);
        out += "\nreadout weights:";
        outputs.iter().zip(&shape.readout).for_each(|(name, w)| out += &format!(" {}: {}", short(name), number(*w)));
        out += "\n";
        for (output, name) in outputs.iter().enumerate() {
            if let Some(way) = shape.direction(output) {
                out += &format!("{} is {way} in it, on the whole line\n", short(name));
            }
        }
    } else {
        out += &format!("{dataset}, {name}: what each of its values adds, less the mean over the data\n");
    }
    if !shape.values.is_empty() {
        let mut rows = vec![["value", "nodes"].map(String::from).to_vec()];
        rows[0].extend(outputs.iter().map(|output| format!("adds to {}", short(output))));
        for value in &shape.values {
            let mut cells = vec![short(&value.name), value.count.map_or("?".into(), |count| count.to_string())];
            cells.extend(value.effects.iter().map(|&effect| number(effect)));
            rows.push(cells);
        }
        out += "\n";
        out += &table(&rows, 1);
    }
    out
}

/// The picture, with importances as `explain --global` has them: on the test units, or where there are none on all.
fn picture(model: &ReadModel, names: &Names<'_>, curves: &[NamedShape], outputs: &[String]) -> String {
    let factors = &model.saved.factors;
    let importance: Option<Vec<(f64, Vec<f64>)>> = model.importance().map(|measured| {
        let overall = measured.of_features(factors);
        let of =
            |feature: usize| (0..outputs.len()).map(|output| measured.of_feature(factors, feature, output)).collect();
        curves.iter().map(|curve| (overall[curve.shape.feature], of(curve.shape.feature))).collect()
    });
    let part = model.measured.as_ref().and_then(|measured| measured.importance.as_ref()).map(|known| &known.part[..]);
    let units = match part {
        Some("all") => "all".to_string(),
        Some(part) => format!("the {part}"),
        None => String::new(),
    };
    let about = About {
        dataset: &model.saved.metadata.dataset,
        outputs,
        importance: importance.as_deref(),
        measured: format!("to a {} of {units} {}s", names.quantity(), names.unit()),
    };
    let (text, shown, shown_outputs) = svg::svg(curves, &about);
    if shown < curves.len() {
        let all = curves.len();
        voice::note(format_args!(
            "the picture shows the {shown} most important of {all} features; .csv and .json hold all"
        ));
    }
    if shown_outputs < outputs.len() {
        let all = outputs.len();
        voice::note(format_args!(
            "the picture shows the first {shown_outputs} of {all} outputs; .json holds all weights"
        ));
    }
    text
}

/// A straight pair of lines for tests.
#[cfg(test)]
fn example(name: &str, knots: Vec<[f64; 2]>, slopes: [f64; 2], range: [f64; 2], weights: &[f64]) -> NamedShape {
    use crate::explain::{Distribution, Shape};
    NamedShape {
        name: name.into(),
        shape: FeatureShape {
            feature: 0,
            unit: None,
            columns: 4..5,
            curve: Some(Shape { knots, left_slope: slopes[0], right_slope: slopes[1], exact: true }),
            centre: 2.0,
            readout: weights.to_vec(),
            weights: weights.to_vec(),
            present: vec![0.0; weights.len()],
            values: Vec::new(),
            distribution: Some(Distribution { range, counts: vec![1; 40] }),
            bands: None,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::answers::feature_json;
    use crate::explain::ValueEffect;

    fn curve(exact: bool) -> NamedShape {
        let mut named = example("wave", vec![[0.0, 1.0], [1.0, 3.0], [2.0, 2.0]], [0.5, -7.0], [0.0, 2.0], &[1.0]);
        named.shape.curve.as_mut().unwrap().exact = exact;
        named
    }

    #[test]
    fn a_sampled_curve_says_so_and_claims_nothing_beyond_its_points() {
        let (exact, sampled, outputs) = (curve(true), curve(false), ["only".to_string()]);
        let mut json = feature_json(&sampled, &outputs);
        assert_eq!(json["sampled"], true);
        json.as_object_mut().map(|object| object.remove("sampled"));
        assert_eq!(json, feature_json(&exact, &outputs));
        let head = "feature,x,f,slope_right,adds(only)\n";
        assert_eq!(csv(&[sampled], &outputs), format!("{head}wave,0,1,2,-1\nwave,1,3,-1,1\nwave,2,2,,0\n"));
        assert!(csv(&[exact], &outputs).starts_with(&format!("{head}wave,-inf,,0.5,\nwave,0,1,2,-1\n")));
        let both = [curve(true), curve(false)];
        let importance = [(1.0, vec![1.0]), (1.0, vec![1.0])];
        let about = |count: usize| About {
            dataset: "set",
            outputs: &outputs,
            importance: Some(&importance[..count]),
            measured: String::new(),
        };
        assert!(svg::svg(&both, &about(2)).0.contains(">wave (sampled)<"));
        assert!(!svg::svg(&both[..1], &about(1)).0.contains("sampled"));
        assert!(text("set", &both, &outputs, 1).contains("2 features, 1 of them smooth"));
        assert!(text("set", &both[..1], &outputs, 1).contains("3 knots"));
        assert!(text("set", &both[1..], &outputs, 1).contains("3 points of a smooth curve"));
    }

    #[test]
    fn a_category_is_one_row_and_a_gap_stands_beside_its_curve() {
        let value = |name: &str, missing, effect: f64| ValueEffect {
            name: name.into(),
            missing,
            count: Some(3),
            effects: vec![effect],
            spread: Vec::new(),
        };
        let outputs = ["yes".to_string()];
        let mut region = curve(true);
        (region.name, region.shape.curve, region.shape.distribution) = ("region".into(), None, None);
        region.shape.values =
            vec![value("north", false, 0.8), value("=south", false, -0.2), value("missing", true, 0.1)];
        let mut age = curve(true);
        (age.name, age.shape.values, age.shape.present) =
            ("age".into(), vec![value("missing", true, -0.4)], vec![0.05]);
        let json = feature_json(&region, &outputs);
        assert_eq!(
            (&json["values"][0]["value"], &json["values"][0]["adds_by_class"]["yes"]),
            (&"north".into(), &0.8.into())
        );
        assert_eq!(
            (json["values"].as_array().unwrap().len(), &json["missing"]["adds_by_class"]["yes"]),
            (2, &0.1.into())
        );
        assert!(json.get("knots").is_none());
        let json = feature_json(&age, &outputs);
        assert_eq!((&json["missing"]["nodes"], &json["present_by_class"]["yes"]), (&3.into(), &0.05.into()));
        assert!(json["knots"].is_array() && json.get("values").is_none());
        let both = [region, age];
        let lines = csv(&both, &outputs);
        assert!(
            lines.contains("region,north,,,0.8\nregion,'=south,,,-0.2\nregion,missing,,,0.1\nage,-inf,,0.5,\n"),
            "{lines}"
        );
        assert!(lines.ends_with("age,2,2,-7,0.05\nage,missing,,,-0.4\n"), "{lines}");
        assert!(
            text("set", &both, &outputs, 1).contains("2 values")
                && text("set", &both[..1], &outputs, 1).contains("north")
        );
        let about = About { dataset: "set", outputs: &outputs, importance: None, measured: String::new() };
        let (picture, ..) = svg::svg(&both, &about);
        for part in [">north<", ">missing<", "missing: -0.4000"] {
            assert!(picture.contains(part), "no {part} in {picture}");
        }
    }
}
