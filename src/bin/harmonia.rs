//! All commands; see `harmonia --help`.

/// Beyond its limit there is a message and exit code 1.
#[global_allocator]
static ALLOCATOR: harmonia::memory::Budget = harmonia::memory::Budget;

fn main() -> std::process::ExitCode {
    harmonia::cli::harmonia()
}
