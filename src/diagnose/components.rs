//! The parts a walk never leaves, and which of them it crosses back and forth.
//!
//! Every connected component adds one stationary mode (eigenvalue 1). A component whose nodes fall into two sides
//! with every transition from one side to the other (bipartite) adds one alternating mode (eigenvalue -1); a single
//! self-loop, as a lazy walk has at every node, rules that out. Both modes are known in closed form, see
//! `Components::modes`. Invariant: components are numbered by their lowest node, and hold their nodes in ascending
//! order.

use super::matrix::{self, Matrix};
use harmonia_graph::error::Result;
use harmonia_graph::graph::{Csr, Transition};
use harmonia_graph::stop::Stop;
use serde::Serialize;

/// Components listed one by one.
const LISTED: usize = 5;
/// Nodes visited between two looks at the stop request.
const PATIENCE: usize = 1 << 16;
const UNSEEN: u32 = u32::MAX;

/// Connected components of a walk; of a directed one whichever way its edges point.
#[derive(Clone, Debug)]
pub struct Components {
    /// Nodes, component by component.
    members: Vec<u32>,
    /// First member of each component, and the number of nodes at the end.
    starts: Vec<usize>,
    /// Position of each node in its component.
    place: Vec<u32>,
    /// Whether the walk on a component alternates between two sides.
    bipartite: Vec<bool>,
    /// Which side a node of a bipartite component is on.
    side: Vec<bool>,
}

/// What there is to say about components.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ComponentSummary {
    /// How many there are.
    pub count: usize,
    /// Components of one node.
    pub single_nodes: usize,
    /// Bipartite components; of a directed graph nothing is said.
    pub bipartite: usize,
    /// Nodes in bipartite components.
    pub bipartite_nodes: usize,
    /// The largest, largest first.
    pub largest: Vec<ComponentSize>,
}

/// How large one component is.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ComponentSize {
    /// How many nodes it has; 1 for an isolated node.
    pub nodes: usize,
    /// Its lowest node.
    pub first_node: usize,
    /// Whether the walk alternates between two sides.
    pub bipartite: bool,
}

impl Components {
    /// Walks through the graph breadth first, from every node that no walk has met before.
    ///
    /// # Errors
    /// A stop was asked for.
    pub fn of(transition: &Transition, stop: &Stop) -> Result<Components> {
        let matrix = Matrix::of(transition);
        let transposed = (!transition.is_symmetric()).then(|| Matrix::new(transition.transposed(), matrix.degree()));
        let nodes = matrix.nodes();
        let mut label = vec![UNSEEN; nodes];
        let mut side = vec![false; nodes];
        let mut bipartite = Vec::new();
        let (mut queue, mut visited) = (Vec::new(), 0);
        for first in 0..nodes {
            if label[first] != UNSEEN {
                continue;
            }
            let component = bipartite.len() as u32;
            let mut alternates = transposed.is_none();
            label[first] = component;
            queue.clear();
            queue.push(first as u32);
            let mut next = 0;
            while let Some(&i) = queue.get(next) {
                next += 1;
                visited += 1;
                if visited % PATIENCE == 0 {
                    stop.check()?;
                }
                let i = i as usize;
                let read = transposed.iter().flat_map(|matrix| matrix.row(i));
                for (j, _) in matrix.row(i).chain(read) {
                    if label[j] == UNSEEN {
                        label[j] = component;
                        side[j] = !side[i];
                        queue.push(j as u32);
                    } else if side[j] == side[i] {
                        alternates = false;
                    }
                }
            }
            bipartite.push(alternates);
        }
        Ok(Components::grouped(&label, bipartite, side))
    }

    fn grouped(label: &[u32], bipartite: Vec<bool>, side: Vec<bool>) -> Components {
        let mut starts = vec![0; bipartite.len() + 1];
        label.iter().for_each(|&component| starts[component as usize + 1] += 1);
        (1..starts.len()).for_each(|component| starts[component] += starts[component - 1]);
        let (mut filled, mut members, mut place) = (starts.clone(), vec![0; label.len()], vec![0; label.len()]);
        for (i, &component) in label.iter().enumerate() {
            let at = &mut filled[component as usize];
            members[*at] = i as u32;
            place[i] = (*at - starts[component as usize]) as u32;
            *at += 1;
        }
        Components { members, starts, place, bipartite, side }
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.bipartite.len()
    }

    /// Nodes of one component, ascending.
    pub fn nodes(&self, component: usize) -> &[u32] {
        &self.members[self.starts[component]..self.starts[component + 1]]
    }

    /// Whether the walk on a component alternates between two sides; never said of a directed walk.
    pub fn is_bipartite(&self, component: usize) -> bool {
        self.bipartite[component]
    }

    /// Number of bipartite components.
    pub fn bipartite(&self) -> usize {
        self.bipartite.iter().filter(|alternates| **alternates).count()
    }

    /// Components from the smallest to the largest.
    pub fn by_size(&self) -> Vec<usize> {
        let mut order: Vec<usize> = (0..self.count()).collect();
        order.sort_by_key(|&component| self.nodes(component).len());
        order
    }

    /// Counts, and the largest ones.
    pub fn summary(&self) -> ComponentSummary {
        let size = |component: usize| self.nodes(component).len();
        let listed = |&component: &usize| ComponentSize {
            nodes: size(component),
            first_node: self.nodes(component)[0] as usize,
            bipartite: self.is_bipartite(component),
        };
        let mut order: Vec<usize> = (0..self.count()).collect();
        order.sort_by_key(|&component| std::cmp::Reverse(size(component)));
        let all = || 0..self.count();
        ComponentSummary {
            count: self.count(),
            single_nodes: all().filter(|&component| size(component) == 1).count(),
            bipartite: self.bipartite(),
            bipartite_nodes: all().filter(|&component| self.is_bipartite(component)).map(size).sum(),
            largest: order.iter().take(LISTED).map(listed).collect(),
        }
    }

    /// One component as a matrix of its own, with its degrees.
    pub(super) fn extract(&self, whole: &Matrix<'_>, component: usize) -> (Csr, Vec<f64>) {
        matrix::extract(whole, self.nodes(component), &self.place)
    }

    /// Unit eigenvectors of S on one component that need no computing: sqrt(degree), with eigenvalue 1, and where the
    /// component is bipartite the same with the sign of the side, with eigenvalue -1. Their rows are the nodes of the
    /// component, or of the whole graph with zeros elsewhere.
    pub(super) fn modes(&self, degree: &[f64], component: usize, rows: Rows) -> Vec<Vec<f64>> {
        let members = self.nodes(component);
        let norm = members.iter().map(|&i| degree[i as usize]).sum::<f64>().sqrt();
        let mode = |signed: bool| {
            let entry = |i: u32| {
                let value = degree[i as usize].sqrt() / norm;
                if signed && self.side[i as usize] { -value } else { value }
            };
            match rows {
                Rows::Component => members.iter().map(|&i| entry(i)).collect(),
                Rows::Graph => {
                    let mut vector = vec![0.0; self.place.len()];
                    members.iter().for_each(|&i| vector[i as usize] = entry(i));
                    vector
                }
            }
        };
        let signs = [Some(false), self.is_bipartite(component).then_some(true)];
        signs.into_iter().flatten().map(mode).collect()
    }
}

/// What the rows of a vector are.
#[derive(Clone, Copy)]
pub(super) enum Rows {
    /// Nodes of a component.
    Component,
    /// Nodes of the whole graph.
    Graph,
}
