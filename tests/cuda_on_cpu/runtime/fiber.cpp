// Stacks, their shadow memory, and the switch between fibers. See fiber.hpp.
#include "fiber.hpp"
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <ucontext.h>

namespace cuda_on_cpu {

constexpr uintptr_t stacks_at = 0x2000000000, shadow_offset = 0x7fff8000;  // compiler.py names the same offset
constexpr size_t guard_bytes = 4096;

static void* map_at(uintptr_t address, size_t bytes) {
  void* p = mmap((void*)address, bytes, PROT_READ | PROT_WRITE,
                 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0);
  return p == (void*)address ? p : nullptr;
}

char* fiber_stacks() {
  static char* stacks = [] {
    char* all = (char*)map_at(stacks_at, max_fibers * stack_bytes);
    if (!all || !map_at((stacks_at >> 3) + shadow_offset, max_fibers * stack_bytes / 8)) return (char*)nullptr;
    for (size_t i = 0; i < max_fibers; ++i) mprotect(all + i * stack_bytes, guard_bytes, PROT_NONE);
    return all;
  }();
  return stacks;
}

char* fiber_stack(unsigned index) { return (char*)stacks_at + index * stack_bytes + guard_bytes; }

const signed char* shadow_of(const void* p) { return (const signed char*)(((uintptr_t)p >> 3) + shadow_offset); }

void clear_stack_shadow(unsigned index) {
  memset((void*)shadow_of(fiber_stack(index)), 0, (stack_bytes - guard_bytes) / 8);
}

void switch_to(Fiber& from, Fiber& to) {
  if (sigsetjmp(from.place, 0) == 0) siglongjmp(to.place, 1);
}

void start_or_continue(Fiber& from, Fiber& to, unsigned index, void (*entry)()) {
  if (to.started) return switch_to(from, to);
  to.started = true;
  ucontext_t context;
  getcontext(&context);
  context.uc_stack.ss_sp = fiber_stack(index);
  // Stacks that all began at the same offset in a page would compete for the same few cache sets.
  context.uc_stack.ss_size = stack_bytes - guard_bytes - index % 32 * 128;
  context.uc_link = nullptr;
  makecontext(&context, entry, 0);
  if (sigsetjmp(from.place, 0) == 0) setcontext(&context);
}

}  // namespace cuda_on_cpu
