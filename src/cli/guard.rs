//! What every command stands behind: a limit on memory, signals that would end it without a word, and panics.

use super::voice;
use clap::Args;
use harmonia_graph::error::{Error, Result, one_line};
use harmonia_graph::{memory, store};
use std::panic::{AssertUnwindSafe, PanicHookInfo, catch_unwind};
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, PoisonError};

/// The first panic of the process: others follow from it.
static PANIC: Mutex<Option<String>> = Mutex::new(None);

/// How much memory may be used; every command has it.
#[derive(Args, Clone, Debug)]
pub struct MemoryFlag {
    /// Most memory to use, as in 4G or 512M; mapped files do not count [default: what the machine has]
    #[arg(long, global = true, value_name = "SIZE", value_parser = size)]
    memory: Option<usize>,
}

/// Bytes, perhaps with a unit of 1024: K, M, G or T.
fn size(text: &str) -> std::result::Result<usize, String> {
    let text = text.trim().trim_end_matches(['b', 'B']).trim_end_matches(['i', 'I']);
    let (number, unit) = match text.char_indices().last() {
        Some((at, unit)) if !unit.is_ascii_digit() => (&text[..at], unit.to_ascii_uppercase()),
        _ => (text, ' '),
    };
    let shift = [' ', 'K', 'M', 'G', 'T'].iter().position(|known| *known == unit);
    let bytes = number.trim().parse::<f64>().ok().zip(shift).map(|(number, shift)| number * 1024f64.powi(shift as i32));
    match bytes {
        Some(bytes) if (1e6..1e18).contains(&bytes) => Ok(bytes as usize),
        _ => Err("expected at least a megabyte, as in 512M, 4G or 1.5T".into()),
    }
}

/// Prepares the process.
pub fn begin(flag: &MemoryFlag) -> Result<()> {
    memory::limit_to(flag.memory.or_else(memory::of_machine).unwrap_or(0));
    store::name_lost_files();
    // A file that may not grow any further (`ulimit -f`) is a full disk, not a reason to die.
    #[cfg(unix)]
    signal_hook::flag::register(signal_hook::consts::SIGXFSZ, Arc::new(AtomicBool::new(false)))
        .map_err(|error| Error::Config(format!("cannot catch signals: {error}")))?;
    std::panic::set_hook(Box::new(remember));
    Ok(())
}

fn remember(panic: &PanicHookInfo<'_>) {
    let payload = panic.payload();
    let said = payload.downcast_ref::<&str>().map(|text| text.to_string());
    let said = said.or_else(|| payload.downcast_ref::<String>().cloned()).unwrap_or_else(|| "a panic".into());
    let place = panic.location().map_or(String::new(), |at| format!(" at {}:{}", at.file(), at.line()));
    let mut first = PANIC.lock().unwrap_or_else(PoisonError::into_inner);
    if first.is_none() {
        *first = Some(format!("{}{place}", one_line(said)));
        if std::env::var_os("RUST_BACKTRACE").is_some_and(|value| value != "0") {
            voice::line(std::backtrace::Backtrace::force_capture());
        }
    }
}

/// Runs a command; a panic is an error like any other. What should not happen is looked for in the data first: a damaged file
/// is named.
pub fn guarded(work: impl FnOnce() -> Result<()>) -> Result<()> {
    let what = match catch_unwind(AssertUnwindSafe(work)) {
        Ok(Err(Error::Internal(what))) => what,
        Ok(result) => return result,
        Err(_) => PANIC.lock().unwrap_or_else(PoisonError::into_inner).take().unwrap_or_else(|| "a panic".into()),
    };
    // Reading may meet what the work has met.
    let damage = catch_unwind(AssertUnwindSafe(store::damage)).unwrap_or_default();
    Err(damage.unwrap_or_else(|| {
        Error::Internal(format!(
            "internal error: {what}; this is a defect of harmonia, or a file changed while it was read: please report it with the \
             command and what harmonia --version prints"
        ))
    }))
}

#[cfg(test)]
#[allow(clippy::panic)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_is_an_error_with_exit_code_1_and_asks_for_a_report() {
        std::panic::set_hook(Box::new(remember));
        let numbers = std::hint::black_box(vec![1, 2, 3]);
        let error = guarded(|| {
            rayon::join(|| std::hint::black_box(numbers[7]), || ());
            Ok(())
        });
        let _ = std::panic::take_hook();
        let error = error.unwrap_err();
        assert_eq!(error.exit_code(), 1);
        let message = error.to_string();
        assert!(message.contains("index out of bounds") && message.contains("guard.rs:"), "{message}");
        assert!(message.contains("please report it"), "{message}");
    }

    #[test]
    fn sizes_have_units_of_1024() {
        assert_eq!((size("4G"), size("512MiB"), size("1.5gb")), (Ok(4 << 30), Ok(512 << 20), Ok(3 << 29)));
        assert_eq!(size("2000000"), Ok(2_000_000));
        for wrong in ["", "G", "12", "4X", "-1G", "1e30"] {
            assert!(size(wrong).is_err(), "{wrong}");
        }
    }
}
