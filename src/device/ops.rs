//! The ops of a training step, each told once.
//!
//! One entry per op: what it computes, its name, its arguments, its result, and the function of `device/cpu` that computes
//! it. Everything that speaks of all ops is made from this list by `each_op!`: the methods of [`Device`](super::Device),
//! their forms in `cpu` and in `launcher`, [`Op`], and the names and times of a profile. What is written per op elsewhere
//! (traffic, the parity tests) is a `match` over [`Op`] or is held against [`Op::ALL`], so that a new entry without it does
//! not compile or does not pass.
//!
//! Convention: outputs first, then inputs, then sizes. Parameter gradients are added to (`+=`), activations are
//! overwritten (`=`).

use crate::config::Monb;
use crate::plan::{Plan, Space};

/// Hands the list to the macro `$make`; `$D` is the device it is made for.
macro_rules! each_op {
    ($make:ident, $D:ty) => {
        $make! {
            /// Sets every element to zero.
            Clear: fn clear(buffer: &mut BufferOf<$D>) -> () = adam::clear;

            /// The standard normal numbers of a stream, times a factor: eps of routing.
            DrawNoise: fn draw_noise(noise: &mut BufferOf<$D>, stream: &Stream, scale: f64) -> () = noise::draw;

            /// Q = e Wg + noise * sigmoid(e Wn); top m of each row (ties: lower expert); gate = sigmoid(Q).
            RouteForward: fn route_forward(
                routing: &mut Routing<$D>,
                parameters: &BufferOf<$D>,
                noise: Option<&BufferOf<$D>>,
                layout: &Layout,
            ) -> () = route::forward;

            /// theta (T x d) from hop logits; of free weights perhaps in a basis (T x T).
            HopWeightsForward: fn hop_weights_forward(
                hop_weights: &mut BufferOf<$D>,
                parameters: &BufferOf<$D>,
                basis: Option<&BufferOf<$D>>,
                layout: &Layout,
            ) -> () = hop_weights::forward;

            /// `F[i,k] = a_k . sum over slots of gate * psi_expert(x[i,k])`.
            MonbForward: fn monb_forward(
                responses: &mut Responses<$D>,
                inputs: &InputsOf<$D>,
                routing: &Routing<$D>,
                parameters: &BufferOf<$D>,
                dropout: Option<&Dropout>,
                layout: &Layout,
            ) -> () = monb::forward;

            /// Compiles the experts to pieces, and merges those of its slots into one table of lines per feature. The verdict
            /// says whether there was room for all of them.
            KnotsCompile: fn knots_compile(
                verdict: &mut VerdictOf<$D>,
                knots: &mut KnotsOf<$D>,
                routing: &Routing<$D>,
                parameters: &BufferOf<$D>,
                layout: &Layout,
            ) -> () = knots::compile;

            /// As `monb_forward`, by looking up the piece of each x. Hidden units cannot be dropped.
            KnotsForward: fn knots_forward(
                responses: &mut Responses<$D>,
                knots: &KnotsOf<$D>,
                inputs: &InputsOf<$D>,
                dropout: Option<&Dropout>,
                layout: &Layout,
            ) -> () = knots::forward;

            /// Class space: G_t = F (theta_t (*) Wo) for every t.
            ProjectForward: fn project_forward(
                hops: &mut HopsOf<$D>,
                responses: &Responses<$D>,
                hop_weights: &BufferOf<$D>,
                parameters: &BufferOf<$D>,
                inputs: &InputsOf<$D>,
                layout: &Layout,
            ) -> () = project::forward;

            /// Class space: logits = beta + G_0 + M (G_1 + M (G_2 + ...)), or beta + sum over the nodes and hops of a graph of
            /// `v_t[j] G_t[j]`. The G_t are gone afterwards. Of a scope, only its rows of the logits are meant.
            WalkForward: fn walk_forward(
                logits: &mut BufferOf<$D>,
                hops: &mut HopsOf<$D>,
                parameters: &BufferOf<$D>,
                inputs: &InputsOf<$D>,
                scope: Option<&ScopeOf<$D>>,
                layout: &Layout,
            ) -> () = walk::forward;

            /// H = sum over t of theta_t (*) M^t F, one hop at a time. Of a scope, only its rows of H are meant; others are finite.
            PropagateForward: fn propagate_forward(
                state: &mut MatrixOf<$D>,
                responses: &MatrixOf<$D>,
                hop_weights: &BufferOf<$D>,
                inputs: &InputsOf<$D>,
                scope: Option<&ScopeOf<$D>>,
            ) -> () = propagate::forward;

            /// `H[i,k] = theta_0k F[i,k] + sum over t, q of theta_tk P[i,t,k,q] F_q[k]` from a table of walks, F_q the responses at
            /// the points of its grid; rows of graphs have no F of their own, and P of t = 0 too.
            TableForward: fn table_forward(
                state: &mut MatrixOf<$D>,
                responses: &MatrixOf<$D>,
                hop_weights: &BufferOf<$D>,
                inputs: &InputsOf<$D>,
            ) -> () = table::forward;

            /// logits = beta + H Wo, summed over each graph for graph tasks.
            ReadoutForward: fn readout_forward(
                logits: &mut BufferOf<$D>,
                state: &MatrixOf<$D>,
                parameters: &BufferOf<$D>,
                inputs: &InputsOf<$D>,
                layout: &Layout,
            ) -> () = readout::forward;

            /// Mean loss over the batch's targets, and its gradient by the logits.
            Loss: fn loss(
                verdict: &mut VerdictOf<$D>,
                d_logits: &mut BufferOf<$D>,
                logits: &BufferOf<$D>,
                inputs: &InputsOf<$D>,
            ) -> () = loss::loss;

            /// Class space: Y_0 = dlogits, Y_{t+1} = M^T Y_t, or `Y_t[j] = v_t[j] dlogits` of its graph; dbeta += column
            /// sums of dlogits. Outside the rows of a scope dlogits are zero.
            WalkBackward: fn walk_backward(
                gradient: &mut BufferOf<$D>,
                hops: &mut HopsOf<$D>,
                d_logits: &BufferOf<$D>,
                inputs: &InputsOf<$D>,
                scope: Option<&ScopeOf<$D>>,
                layout: &Layout,
            ) -> () = walk::backward;

            /// Class space, after `walk_backward`: `responses` = F turns into dF = sum over t of Y_t (theta_t (*) Wo)^T. With
            /// S_t = F^T Y_t: dWo += sum over t of theta_t (*) S_t, `d_hop_weights[t,k] = <Wo[k,:], S_t[k,:]>`.
            ProjectBackward: fn project_backward(
                gradient: &mut BufferOf<$D>,
                d_hop_weights: &mut BufferOf<$D>,
                responses: &mut Responses<$D>,
                hops: &mut HopsOf<$D>,
                hop_weights: &BufferOf<$D>,
                parameters: &BufferOf<$D>,
                inputs: &InputsOf<$D>,
                layout: &Layout,
            ) -> () = project::backward;

            /// In: `state` = H. Out: `state` = dH, and the readout gradients.
            ReadoutBackward: fn readout_backward(
                gradient: &mut BufferOf<$D>,
                state: &mut MatrixOf<$D>,
                d_logits: &BufferOf<$D>,
                parameters: &BufferOf<$D>,
                inputs: &InputsOf<$D>,
                layout: &Layout,
            ) -> () = readout::backward;

            /// In: `gradient` = dH. Out: `gradient` = dF = sum over t of theta_t (*) (M^T)^t dH, and
            /// `d_hop_weights[t,k] = <F[:,k], ((M^T)^t dH)[:,k]>`. No forward state but F is needed. Outside the rows of a scope
            /// dH is zero.
            PropagateBackward: fn propagate_backward(
                gradient: &mut MatrixOf<$D>,
                d_hop_weights: &mut BufferOf<$D>,
                responses: &MatrixOf<$D>,
                hop_weights: &BufferOf<$D>,
                inputs: &InputsOf<$D>,
                scope: Option<&ScopeOf<$D>>,
            ) -> () = propagate::backward;

            /// In: `responses` = F, `state` = dH. Out: `responses` = dF, and `d_hop_weights[t,k] = <dH[:,k], (P_t F)[:,k]>`.
            TableBackward: fn table_backward(
                responses: &mut MatrixOf<$D>,
                d_hop_weights: &mut BufferOf<$D>,
                state: &MatrixOf<$D>,
                hop_weights: &BufferOf<$D>,
                inputs: &InputsOf<$D>,
            ) -> () = table::backward;

            /// Gradient of hop logits from d_hop_weights (T x d).
            HopWeightsBackward: fn hop_weights_backward(
                gradient: &mut BufferOf<$D>,
                d_hop_weights: &BufferOf<$D>,
                hop_weights: &BufferOf<$D>,
                parameters: &BufferOf<$D>,
                basis: Option<&BufferOf<$D>>,
                layout: &Layout,
            ) -> () = hop_weights::backward;

            /// Gradients of experts and coefficients, and d_gates (d x m), from dF. Activations are recomputed.
            MonbBackward: fn monb_backward(
                gradient: &mut BufferOf<$D>,
                d_gates: &mut BufferOf<$D>,
                d_responses: &Responses<$D>,
                inputs: &InputsOf<$D>,
                routing: &Routing<$D>,
                parameters: &BufferOf<$D>,
                dropout: Option<&Dropout>,
                layout: &Layout,
            ) -> () = monb::backward;

            /// As `monb_backward`, from the sums of g and g x over each piece.
            KnotsBackward: fn knots_backward(
                gradient: &mut BufferOf<$D>,
                d_gates: &mut BufferOf<$D>,
                d_responses: &Responses<$D>,
                knots: &mut KnotsOf<$D>,
                inputs: &InputsOf<$D>,
                routing: &Routing<$D>,
                parameters: &BufferOf<$D>,
                dropout: Option<&Dropout>,
                layout: &Layout,
            ) -> () = knots::backward;

            /// Gradients of embeddings and router from d_gates (d x m).
            RouteBackward: fn route_backward(
                gradient: &mut BufferOf<$D>,
                d_gates: &BufferOf<$D>,
                routing: &Routing<$D>,
                parameters: &BufferOf<$D>,
                noise: Option<&BufferOf<$D>>,
                layout: &Layout,
            ) -> () = route::backward;

            /// Euclidean norm. Where it or the loss is not a number, the verdict is a halt.
            Norm: fn norm(verdict: &mut VerdictOf<$D>, gradient: &BufferOf<$D>) -> () = adam::norm;

            /// One Adam or AdamW step over some of the parameters, after `norm` of all of the gradient; none after a halt.
            Adam: fn adam(
                parameters: &mut BufferOf<$D>,
                first_moment: &mut BufferOf<$D>,
                second_moment: &mut BufferOf<$D>,
                gradient: &BufferOf<$D>,
                verdict: &VerdictOf<$D>,
                range: &std::ops::Range<usize>,
                step: AdamStep,
            ) -> () = adam::step;
        }
    };
}
pub(crate) use each_op;

macro_rules! names {
    ($($(#[$about:meta])* $op:ident: fn $name:ident($($argument:ident: $type:ty),* $(,)?) -> $result:ty
        = $module:ident::$function:ident;)*) => {
        /// Every op, in the order of a step.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum Op {
            $($(#[$about])* $op,)*
        }

        impl Op {
            /// All of them; no step runs all.
            pub const ALL: &[Op] = &[$(Op::$op),*];

            /// As the method is called.
            pub fn name(self) -> &'static str {
                match self {
                    $(Op::$op => stringify!($name),)*
                }
            }
        }
    };
}
each_op!(names, ());

impl Op {
    /// The ops of one training step, in order: gradient cleared, noise drawn, forward, loss, backward, norm, update.
    /// (`model/profile.rs` holds a real step against it.)
    pub fn of_step(plan: Plan) -> impl Iterator<Item = Op> {
        Op::ALL.iter().copied().filter(move |op| op.is_taken_by(plan))
    }

    /// Whether a step by this plan runs the op.
    pub fn is_taken_by(self, plan: Plan) -> bool {
        match self {
            Op::MonbForward | Op::MonbBackward => plan.monb == Monb::Direct,
            Op::KnotsCompile | Op::KnotsForward | Op::KnotsBackward => plan.monb == Monb::Knots,
            Op::ProjectForward | Op::WalkForward | Op::WalkBackward | Op::ProjectBackward => {
                plan.space == Space::Classes
            }
            Op::PropagateForward | Op::PropagateBackward => plan.space == Space::Features,
            Op::TableForward | Op::TableBackward => plan.space == Space::Table,
            Op::ReadoutForward | Op::ReadoutBackward => plan.space != Space::Classes,
            Op::Clear
            | Op::DrawNoise
            | Op::RouteForward
            | Op::HopWeightsForward
            | Op::Loss
            | Op::HopWeightsBackward
            | Op::RouteBackward
            | Op::Norm
            | Op::Adam => true,
        }
    }

    /// Whether the op belongs to the pass over a batch, and not to the update of parameters around it.
    pub fn is_of_pass(self) -> bool {
        !matches!(self, Op::Clear | Op::DrawNoise | Op::Norm | Op::Adam)
    }
}
