//! The floating-point types the CPU device is generic over.

use std::fmt::{Debug, Display};
use std::ops::{AddAssign, DivAssign, MulAssign, SubAssign};

/// f32 for work, f64 for checking.
pub trait Real:
    num_traits::Float
    + AddAssign
    + SubAssign
    + MulAssign
    + DivAssign
    + std::iter::Sum
    + Default
    + Debug
    + Display
    + Send
    + Sync
    + bytemuck::Pod
{
    /// Type tag of checkpoints.
    const DTYPE: safetensors::Dtype;

    /// Rounds to this type.
    fn from_f64(value: f64) -> Self;
    /// Rounds to this type.
    fn from_f32(value: f32) -> Self;
    /// The same number in f64, exactly.
    fn widen(self) -> f64;
    /// The largest number below this one.
    fn next_down(self) -> Self;
    /// Little-endian bytes, as checkpoints hold them.
    fn write_le(values: &[Self]) -> Vec<u8>;
    /// C = A B + beta C through the GEMM crate; the caller has checked all bounds.
    ///
    /// # Safety
    /// As `matrixmultiply::sgemm`: every strided index must lie inside its allocation.
    #[allow(unsafe_code, clippy::too_many_arguments)]
    unsafe fn gemm_raw(
        m: usize,
        k: usize,
        n: usize,
        a: *const Self,
        a_strides: [isize; 2],
        b: *const Self,
        b_strides: [isize; 2],
        beta: Self,
        c: *mut Self,
        c_strides: [isize; 2],
    );
}

macro_rules! real {
    ($type:ty, $dtype:expr, $gemm:path) => {
        impl Real for $type {
            const DTYPE: safetensors::Dtype = $dtype;

            #[inline(always)]
            fn from_f64(value: f64) -> Self {
                value as $type
            }
            #[inline(always)]
            fn from_f32(value: f32) -> Self {
                value as $type
            }
            #[inline(always)]
            fn widen(self) -> f64 {
                self as f64
            }
            fn next_down(self) -> Self {
                <$type>::next_down(self)
            }
            fn write_le(values: &[Self]) -> Vec<u8> {
                values.iter().flat_map(|value| value.to_le_bytes()).collect()
            }
            #[allow(unsafe_code)]
            unsafe fn gemm_raw(
                m: usize,
                k: usize,
                n: usize,
                a: *const Self,
                [a_row, a_col]: [isize; 2],
                b: *const Self,
                [b_row, b_col]: [isize; 2],
                beta: Self,
                c: *mut Self,
                [c_row, c_col]: [isize; 2],
            ) {
                // SAFETY: the contract of this function is that of the callee.
                unsafe { $gemm(m, k, n, 1.0, a, a_row, a_col, b, b_row, b_col, beta, c, c_row, c_col) }
            }
        }
    };
}

real!(f32, safetensors::Dtype::F32, matrixmultiply::sgemm);
real!(f64, safetensors::Dtype::F64, matrixmultiply::dgemm);

/// 1 / (1 + exp(-x)).
pub fn sigmoid<T: Real>(x: T) -> T {
    // Both branches keep the exponent negative, so nothing overflows.
    if x >= T::zero() {
        T::one() / (T::one() + (-x).exp())
    } else {
        let e = x.exp();
        e / (T::one() + e)
    }
}
