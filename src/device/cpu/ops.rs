//! The ops, compiled once for each type of number.
//!
//! They are generic functions, and generic functions are compiled anew in every crate that calls them: in every test
//! binary, for minutes. A trait implemented for f32 and for f64 by name makes this crate the one that compiles them.

use super::{Cpu, CpuInputs, Hops, Panels};
use crate::device::{AdamStep, Dropout, Real, Responses, Routing};
use crate::error::Result;
use crate::knots::Tables;
use crate::model::Layout;

macro_rules! ops {
    ($(fn $name:ident($($argument:ident: $type:ty),* $(,)?) $(-> $result:ty)? = $path:path;)*) => {
        /// One function an op; see the modules that hold them.
        #[allow(missing_docs, clippy::too_many_arguments)]
        pub trait Ops: Sized + 'static {
            $(fn $name($($argument: $type),*) $(-> $result)? where Self: Real;)*
        }

        impl Ops for f32 {
            $(fn $name($($argument: $type),*) $(-> $result)? { $path($($argument),*) })*
        }

        impl Ops for f64 {
            $(fn $name($($argument: $type),*) $(-> $result)? { $path($($argument),*) })*
        }
    };
}

ops! {
    fn adam_step(
        parameters: &mut [Self], first: &mut [Self], second: &mut [Self], gradient: &[Self], step: AdamStep,
    ) = super::adam::step;
    fn knots_compile(
        tables: &mut Tables<Self>, routing: &[u32], gates: &[Self], parameters: &[Self], layout: &Layout,
    ) = Tables::compile;
    fn knots_forward(
        cpu: &Cpu<Self>, responses: &mut Responses<Cpu<Self>>, tables: &Tables<Self>, inputs: &CpuInputs<Self>,
        dropout: Option<&Dropout>, layout: &Layout,
    ) = super::knots::forward;
    fn knots_backward(
        cpu: &Cpu<Self>, gradient: &mut [Self], d_gates: &mut [Self], d_responses: &Responses<Cpu<Self>>,
        tables: &mut Tables<Self>, inputs: &CpuInputs<Self>, routing: &Routing<Cpu<Self>>, parameters: &[Self],
        dropout: Option<&Dropout>, layout: &Layout,
    ) = super::knots::backward;
    fn loss(d_logits: &mut [Self], logits: &[Self], inputs: &CpuInputs<Self>) -> f64 = super::loss::loss;
    fn monb_forward(
        responses: &mut Responses<Cpu<Self>>, inputs: &CpuInputs<Self>, routing: &Routing<Cpu<Self>>,
        parameters: &[Self], dropout: Option<&Dropout>, layout: &Layout,
    ) = super::monb::forward;
    fn monb_backward(
        gradient: &mut [Self], d_gates: &mut [Self], d_responses: &Responses<Cpu<Self>>, inputs: &CpuInputs<Self>,
        routing: &Routing<Cpu<Self>>, parameters: &[Self], dropout: Option<&Dropout>, layout: &Layout,
    ) = super::monb::backward;
    fn project_forward(
        cpu: &Cpu<Self>, hops: &mut Hops<Self>, responses: &Responses<Cpu<Self>>, hop_weights: &[Self],
        parameters: &[Self], inputs: &CpuInputs<Self>, layout: &Layout,
    ) -> Result<()> = super::project::forward;
    fn project_backward(
        cpu: &Cpu<Self>, gradient: &mut [Self], d_hop_weights: &mut [Self], responses: &mut Responses<Cpu<Self>>,
        hops: &Hops<Self>, hop_weights: &[Self], parameters: &[Self], inputs: &CpuInputs<Self>, layout: &Layout,
    ) -> Result<()> = super::project::backward;
    fn propagate_forward(
        cpu: &Cpu<Self>, state: &mut Panels<Self>, responses: &Panels<Self>, hop_weights: &[Self],
        inputs: &CpuInputs<Self>,
    ) -> Result<()> = super::propagate::forward;
    fn propagate_backward(
        cpu: &Cpu<Self>, gradient: &mut Panels<Self>, d_hop_weights: &mut [Self], responses: &Panels<Self>,
        hop_weights: &[Self], inputs: &CpuInputs<Self>,
    ) -> Result<()> = super::propagate::backward;
    fn readout_forward(
        logits: &mut [Self], state: &Panels<Self>, parameters: &[Self], inputs: &CpuInputs<Self>, layout: &Layout,
    ) = super::readout::forward;
    fn readout_backward(
        gradient: &mut [Self], state: &mut Panels<Self>, d_logits: &[Self], parameters: &[Self],
        inputs: &CpuInputs<Self>, layout: &Layout,
    ) = super::readout::backward;
    fn route_forward(
        cpu: &Cpu<Self>, routing: &mut Routing<Cpu<Self>>, parameters: &[Self], noise: Option<&[Self]>, layout: &Layout,
    ) = super::route::forward;
    fn route_backward(
        gradient: &mut [Self], d_gates: &[Self], routing: &Routing<Cpu<Self>>, parameters: &[Self],
        noise: Option<&[Self]>, layout: &Layout,
    ) = super::route::backward;
    fn walk_forward(
        logits: &mut [Self], hops: &mut Hops<Self>, parameters: &[Self], inputs: &CpuInputs<Self>, layout: &Layout,
    ) = super::walk::forward;
    fn walk_backward(
        cpu: &Cpu<Self>, gradient: &mut [Self], hops: &mut Hops<Self>, d_logits: &[Self], inputs: &CpuInputs<Self>,
        layout: &Layout,
    ) = super::walk::backward;
}
