// Undefined behaviour of C++, which nvcc may compile to anything as well: `g++ -fsanitize=undefined` calls these where
// it has happened. Every mode asks at least for =alignment: a vector load from a misaligned pointer faults on a GPU.
#include "block.hpp"

namespace cuda_on_cpu {

struct Place {  // how each handler's first argument begins
  const char* file;
  uint32_t line, column;
};
struct Mismatch {
  Place place;
  const struct { uint16_t kind, info; char name[1]; }* type;
  uint8_t log_alignment, use;
};

[[noreturn]] static void undefined(const Place* place, const char* what) {
  fail({place->file, (int)place->line, nullptr}, "undefined behaviour: %s", what);
}

}  // namespace cuda_on_cpu

extern "C" EXPORTED void __ubsan_handle_type_mismatch_v1(const cuda_on_cpu::Mismatch* m, uintptr_t address) {
  using namespace cuda_on_cpu;
  uintptr_t alignment = (uintptr_t)1 << m->log_alignment;
  Site site{m->place.file, (int)m->place.line, nullptr};
  if (!address) fail(site, "null pointer used as %s", m->type->name);
  if (address % alignment)
    fail(site, "misaligned access: %s needs a multiple of %zu bytes, this address is %zu past one", m->type->name,
         (size_t)alignment, (size_t)(address % alignment));
  fail(site, "out of bounds: no room for a %s here", m->type->name);
}

#define HANDLER(name, what)                                                   \
  extern "C" EXPORTED void __ubsan_handle_##name(const cuda_on_cpu::Place* p) { \
    cuda_on_cpu::undefined(p, what);                                          \
  }
HANDLER(add_overflow, "signed addition overflows")
HANDLER(sub_overflow, "signed subtraction overflows")
HANDLER(mul_overflow, "signed multiplication overflows")
HANDLER(negate_overflow, "negation overflows")
HANDLER(divrem_overflow, "division by zero, or its result overflows")
HANDLER(shift_out_of_bounds, "shift by a negative number or by the width of the type or more")
HANDLER(out_of_bounds, "array index out of bounds")
HANDLER(pointer_overflow, "pointer arithmetic leaves the address space or starts from null")
HANDLER(load_invalid_value, "a bool or enum that holds none of its values")
HANDLER(vla_bound_not_positive, "array of no positive length")
HANDLER(float_cast_overflow, "floating-point value does not fit the integer")
HANDLER(builtin_unreachable, "unreachable code reached")
HANDLER(missing_return, "function that must return a value ends without")
HANDLER(invalid_builtin, "count of leading or trailing zeros of 0")
HANDLER(nonnull_arg, "null pointer where one is ruled out")
