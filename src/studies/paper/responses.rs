//! Which curves are found again: twelve functions of one feature each, labels drawn from their sum, the error of every learned curve.
//!
//! The error of a curve is that of the paper: both centred on a grid over [-1, 1], no sign or scale fitted. Twelve columns of the
//! synthetic study's features carry the functions as they are, at the node itself; the other eight carry nothing.

use super::faithfulness::{Lens, measure, test_instances};
use super::findings::{Axis, Cell, Claim, Drawing, Figure, Findings, Series, Spread, Style, Table};
use super::rows::{ADDITIVE, Row};
use super::study::{Job, Records, Scene, Size, Study};
use super::world::{Function, World};
use crate::device::Machine;
use crate::explain::Factors;
use crate::settings::presets::Recipe;
use crate::train::fit;
use harmonia_graph::error::Result;
use serde::{Deserialize, Serialize};
use std::f64::consts::{FRAC_PI_4, TAU};

/// The study.
pub struct Responses;

/// Own node alone.
const AT_HOME: &[f64] = &[1.0, 0.0, 0.0, 0.0];

/// (name, function, the paper's error and deviation). The paper names functions, not all of their numbers: widths and places of the
/// localised ones and the phase are ours.
const FUNCTIONS: [(&str, Function, [f64; 2]); 12] = [
    (
        "localised",
        Function { label: "exp(-8(x + 0.4)^2)", value: |x| (-8.0 * (x + 0.4) * (x + 0.4)).exp() },
        [0.103, 0.032],
    ),
    ("sigmoid", Function { label: "1 / (1 + exp(-6x))", value: |x| (1.0 + (-6.0 * x).exp()).recip() }, [0.033, 0.011]),
    ("cosine", Function { label: "cos(2 pi x)", value: |x| (TAU * x).cos() }, [0.136, 0.037]),
    ("absolute value", Function { label: "|x|", value: f64::abs }, [0.084, 0.013]),
    (
        "localised, right",
        Function { label: "exp(-8(x - 0.4)^2)", value: |x| (-8.0 * (x - 0.4) * (x - 0.4)).exp() },
        [0.094, 0.016],
    ),
    ("sine", Function { label: "sin(2 pi x)", value: |x| (TAU * x).sin() }, [0.364, 0.069]),
    ("hyperbolic tangent", Function { label: "tanh(3x)", value: |x| (3.0 * x).tanh() }, [0.034, 0.008]),
    (
        "sine with a phase",
        Function { label: "sin(2 pi x + pi/4)", value: |x| (TAU * x + FRAC_PI_4).sin() },
        [0.157, 0.030],
    ),
    ("linear", Function { label: "x", value: |x| x }, [0.023, 0.008]),
    ("cubic", Function { label: "x^3", value: |x| x * x * x }, [0.139, 0.032]),
    ("arctangent", Function { label: "arctan(4x)", value: |x| (4.0 * x).atan() }, [0.034, 0.016]),
    ("quartic", Function { label: "x^4", value: |x| x * x * x * x }, [0.183, 0.025]),
];

/// Points of the curves that are kept for the figure.
const POINTS: usize = 41;

#[derive(Serialize, Deserialize)]
struct Record {
    model: String,
    data: u32,
    seed: u64,
    /// Of each function.
    errors: Vec<f64>,
    /// Learned curves, centred.
    curves: Vec<Vec<f64>>,
    engine_gap: f64,
}

fn point(at: usize) -> f64 {
    -1.0 + 2.0 * at as f64 / (POINTS - 1) as f64
}

fn centred(values: Vec<f64>) -> Vec<f64> {
    let mean = values.iter().sum::<f64>() / values.len() as f64;
    values.into_iter().map(|value| value - mean).collect()
}

fn train(row: Row, data: u32, seed: u64, size: Size, scene: &Scene<'_>) -> Result<Record> {
    let kinds = FUNCTIONS.map(|(_, function, _)| (function, AT_HOME));
    let world = World::with_signals(data, &kinds)?;
    let mut set = vec![format!("run.seed={seed}")];
    set.extend((size == Size::Smallest).then(|| "train.epochs=4".to_string()));
    let config = row.config("synthetic", Recipe::Paper, &set)?;
    let model = fit(&world.dataset, &config, &Machine::open("cpu", config.engine)?, scene.stop)?;
    let measures = measure(&model, &world, test_instances(size.of(2, 8, 64)))?;
    let factors = Factors::of(&model)?;
    let lens = Lens::new(&factors, &world.topology);
    let curve = |column: usize| {
        let scale = lens.scale(column);
        centred((0..POINTS).map(|at| scale * factors.response(column, point(at))).collect())
    };
    Ok(Record {
        model: row.name.into(),
        data,
        seed,
        errors: measures.features.nrmse_by_signal,
        curves: world.signals.iter().map(|signal| curve(signal.column)).collect(),
        engine_gap: measures.engine_gap,
    })
}

impl Study for Responses {
    fn name(&self) -> &'static str {
        "responses"
    }

    fn about(&self) -> &'static str {
        "twelve response functions found again, by the error of their curves"
    }

    fn source(&self) -> &'static str {
        "figure of univariate response recovery"
    }

    fn jobs(&self, size: Size) -> Result<Vec<Job>> {
        let (datasets, seeds) = (size.of(1, 1, 3), size.of(1, 2, 3));
        let job = |row: Row, data: u32, seed: u64| {
            let key = format!("{} data {data} seed {seed}", row.name);
            Job::new(key, move |scene| train(row, data, seed, size, scene))
        };
        let runs = (0..datasets).flat_map(|data| (0..seeds).map(move |seed| (data, seed)));
        Ok(runs.flat_map(|(data, seed)| ADDITIVE.iter().map(move |&row| job(row, data, seed))).collect())
    }

    fn findings(&self, _: Size, records: &Records) -> Result<Findings> {
        let records = records.read::<Record>()?;
        let mut head: Vec<String> = ["function", "formula"].map(String::from).to_vec();
        head.extend(ADDITIVE.iter().map(|row| row.name.to_string()));
        let errors = |row: &Row, at: usize| -> Vec<f64> {
            records.iter().filter(|record| record.model == row.name).map(|record| record.errors[at]).collect()
        };
        let table_row = |(at, (name, function, paper)): (usize, &(&str, Function, [f64; 2]))| {
            let mut cells = vec![Cell::text(*name), Cell::text(function.label)];
            for row in ADDITIVE {
                let cell = Cell::spread(Spread::of(&errors(row, at)), 3);
                let own = row.name == "HARMONIA";
                cells.push(if own { cell.beside(Some(paper[0]), Some(paper[1])) } else { cell });
            }
            cells
        };
        let table = Table {
            name: "responses",
            title: "Error of learned curves (curve NRMSE)".into(),
            head,
            rows: FUNCTIONS.iter().enumerate().map(table_row).collect(),
            note: "Mean and deviation over runs. The paper names the functions and the error; data, graph, places of the localised responses and \
                   the phase are ours."
                .into(),
        };
        let gap = records.iter().map(|record| record.engine_gap).fold(0.0, f64::max);
        let mean = |name: &str| {
            let at = FUNCTIONS.iter().position(|(known, ..)| *known == name);
            at.and_then(|at| Spread::of(&errors(&ADDITIVE[0], at))).map_or(f64::NAN, |spread| spread.mean)
        };
        let claims = vec![
            Claim::theorem(
                "terms add up to the logit of the engine",
                gap <= super::recovery::ENGINE_ROUNDING,
                format!("largest difference {gap:.1e}"),
            ),
            Claim::reported(
                "a line is found with less error than a sine of two periods",
                mean("linear") < mean("sine"),
                format!("{:.3} against {:.3}", mean("linear"), mean("sine")),
            ),
        ];
        Ok(Findings { tables: vec![table], figures: figures(&records), claims })
    }
}

/// Four pictures of three functions each: truth, and the mean learned curve.
fn figures(records: &[Record]) -> Vec<Figure> {
    let own: Vec<&Record> = records.iter().filter(|record| record.model == ADDITIVE[0].name).collect();
    let names = ["curves-1", "curves-2", "curves-3", "curves-4"];
    let figure = |(part, name): (usize, &'static str)| {
        let mut series = Vec::new();
        for (at, (_, function, _)) in FUNCTIONS.iter().enumerate().skip(3 * part).take(3) {
            let truth = centred((0..POINTS).map(|at| (function.value)(point(at))).collect());
            let learned =
                |place: usize| own.iter().map(|record| record.curves[at][place]).sum::<f64>() / own.len() as f64;
            let points = |of: &dyn Fn(usize) -> f64| (0..POINTS).map(|place| [point(place), of(place)]).collect();
            series.push(Series {
                name: function.label.into(),
                points: points(&|place| truth[place]),
                style: Style::Dashed,
            });
            series.push(Series { name: "learned".into(), points: points(&learned), style: Style::Line });
        }
        Figure {
            name,
            title: "Learned curves, mean over runs".into(),
            drawing: Drawing::Plot { x: Axis::linear("x"), y: Axis::linear("effect"), series },
        }
    };
    names.into_iter().enumerate().map(figure).collect()
}
