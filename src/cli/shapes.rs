//! `harmonia shapes`: every response as its exact knots, or where it is smooth as points of it: a table, CSV, JSON or a
//! picture.

mod svg;

use super::output::OutputFile;
use super::predict::field;
use super::reading::{RunArgument, number, short, table};
use super::{say, signals, voice};
use crate::explain::stability::{Band, Compared, bands};
use crate::explain::{Distribution, Importance, Shape, Units};
use crate::runs::{Names, TrainedRun};
use clap::Args;
use harmonia_graph::error::Result;
use harmonia_graph::watch::Watch;
use serde_json::{Value, json};
use std::fmt::Write;
use std::path::PathBuf;
use svg::About;

pub const EXAMPLES: &str = "\
Examples:
  harmonia shapes runs/synthetic-1 --feature x19
      the knots of one response
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

/// One feature as it is shown.
struct Curve {
    k: usize,
    name: String,
    shape: Shape,
    centre: f64,
    distribution: Distribution,
    weights: Vec<f64>,
    /// x, and one band per output, over several runs.
    bands: Option<(Vec<f64>, Vec<Band>)>,
}

fn shapes(arguments: &Arguments) -> Result<()> {
    let out = match &arguments.out {
        Some(path) => {
            Some(OutputFile::new("--out", path, &["csv", "json", "svg"])?.beside_json("--out", arguments.json)?)
        }
        None => None,
    };
    let runs = arguments.run.all()?;
    let run = &runs[0];
    let names = Names::of(run);
    let columns: Vec<usize> = match arguments.feature.is_empty() {
        true => (0..run.factors.features()).collect(),
        false => arguments.feature.iter().map(|name| names.find_feature(name)).collect::<Result<_>>()?,
    };
    let centres: Vec<Vec<f64>> = runs.iter().map(TrainedRun::centres).collect::<Result<_>>()?;
    let distributions = Distribution::of(&run.dataset.features, &columns);
    let curves: Vec<Curve> = columns
        .iter()
        .zip(distributions)
        .map(|(&k, distribution)| curve(&runs, &names, &centres, k, distribution))
        .collect();
    let outputs: Vec<String> = (0..run.factors.outputs()).map(|output| names.output(output)).collect();
    if let Some(out) = &out {
        out.write(&match out.ending() {
            "csv" => csv(&curves),
            "json" => format!("{:#}\n", to_json(run, &curves, &outputs, runs.len())),
            _ => picture(run, &curves, &outputs, &centres[0])?,
        })?;
    }
    if let (Some(path), Some(false)) = (&arguments.out, out.as_ref().map(OutputFile::is_stdout)) {
        voice::line(format_args!("{} responses written to {}", curves.len(), path.display()));
    }
    if arguments.json {
        return say(&format!("{:#}\n", to_json(run, &curves, &outputs, runs.len())));
    }
    if arguments.out.is_some() {
        return Ok(());
    }
    say(&text(&run.dataset.name, &curves, &outputs, runs.len()))
}

fn curve(runs: &[TrainedRun], names: &Names<'_>, centres: &[Vec<f64>], k: usize, distribution: Distribution) -> Curve {
    let run = &runs[0];
    let own = Units::of(run.model.scaling.as_ref(), k);
    let shape = Shape::over(&run.factors, k, distribution.range).in_units(own);
    let distribution = Distribution { range: distribution.range.map(|x| own.own(x)), ..distribution };
    let outputs = run.factors.outputs();
    let compared: Vec<Compared<'_>> = runs.iter().zip(centres).map(|(run, centres)| run.compared(centres)).collect();
    let bands = (runs.len() > 1).then(|| bands(&compared, k, distribution.range));
    Curve {
        k,
        name: names.feature(k),
        shape,
        centre: centres[0][k],
        distribution,
        weights: run.factors.weight[k * outputs..][..outputs].to_vec(),
        bands,
    }
}

fn to_json(run: &TrainedRun, curves: &[Curve], outputs: &[String], runs: usize) -> Value {
    json!({
        "dataset": run.dataset.name, "runs": runs, "classes": outputs,
        "features": curves.iter().map(|curve| curve_json(curve, outputs)).collect::<Vec<_>>(),
    })
}

fn curve_json(curve: &Curve, outputs: &[String]) -> Value {
    let mut object = json!({
        "feature": curve.name, "feature_index": curve.k,
        "knots": curve.shape.knots, "left_slope": curve.shape.left_slope, "right_slope": curve.shape.right_slope,
        "centre": curve.centre, "range": curve.distribution.range,
        "density": { "edges": curve.distribution.edges(), "counts": curve.distribution.counts },
        "weight_by_class": outputs.iter().cloned().zip(&curve.weights).map(|(name, w)| (name, json!(w))).collect::<serde_json::Map<_, _>>(),
        "bands": curve.bands.as_ref().map(|(x, bands)| json!({
            "x": x,
            "by_class": outputs.iter().cloned().zip(bands).map(|(name, band)| (name, json!(band))).collect::<serde_json::Map<_, _>>(),
        })),
    });
    if !curve.shape.exact {
        object["sampled"] = json!(true);
    }
    object
}

fn csv(curves: &[Curve]) -> String {
    let mut out = "feature,x,f,slope_right\n".to_string();
    for curve in curves {
        let knots = &curve.shape.knots;
        let mut line = |x: &str, f: &str, slope: &str| {
            // Writing to a string cannot fail.
            let _ = writeln!(out, "{},{x},{f},{slope}", field(&curve.name));
        };
        // Of a smooth response nothing is said beyond its points.
        if curve.shape.exact {
            line("-inf", "", &curve.shape.left_slope.to_string());
        }
        for (at, [x, f]) in knots.iter().enumerate() {
            let last = if curve.shape.exact { curve.shape.right_slope.to_string() } else { String::new() };
            let slope = knots.get(at + 1).map_or(last, |next| ((next[1] - f) / (next[0] - x)).to_string());
            line(&x.to_string(), &f.to_string(), &slope);
        }
    }
    out
}

fn text(dataset: &str, curves: &[Curve], outputs: &[String], runs: usize) -> String {
    let mut out = String::new();
    if let [curve] = curves {
        let [low, high] = curve.distribution.range;
        out += &format!(
            "{dataset}, f of {}: {} {}; data from {} to {}; mean response {}\n\n",
            short(&curve.name),
            curve.shape.knots.len(),
            if curve.shape.exact { "knots" } else { "points of a smooth curve" },
            number(low),
            number(high),
            number(curve.centre)
        );
        let mut rows = vec![["x", "f(x)"].map(String::from).to_vec()];
        rows.push(vec!["slope before".into(), number(curve.shape.left_slope)]);
        rows.extend(curve.shape.knots.iter().map(|[x, f]| vec![number(*x), number(*f)]));
        rows.push(vec!["slope after".into(), number(curve.shape.right_slope)]);
        out += &table(&rows, 0);
        out += "\nreadout weights:";
        outputs.iter().zip(&curve.weights).for_each(|(name, w)| out += &format!(" {}: {}", short(name), number(*w)));
        return out + "\n";
    }
    let smooth = curves.iter().filter(|curve| !curve.shape.exact).count();
    out += &match smooth {
        0 => format!("{dataset}: {} responses, piecewise linear, exact\n\n", curves.len()),
        _ => format!("{dataset}: {} responses, {smooth} of them smooth: points over the data\n\n", curves.len()),
    };
    let mut rows =
        vec![["feature", "knots", "inside the data", "from", "to", "f(from)", "f(to)"].map(String::from).to_vec()];
    for curve in curves {
        let [low, high] = curve.distribution.range;
        let inside = curve.shape.knots.iter().filter(|knot| knot[0] > low && knot[0] < high).count();
        let values = [low, high, curve.shape.value(low), curve.shape.value(high)].map(number);
        rows.push(
            [short(&curve.name), curve.shape.knots.len().to_string(), inside.to_string()]
                .into_iter()
                .chain(values)
                .collect(),
        );
    }
    out += &table(&rows, 1);
    out += "\n--feature NAME lists the knots of one; --out FILE.csv|.json|.svg writes them\n";
    if runs > 1 {
        out += &format!("{runs} runs: --json and .svg show the band of effects over them\n");
    }
    out
}

/// The picture, with importances as `explain --global` has them: on the test units, or where there are none on all.
fn picture(run: &TrainedRun, curves: &[Curve], outputs: &[String], centres: &[f64]) -> Result<String> {
    let test = &run.dataset.split.test;
    let (part, units) = match test.is_empty() {
        true => ("all", (0..run.dataset.units() as u32).collect()),
        false => ("the test", test.clone()),
    };
    let watch = Watch::new(&|_| (), signals::stop());
    let measured = Importance::measure(&run.model, &run.factors, &run.dataset, &units, centres, &watch)?;
    let overall = measured.overall(&run.factors);
    let by_output = |k: usize| (0..outputs.len()).map(|output| measured.of(&run.factors, k, output)).collect();
    let importance: Vec<(f64, Vec<f64>)> = curves.iter().map(|curve| (overall[curve.k], by_output(curve.k))).collect();
    let names = Names::of(run);
    let about = About {
        dataset: &run.dataset.name,
        outputs,
        importance: &importance,
        measured: format!("to a {} of {part} {}s", names.quantity(), names.unit()),
    };
    let (text, shown, shown_outputs) = svg::svg(curves, &about);
    if shown < curves.len() {
        let all = curves.len();
        voice::note(format_args!(
            "the picture shows the {shown} most important of {all} responses; .csv and .json hold all"
        ));
    }
    if shown_outputs < outputs.len() {
        let all = outputs.len();
        voice::note(format_args!(
            "the picture shows the first {shown_outputs} of {all} outputs; .json holds all weights"
        ));
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn curve(exact: bool) -> Curve {
        let knots = vec![[0.0, 1.0], [1.0, 3.0], [2.0, 2.0]];
        Curve {
            k: 4,
            name: "wave".into(),
            shape: Shape { knots, left_slope: 0.5, right_slope: -7.0, exact },
            centre: 2.0,
            distribution: Distribution { range: [0.0, 2.0], counts: vec![1; 40] },
            weights: vec![1.0],
            bands: None,
        }
    }

    #[test]
    fn a_sampled_curve_says_so_and_claims_nothing_beyond_its_points() {
        let (exact, sampled, outputs) = (curve(true), curve(false), ["only".to_string()]);
        let mut json = curve_json(&sampled, &outputs);
        assert_eq!(json["sampled"], true);
        json.as_object_mut().map(|object| object.remove("sampled"));
        assert_eq!(json, curve_json(&exact, &outputs));
        assert_eq!(csv(&[sampled]), "feature,x,f,slope_right\nwave,0,1,2\nwave,1,3,-1\nwave,2,2,\n");
        assert!(csv(&[exact]).starts_with("feature,x,f,slope_right\nwave,-inf,,0.5\nwave,0,1,2\n"));
        let both = [curve(true), curve(false)];
        let importance = [(1.0, vec![1.0]), (1.0, vec![1.0])];
        let about = About { dataset: "set", outputs: &outputs, importance: &importance, measured: String::new() };
        assert!(svg::svg(&both, &about).0.contains(">wave (sampled)<"));
        assert!(!svg::svg(&both[..1], &about).0.contains("sampled"));
        assert!(text("set", &both, &outputs, 1).contains("2 responses, 1 of them smooth"));
        assert!(text("set", &both[..1], &outputs, 1).contains("3 knots"));
        assert!(text("set", &both[1..], &outputs, 1).contains("3 points of a smooth curve"));
    }
}
