//! Errors of the engine as Python exceptions, in the same words.

use harmonia_graph::error::Error;
use pyo3::exceptions::{PyArithmeticError, PyKeyboardInterrupt, PyOSError, PyRuntimeError, PyValueError};
use pyo3::{PyErr, PyResult};

/// The exception for an error: `ValueError` for input that the user can mend, `OSError` for files that cannot be read or written,
/// `ArithmeticError` for training that diverged, `RuntimeError` for the rest.
pub fn to_python(error: Error) -> PyErr {
    let words = error.to_string();
    match error {
        Error::Config(_) | Error::Data(_) | Error::File { .. } => PyValueError::new_err(words),
        Error::Io { source, .. } => match source.raw_os_error() {
            // Python makes FileNotFoundError and its like of the number.
            Some(number) => PyOSError::new_err((number, words)),
            None => PyOSError::new_err(words),
        },
        Error::Diverged(_) => PyArithmeticError::new_err(words),
        Error::Device(_) | Error::Internal(_) => PyRuntimeError::new_err(words),
        Error::Interrupted { .. } | Error::Cancelled => PyKeyboardInterrupt::new_err(words),
    }
}

/// For `?` on results of the engine.
pub trait OrRaise<T> {
    /// The value, or the exception.
    fn or_raise(self) -> PyResult<T>;
}

impl<T> OrRaise<T> for harmonia_graph::error::Result<T> {
    fn or_raise(self) -> PyResult<T> {
        self.map_err(to_python)
    }
}
