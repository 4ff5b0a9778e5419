//! A bounds-checked door to the GEMM crate.

use super::Real;

/// A strided matrix inside a slice: element (r, c) is `data[r * strides[0] + c * strides[1]]`.
#[derive(Clone, Copy)]
pub struct View<'a, T> {
    data: &'a [T],
    shape: [usize; 2],
    strides: [usize; 2],
}

impl<'a, T> View<'a, T> {
    /// Row-major `rows` x `cols` at the start of `data`.
    pub fn new(data: &'a [T], rows: usize, cols: usize) -> Self {
        assert!(data.len() >= rows * cols, "matrix {rows} x {cols} in {} elements", data.len());
        View { data, shape: [rows, cols], strides: [cols, 1] }
    }

    /// `cols` columns from `first` on.
    pub fn columns(self, first: usize, cols: usize) -> Self {
        let ([rows, all], [row, col]) = (self.shape, self.strides);
        assert!(first + cols <= all, "columns {first}..{} of {all}", first + cols);
        // Of an empty matrix nothing is read.
        let data = if rows == 0 { self.data } else { &self.data[first * col..] };
        View { data, shape: [rows, cols], strides: [row, col] }
    }

    /// Rows become columns.
    pub fn transposed(self) -> Self {
        let ([rows, cols], [row, col]) = (self.shape, self.strides);
        View { data: self.data, shape: [cols, rows], strides: [col, row] }
    }
}

/// `out` (row-major) = a b, or += where `accumulate`.
#[allow(unsafe_code)]
pub fn gemm<T: Real>(out: &mut [T], a: View<'_, T>, b: View<'_, T>, accumulate: bool) {
    let ([m, k], [inner, n]) = (a.shape, b.shape);
    assert_eq!(k, inner, "inner dimensions of a matrix product");
    assert!(out.len() >= m * n, "product {m} x {n} in {} elements", out.len());
    let signed = |[row, col]: [usize; 2]| [row as isize, col as isize];
    let beta = if accumulate { T::one() } else { T::zero() };
    // SAFETY: `View::new` checked that a and b lie in their slices (transposing keeps the set of indices), and `out`
    // was checked above; it is a unique borrow, so it aliases neither.
    unsafe {
        T::gemm_raw(
            m,
            k,
            n,
            a.data.as_ptr(),
            signed(a.strides),
            b.data.as_ptr(),
            signed(b.strides),
            beta,
            out.as_mut_ptr(),
            [n as isize, 1],
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn products_agree_with_the_definition() {
        let a = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]; // 2 x 3
        let b = [1.0, 0.0, 2.0, 1.0, 0.0, 3.0]; // 3 x 2
        let mut c = [0.0f64; 4];
        gemm(&mut c, View::new(&a, 2, 3), View::new(&b, 3, 2), false);
        assert_eq!(c, [5.0, 11.0, 14.0, 23.0]);
        gemm(&mut c, View::new(&b, 3, 2).transposed(), View::new(&a, 2, 3).transposed(), true);
        assert_eq!(c, [10.0, 25.0, 25.0, 46.0]);
        gemm(&mut c, View::new(&a, 2, 3).columns(1, 2), View::new(&b, 2, 2), false);
        assert_eq!(c, [8.0, 3.0, 17.0, 6.0]);
    }
}
