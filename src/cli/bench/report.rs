//! What was measured, as tables and as JSON.

use super::accuracy::TimeToAccuracy;
use super::epochs::{Measured, OpTime};
use super::peers::Peer;
use super::scaling::Series;
use super::{BenchRun, graphs};
use harmonia_graph::units::{bytes, thousands};
use serde_json::{Value, json};
use std::fmt::Write;

/// Ops below this share of an epoch are shown as one line.
const SMALL: f64 = 0.01;

/// Results in the order they came.
#[derive(Default)]
pub struct Report {
    pub epochs: Vec<EpochResult>,
    pub graphs: Vec<(String, Result<graphs::MeasuredFolds, String>)>,
    pub scaling: Option<Result<Vec<Series>, String>>,
    pub accuracy: Option<TimeToAccuracy>,
    /// Version of torch, where peers ran.
    pub torch: Option<String>,
}

/// A case and its peers.
pub struct EpochResult {
    pub case: String,
    pub measured: Result<Measured, String>,
    pub peers: Vec<Peer>,
}

impl Report {
    /// Whether nothing was measured yet.
    pub fn is_empty(&self) -> bool {
        self.epochs.is_empty() && self.graphs.is_empty() && self.scaling.is_none() && self.accuracy.is_none()
    }

    /// Cases that failed.
    pub fn failed(&self) -> Vec<&str> {
        let epochs = self.epochs.iter().filter(|result| result.measured.is_err()).map(|result| result.case.as_str());
        let graphs = self.graphs.iter().filter(|(_, result)| result.is_err()).map(|(name, _)| name.as_str());
        let scaling = self.scaling.iter().filter(|result| result.is_err()).map(|_| "scaling");
        let accuracy = self.accuracy.iter().filter(|result| result.failed()).map(|_| "time-to-accuracy");
        epochs.chain(graphs).chain(scaling).chain(accuracy).collect()
    }

    pub fn text(&self, run: &BenchRun) -> String {
        let mut out = String::new();
        // Writing to a string cannot fail.
        if !self.epochs.is_empty() {
            let _ = self.epoch_tables(&mut out, run);
        }
        if !self.graphs.is_empty() {
            let _ = self.graph_table(&mut out);
        }
        if let Some(scaling) = &self.scaling {
            let _ = scaling_table(&mut out, scaling);
        }
        if let Some(accuracy) = &self.accuracy {
            let _ = accuracy.text(&mut out);
        }
        out
    }

    fn epoch_tables(&self, out: &mut String, run: &BenchRun) -> std::fmt::Result {
        let measured: Vec<(&str, &Measured)> = (self.epochs.iter())
            .filter_map(|result| Some((result.case.as_str(), result.measured.as_ref().ok()?)))
            .collect();
        if let Some((_, first)) = measured.first() {
            writeln!(
                out,
                "One epoch: forward, backward, update. Median of {} after {} to warm up; {}.\n\
                 peak: most memory resident, opening the data and the mapped store included; own: without mapped \
                 files.\n",
                run.epochs, run.warmup, first.device
            )?;
        }
        writeln!(
            out,
            "{:<10}{:>11}{:>13}{:>6}{:>4}{:>4}  {:<24}{:>10}{:>10}{:>10}",
            "case", "nodes", "entries", "d", "L", "T", "computed by", "seconds", "peak", "own"
        )?;
        for EpochResult { case, measured, .. } in &self.epochs {
            match measured {
                Ok(m) => writeln!(
                    out,
                    "{case:<10}{:>11}{:>13}{:>6}{:>4}{:>4}  {:<24}{:>10}{:>10}{:>10}",
                    thousands(m.nodes as u64),
                    thousands(m.entries as u64),
                    m.features,
                    m.outputs,
                    m.hops,
                    m.plan,
                    digits(m.seconds),
                    optional(m.peak_bytes.map(bytes)),
                    optional(m.anonymous_bytes.map(bytes)),
                )?,
                Err(error) => writeln!(out, "{case:<10}failed: {error}")?,
            }
        }
        if measured.is_empty() {
            return Ok(());
        }
        writeln!(
            out,
            "\nWhat must move, and the time it takes at the speed of a copy on the same threads (read + written).\n\
             gathered: a row per entry of the graph; compulsory: each row once per hop, as if caches held every state.\n\n\
             {:<10}{:>10} |{:>10}{:>9}{:>9}{:>10}{:>13} |{:>12}{:>10}{:>13}",
            "case",
            "copy GB/s",
            "gathered",
            "GB/s",
            "of copy",
            "bound s",
            "time/bound",
            "compulsory",
            "bound s",
            "time/bound"
        )?;
        for (case, m) in &measured {
            let [bound, least] = m.bounds().unwrap_or([f64::NAN; 2]);
            let copy = m.copy_bandwidth.unwrap_or(f64::NAN);
            writeln!(
                out,
                "{case:<10}{:>10.1} |{:>10}{:>9.1}{:>9}{:>10}{:>13.2} |{:>12}{:>10}{:>13.2}",
                copy / 1e9,
                bytes(m.bytes as u64),
                m.rate() / 1e9,
                percent(m.rate() / copy),
                digits(bound),
                m.seconds / bound,
                bytes(m.compulsory_bytes as u64),
                digits(least),
                m.seconds / least,
            )?;
        }
        for (case, m) in &measured {
            ops(out, case, m)?;
        }
        self.peer_table(out)
    }

    fn peer_table(&self, out: &mut String) -> std::fmt::Result {
        let Some(torch) = &self.torch else {
            return writeln!(
                out,
                "\nNo PyTorch to compare with: --peers PYTHON, with the path of a Python that has torch, runs the \
                 same epochs there."
            );
        };
        if self.epochs.iter().all(|result| result.peers.is_empty()) {
            return Ok(());
        }
        writeln!(
            out,
            "\nThe same epochs in PyTorch {torch}, as many threads, in this run; ratio: its time over ours.\n\
             Both start from the same parameters: loss is what it finds for them.\n\n\
             {:<10}{:<18}{:>10}{:>10}{:>10}{:>12}  loss is ours",
            "case", "variant", "seconds", "ratio", "peak", "loss"
        )?;
        for EpochResult { case, peers, .. } in &self.epochs {
            for peer in peers {
                if let Some(error) = &peer.error {
                    writeln!(out, "{case:<10}{:<18}failed: {error}", peer.variant)?;
                    continue;
                }
                writeln!(
                    out,
                    "{case:<10}{:<18}{:>10}{:>10}{:>10}{:>12}  {}",
                    peer.variant,
                    optional(peer.seconds.map(digits)),
                    optional(peer.ratio.map(|ratio| format!("{ratio:.1}"))),
                    optional(peer.peak_bytes.map(bytes)),
                    optional(peer.loss.map(|loss| format!("{loss:.5}"))),
                    peer.same_loss.map_or("-", |same| if same { "yes" } else { "NO: the ratio means nothing" }),
                )?;
            }
        }
        Ok(())
    }

    fn graph_table(&self, out: &mut String) -> std::fmt::Result {
        writeln!(
            out,
            "\nCross-validation with the preset's epochs and patience, scoring included; accuracy on test folds\n\
             in percent, ± deviation over all runs.\n\n\
             {:<14}{:>8}{:>11}{:>8}{:>9}{:>10}{:>12}{:>17}{:>14}{:>10}",
            "dataset", "graphs", "nodes", "folds", "repeats", "epochs", "seconds", "accuracy", "± of repeats", "peak"
        )?;
        for (name, result) in &self.graphs {
            match result {
                Ok(m) => {
                    let hundred = |value: Option<f64>| optional(value.map(|value| format!("{:.2}", 100.0 * value)));
                    let accuracy = format!("{} ± {}", hundred(m.accuracy), hundred(m.accuracy_std));
                    writeln!(
                        out,
                        "{name:<14}{:>8}{:>11}{:>8}{:>9}{:>10}{:>12}{accuracy:>17}{:>14}{:>10}",
                        thousands(m.graphs as u64),
                        thousands(m.nodes as u64),
                        m.folds,
                        m.repeats,
                        thousands(m.epochs as u64),
                        digits(m.seconds),
                        hundred(m.accuracy_std_between_repeats),
                        optional(m.peak_bytes.map(bytes)),
                    )?;
                }
                Err(error) => writeln!(out, "{name:<14}failed: {error}")?,
            }
        }
        Ok(())
    }

    pub fn json(&self, run: &BenchRun) -> Value {
        let epochs = self.epochs.iter().map(|EpochResult { case, measured, peers }| match measured {
            Ok(m) => {
                let bounds = m.bounds();
                let ratio = |at: usize| bounds.map(|bounds| m.seconds / bounds[at]);
                let mut object = json!({ "case": case });
                merge(&mut object, json!(m));
                merge(
                    &mut object,
                    json!({
                        "bytes_per_second": m.rate(),
                        "share_of_copy": m.copy_bandwidth.map(|copy| m.rate() / copy),
                        "bound_seconds": bounds.map(|bounds| bounds[0]),
                        "time_over_bound": ratio(0),
                        "compulsory_bound_seconds": bounds.map(|bounds| bounds[1]),
                        "time_over_compulsory_bound": ratio(1),
                        "peers": peers,
                    }),
                );
                object
            }
            Err(error) => json!({ "case": case, "error": error }),
        });
        let graphs = self.graphs.iter().map(|(name, result)| {
            let mut object = json!({ "dataset": name });
            merge(&mut object, result.as_ref().map_or_else(|error| json!({ "error": error }), |m| json!(m)));
            object
        });
        let scaling = self.scaling.as_ref().map(|result| match result {
            Ok(series) => json!(series.iter().map(Series::json).collect::<Vec<_>>()),
            Err(error) => json!({ "error": error }),
        });
        json!({
            "version": env!("CARGO_PKG_VERSION"),
            "epochs": run.epochs, "warmup": run.warmup, "torch": self.torch,
            "cases": epochs.collect::<Vec<_>>(), "graphs": graphs.collect::<Vec<_>>(), "scaling": scaling,
            "time_to_accuracy": self.accuracy.as_ref().map(TimeToAccuracy::json),
        })
    }
}

/// Adds the keys of one object to another.
fn merge(object: &mut Value, more: Value) {
    if let (Value::Object(object), Value::Object(more)) = (object, more) {
        object.extend(more);
    }
}

fn ops(out: &mut String, case: &str, m: &Measured) -> std::fmt::Result {
    writeln!(out, "\n{case:<24}{:>8}{:>11}{:>11}{:>9}{:>9}", "share", "seconds", "gathered", "GB/s", "of copy")?;
    let (large, small): (Vec<&OpTime>, Vec<&OpTime>) = m.ops.iter().partition(|op| op.share >= SMALL);
    let rest = OpTime {
        op: format!("{} more", small.len()),
        seconds: small.iter().map(|op| op.seconds).sum(),
        share: small.iter().map(|op| op.share).sum(),
        bytes: small.iter().map(|op| op.bytes).sum(),
        compulsory_bytes: 0.0,
    };
    for op in large.into_iter().chain((!small.is_empty()).then_some(&rest)) {
        let rate = Some(op.bytes / op.seconds).filter(|rate| rate.is_finite() && *rate > 0.0);
        let share = rate.zip(m.copy_bandwidth).map(|(rate, copy)| percent(rate / copy));
        writeln!(
            out,
            "  {:<22}{:>8}{:>11}{:>11}{:>9}{:>9}",
            op.op,
            percent(op.share),
            digits(op.seconds),
            bytes(op.bytes as u64),
            optional(rate.map(|rate| format!("{:.1}", rate / 1e9))),
            optional(share),
        )?;
    }
    Ok(())
}

fn scaling_table(out: &mut String, scaling: &Result<Vec<Series>, String>) -> std::fmt::Result {
    writeln!(
        out,
        "\nGrowth: seconds of an epoch, and of the part that walks along edges; exponents of fitted powers."
    )?;
    let series = match scaling {
        Ok(series) => series,
        Err(error) => return writeln!(out, "failed: {error}"),
    };
    for series in series {
        writeln!(out, "\n{:<34}{:>14}{:>12}{:>14}", series.against, "", "epoch", "along edges")?;
        for point in &series.points {
            let (x, walk) = (thousands(point.x as u64), digits(point.walk_seconds));
            writeln!(out, "  {:<32}{x:>14}{:>12}{walk:>14}", point.label, digits(point.seconds))?;
        }
        let exponent = |power: Option<super::fit::Power>| optional(power.map(|power| format!("{:.2}", power.exponent)));
        writeln!(out, "  {:<46}{:>12}{:>14}", "exponent", exponent(series.epoch()), exponent(series.walk()))?;
    }
    Ok(())
}

fn optional(text: Option<String>) -> String {
    text.unwrap_or_else(|| "-".into())
}

fn percent(share: f64) -> String {
    if share.is_finite() { format!("{:.1} %", 100.0 * share) } else { "-".into() }
}

/// Three digits that count.
fn digits(seconds: f64) -> String {
    match seconds {
        _ if !seconds.is_finite() => "-".into(),
        _ if seconds >= 99.95 => format!("{seconds:.0}"),
        _ if seconds >= 9.995 => format!("{seconds:.1}"),
        _ if seconds >= 0.9995 => format!("{seconds:.2}"),
        _ if seconds >= 0.09995 => format!("{seconds:.3}"),
        _ if seconds >= 0.009995 => format!("{seconds:.4}"),
        _ => format!("{seconds:.6}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_digits_count() {
        let shown = [123.4, 12.34, 1.234, 0.1234, 0.01234, 0.0000124].map(digits);
        assert_eq!(shown, ["123", "12.3", "1.23", "0.123", "0.0123", "0.000012"]);
        assert_eq!(digits(f64::NAN), "-");
    }
}
