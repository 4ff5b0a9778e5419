//! Logits, gradients and counts are those of the formulas, by every plan.

use super::common::differences::{Differentiated, Tally};
use super::common::{F64_TOLERANCE, assert_close, batch_of, run_batch};
use super::oracle::Oracle;
use super::{KINDS, plans, prepared, problems};
use harmonia::architecture::{Kind, Layout};
use harmonia::config::{Config, DropoutPlace, Monb};
use harmonia::device::Dropout;
use harmonia::plan::Plan;
use harmonia::seed::{Purpose, Stream};

#[test]
fn logits_are_those_of_the_dense_formula() {
    for kind in KINDS {
        for data in problems(kind) {
            let (run, parameters) = prepared(kind, &data);
            let expected = Oracle::new(kind, &data, &run.layout, &parameters).logits();
            for plan in plans(kind) {
                let units: Vec<u32> = (0..data.units() as u32).collect();
                let batch = batch_of(&run.dataset, Default::default(), &run.layout, plan, &units, false);
                let found = run_batch::<f64>(&batch, &run.layout, plan, &parameters, None, None).logits;
                assert_close("logits", &found, &expected, F64_TOLERANCE, &(kind.name(), data.level, plan));
            }
        }
    }
}

#[test]
fn gradients_are_central_differences() {
    let mut tally = Tally::default();
    for kind in KINDS {
        for data in problems(kind) {
            let (run, parameters) = prepared(kind, &data);
            let mut first: Option<Vec<f64>> = None;
            for plan in plans(kind) {
                let batch =
                    batch_of(&run.dataset, Default::default(), &run.layout, plan, &run.dataset.split.train, false);
                let found = run_batch::<f64>(&batch, &run.layout, plan, &parameters, None, None).gradient;
                match &first {
                    Some(first) => assert_close("gradients", &found, first, F64_TOLERANCE, &(kind.name(), plan)),
                    None => {
                        let (layout, parameters) = (&run.layout, &parameters[..]);
                        let of = Differentiated { batch: &batch, layout, plan, parameters, noise: None, dropout: None };
                        tally.check(&of, &found, &kind.name());
                        first = Some(found);
                    }
                }
            }
        }
    }
    tally.finish();
}

#[test]
fn dropped_inputs_are_the_same_by_every_plan() {
    // Of networks at the few values of a feature alone, what dropout makes of those is among the values.
    let dropout = Dropout { place: DropoutPlace::Input, rate: 0.4, stream: Stream::new(9, Purpose::Dropout, 1) };
    for kind in [Kind::Nam, Kind::Gnan] {
        for data in problems(kind) {
            let (run, parameters) = prepared(kind, &data);
            let of = |plan: Plan| {
                let units = &run.dataset.split.train;
                let batch = batch_of(&run.dataset, Default::default(), &run.layout, plan, units, false);
                run_batch::<f64>(&batch, &run.layout, plan, &parameters, None, Some(dropout))
            };
            let [direct, knots] = [Monb::Direct, Monb::Knots]
                .map(|monb| plans(kind).into_iter().filter(|plan| plan.monb == monb).map(of).collect::<Vec<_>>());
            assert!(!direct.is_empty() && !knots.is_empty());
            for (one, other) in direct.iter().zip(&knots) {
                assert_close("logits", &other.logits, &one.logits, F64_TOLERANCE, &(kind.name(), data.level));
                assert_close("gradients", &other.gradient, &one.gradient, F64_TOLERANCE, &(kind.name(), data.level));
            }
        }
    }
}

#[test]
fn counts_are_those_of_the_published_formulas() {
    let count = |kind: Kind, d: usize, outputs: usize, hidden: &[usize], bases: usize| {
        let mut config = Config::default();
        (config.model.kind, config.model.hidden, config.model.bases) = (kind, hidden.to_vec(), bases);
        let sizes = config.architecture(d * kind.copies(outputs), outputs);
        let layout = Layout::new(sizes.clone()).unwrap();
        assert_eq!(sizes.parameters(), layout.len() as u128);
        assert_eq!(layout.counts().iter().map(|(_, count)| count).sum::<usize>(), layout.len());
        layout.len()
    };
    let (d, l) = (50, 47);
    // Without batch norm, whose two numbers per unit the published 64,044 and 6,721 have.
    assert_eq!(count(Kind::Nbm, d, l, &[256, 128, 128], 100), 64_044 - 2 * 612 + d * (100 + l) + l);
    assert_eq!(count(Kind::Nam, d, l, &[64, 64, 32], 8), d * (6_721 - 2 * 160 + l) + l);
    assert_eq!(count(Kind::GpNam, d, l, &[16], 100), l * (d * 100 + 1));
    // D features are d columns of which one is of ones; the network of the distance has one output.
    let network = |outputs: usize| 64 * 64 + (2 + outputs + 1) * 64 + outputs;
    assert_eq!(count(Kind::Gnan, d, l, &[64, 64], 8), d * network(l) + network(1));
    assert_eq!(count(Kind::GNamrff, d, l, &[16], 64), d * 64 * l + 3 + 1);
    // HARMONIA without its d T hop logits, and a network of T-32-d: C P + 2 q C + d (B + q + L) + L + (T + 1) 32 + (32 + 1) d.
    let expert = 2 * 16 + 17 * 8 + 9 * 8;
    let harmonia = 4 * expert + 2 * 16 * 4 + d * (8 + 16 + l) + l;
    assert_eq!(count(Kind::DnnRrwp, d, l, &[16, 8], 8), harmonia + (4 + 1) * 32 + (32 + 1) * d);
}
