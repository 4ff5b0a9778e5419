//! A SMILES string as a graph of heavy atoms: what the string says, hydrogens folded into the atoms that carry them.
//!
//! Node order is the order of the string. The parser keeps its own stack, and everything here is a loop, so depth of
//! nesting costs no stack; length is bounded by [`MOST_BYTES`].

use super::features::{self, FEATURES};
use smiles_rs::Smiles;
use smiles_rs::atom::bracketed::chirality::Chirality;
use smiles_rs::bond::Bond;
use std::collections::VecDeque;

/// No drug is longer; peptides of a hundred residues are.
const MOST_BYTES: usize = 10_000;
/// Rings up to this many atoms are told apart.
const LARGEST_RING: usize = 8;

/// A molecule ready for the dataset.
#[derive(Debug, PartialEq)]
pub(super) struct Molecule {
    /// Features of each heavy atom.
    pub atoms: Vec<[i8; FEATURES]>,
    /// Each bond once.
    pub bonds: Vec<(u32, u32)>,
}

/// Order of a bond as far as the features tell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Order {
    Single,
    Double,
    /// Triple or quadruple.
    Triple,
    Aromatic,
}

/// One end of a bond.
#[derive(Clone, Copy, Debug)]
pub(super) struct Link {
    pub to: usize,
    pub order: Order,
    pub in_ring: bool,
}

/// A heavy atom.
#[derive(Debug)]
pub(super) struct Atom {
    pub element: &'static str,
    pub charge: i8,
    /// Implicit, in brackets and explicit ones alike.
    pub hydrogens: usize,
    /// As written: lower case in the string.
    pub aromatic: bool,
    pub chirality: Option<Chirality>,
    pub isotope: bool,
    /// Whether a bond at this atom is written `/` or `\`.
    pub directed: bool,
    pub links: Vec<Link>,
    /// Atoms of the smallest ring through this one; 0 outside rings, `LARGEST_RING` for larger ones.
    pub smallest_ring: usize,
}

impl Molecule {
    /// Reads a SMILES string; the error says why it cannot be.
    pub(super) fn parse(smiles: &str) -> Result<Molecule, String> {
        let atoms = atoms(smiles)?;
        let ends = |(i, atom): (usize, &Atom)| {
            let later = atom.links.iter().filter(move |link| i < link.to);
            later.map(move |link| (i as u32, link.to as u32)).collect::<Vec<_>>()
        };
        let bonds = atoms.iter().enumerate().flat_map(ends).collect();
        Ok(Molecule { atoms: (0..atoms.len()).map(|i| features::of(&atoms, i)).collect(), bonds })
    }
}

/// The heavy atoms of a string.
pub(super) fn atoms(smiles: &str) -> Result<Vec<Atom>, String> {
    if smiles.len() > MOST_BYTES {
        return Err(format!("{} characters, expected at most {MOST_BYTES}", smiles.len()));
    }
    let parsed = Smiles::from_str(smiles).map_err(|error| error.to_string())?;
    let rings = parsed.ring_membership();
    // Heavy atoms are renumbered without the hydrogens.
    let mut heavy = Vec::with_capacity(parsed.nodes().len());
    let mut number = Vec::with_capacity(parsed.nodes().len());
    for (id, atom) in parsed.nodes().iter().enumerate() {
        let element = atom.element().map_or("*", |element| element.symbol());
        number.push((element != "H").then_some(heavy.len()));
        if element != "H" {
            heavy.push((id, atom, element));
        }
    }
    if heavy.is_empty() {
        return Err("no heavy atom".into());
    }
    let mut atoms: Vec<Atom> = Vec::with_capacity(heavy.len());
    for (id, atom, element) in heavy {
        let mut hydrogens = usize::from(atom.hydrogen_count()) + usize::from(parsed.implicit_hydrogen_count(id));
        let mut links = Vec::new();
        let mut directed = false;
        for edge in parsed.edges_for_node(id) {
            directed |= matches!(edge.bond(), Bond::Up | Bond::Down);
            let other = edge.other(id).unwrap_or(id);
            let in_ring = rings.contains_edge(id, other);
            let order = match edge.bond() {
                Bond::Double => Order::Double,
                Bond::Triple | Bond::Quadruple => Order::Triple,
                // Between two aromatic rings an unmarked bond is a single one.
                Bond::Single | Bond::Up | Bond::Down if edge.is_aromatic() && in_ring => Order::Aromatic,
                Bond::Single | Bond::Up | Bond::Down => Order::Single,
            };
            match number.get(other).copied().flatten() {
                Some(to) => links.push(Link { to, order, in_ring }),
                None => hydrogens += 1,
            }
        }
        atoms.push(Atom {
            element,
            charge: atom.charge_value(),
            hydrogens,
            aromatic: atom.aromatic(),
            chirality: atom.chirality(),
            isotope: atom.isotope_mass_number().is_some(),
            directed,
            links,
            smallest_ring: 0,
        });
    }
    let sizes = smallest_rings(&atoms);
    atoms.iter_mut().zip(sizes).for_each(|(atom, size)| atom.smallest_ring = size);
    Ok(atoms)
}

/// Smallest ring through each atom, by the shortest way round each ring bond.
fn smallest_rings(atoms: &[Atom]) -> Vec<usize> {
    let mut sizes = vec![0; atoms.len()];
    // Distance from the start of the current search; a stamp saves clearing it.
    let mut distance = vec![(0usize, 0usize); atoms.len()];
    let mut queue = VecDeque::new();
    let mut stamp = 0;
    for (start, atom) in atoms.iter().enumerate() {
        for link in atom.links.iter().filter(|link| link.in_ring && start < link.to) {
            stamp += 1;
            let mut ring = LARGEST_RING;
            queue.clear();
            queue.push_back((start, 1));
            'search: while let Some((at, length)) = queue.pop_front() {
                if length >= LARGEST_RING {
                    break;
                }
                for next in atoms.get(at).map_or(&[][..], |atom| &atom.links) {
                    // The bond itself is not a way round.
                    if !next.in_ring || (at == start && next.to == link.to) {
                        continue;
                    }
                    if next.to == link.to {
                        ring = length + 1;
                        break 'search;
                    }
                    if let Some(seen) = distance.get_mut(next.to)
                        && seen.0 != stamp
                        && next.to != start
                    {
                        *seen = (stamp, length);
                        queue.push_back((next.to, length + 1));
                    }
                }
            }
            for end in [start, link.to] {
                if let Some(size) = sizes.get_mut(end) {
                    *size = if *size == 0 { ring } else { ring.min(*size) };
                }
            }
        }
    }
    sizes
}
