//! `harmonia completions` and `harmonia man`: what shells and `man` want to know, written from the parsers themselves.

use super::{HarmoniaCommand, TrainCommand, say};
use clap::{Args, Command, CommandFactory};
use clap_complete::Shell;
use harmonia_graph::error::{Error, Result};
use harmonia_graph::files;
use std::path::{Path, PathBuf};

pub const COMPLETION_EXAMPLES: &str = "\
Examples:
  harmonia completions bash > ~/.local/share/bash-completion/completions/harmonia
  harmonia completions bash --of harmonia-train > ~/.local/share/bash-completion/completions/harmonia-train
  harmonia completions zsh > ~/.zfunc/_harmonia
  harmonia completions fish > ~/.config/fish/completions/harmonia.fish";

#[derive(Args)]
pub struct CompletionArguments {
    /// Shell to write for
    #[arg(value_enum)]
    shell: Shell,
    /// Program that is completed
    #[arg(long, value_name = "PROGRAM", default_value = "harmonia", value_parser = ["harmonia", "harmonia-train"])]
    of: String,
}

#[derive(Args)]
pub struct ManArguments {
    /// Directory of the pages; made if it is missing
    #[arg(value_name = "DIR")]
    directory: PathBuf,
}

/// Prints the completions of one shell.
pub fn completions(arguments: &CompletionArguments) -> Result<()> {
    let mut command = if arguments.of == "harmonia" { HarmoniaCommand::command() } else { TrainCommand::command() };
    let mut text = Vec::new();
    clap_complete::generate(arguments.shell, &mut command, arguments.of.as_str(), &mut text);
    say(&String::from_utf8_lossy(&text))
}

/// Writes one page per command.
pub fn man(arguments: &ManArguments) -> Result<()> {
    let directory = &arguments.directory;
    files::check_directory(directory)?;
    std::fs::create_dir_all(directory).map_err(Error::io("create directory", directory))?;
    // `harmonia train` and `harmonia-train` are the same command, and have the same page.
    let mut command = HarmoniaCommand::command();
    // Global flags and the full names of commands below others are settled by this.
    command.build();
    let count = pages(&command, command.get_name(), directory)?;
    say(&format!("{count} pages in {}\n", directory.display()))
}

/// Pages of a command and of those below it.
fn pages(command: &Command, name: &str, directory: &Path) -> Result<usize> {
    let path = directory.join(format!("{name}.1"));
    let mut text = Vec::new();
    let page = clap_mangen::Man::new(command.clone()).title(name.to_uppercase());
    page.render(&mut text).map_err(Error::io("write", &path))?;
    files::write_atomic(&path, &text)?;
    let mut count = 1;
    let below = command.get_subcommands().filter(|below| !below.is_hide_set() && below.get_name() != "help");
    for below in below {
        count += pages(below, &format!("{name}-{}", below.get_name()), directory)?;
    }
    Ok(count)
}
