// Sanitize mode: `g++ -fsanitize=kernel-address` calls these before every load and store that it cannot prove right.
// (The variant made for kernels, unlike -fsanitize=address, leaves the checking to functions of ours and needs no
// runtime library that must be loaded before Python.) Its code marks the gaps between a function's local arrays in
// shadow memory, one byte for 8: 0 all usable, 1 to 7 that many usable, negative none.
#include "checks.hpp"
#include "signals.hpp"

namespace cuda_on_cpu {

static void check(const void* address, size_t bytes, Access access, const void* pc) {
  if (!current) return;
  if (out_of_time()) fail_out_of_time(pc);
  if (!on_own_stack(address)) {
    require_range(address, bytes, access, pc);
    return;
  }
  for (const char *p = (const char*)address, *end = p + bytes; p < end; ++p) {
    signed char usable = *shadow_of(p);
    if (usable && (signed char)((uintptr_t)p & 7) >= usable)
      fail({nullptr, 0, pc}, "out of bounds: %s of %zu bytes beside a local array", access == Access::read ? "read" : "write", bytes);
  }
}

}  // namespace cuda_on_cpu

#define HOOKS(n)                                                                                       \
  extern "C" EXPORTED void __asan_load##n##_noabort(const void* p) {                                   \
    cuda_on_cpu::check(p, n, cuda_on_cpu::Access::read, __builtin_return_address(0));                  \
  }                                                                                                    \
  extern "C" EXPORTED void __asan_store##n##_noabort(const void* p) {                                  \
    cuda_on_cpu::check(p, n, cuda_on_cpu::Access::write, __builtin_return_address(0));                 \
  }
HOOKS(1)
HOOKS(2)
HOOKS(4)
HOOKS(8)
HOOKS(16)
extern "C" EXPORTED void __asan_loadN_noabort(const void* p, size_t bytes) {
  cuda_on_cpu::check(p, bytes, cuda_on_cpu::Access::read, __builtin_return_address(0));
}
extern "C" EXPORTED void __asan_storeN_noabort(const void* p, size_t bytes) {
  cuda_on_cpu::check(p, bytes, cuda_on_cpu::Access::write, __builtin_return_address(0));
}
extern "C" EXPORTED void __asan_handle_no_return() {}
