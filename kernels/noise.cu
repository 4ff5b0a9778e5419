// Routing noise: standard normal numbers of a stream, those of `Stream::normals` (crates/graph/src/seed.rs).
//
// u, v uniform with 53 bits, r = sqrt(-2 ln(1 - u)): a pair is r cos(2 pi v), r sin(2 pi v) (Box-Muller), in doubles, rounded
// once. Logarithm, sine and cosine are fdlibm's: the same on every machine, and within an ulp of any library, so that after
// rounding to floats one number in a hundred million may differ from the host's.
// Threads   one per pair. Bytes: every number written once. Deterministic.

#include "random.cuh"

// Of x in (0, 1], normal.
__device__ __forceinline__ double natural_logarithm(double x) {
    const long long bits = __double_as_longlong(x);
    const long long shifted = (bits >> 32) + (0x3ff00000ll - 0x3fe6a09ell);
    const double k = static_cast<double>((shifted >> 20) - 0x3ff);
    const long long high = (shifted & 0xfffffll) + 0x3fe6a09ell;
    const double f = __longlong_as_double(high << 32 | (bits & 0xffffffffll)) - 1.0;
    const double half = 0.5 * f * f;
    const double s = f / (2.0 + f);
    const double z = s * s;
    const double w = z * z;
    const double even = w * (3.999999999940941908e-01 + w * (2.222219843214978396e-01 + w * 1.531383769920937332e-01));
    const double odd = z
        * (6.666666666666735130e-01
           + w * (2.857142874366239149e-01 + w * (1.818357216161805012e-01 + w * 1.479819860511658591e-01)));
    return s * (half + odd + even) + k * 1.90821492927058770002e-10 - half + f + k * 6.93147180369123816490e-01;
}

// Of x + rest, |x| up to pi / 4.
__device__ __forceinline__ double sine_near_zero(double x, double rest) {
    const double z = x * x;
    const double r = 8.33333333332248946124e-03 + z * (-1.98412698298579493134e-04 + z * 2.75573137070700676789e-06)
        + z * z * z * (-2.50507602534068634195e-08 + z * 1.58969099521155010221e-10);
    const double v = z * x;
    return x - ((z * (0.5 * rest - v * r) - rest) - v * -1.66666666666666324348e-01);
}

__device__ __forceinline__ double cosine_near_zero(double x, double rest) {
    const double z = x * x;
    const double w = z * z;
    const double r =
        z * (4.16666666666666019037e-02 + z * (-1.38888888888741095749e-03 + z * 2.48015872894767294178e-05))
        + w * w * (-2.75573143513906633035e-07 + z * (2.08757232129817482790e-09 + z * -1.13596475577881948265e-11));
    const double half = 0.5 * z;
    const double most = 1.0 - half;
    return most + (((1.0 - most) - half) + (z * r - x * rest));
}

__device__ __forceinline__ double unit_number(uint32_t high, uint32_t low) {
    const uint64_t bits = (static_cast<uint64_t>(high) << 32 | low) >> 11;
    return static_cast<double>(bits) * (1.0 / 9007199254740992.0);
}

KERNEL(draw_noise, DrawNoise) {
    const uint64_t pair = static_cast<uint64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
    if (2 * pair >= args.length) {
        return;
    }
    uint32_t c0 = static_cast<uint32_t>(pair);
    uint32_t c1 = static_cast<uint32_t>(pair >> 32);
    uint32_t c2 = args.purpose;
    uint32_t c3 = args.step;
    philox_rounds(c0, c1, c2, c3, args.key[0], args.key[1]);
    const double radius = sqrt(-2.0 * natural_logarithm(1.0 - unit_number(c0, c1)));
    // In [0, 2 pi): some quarters of a turn, and what is left in two doubles.
    const double angle = __dmul_rn(6.283185307179586476925, unit_number(c2, c3));
    const int quarters = static_cast<int>(angle * 6.36619772367581382433e-01 + 0.5);
    const double begin = angle - quarters * 1.57079632673412561417e+00;
    const double correction = quarters * 6.07710050650619224932e-11;
    const double x = __dadd_rn(begin, -correction);
    const double rest = __dadd_rn(__dadd_rn(begin, -x), -correction);
    const double sine = sine_near_zero(x, rest);
    const double cosine = cosine_near_zero(x, rest);
    const double across = quarters & 1 ? sine : cosine;
    const double up = quarters & 1 ? cosine : sine;
    // Signs of cosine and sine over the quarters: ++, -+, --, +-, ++.
    const double first = radius * (((quarters + 1) & 2) ? -across : across);
    const double second = radius * ((quarters & 2) ? -up : up);
    args.noise[2 * pair] = static_cast<float>(first) * args.scale;
    if (2 * pair + 1 < args.length) {
        args.noise[2 * pair + 1] = static_cast<float>(second) * args.scale;
    }
}
