//! All commands; see `harmonia --help`.

fn main() -> std::process::ExitCode {
    harmonia::cli::harmonia()
}
