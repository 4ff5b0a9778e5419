//! The ops, compiled once for each type of number.
//!
//! They are generic functions, and generic functions are compiled anew in every crate that calls them: in every test
//! binary, for minutes. A trait implemented for f32 and for f64 by name makes this crate the one that compiles them.

use super::Cpu;
use crate::architecture::Layout;
use crate::device::ops::each_op;
use crate::device::{
    AdamStep, BufferOf, Dropout, HopsOf, InputsOf, KnotsOf, MatrixOf, Responses, Routing, ScopeOf, VerdictOf,
};
use crate::real::Real;
use harmonia_graph::error::Result;
use harmonia_graph::seed::Stream;

macro_rules! compiled {
    ($($(#[$about:meta])* $op:ident: fn $name:ident($($argument:ident: $type:ty),* $(,)?) -> $result:ty
        = $module:ident::$function:ident;)*) => {
        /// A number the CPU computes with: one function per op, see [`crate::device::ops`].
        #[allow(missing_docs, clippy::too_many_arguments)]
        pub trait Ops: Real {
            $(fn $name(cpu: &Cpu<Self>, $($argument: $type),*) -> Result<$result>;)*
        }

        impl Ops for f32 {
            $(fn $name(cpu: &Cpu<Self>, $($argument: $type),*) -> Result<$result> {
                super::$module::$function(cpu, $($argument),*)
            })*
        }

        impl Ops for f64 {
            $(fn $name(cpu: &Cpu<Self>, $($argument: $type),*) -> Result<$result> {
                super::$module::$function(cpu, $($argument),*)
            })*
        }
    };
}

each_op!(compiled, Cpu<Self>);
