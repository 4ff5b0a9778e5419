//! `harmonia doctor`: what this machine and this build can do, and what the kernels cost.

mod kernels;
mod roofline;
mod shapes;
mod survey;

use super::say;
use clap::Args;
use harmonia_graph::error::Result;

pub const EXAMPLES: &str = "\
Examples:
  harmonia doctor
      what is here, and what --device auto would use
  harmonia doctor --kernels --arch sm_89
      registers, spills, shared memory and occupancy of every kernel on an RTX 40
  harmonia doctor --roofline --bandwidth 3350 --tflops 67
      bytes and flops of a training step, and the time an H100 needs for them at least";

#[derive(Args)]
pub struct Arguments {
    /// Show what each kernel takes of a multiprocessor, as the compiler reports it
    #[arg(long, conflicts_with = "roofline")]
    kernels: bool,
    /// Only this GPU generation
    #[arg(long, value_name = "SM_89", requires = "kernels")]
    arch: Option<String>,
    /// Show what each kernel of a training step moves and computes on the large datasets
    #[arg(long)]
    roofline: bool,
    /// Memory bandwidth in GB/s [default: 1008, an RTX 4090]
    #[arg(long, value_name = "GB/S", requires = "roofline")]
    bandwidth: Option<f64>,
    /// Arithmetic in single precision in TFLOP/s [default: 82, an RTX 4090]
    #[arg(long, value_name = "F", requires = "roofline")]
    tflops: Option<f64>,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

pub fn run(arguments: Arguments) -> Result<()> {
    let (text, json) = if arguments.kernels {
        kernels::output(arguments.arch.as_deref())?
    } else if arguments.roofline {
        roofline::output(roofline::Peak::new(arguments.bandwidth, arguments.tflops)?)?
    } else {
        survey::output()
    };
    say(&if arguments.json { format!("{json:#}\n") } else { text })
}
