//! How a propagated state is stored: as the type it is computed in, or in half of f32's bits.
//!
//! Conversions are written without branches so that the compiler makes vectors of them; they round to nearest, ties to
//! even, and keep infinities and NaN.

use crate::real::Real;
use half::{bf16, f16};

/// A stored number that is computed with as `T`.
pub trait Element<T>: bytemuck::Pod + Default + Send + Sync {
    /// To compute with.
    fn load(self) -> T;
    /// To store.
    fn store(value: T) -> Self;
}

impl<T: Real> Element<T> for T {
    #[inline(always)]
    fn load(self) -> T {
        self
    }

    #[inline(always)]
    fn store(value: T) -> T {
        value
    }
}

impl<T: Real> Element<T> for bf16 {
    #[inline(always)]
    fn load(self) -> T {
        T::from_f32(f32::from_bits(u32::from(self.to_bits()) << 16))
    }

    #[inline(always)]
    fn store(value: T) -> bf16 {
        let bits = (value.widen() as f32).to_bits();
        let rounded = (bits.wrapping_add(0x7fff + ((bits >> 16) & 1))) >> 16;
        // A NaN must not round to infinity.
        let nan = (bits >> 16) | 0x40;
        bf16::from_bits(if bits & 0x7fff_ffff > 0x7f80_0000 { nan } else { rounded } as u16)
    }
}

impl<T: Real> Element<T> for f16 {
    #[inline(always)]
    fn load(self) -> T {
        let bits = u32::from(self.to_bits());
        let sign = (bits & 0x8000) << 16;
        let magnitude = (bits & 0x7fff) << 13;
        // The exponents differ by 112; the product also normalises subnormals.
        let finite = f32::from_bits(magnitude) * f32::from_bits((112 + 127) << 23);
        let special = magnitude | 0x7f80_0000;
        let magnitude = if magnitude >= 0x0f80_0000 { special } else { finite.to_bits() };
        T::from_f32(f32::from_bits(magnitude | sign))
    }

    #[inline(always)]
    fn store(value: T) -> f16 {
        let bits = (value.widen() as f32).to_bits();
        let (sign, magnitude) = ((bits >> 16) & 0x8000, bits & 0x7fff_ffff);
        // Subnormal halves: adding 0.5 lets the float unit round at the right bit.
        let small = (f32::from_bits(magnitude) + 0.5).to_bits().wrapping_sub(0.5f32.to_bits());
        let normal = magnitude.wrapping_sub(112 << 23).wrapping_add(0x0fff + ((magnitude >> 13) & 1)) >> 13;
        let finite = if magnitude < 113 << 23 { small } else { normal };
        // From 65520 on, halves round to infinity.
        let special = if magnitude > 0x7f80_0000 { 0x7e00 } else { 0x7c00 };
        f16::from_bits((sign | if magnitude >= 0x477f_f000 { special } else { finite }) as u16)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn halves() -> impl Iterator<Item = f16> {
        (0..=u16::MAX).map(f16::from_bits)
    }

    #[test]
    fn every_half_is_read_exactly() {
        for half in halves() {
            let loaded: f32 = half.load();
            assert!(
                loaded.to_bits() == half.to_f32().to_bits() || (loaded.is_nan() && half.is_nan()),
                "{half:?} {loaded}"
            );
            let bfloat = bf16::from_bits(half.to_bits());
            let loaded: f32 = bfloat.load();
            assert!(loaded.to_bits() == bfloat.to_f32().to_bits() || (loaded.is_nan() && bfloat.is_nan()));
        }
    }

    #[test]
    fn stored_numbers_are_rounded_like_the_reference() {
        let between = halves().map(f16::to_f32).flat_map(|x| {
            let bits = x.to_bits();
            [0, 1, 0x0fff, 0x1000, 0x1001].map(|more| f32::from_bits(bits.wrapping_add(more)))
        });
        let others = (0..1u32 << 20).map(|at| f32::from_bits(at.wrapping_mul(4099)));
        for x in between.chain(others) {
            let (stored, expected): (f16, f16) = (Element::store(x), f16::from_f32(x));
            assert!(stored.to_bits() == expected.to_bits() || (stored.is_nan() && expected.is_nan()), "{x:e}");
            let (stored, expected): (bf16, bf16) = (Element::store(x), bf16::from_f32(x));
            assert!(stored.to_bits() == expected.to_bits() || (stored.is_nan() && expected.is_nan()), "{x:e}");
        }
    }
}
