//! A diagnosis in plain words: what was measured, what came out, and what that means for a reader of the page.

use super::data::{Decay, Diagnostics, Finding, FindingLevel};
use crate::diagnose::{Diagnosis, Spectrum, Verdict};

/// Findings with their readings, and the decay that the page draws.
pub(super) fn diagnostics(diagnosis: &Diagnosis) -> Diagnostics {
    let finding = |title: &str, value: String, reading: String, fine: bool| Finding {
        title: title.into(),
        value,
        reading,
        level: if fine { FindingLevel::Ok } else { FindingLevel::Warn },
    };
    let mut findings = Vec::new();
    let verdict = diagnosis.independence.verdict;
    let value = match verdict {
        Verdict::Independent => "linearly independent",
        Verdict::Dependent => "linearly dependent",
        Verdict::Undecided => "not decided",
    };
    let reading = match verdict {
        Verdict::Independent => "One set of hop weights belongs to what the model does: the weights have a meaning.",
        Verdict::Dependent => "Several sets of hop weights do the very same: do not read single weights.",
        Verdict::Undecided => "Whether several sets of hop weights do the same could not be decided at this size.",
    };
    let reading = format!("{reading} ({})", diagnosis.independence.reason);
    findings.push(finding("Walk lengths", value.into(), reading, verdict == Verdict::Independent));
    if let (Some(gamma), Some(per_node)) = (diagnosis.conditioning.gamma, diagnosis.conditioning.gamma_per_node) {
        let error = if gamma.error > 0.0 { format!(" ± {:.2}", gamma.error) } else { String::new() };
        let warning = diagnosis.conditioning.warning();
        let fine = warning.is_none();
        let reading = warning.unwrap_or_else(|| {
            "Changing hop weights changes predictions noticeably: the split over hops can be read.".into()
        });
        findings.push(finding(
            "Conditioning gamma_T",
            format!("{:.4}{error}; a node {:.4}", gamma.value, per_node.value),
            reading,
            fine,
        ));
    }
    for note in &diagnosis.notes {
        findings.push(finding("Keep in mind", String::new(), note.clone(), diagnosis.ergodic));
    }
    // What decays at all: without alternating parts, which never do.
    let decay = diagnosis.apart_from_alternating.as_ref().or(diagnosis.decay.as_ref());
    if let Some(decay) = decay {
        let apart = if diagnosis.apart_from_alternating.is_some() { " apart from alternating parts" } else { "" };
        findings.push(finding(
            "Spectral radius rho",
            format!("{:.5}{apart}", decay.rho.high),
            "What is left of the slowest difference between nodes after one step; near 1, far walks still differ."
                .into(),
            true,
        ));
        let horizon = decay.horizon.high.map_or("none found".into(), |horizon| horizon.to_string());
        findings.push(finding(
            &format!("Horizon at resolution {}{apart}", diagnosis.epsilon),
            horizon,
            match decay.recommended_hops {
                Some(hops) => format!(
                    "Walks differ up to {} steps; from there on one more step changes next to nothing. It says what can be told \
                     apart, not what predicts best.",
                    hops - 1
                ),
                None => "No finite number of steps is known to be enough at this resolution.".into(),
            },
            decay.horizon.high.is_some(),
        ));
    }
    let end = |end: fn(&Spectrum) -> Option<f64>| diagnosis.spectrum.as_ref().and_then(end);
    Diagnostics {
        findings,
        decay: decay.map_or(Vec::new(), |decay| {
            (decay.distances.iter()).map(|at| Decay { t: at.t as usize, lower: at.low, upper: at.high }).collect()
        }),
        epsilon: Some(diagnosis.epsilon),
        horizon: decay.and_then(|decay| decay.horizon.high).map(|horizon| horizon as usize),
        bound: decay.and_then(|decay| decay.bound).map(|bound| bound as usize),
        recommended: (diagnosis.decay.as_ref()).and_then(|decay| decay.recommended_hops).map(|hops| hops as usize),
        lambda_2: end(|spectrum| spectrum.lambda_2.as_ref().map(|end| end.value)),
        lambda_min: end(|spectrum| spectrum.lambda_min.as_ref().map(|end| end.value)),
    }
}
