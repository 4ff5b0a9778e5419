//! GEMM by cuBLAS, in plain fp32.

use super::context::Stream;
use super::error::check_cublas;
use super::library;
use crate::device::launcher::{Gemm, GemmBatch};
use cudarc::cublas::sys::{self, cublasHandle_t, cublasOperation_t};
use harmonia_graph::error::{Error, Result};
use std::ffi::{c_int, c_longlong};
use std::sync::Arc;

/// A handle of cuBLAS, bound to the stream. One stream and no atomics: the same product gives the same bits twice.
pub(super) struct Blas {
    stream: Arc<Stream>,
    handle: cublasHandle_t,
}

// SAFETY: a handle may move between threads; the context is made current before each use.
unsafe impl Send for Blas {}

impl Blas {
    pub(super) fn new(stream: &Arc<Stream>) -> Result<Blas> {
        library::cublas()?;
        stream.enter()?;
        let mut handle: cublasHandle_t = std::ptr::null_mut();
        // SAFETY: the library is there and the context current; the stream outlives the handle. `Blas` owns the handle from
        // the moment it exists.
        unsafe {
            check_cublas(sys::cublasCreate_v2(&mut handle), stream.sync, "start cuBLAS")?;
            let blas = Blas { stream: stream.clone(), handle };
            check_cublas(sys::cublasSetStream_v2(handle, stream.raw.cast()), stream.sync, "give cuBLAS the stream")?;
            // The default is fp32 without TF32.
            let math = sys::cublasMath_t::CUBLAS_DEFAULT_MATH;
            check_cublas(sys::cublasSetMathMode(handle, math), stream.sync, "set up cuBLAS")?;
            let atomics = sys::cublasAtomicsMode_t::CUBLAS_ATOMICS_NOT_ALLOWED;
            check_cublas(sys::cublasSetAtomicsMode(handle, atomics), stream.sync, "set up cuBLAS")?;
            Ok(blas)
        }
    }

    /// cuBLAS is column-major. Row-major C = A B is column-major C^T = B^T A^T, of the same bytes: operands trade places.
    ///
    /// # Safety
    /// As [`crate::device::launcher::Driver::gemm_batch`].
    pub(super) unsafe fn multiply(&mut self, batch: &GemmBatch) -> Result<()> {
        let product = &batch.first;
        let Gemm { m, n, k, .. } = *product;
        if m == 0 || n == 0 || batch.count == 0 {
            return Ok(());
        }
        let int = |size: usize| {
            c_int::try_from(size).map_err(|_| {
                Error::Device(format!("a matrix product of {m} x {k} by {k} x {n} is too large for cuBLAS"))
            })
        };
        let operation =
            |transpose| if transpose { cublasOperation_t::CUBLAS_OP_T } else { cublasOperation_t::CUBLAS_OP_N };
        let [operation_a, operation_b] = [product.transpose_a, product.transpose_b].map(operation);
        // Lengths of the stored rows.
        let row_a = int(if product.transpose_a { m } else { k }.max(1))?;
        let row_b = int(if product.transpose_b { k } else { n }.max(1))?;
        let (handle, alpha, beta) = (self.handle, &1.0f32, &product.beta);
        let (a, b, c) = (product.a as *const f32, product.b as *const f32, product.c as *mut f32);
        let [count, m_rows, n_columns, inner] = [int(batch.count)?, int(m)?, int(n)?, int(k)?];
        self.stream.enter()?;
        let status = if count == 1 {
            // SAFETY: the matrices are where the caller says; the handle is alive; alpha and beta are read during the call.
            unsafe {
                sys::cublasSgemm_v2(
                    handle,
                    operation_b,
                    operation_a,
                    n_columns,
                    m_rows,
                    inner,
                    alpha,
                    b,
                    row_b,
                    a,
                    row_a,
                    beta,
                    c,
                    n_columns,
                )
            }
        } else {
            let [stride_a, stride_b, stride_c] =
                [batch.stride_a, batch.stride_b, batch.stride_c].map(|stride| stride as c_longlong);
            // SAFETY: as above, for each of the products.
            unsafe {
                sys::cublasSgemmStridedBatched(
                    handle,
                    operation_b,
                    operation_a,
                    n_columns,
                    m_rows,
                    inner,
                    alpha,
                    b,
                    row_b,
                    stride_b,
                    a,
                    row_a,
                    stride_a,
                    beta,
                    c,
                    n_columns,
                    stride_c,
                    count,
                )
            }
        };
        let doing = format_args!("multiply {m} x {k} by {k} x {n}, {count} at a time, on {}", self.stream.name);
        check_cublas(status, self.stream.sync, doing)
    }
}

impl Drop for Blas {
    fn drop(&mut self) {
        if self.stream.enter().is_ok() {
            // SAFETY: created once, destroyed once.
            let _ = unsafe { sys::cublasDestroy_v2(self.handle) };
        }
    }
}
