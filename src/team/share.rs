//! What every rank does of a step: which of the ways to share the work of a model, and what of it is this rank's.
//!
//! Everything behind the logits is linear in the gradient of F, and parameters are few, so in all of them ranks have the same
//! parameters and add up gradients:
//! - targets: every rank takes some graphs of each batch;
//! - rows: every rank has some rows of the table of walks, and takes those of each batch that are its own;
//! - classes: every rank walks some columns of the logits along the whole graph; the loss alone needs all columns of a target;
//! - nodes: every rank has the rows of some nodes, and tells the others what their rows read of its own before each hop.

use super::{Team, part};
use crate::architecture::{Architecture, Layout, Spread};
use harmonia_graph::error::{Error, Result};
use std::ops::Range;
use std::sync::Arc;

/// The ways.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sharing {
    /// Graphs of each batch.
    Targets,
    /// Rows of a table of walks.
    Rows,
    /// Columns of the logits.
    Classes,
    /// Nodes of the graph.
    Nodes,
}

impl Sharing {
    /// As settings and people call it.
    pub fn name(self) -> &'static str {
        match self {
            Sharing::Targets => "targets",
            Sharing::Rows => "rows",
            Sharing::Classes => "classes",
            Sharing::Nodes => "nodes",
        }
    }
}

/// The model of a rank's own classes: that of all, with as many columns fewer in its readout.
#[derive(Clone, Debug)]
pub struct OwnClasses {
    /// Which of all classes.
    pub range: Range<usize>,
    /// L of the whole model.
    pub outputs: usize,
    /// Where its parameters are. All before the readout are where the whole model has them.
    pub layout: Layout,
}

/// What is this rank's.
#[derive(Clone, Debug)]
pub struct Share {
    /// The ranks.
    pub team: Arc<dyn Team>,
    /// How steps are shared.
    pub sharing: Sharing,
    /// Where classes can be shared, those of this rank.
    pub classes: Option<OwnClasses>,
    /// Units with a row in the table of walks, where there is one; every rank has a stretch of them.
    pub rows: Vec<u32>,
    /// First node of each rank and the end.
    pub bounds: Vec<usize>,
}

impl Share {
    /// Of a team that shares the work of a model in some way; `rows`: the units of its table, `bounds`: whose nodes are whose.
    ///
    /// # Errors
    /// The model cannot be shared like that.
    pub fn new(
        team: Arc<dyn Team>,
        sharing: Sharing,
        layout: &Layout,
        rows: Vec<u32>,
        bounds: Vec<usize>,
    ) -> Result<Share> {
        // What the loss of a batch is beside that of its targets would be counted once for each rank.
        let lacking = [("train.output_penalty", layout.output_penalty > 0.0), ("model.batch_norm", !layout.is_plain())];
        if let Some((name, _)) = lacking.iter().find(|(_, is_used)| *is_used) {
            return Err(Error::Config(format!(
                "{name} is computed over everything at once, which several processes do not have: start one, or turn it off"
            )));
        }
        let a = &layout.architecture;
        let ranks = team.size();
        if sharing == Sharing::Nodes && !walks(a) {
            return Err(Error::Config(format!(
                "engine.share = nodes needs a model that walks hop by hop; model.kind = {} does not: start one process",
                a.family.kind.name()
            )));
        }
        if sharing == Sharing::Classes && !can_share_classes(a, ranks) {
            return Err(Error::Config(format!(
                "engine.share = classes needs a model that walks hop by hop and at least a class for each of {ranks} processes; \
                 model.kind = {} has {}: set engine.share = nodes, or start fewer",
                a.family.kind.name(),
                a.outputs
            )));
        }
        let classes = can_share_classes(a, ranks).then(|| OwnClasses::of(layout, part(a.outputs, ranks, team.rank())));
        let classes = classes.transpose()?;
        Ok(Share { team, sharing, classes, rows, bounds })
    }

    /// The rank that has the row of a unit.
    pub fn owner_of_row(&self, unit: u32) -> Option<usize> {
        let at = self.rows.binary_search(&unit).ok()?;
        (0..self.team.size()).find(|&rank| part(self.rows.len(), self.team.size(), rank).contains(&at))
    }

    /// Units whose rows this rank has.
    pub fn own_rows(&self) -> &[u32] {
        &self.rows[part(self.rows.len(), self.team.size(), self.team.rank())]
    }

    /// The rank that has a node.
    pub fn owner_of_node(&self, node: usize) -> usize {
        self.bounds.partition_point(|&first| first <= node).saturating_sub(1)
    }

    /// Nodes that this rank has.
    pub fn own_nodes(&self) -> Range<usize> {
        let rank = self.team.rank();
        self.bounds[rank]..self.bounds[rank + 1]
    }

    /// The loss over all targets from that of a rank's own; one that has diverged tells the others.
    ///
    /// # Errors
    /// Another rank has failed.
    pub fn loss(&self, own: f64, diverged: bool) -> Result<f64> {
        let told = if diverged { f64::NAN } else { own };
        let all = super::sum_one(&*self.team, told)?;
        // Where classes are shared every rank has computed the loss of all.
        Ok(if self.sharing == Sharing::Classes { all / self.team.size() as f64 } else { all })
    }
}

/// Whether hops are taken one by one, on columns that do not know of each other.
fn walks(architecture: &Architecture) -> bool {
    matches!(architecture.spread(), Spread::Walks | Spread::Itself) && !architecture.family.kind.is_per_class()
}

/// Whether so many ranks can have columns of the logits each.
pub fn can_share_classes(architecture: &Architecture, ranks: usize) -> bool {
    walks(architecture) && architecture.outputs >= ranks
}

impl OwnClasses {
    /// Of some classes of a model.
    ///
    /// # Errors
    /// None but of a model that is none.
    pub fn of(whole: &Layout, range: Range<usize>) -> Result<OwnClasses> {
        let architecture = Architecture { outputs: range.len(), ..whole.architecture.clone() };
        let mut layout = Layout::new(architecture)?;
        layout.hop_basis.clone_from(&whole.hop_basis);
        layout.distribution = whole.distribution.clone();
        Ok(OwnClasses { range, outputs: whole.architecture.outputs, layout })
    }

    /// Parameters of the own model out of those of the whole one.
    pub fn parameters(&self, own: &mut Vec<f32>, whole: &[f32]) {
        let start = self.layout.readout_weight.start;
        own.clear();
        own.extend_from_slice(&whole[..start]);
        // Behind the rows of Wo comes beta: one row more.
        whole[start..].chunks_exact(self.outputs).for_each(|row| own.extend_from_slice(&row[self.range.clone()]));
    }

    /// Adds a gradient of the own model to that of the whole one.
    pub fn add_gradient(&self, whole: &mut [f32], own: &[f32]) {
        let start = self.layout.readout_weight.start;
        let (whole, readout) = whole.split_at_mut(start);
        let (own, own_readout) = own.split_at(start);
        whole.iter_mut().zip(own).for_each(|(to, &d)| *to += d);
        let rows = readout.chunks_exact_mut(self.outputs).zip(own_readout.chunks_exact(self.range.len()));
        for (to, own) in rows {
            to[self.range.clone()].iter_mut().zip(own).for_each(|(to, &d)| *to += d);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::threads::Threads;
    use super::*;
    use crate::config::Config;

    fn layout(outputs: usize) -> Layout {
        Layout::new(Config::default().architecture(3, outputs)).unwrap()
    }

    #[test]
    fn the_model_of_own_classes_has_the_columns_of_its_own() {
        let whole = layout(5);
        let parameters: Vec<f32> = (0..whole.len()).map(|at| at as f32).collect();
        let mut gradient = vec![0.0; whole.len()];
        for team in Threads::team(2) {
            let share = Share::new(team, Sharing::Classes, &whole, Vec::new(), Vec::new()).unwrap();
            let own = share.classes.unwrap();
            let mut here = Vec::new();
            own.parameters(&mut here, &parameters);
            assert_eq!(here.len(), own.layout.len());
            let start = whole.readout_weight.start;
            let expected: Vec<f32> =
                (0..4).flat_map(|row| own.range.clone().map(move |c| (start + row * 5 + c) as f32)).collect();
            assert_eq!(here[start..], expected);
            own.add_gradient(&mut gradient, &here);
        }
        // Columns are of one rank each, everything before them of both.
        let start = whole.readout_weight.start;
        assert!(gradient[..start].iter().zip(&parameters).all(|(d, p)| *d == 2.0 * p));
        assert_eq!(gradient[start..], parameters[start..]);
    }

    #[test]
    fn more_ranks_than_classes_cannot_share_them() {
        let team = Threads::team(4).swap_remove(0);
        let error = Share::new(team, Sharing::Classes, &layout(3), Vec::new(), Vec::new()).unwrap_err();
        assert!(error.to_string().contains("a class for each of 4"), "{error}");
    }

    #[test]
    fn rows_and_nodes_have_one_owner_each() {
        let team = Threads::team(3).swap_remove(1);
        let share = Share::new(team, Sharing::Rows, &layout(3), vec![2, 5, 7, 9], vec![0, 4, 4, 9]).unwrap();
        assert_eq!([2, 5, 7, 9, 3].map(|unit| share.owner_of_row(unit)), [Some(0), Some(1), Some(2), Some(2), None]);
        assert_eq!(share.own_rows(), [5]);
        assert_eq!([0, 3, 4, 8].map(|node| share.owner_of_node(node)), [0, 0, 2, 2]);
        assert!(share.own_nodes().is_empty());
    }
}
