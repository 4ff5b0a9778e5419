//! What is said about a trained model, as JSON: the objects that commands print with `--json` and that Python reads. `docs/explain.md`
//! documents every key.

mod diagnose;
mod global;
mod intervene;
mod local;
mod shapes;

pub use diagnose::responses;
pub use global::Global;
pub use intervene::{Intervention, Setting, training_mean, without_edge};
pub use local::{About, Explained, local_json};
pub use shapes::{NamedShape, feature_json, shapes_json};
