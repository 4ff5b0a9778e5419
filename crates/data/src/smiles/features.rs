//! The 65 features of an atom, from what a SMILES string says and simple valence rules.
//!
//! hERG-Karim is counted with 65 atom features in the literature without a list; this is a readable set of that size.
//! One-hot groups (0/1, exactly one of a group unless it says otherwise): element, heavy neighbours, attached
//! hydrogens, formal charge, hybridisation; smallest ring, bonds in rings and chirality mark have at most one.
//! Counts: bonds of each order, neighbours of each kind. Flags: the rest. Aromatic means written in lower case; a
//! string in Kekule form has double bonds instead.
//!
//! Hybridisation is an estimate. C, N, O, B: sp with a triple or two double bonds, sp2 with a double or aromatic bond,
//! else sp3; an N or O without positive charge beside an sp2 or sp atom lends its lone pair and is sp2, as in amides
//! and phenols, and B with three neighbours is sp2. S, P, Se, Si, halogens: sp2 where aromatic or with one double bond
//! and at most two neighbours, else sp3 up to four neighbours. Everything else: other.

use super::molecule::{Atom, Order};
use smiles_rs::atom::bracketed::chirality::Chirality;

/// Number of features of an atom.
pub const FEATURES: usize = 65;

/// Names of the features, in the order of the columns.
#[rustfmt::skip]
pub const FEATURE_NAMES: [&str; FEATURES] = [
    // 0..13
    "element C", "element N", "element O", "element F", "element S", "element Cl", "element Br", "element I",
    "element P", "element B", "element Si", "element Se", "element other",
    // 13..19
    "0 heavy neighbours", "1 heavy neighbour", "2 heavy neighbours", "3 heavy neighbours", "4 heavy neighbours",
    "5 or more heavy neighbours",
    // 19..24
    "0 hydrogens", "1 hydrogen", "2 hydrogens", "3 hydrogens", "4 or more hydrogens",
    // 24..29
    "charge -2 or less", "charge -1", "charge 0", "charge +1", "charge +2 or more",
    // 29..33
    "hybridisation sp", "hybridisation sp2", "hybridisation sp3", "hybridisation other",
    // 33..35
    "aromatic", "in a ring",
    // 35..41
    "smallest ring 3", "smallest ring 4", "smallest ring 5", "smallest ring 6", "smallest ring 7",
    "smallest ring 8 or more",
    // 41..44
    "2 bonds in rings", "3 bonds in rings", "4 or more bonds in rings",
    // 44..47
    "chirality @", "chirality @@", "chirality other",
    // 47..51
    "single bonds", "double bonds", "triple bonds", "aromatic bonds",
    // 51..57
    "carbon neighbours", "nitrogen neighbours", "oxygen neighbours", "sulphur neighbours", "halogen neighbours",
    "other neighbours",
    // 57..65
    "bond with / or \\", "isotope given", "conjugated", "hydrogen bond donor", "hydrogen bond acceptor",
    "carbonyl carbon", "amide nitrogen", "basic amine",
];

const ELEMENTS: [&str; 12] = ["C", "N", "O", "F", "S", "Cl", "Br", "I", "P", "B", "Si", "Se"];
const HALOGENS: [&str; 5] = ["F", "Cl", "Br", "I", "At"];

// Where each group starts.
const ELEMENT: usize = 0;
const NEIGHBOURS: usize = 13;
const HYDROGENS: usize = 19;
const CHARGE: usize = 24;
const HYBRIDISATION: usize = 29;
const AROMATIC: usize = 33;
const IN_RING: usize = 34;
const SMALLEST_RING: usize = 35;
const RING_BONDS: usize = 41;
const CHIRALITY: usize = 44;
const BONDS: usize = 47;
const NEIGHBOUR_KIND: usize = 51;
const FLAGS: usize = 57;

/// Features of atom `i` of a molecule.
pub(super) fn of(atoms: &[Atom], i: usize) -> [i8; FEATURES] {
    let mut row = [0i8; FEATURES];
    let Some(atom) = atoms.get(i) else { return row };
    let mut add = |column: usize| {
        if let Some(value) = row.get_mut(column) {
            // A hostile string may hang thousands of atoms on one.
            *value = value.saturating_add(1);
        }
    };
    add(ELEMENT + ELEMENTS.iter().position(|&element| element == atom.element).unwrap_or(ELEMENTS.len()));
    add(NEIGHBOURS + atom.links.len().min(5));
    add(HYDROGENS + atom.hydrogens.min(4));
    add(CHARGE + (i32::from(atom.charge).clamp(-2, 2) + 2) as usize);
    add(HYBRIDISATION + hybridisation(atoms, atom) as usize);
    if atom.aromatic {
        add(AROMATIC);
    }
    if atom.smallest_ring > 0 {
        add(IN_RING);
        add(SMALLEST_RING + atom.smallest_ring.clamp(3, 8) - 3);
        let bonds = atom.links.iter().filter(|link| link.in_ring).count();
        add(RING_BONDS + bonds.clamp(2, 4) - 2);
    }
    match atom.chirality {
        None => {}
        Some(Chirality::At | Chirality::TH(1)) => add(CHIRALITY),
        Some(Chirality::AtAt | Chirality::TH(2)) => add(CHIRALITY + 1),
        Some(_) => add(CHIRALITY + 2),
    }
    for link in &atom.links {
        add(BONDS + link.order as usize);
        let other = atoms.get(link.to).map_or("", |other| other.element);
        let kind = match other {
            "C" => 0,
            "N" => 1,
            "O" => 2,
            "S" => 3,
            _ if HALOGENS.contains(&other) => 4,
            _ => 5,
        };
        add(NEIGHBOUR_KIND + kind);
    }
    let amide = atom.element == "N" && neighbours(atoms, atom, Order::Single).any(|other| is_carbonyl(atoms, other));
    let polar = matches!(atom.element, "N" | "O");
    // The lone pair of an aromatic N with three partners, and of an amide N, is taken.
    let pyrrole_like = atom.element == "N" && atom.aromatic && atom.links.len() + atom.hydrogens > 2;
    let flags = [
        atom.directed,
        atom.isotope,
        is_conjugated(atoms, atom),
        (polar || atom.element == "S") && atom.hydrogens > 0,
        polar && atom.charge <= 0 && !pyrrole_like && !amide,
        is_carbonyl(atoms, atom),
        amide,
        atom.element == "N" && !amide && hybridisation(atoms, atom) == Hybridisation::Sp3 && !beside_acid(atoms, atom),
    ];
    (FLAGS..).zip(flags).filter(|&(_, set)| set).for_each(|(column, _)| add(column));
    row
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Hybridisation {
    Sp = 0,
    Sp2 = 1,
    Sp3 = 2,
    Other = 3,
}

fn count(atom: &Atom, order: Order) -> usize {
    atom.links.iter().filter(|link| link.order == order).count()
}

/// Whether the atom has a double, triple or aromatic bond.
fn is_unsaturated(atom: &Atom) -> bool {
    atom.aromatic || atom.links.iter().any(|link| link.order != Order::Single)
}

fn hybridisation(atoms: &[Atom], atom: &Atom) -> Hybridisation {
    let (double, triple) = (count(atom, Order::Double), count(atom, Order::Triple));
    let partners = atom.links.len() + atom.hydrogens;
    match atom.element {
        "C" | "N" | "O" | "B" => {
            // A sulphonyl or phosphoryl group takes no part.
            let takes_part = |other: &Atom| matches!(other.element, "C" | "N" | "O" | "B") && is_unsaturated(other);
            let lends_pair = || {
                let has_pair = matches!(atom.element, "N" | "O") && atom.charge <= 0;
                has_pair && neighbours(atoms, atom, Order::Single).any(takes_part)
            };
            let planar_boron = atom.element == "B" && partners <= 3;
            if triple > 0 || double > 1 {
                Hybridisation::Sp
            } else if double == 1 || atom.aromatic || planar_boron || lends_pair() {
                Hybridisation::Sp2
            } else {
                Hybridisation::Sp3
            }
        }
        "S" | "P" | "Se" | "Si" | "F" | "Cl" | "Br" | "I" => match partners {
            _ if atom.aromatic || (double == 1 && partners <= 2) => Hybridisation::Sp2,
            0..=4 => Hybridisation::Sp3,
            _ => Hybridisation::Other,
        },
        _ => Hybridisation::Other,
    }
}

fn neighbours<'a>(atoms: &'a [Atom], atom: &'a Atom, order: Order) -> impl Iterator<Item = &'a Atom> {
    atom.links.iter().filter(move |link| link.order == order).filter_map(|link| atoms.get(link.to))
}

/// C = O, or C = S.
fn is_carbonyl(atoms: &[Atom], atom: &Atom) -> bool {
    atom.element == "C" && neighbours(atoms, atom, Order::Double).any(|other| matches!(other.element, "O" | "S"))
}

/// Unsaturated, with a single or aromatic bond to another unsaturated atom.
fn is_conjugated(atoms: &[Atom], atom: &Atom) -> bool {
    let joined = neighbours(atoms, atom, Order::Single).chain(neighbours(atoms, atom, Order::Aromatic));
    is_unsaturated(atom) && joined.into_iter().any(is_unsaturated)
}

/// Bound to a sulphonyl, phosphoryl or other strongly electron-withdrawing centre: a sulphonamide N is not basic.
fn beside_acid(atoms: &[Atom], atom: &Atom) -> bool {
    neighbours(atoms, atom, Order::Single).any(|other| {
        matches!(other.element, "S" | "P") && neighbours(atoms, other, Order::Double).any(|o| o.element == "O")
    })
}
