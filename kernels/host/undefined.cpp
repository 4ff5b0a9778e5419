// The checked build's undefined-behaviour reports: index outside of an array, overflow, shift, alignment and the like.
//
// Kernels are compiled with -fsanitize=undefined, which makes the compiler call these functions where the language is
// violated. All of them get a description that begins with the place in the source; that and the kind of violation is
// what we report, and it ends the launch.
#include "engine.h"

namespace {

// How descriptions begin, in the compilers' words.
struct SourceLocation {
    const char* file;
    uint32_t line;
    uint32_t column;
};

void report(const void* description, const char* kind) {
    if (harmonia_host::current == nullptr) {
        return;
    }
    const SourceLocation& place = *static_cast<const SourceLocation*>(description);
    harmonia_host::fail("undefined behaviour: %s at %s:%u:%u", kind, place.file, place.line, place.column);
}

} // namespace

#define VIOLATION(name, kind)                                                                                         \
    extern "C" __attribute__((visibility("hidden"))) void __ubsan_handle_##name(void* description) {                  \
        report(description, kind);                                                                                    \
    }

// The further arguments, which differ, are not read.
VIOLATION(add_overflow, "signed overflow in a sum")
VIOLATION(sub_overflow, "signed overflow in a difference")
VIOLATION(mul_overflow, "signed overflow in a product")
VIOLATION(negate_overflow, "signed overflow in a negation")
VIOLATION(divrem_overflow, "division by zero, or overflow in a division")
VIOLATION(shift_out_of_bounds, "shift by a negative number or by more than the width")
VIOLATION(out_of_bounds, "index outside of an array")
VIOLATION(pointer_overflow, "pointer arithmetic that wraps around")
VIOLATION(vla_bound_not_positive, "array of no or negative size")
VIOLATION(load_invalid_value, "value that its type does not have")
VIOLATION(float_cast_overflow, "number that does not fit its new type")
VIOLATION(builtin_unreachable, "unreachable code reached")
VIOLATION(missing_return, "function ends without a value")
VIOLATION(nonnull_arg, "null where a function forbids it")
VIOLATION(invalid_builtin, "argument a builtin function does not take")

// Null, misaligned or, where the compiler knows the object, outside of it.
extern "C" __attribute__((visibility("hidden"))) void __ubsan_handle_type_mismatch_v1(void* description,
                                                                                      uintptr_t address) {
    struct Mismatch {
        SourceLocation place;
        const void* type;
        unsigned char log_alignment;
    };
    const uintptr_t alignment = uintptr_t(1) << static_cast<const Mismatch*>(description)->log_alignment;
    report(description, address == 0               ? "access through a null pointer"
                        : address % alignment != 0 ? "misaligned access"
                                                   : "access outside of an object");
}
