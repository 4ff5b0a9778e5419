//! What the numbers in the files of well-known sets stand for, so that explanations speak of carbon, not of label 0.
//!
//! Meanings of classes are those that the readme in the zip gives. MUTAG, PROTEINS and DD do not say which number is
//! which class: there the class keeps its number.

/// Names for one set; the default knows nothing.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Known {
    name: &'static str,
    /// Of node labels 0, 1, ...
    labels: &'static [&'static str],
    attributes: &'static [&'static str],
    classes: &'static [(i64, &'static str)],
    /// Whether the readme has been looked at and gives no meaning of the classes.
    classes_unnamed: bool,
}

const NOTHING: Known = Known { name: "", labels: &[], attributes: &[], classes: &[], classes_unnamed: false };

const SETS: [Known; 5] = [
    Known {
        name: "MUTAG",
        labels: &["element C", "element N", "element O", "element F", "element I", "element Cl", "element Br"],
        classes_unnamed: true,
        ..NOTHING
    },
    Known {
        name: "Mutagenicity",
        labels: &[
            "element C",
            "element O",
            "element Cl",
            "element H",
            "element N",
            "element F",
            "element Br",
            "element S",
            "element P",
            "element I",
            "element Na",
            "element K",
            "element Li",
            "element Ca",
        ],
        classes: &[(0, "mutagen"), (1, "nonmutagen")],
        ..NOTHING
    },
    Known {
        name: "AIDS",
        labels: &[
            "element C",
            "element O",
            "element N",
            "element Cl",
            "element F",
            "element S",
            "element Se",
            "element P",
            "element Na",
            "element I",
            "element Co",
            "element Br",
            "element Li",
            "element Si",
            "element Mg",
            "element Cu",
            "element As",
            "element B",
            "element Pt",
            "element Ru",
            "element K",
            "element Pd",
            "element Au",
            "element Te",
            "element W",
            "element Rh",
            "element Zn",
            "element Bi",
            "element Pb",
            "element Ge",
            "element Sb",
            "element Sn",
            "element Ga",
            "element Hg",
            "element Ho",
            "element Tl",
            "element Ni",
            "element Tb",
        ],
        attributes: &["chem", "charge", "x", "y"],
        // The readme says a and i.
        classes: &[(0, "active"), (1, "inactive")],
        ..NOTHING
    },
    // Secondary structure elements; the readme in the zip does not list them.
    Known { name: "PROTEINS", labels: &["helix", "sheet", "turn"], classes_unnamed: true, ..NOTHING },
    Known { name: "DD", classes_unnamed: true, ..NOTHING },
];

impl Known {
    pub(super) fn of(name: &str) -> Known {
        SETS.into_iter().find(|set| set.name.eq_ignore_ascii_case(name)).unwrap_or_default()
    }

    pub(super) fn is_aids(&self) -> bool {
        self.name == "AIDS"
    }

    pub(super) fn label(&self, id: usize) -> String {
        self.labels.get(id).map_or_else(|| format!("label {id}"), ToString::to_string)
    }

    pub(super) fn attribute(&self, k: usize) -> String {
        self.attributes.get(k).map_or_else(|| format!("attribute {k}"), ToString::to_string)
    }

    pub(super) fn class(&self, label: i64) -> String {
        let unnamed = || format!("{} {label}", if self.classes_unnamed { "class" } else { "label" });
        self.classes.iter().find(|(known, _)| *known == label).map_or_else(unnamed, |(_, name)| name.to_string())
    }
}
