//! A diagnosis in words: one line per number, each with what it means for whoever reads hop weights.

use super::{Bracket, Decay, Diagnosis, Estimate, Horizon, Verdict};
use harmonia_graph::units::thousands;
use std::fmt::{self, Write};

/// Relative width below which two bounds are shown as one number.
const SAME: f64 = 5e-4;

/// How far walks can be told apart is not how far they help: followed as advice it has cost accuracy.
const NOT_FOR_PREDICTION: &str = "this says how far hop weights can be read, not which T predicts best; validation says that \
                                  (harmonia tune)";

/// What to keep in mind about a diagnosis.
pub(super) fn notes(diagnosis: &Diagnosis) -> Vec<String> {
    let mut notes = Vec::new();
    let c = &diagnosis.components;
    if !diagnosis.reversible {
        notes.push(
            "The graph is directed, so the walk is not reversible: rho, D_t and the horizon, which rest on real \
             eigenvalues, do not apply. Gram matrix, gamma_T and Frobenius distances do. data.undirected=true \
             diagnoses the graph with every edge entered both ways."
                .into(),
        );
        return notes;
    }
    if c.count > 1 {
        notes.push(format!(
            "The graph has {} components, so the walk has as many stationary modes and is not ergodic, as the theorem \
             assumes. All stationary modes were taken out: D_t and H_epsilon are the largest over all components.",
            thousands(c.count as u64)
        ));
    }
    if c.bipartite > 0 {
        notes.push(format!(
            "{} {} bipartite ({} nodes): the walk crosses from side to side for ever, -1 is an eigenvalue, D_t \
             stays at 2 and no horizon is finite. A lazy walk (walk.lazy=true) cures that. The figures apart \
             from the alternating mode say what holds for everything else.",
            thousands(c.bipartite as u64),
            if c.bipartite == 1 { "component is" } else { "components are" },
            thousands(c.bipartite_nodes as u64)
        ));
    }
    if let Some(spectrum) = &diagnosis.spectrum {
        let open = |end: &Option<super::End>| end.is_some_and(|end| !end.converged);
        if open(&spectrum.lambda_2) || open(&spectrum.lambda_min) {
            notes.push(format!(
                "The eigensolver stopped after {} products before {} converged; the bounds allow for that.",
                spectrum.products,
                match (open(&spectrum.lambda_min), open(&spectrum.lambda_2)) {
                    (true, true) => "both ends of the spectrum had",
                    (true, false) => "the lower end of the spectrum had",
                    _ => "the upper end of the spectrum had",
                }
            ));
        }
    }
    if let Some(gamma) = diagnosis.conditioning.gamma
        && gamma.value <= diagnosis.conditioning.gamma_floor
        && diagnosis.independence.verdict == Verdict::Independent
    {
        notes.push("gamma_T is so small that rounding hides its value: read it as at most its floor.".into());
    }
    notes
}

impl fmt::Display for Diagnosis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.graph(f)?;
        self.identifiability(f)?;
        if let Some(decay) = &self.decay {
            self.decay(f, "horizon", decay)?;
        }
        if let Some(decay) = &self.apart_from_alternating {
            self.decay(f, "horizon apart from the alternating mode", decay)?;
        }
        self.notes.iter().try_for_each(|note| writeln!(f, "\nnote: {note}"))
    }
}

impl Diagnosis {
    fn graph(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let number = |value: usize| thousands(value as u64);
        let walk = match (self.walk.lazy, self.walk.self_loops) {
            (false, false) => "plain walk",
            (true, false) => "lazy walk",
            (false, true) => "walk with self-loops",
            (true, true) => "lazy walk with self-loops",
        };
        line(f, "graph", &format!("{} nodes, {} directed edges", number(self.nodes), number(self.directed_edges)))?;
        line(
            f,
            "walk",
            &format!("{walk}, {}", if self.reversible { "reversible" } else { "directed, not reversible" }),
        )?;
        let c = &self.components;
        let mut text = number(c.count);
        if c.count > 1 {
            let sizes: Vec<String> = c.largest.iter().map(|one| number(one.nodes)).collect();
            let more = if c.count > sizes.len() { ", ..." } else { "" };
            write!(text, " of {}{more} nodes; {} single nodes", sizes.join(", "), number(c.single_nodes))?;
        }
        if c.bipartite > 0 {
            write!(text, "; bipartite: {}", number(c.bipartite))?;
            let named = c.largest.iter().filter(|one| one.bipartite);
            let named: Vec<String> =
                named.map(|one| format!("{} nodes from node {} on", number(one.nodes), one.first_node)).collect();
            if !named.is_empty() {
                write!(text, " ({})", named.join(", "))?;
            }
        }
        line(f, "components", &text)?;
        let Some(spectrum) = &self.spectrum else { return Ok(()) };
        // Rounded first and zero added: nobody wants to read -0.000000.
        let value = |end: &super::End| (end.value * 1e6).round() / 1e6 + 0.0;
        let end = |end: Option<super::End>| match end {
            Some(end) if end.residual > 0.0 => format!("{:.6} (residual {:.1e})", value(&end), end.residual),
            Some(end) => format!("{:.6}", value(&end)),
            None => "none".into(),
        };
        line(f, "lambda_2", &format!("{}: the largest eigenvalue below the stationary one", end(spectrum.lambda_2)))?;
        let apart = if spectrum.alternating > 0 { " above the alternating one" } else { "" };
        line(f, "lambda_min", &format!("{}: the smallest{apart}", end(spectrum.lambda_min)))
    }

    fn identifiability(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let c = &self.conditioning;
        writeln!(f, "\nidentifiability of T = {} walk lengths", self.hops)?;
        let verdict = match self.independence.verdict {
            Verdict::Independent => "independent: an operator has one set of hop weights",
            Verdict::Dependent => {
                "dependent: different hop weights give the same operator, single weights mean nothing"
            }
            Verdict::Undecided => "not decided",
        };
        line(f, "walk powers", verdict)?;
        line(f, "", &format!("because {}", self.independence.reason))?;
        let (Some(gamma), Some(per_node)) = (c.gamma, c.gamma_per_node) else {
            return line(f, "gamma_T", "one walk length has nothing to be told apart from");
        };
        let how = match c.probes {
            0 => "exact".to_string(),
            probes => format!("{probes} random probes, {} nodes exactly", thousands(c.exact_nodes as u64)),
        };
        line(f, "gamma_T", &format!("{} ({how})", estimate(gamma)))?;
        line(
            f,
            "gamma_T/sqrt(n)",
            &format!("{}: what a node at least sees of a unit change of hop weights", estimate(per_node)),
        )?;
        let factor = 2.0 / per_node.value;
        if factor.is_finite() {
            let times = if factor < 100.0 { format!("{factor:.1}") } else { thousands(factor.round() as u64) };
            let text = format!("an error of x a node in the operator can move the hop weights by up to {times} x");
            line(f, "stability", &text)?;
        }
        writeln!(f, "\n{:>4}  {:>26}  {:>26}", "t", "||M^(t+1) - M^t||_F", "gamma of 0..t+1")?;
        for (t, (distance, gamma)) in c.frobenius.iter().zip(&c.gamma_by_hops).enumerate() {
            writeln!(f, "{t:>4}  {:>26}  {:>26}", estimate(*distance), estimate(*gamma))?;
        }
        Ok(())
    }

    fn decay(&self, f: &mut fmt::Formatter<'_>, title: &str, decay: &Decay) -> fmt::Result {
        let epsilon = self.epsilon;
        writeln!(f, "\n{title}")?;
        line(f, "rho", &format!("{}: what is left of the slowest mode after one step", bracket(decay.rho)))?;
        let infinite = |steps: Option<u64>| steps.map_or("infinite".to_string(), thousands);
        let Horizon { low, high } = decay.horizon;
        let range = if low == high { infinite(low) } else { format!("{} to {}", infinite(low), infinite(high)) };
        let bound = decay.bound.map_or("none, as rho may be 1".into(), thousands);
        line(f, "H_epsilon", &format!("{range} for epsilon = {epsilon}; the theorem's bound: {bound}"))?;
        match (high, decay.recommended_hops) {
            (Some(horizon), Some(hops)) => {
                let text = format!(
                    "from t = {horizon} on, neighbouring hop weights cannot be told apart at resolution {epsilon}"
                );
                line(f, "", &text)?;
                let compared = match (self.hops as u64).cmp(&hops) {
                    std::cmp::Ordering::Less => {
                        format!("longer ones than those of T = {} are still different", self.hops)
                    }
                    std::cmp::Ordering::Equal => format!("those of T = {}", self.hops),
                    std::cmp::Ordering::Greater => {
                        format!("of T = {}, read the last weights together, not one by one", self.hops)
                    }
                };
                let last = thousands(hops - 1);
                line(f, "walks differ", &format!("up to {last} steps; {compared}"))?;
                line(f, "", NOT_FOR_PREDICTION)?;
            }
            _ => line(f, "walks differ", "for ever: no finite number of steps is known from which on they do not")?,
        }
        writeln!(f, "\n{:>4}  {:>26}", "t", "D_t")?;
        for distance in &decay.distances {
            let mark = if distance.high <= epsilon { "  <= epsilon" } else { "" };
            let bounds = Bracket { low: distance.low, high: distance.high };
            writeln!(f, "{:>4}  {:>26}{mark}", distance.t, bracket(bounds))?;
        }
        Ok(())
    }
}

fn line(f: &mut fmt::Formatter<'_>, name: &str, text: &str) -> fmt::Result {
    writeln!(f, "{name:<17} {text}")
}

fn estimate(Estimate { value, error }: Estimate) -> String {
    if error > 0.0 { format!("{} ± {error:.1e}", number(value)) } else { number(value) }
}

fn bracket(Bracket { low, high }: Bracket) -> String {
    if high - low <= SAME * high { number(high) } else { format!("{} to {}", number(low), number(high)) }
}

fn number(value: f64) -> String {
    if value != 0.0 && value.abs() < 1e-3 { format!("{value:.3e}") } else { format!("{value:.5}") }
}
