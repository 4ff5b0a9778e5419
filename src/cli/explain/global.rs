//! What the model does over many units.

use super::{Arguments, calibrated};
use crate::answers::Global;
use crate::cli::reading::{Centre, number, short, table};
use crate::cli::{say, signals, voice};
use crate::explain::stability::mean_spearman;
use crate::explain::{Distribution, Importance, experts, ranking};
use crate::runs::{Names, ReadModel, members};
use harmonia_graph::error::{Error, Result};
use harmonia_graph::watch::{Report, Watch};

pub fn run(arguments: &Arguments) -> Result<()> {
    if let Some(models) = without_data(arguments)? {
        return of_models(arguments, &models);
    }
    let runs = match &arguments.data {
        Some(_) => vec![arguments.opened()?],
        None => {
            arguments.tables.refuse()?;
            arguments.run.all()?
        }
    };
    let mut measured = Vec::new();
    for run in &runs {
        let units = match arguments.split.units(run) {
            units if units.is_empty() => {
                let message = format!("has no {} units; choose another --split", arguments.split.name());
                return Err(Error::file(&run.path, message));
            }
            units => units,
        };
        let centre = arguments.centre.of(run)?;
        let features = run.factors.features();
        // Worth a word only where it takes a while.
        let large = run.dataset.graph.nodes().saturating_mul(features) > 1 << 26;
        let progress = |report: Report<'_>| match report {
            Report::Progress(_, done, all) if large => {
                voice::line(format_args!("importance: {done} of {all} features"))
            }
            _ => {}
        };
        let watch = Watch::new(&progress, signals::stop());
        let importance = Importance::measure(&run.model, &run.factors, &run.dataset, &units, &centre, &watch)?;
        measured.push((run, importance));
    }
    let (run, importance) = &measured[0];
    let overall: Vec<Vec<f64>> =
        measured.iter().map(|(run, importance)| importance.of_features(&run.factors)).collect();
    let watch = Watch::new(&|_| (), signals::stop());
    let about = Global {
        paths: runs.iter().map(|run| run.path.as_path()).collect(),
        centre: arguments.centre.name(),
        ..Global::of(run, (arguments.split.name(), importance), &overall, &watch)?
    };
    say(&if arguments.json { format!("{:#}\n", about.json(arguments.top)) } else { text(&about, arguments.top) })
}

/// The models, where the data of training are not here and the run itself knows what is asked for; none where they are, or others are
/// given.
fn without_data(arguments: &Arguments) -> Result<Option<Vec<ReadModel>>> {
    let all = members(&arguments.run.run)?.iter().map(|path| ReadModel::open(path)).collect::<Result<Vec<_>>>()?;
    let here = arguments.run.has_data(&all[0].saved.config);
    let known = |model: &ReadModel| {
        let importance = model.measured.as_ref().and_then(|measured| measured.importance.as_ref());
        importance.is_some_and(|importance| importance.part == arguments.split.name())
    };
    if here || arguments.data.is_some() || arguments.centre != Centre::Mean || !all.iter().all(known) {
        return Ok(None);
    }
    arguments.tables.refuse()?;
    voice::note("the data of training are not here: importances are those that training has measured");
    Ok(Some(all))
}

/// What runs say by themselves.
fn of_models(arguments: &Arguments, models: &[ReadModel]) -> Result<()> {
    let model = &models[0];
    let all: Option<Vec<Vec<f64>>> =
        models.iter().map(|model| Some(model.importance()?.of_features(&model.saved.factors))).collect();
    let (Some(importance), Some(overall), Some(measured)) = (model.importance(), all, &model.measured) else {
        return Err(Error::file(&model.path, "does not say how much features matter"));
    };
    let range = Distribution::joint_range(&measured.columns);
    let about = Global {
        dataset: &model.saved.metadata.dataset,
        model: &model.saved.model,
        factors: &model.saved.factors,
        names: Names::of_model(&model.saved),
        paths: models.iter().map(|model| model.path.as_path()).collect(),
        split: arguments.split.name(),
        importance,
        overall: &overall,
        warning: None,
        similar: experts::near_duplicates(&model.saved.factors, range),
        centre: arguments.centre.name(),
    };
    say(&if arguments.json { format!("{:#}\n", about.json(arguments.top)) } else { text(&about, arguments.top) })
}

/// The same for people; `most`: features to list, 0 for all.
fn text(about: &Global<'_>, most: usize) -> String {
    let (factors, names) = (about.factors, &about.names);
    let mut out = format!(
        "{}: importance = mean |contribution| over {} {}s ({})\n{}\n",
        about.dataset,
        about.importance.units,
        names.unit(),
        about.split,
        calibrated(about.model)
    );
    let shown = ranking(&about.overall[0]);
    let top = if most == 0 { shown.len() } else { most.min(shown.len()) };
    let strongest = |k: usize| {
        let of = |output: usize| about.importance.of_feature(factors, k, output);
        (0..factors.outputs()).fold(0, |best, output| if of(output) > of(best) { output } else { best })
    };
    let mut rows = vec![["feature", "most for", "importance", "signed, for it"].map(String::from).to_vec()];
    // More would not fit a screen; JSON has all.
    let hops = if factors.hops() <= 12 { factors.hops() } else { 0 };
    rows[0].extend((0..hops).map(|t| factors.structure().name(t)));
    rows[0].extend(factors.monb().map(|_| "experts (gates)".into()));
    for &feature in &shown[..top] {
        let output = strongest(feature);
        let mut row = vec![
            short(&names.group(feature)),
            short(&names.output(output)),
            number(about.overall[0][feature]),
            format!("{:+.4}", about.importance.signed_of_feature(factors, feature, output)),
        ];
        // Of several columns, those of the one that matters most stand here.
        let columns = factors.groups().columns(feature);
        let of = |k: usize| about.importance.of(factors, k, output);
        let k = columns.clone().fold(columns.start, |best, k| if of(k) > of(best) { k } else { best });
        row.extend((0..hops).map(|t| format!("{:.3}", factors.theta(t, k))));
        let gates = experts::gates(factors, k).into_iter().enumerate();
        let used = gates.filter_map(|(expert, gate)| gate.map(|gate| format!("{expert} ({gate:.2})")));
        row.extend(factors.monb().map(|_| used.collect::<Vec<_>>().join(" ")));
        rows.push(row);
    }
    out += &table(&rows, 2);
    if top < shown.len() {
        out += &format!("  ... {} more features (--top 0 lists all)\n", shown.len() - top);
    }
    if let Some(warning) = &about.warning {
        out += &format!("\nwarning: {warning}\n");
    }
    let used = experts::used_by(factors);
    if factors.monb().is_some() {
        out += "\nexperts, and how many features use them:";
        used.iter().enumerate().for_each(|(expert, count)| out += &format!(" {expert}: {count}"));
        out += "\n";
    }
    for (expert, _) in used.iter().enumerate().filter(|(_, count)| **count == 0) {
        out += &format!("expert {expert} is never used\n");
    }
    for experts::Similar { a, b, similarity } in &about.similar {
        out += &format!("experts {a} and {b} offer nearly the same functions (similarity {similarity:.4})\n");
    }
    if about.paths.len() > 1 {
        let agreement = mean_spearman(about.overall).map_or("not defined".into(), |value| format!("{value:.3}"));
        out += &format!(
            "\nstability over {} runs: mean pairwise Spearman correlation of importances {agreement}; the table is of \
             {}\n",
            about.paths.len(),
            about.paths[0].display()
        );
    }
    out
}
