//! `harmonia doctor`: what this machine and this build can do, and what the kernels cost.

mod kernels;
mod ranks;
mod roofline;
mod scale;
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
      bytes and flops of a training step, and the time an H100 needs for them at least
  mpirun -n 4 harmonia doctor --ranks
      hosts, threads and devices of the processes, latency and bandwidth between them
  harmonia doctor --scale --host-bandwidth 120
      the time of a step on 1 to 64 hosts with 120 GB/s of memory each, on paper";

#[derive(Args)]
pub struct Arguments {
    /// Show what each kernel takes of a multiprocessor, as the compiler reports it
    #[arg(long, conflicts_with_all = ["roofline", "ranks", "scale"])]
    kernels: bool,
    /// Only this GPU generation
    #[arg(long, value_name = "SM_89", requires = "kernels")]
    arch: Option<String>,
    /// Show what each kernel of a training step moves and computes on the large datasets
    #[arg(long, conflicts_with_all = ["ranks", "scale"])]
    roofline: bool,
    /// Memory bandwidth in GB/s [default: 1008, an RTX 4090]
    #[arg(long, value_name = "GB/S", requires = "roofline")]
    bandwidth: Option<f64>,
    /// Arithmetic in single precision in TFLOP/s [default: 82, an RTX 4090]
    #[arg(long, value_name = "F", requires = "roofline")]
    tflops: Option<f64>,
    /// Started by mpirun or srun: show the processes, what each computes with, and how fast bytes get from one to others
    #[arg(long, conflicts_with = "scale")]
    ranks: bool,
    /// Show the time of a training step shared by 1 to 64 hosts or 1 to 8 GPUs, on paper
    #[arg(long)]
    scale: bool,
    /// Bytes of states that a host moves in a second, in GB [default: as measured on two cores]
    #[arg(long, value_name = "GB/S", requires = "scale")]
    host_bandwidth: Option<f64>,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

pub fn run(arguments: Arguments) -> Result<()> {
    let (text, json) = if arguments.ranks {
        // All but the first only take part.
        let Some(output) = ranks::output()? else { return Ok(()) };
        output
    } else if arguments.scale {
        scale::output(arguments.host_bandwidth)?
    } else if arguments.kernels {
        kernels::output(arguments.arch.as_deref())?
    } else if arguments.roofline {
        roofline::output(roofline::Peak::new(arguments.bandwidth, arguments.tflops)?)?
    } else {
        survey::output()
    };
    say(&if arguments.json { format!("{json:#}\n") } else { text })
}
