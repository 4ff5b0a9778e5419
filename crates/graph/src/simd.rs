//! Code compiled for the instruction set at hand, and memory asked for before it is read.

use std::ops::Range;

/// Runs `work` compiled for the best instruction set this processor has.
#[inline(always)]
pub fn simd<R>(work: impl FnOnce() -> R) -> R {
    pulp::Arch::new().dispatch(work)
}

/// The name of that instruction set, for people.
pub fn instruction_set() -> String {
    format!("{:?}", pulp::Arch::new()).split(['(', ' ']).next().unwrap_or("scalar").to_lowercase()
}

/// Bytes that memory hands out together.
const LINE: usize = 64;

/// Which cache to fetch into.
#[derive(Clone, Copy, Debug)]
pub enum Cache {
    /// The first, small: for what is read in a moment.
    First,
    /// The second: for what is read a little later.
    Second,
}

/// Asks for the lines of some elements. What lies behind the end is not asked for.
#[inline(always)]
#[allow(unsafe_code)]
pub fn request<S>(values: &[S], span: Range<usize>, cache: Cache) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _MM_HINT_T1, _mm_prefetch};
        let mut at = span.start;
        while at < span.end {
            let Some(value) = values.get(at) else { return };
            let address = std::ptr::from_ref(value).cast();
            // SAFETY: a request for an address inside the slice; it reads nothing and every x86-64 processor has it.
            unsafe {
                match cache {
                    Cache::First => _mm_prefetch::<_MM_HINT_T0>(address),
                    Cache::Second => _mm_prefetch::<_MM_HINT_T1>(address),
                }
            }
            at += (LINE / size_of::<S>().max(1)).max(1);
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = (values, span, cache);
}
