// A fiber: a stack of its own and a place to go on from. Each CUDA thread of the running block is one.
//
// makecontext starts a fiber, once; after that sigsetjmp/siglongjmp without the signal mask switch between stacks with
// no system call (as QEMU's coroutines do). A fiber's stack lies at a fixed address, because the address sanitizer's
// generated code finds the shadow of a stack at a constant offset.
#pragma once
#include <setjmp.h>
#include <stddef.h>

namespace cuda_on_cpu {

struct Fiber {
  sigjmp_buf place;
  bool started = false;
};

constexpr size_t max_fibers = 1024, stack_bytes = 256 << 10;

char* fiber_stacks();                          // maps all stacks (and their shadow) on first use; null: not possible
char* fiber_stack(unsigned index);             // lowest usable address of one stack; a guard page lies below
void clear_stack_shadow(unsigned index);       // forget what an abandoned fiber had marked as out of bounds
const signed char* shadow_of(const void* p);   // the shadow byte of 8 bytes of stack
void start_or_continue(Fiber& from, Fiber& to, unsigned index, void (*entry)());
void switch_to(Fiber& from, Fiber& to);        // `to` has been started

}  // namespace cuda_on_cpu
