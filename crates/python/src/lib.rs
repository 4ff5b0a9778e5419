//! `harmonia._harmonia`: the engine behind the Python package.
//!
//! Thin on purpose: arrays in, models out, and everything that is said about a model as the JSON that the commands print. What users
//! see is made of it in Python (`python/harmonia`). `data`: arrays to datasets; `lent`: X of numpy without a copy; `fit`: training;
//! `model`: predictions, files; `explain`: what a model says; `work`: threads without the interpreter's lock, Ctrl-C, callbacks; `errors`.

mod data;
mod errors;
mod explain;
mod fit;
mod lent;
mod model;
mod work;

use pyo3::prelude::*;

#[pymodule]
fn _harmonia(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    module.add_class::<data::Data>()?;
    module.add_class::<model::Model>()?;
    module.add_function(wrap_pyfunction!(fit::fit, module)?)?;
    module.add_function(wrap_pyfunction!(fit::settings, module)?)?;
    module.add_function(wrap_pyfunction!(data::known_datasets, module)?)?;
    module.add_function(wrap_pyfunction!(data::convert, module)?)?;
    module.add_function(wrap_pyfunction!(explain::explain_local, module)?)?;
    module.add_function(wrap_pyfunction!(explain::explain_edges, module)?)?;
    module.add_function(wrap_pyfunction!(explain::explain_global, module)?)?;
    module.add_function(wrap_pyfunction!(explain::shapes, module)?)?;
    module.add_function(wrap_pyfunction!(explain::diagnose, module)?)?;
    module.add_function(wrap_pyfunction!(explain::intervene, module)?)
}
