//! The command line: parse, run, print the error, exit code.

mod bench;
mod class_weights;
mod data;
mod diagnose;
mod doctor;
mod dry_run;
mod explain;
mod export;
mod gradients;
mod guard;
mod hint;
mod init;
mod intervene;
mod machine;
mod manual;
mod new_data;
mod output;
mod predict;
mod progress;
mod reading;
mod remove_retrain;
mod report;
mod roles;
mod runs;
mod settings;
mod shapes;
mod signals;
mod study;
mod summary;
mod team;
mod threads;
mod train;
mod tune;
mod version;
mod voice;
mod watch;
mod xml;

use clap::error::ErrorKind;
use clap::{ArgMatches, Parser, Subcommand};
use guard::{MemoryFlag, guarded};
use harmonia_graph::error::{Error, Result};
use std::process::ExitCode;
use voice::VoiceFlags;

/// Train HARMONIA, an interpretable-by-design graph additive model.
#[derive(Parser)]
#[command(name = "harmonia-train", version = version::SHORT, after_help = train::EXAMPLES)]
struct TrainCommand {
    #[command(flatten)]
    arguments: train::Arguments,
    #[command(flatten)]
    voice: VoiceFlags,
    #[command(flatten)]
    memory: MemoryFlag,
}

/// HARMONIA: graph models you can read.
#[derive(Parser)]
#[command(name = "harmonia", version = version::SHORT)]
struct HarmoniaCommand {
    #[command(subcommand)]
    command: Command,
    #[command(flatten)]
    voice: VoiceFlags,
    #[command(flatten)]
    memory: MemoryFlag,
}

#[derive(Subcommand)]
enum Command {
    /// Train a model (the same as harmonia-train)
    #[command(after_help = train::EXAMPLES)]
    Train(train::Arguments),
    /// Write loss, logits and the gradient of every parameter, to check another implementation against
    Gradients(gradients::Arguments),
    /// Write fresh parameters (to compare gradients, add --set init.readout_scale=1: the default readout is zero)
    Init(init::Arguments),
    /// Datasets: list, fetch, convert, inspect, generate
    #[command(after_help = data::EXAMPLES)]
    Data(data::Arguments),
    /// Read a prediction as the sum it is, or what the model does over many
    #[command(after_help = explain::EXAMPLES)]
    Explain(explain::Arguments),
    /// What every feature adds: responses as their exact knots, categories by value
    #[command(after_help = shapes::EXAMPLES)]
    Shapes(shapes::Arguments),
    /// The same prediction with an edge taken out, a node at the mean or another value of a feature, exactly
    #[command(after_help = intervene::EXAMPLES)]
    Intervene(intervene::Arguments),
    /// Train anew without the most, the least and any features, and compare
    #[command(after_help = remove_retrain::EXAMPLES)]
    RemoveRetrain(remove_retrain::Arguments),
    /// Search for better settings, by validation alone
    #[command(after_help = tune::EXAMPLES)]
    Tune(tune::Arguments),
    /// Make a table or figure of the paper anew, our figures beside its
    #[command(after_help = study::EXAMPLES)]
    Study(study::Arguments),
    /// Everything about a run in one page
    #[command(after_help = report::EXAMPLES)]
    Report(report::Arguments),
    /// What was trained: list it, compare it, remove it
    #[command(after_help = runs::EXAMPLES)]
    Runs(runs::Arguments),
    /// Class and probabilities of every node or graph, also of new data, as CSV, JSON lines or Parquet
    #[command(after_help = predict::EXAMPLES)]
    Predict(predict::Arguments),
    /// A model as a file that works without this program: JSON, a scorer in Python, a script in SQL, a graph in ONNX
    #[command(after_help = export::EXAMPLES)]
    Export(export::Arguments),
    /// Say what a graph lets hop weights mean: independence, conditioning, horizon, spectral response
    #[command(after_help = diagnose::EXAMPLES)]
    Diagnose(diagnose::Arguments),
    /// Say what this machine and this build can do, and what the kernels cost
    #[command(after_help = doctor::EXAMPLES)]
    Doctor(doctor::Arguments),
    /// Measure epochs on this machine: time, memory, bandwidth, ops, and PyTorch beside them
    #[command(after_help = bench::EXAMPLES)]
    Bench(bench::Arguments),
    /// Print what a shell needs to complete commands and flags
    #[command(after_help = manual::COMPLETION_EXAMPLES)]
    Completions(manual::CompletionArguments),
    /// Write the manual, one page per command
    Man(manual::ManArguments),
}

/// The `harmonia-train` binary.
pub fn harmonia_train() -> ExitCode {
    let (TrainCommand { arguments, voice, memory }, flags) = parsed();
    voice.apply();
    exit(guard::begin(&memory).and_then(|()| guarded(|| train::run(arguments))), &flags)
}

/// The `harmonia` binary.
pub fn harmonia() -> ExitCode {
    let (HarmoniaCommand { command, voice, memory }, flags) = parsed();
    voice.apply();
    let run = || match command {
        Command::Train(arguments) => train::run(arguments),
        Command::Gradients(arguments) => gradients::run(arguments),
        Command::Init(arguments) => init::run(arguments),
        Command::Data(arguments) => data::run(arguments),
        Command::Explain(arguments) => explain::run(&arguments),
        Command::Shapes(arguments) => shapes::run(&arguments),
        Command::Intervene(arguments) => intervene::run(&arguments),
        Command::RemoveRetrain(arguments) => remove_retrain::run(&arguments),
        Command::Tune(arguments) => tune::run(arguments),
        Command::Study(arguments) => study::run(&arguments),
        Command::Report(arguments) => report::run(&arguments),
        Command::Runs(arguments) => runs::run(&arguments),
        Command::Predict(arguments) => predict::run(&arguments),
        Command::Export(arguments) => export::run(&arguments),
        Command::Diagnose(arguments) => diagnose::run(arguments),
        Command::Doctor(arguments) => doctor::run(arguments),
        Command::Bench(arguments) => bench::run(arguments),
        Command::Completions(arguments) => manual::completions(&arguments),
        Command::Man(arguments) => manual::man(&arguments),
    };
    exit(guard::begin(&memory).and_then(|()| guarded(run)), &flags)
}

/// The command line, and the flags of the command that it gives; help, the version and bad usage end here.
fn parsed<C: Parser>() -> (C, Vec<String>) {
    // Paths go into settings and results, which are text: said now, not when all the work is done.
    if let Some(word) = std::env::args_os().find(|word| word.to_str().is_none()) {
        let shown = std::path::Path::new(&word).display().to_string();
        voice::error(format_args!(
            "{shown}: is not UTF-8, which settings and results cannot hold: rename it, or give a link to it"
        ));
        std::process::exit(2);
    }
    let read = || {
        let mut command = C::command();
        let mut matches = command.try_get_matches_from_mut(std::env::args_os())?;
        let flags = flags(given(&command, &matches)).collect();
        let arguments = C::from_arg_matches_mut(&mut matches).map_err(|error| error.format(&mut command))?;
        Ok((arguments, flags))
    };
    read().unwrap_or_else(|error: clap::Error| {
        // Both flags give this; -V is one line.
        if error.kind() == ErrorKind::DisplayVersion && std::env::args_os().any(|word| word == "--version") {
            let failed = say(&version::long(C::command().get_name())).is_err();
            std::process::exit(i32::from(failed));
        }
        // Of several processes one says it.
        if team::is_follower() {
            std::process::exit(error.exit_code());
        }
        error.exit()
    })
}

/// The command below all others that was given.
fn given<'a>(command: &'a clap::Command, matches: &ArgMatches) -> &'a clap::Command {
    let below = matches.subcommand().and_then(|(name, below)| Some((command.find_subcommand(name)?, below)));
    below.map_or(command, |(command, matches)| given(command, matches))
}

/// Flags of a command.
fn flags(command: &clap::Command) -> impl Iterator<Item = String> {
    command.get_arguments().filter_map(|argument| argument.get_long()).map(|name| format!("--{name}"))
}

/// Prints on stdout, for people or as JSON: whatever a file has put into a name, a terminal gets text.
fn say(text: &str) -> Result<()> {
    print(voice::plain(text).as_bytes())
}

/// Prints on stdout as it is. A reader that has gone away (`| head`) has what it wanted.
fn print(bytes: impl AsRef<[u8]>) -> Result<()> {
    use std::io::Write;
    match std::io::stdout().write_all(bytes.as_ref()) {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => {
            Err(Error::io("write to", std::path::Path::new("standard output"))(error))
        }
        _ => Ok(()),
    }
}

fn exit(result: Result<()>, flags: &[String]) -> ExitCode {
    match result {
        Ok(()) => {
            team::leave();
            ExitCode::SUCCESS
        }
        Err(error) => {
            // Display of our errors already holds the whole chain.
            if team::joined().is_some() {
                team::fail(&error, &|whose| voice::error(format_args!("{whose}{error}")));
                return ExitCode::from(error.exit_code() as u8);
            }
            voice::error(&error);
            if let Some(hint) = hint::of(&error, flags) {
                voice::hint(hint);
            }
            ExitCode::from(error.exit_code() as u8)
        }
    }
}
