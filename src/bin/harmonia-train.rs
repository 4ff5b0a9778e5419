//! Trains a model; see `harmonia-train --help`.

fn main() -> std::process::ExitCode {
    harmonia::cli::harmonia_train()
}
