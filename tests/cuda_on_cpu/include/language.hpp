// The words of the language, and where a thread finds out who it is.
#pragma once
#include <stddef.h>
#include <string.h>

#ifndef __CUDA_ARCH__
#define __CUDA_ARCH__ 900
#endif

#define __host__
#define __device__
#define __global__ __attribute__((visibility("default"), noinline))
#define __launch_bounds__(...) __attribute__((cuda_launch_bounds(__VA_ARGS__)))  // read from the preprocessed text
#define __grid_constant__
#define __forceinline__ inline __attribute__((always_inline))
#define __noinline__ __attribute__((noinline))
#define __align__(bytes) __attribute__((aligned(bytes)))
#define __constant__ static

// Blocks run one at a time, so a static variable is block-shared memory. Each gets a section of its own (one section
// cannot hold both plain and inline functions' statics); shared.ld gathers them, so that the runtime can refill them
// with poison before each block. compiler.py turns `extern __shared__ T x[]` into the dynamic shared array.
#define CUDA_ON_CPU_TEXT(x) #x
#define CUDA_ON_CPU_SECTION(n) __attribute__((section("cuda_shared." CUDA_ON_CPU_TEXT(n))))
#define CUDA_ON_CPU_SHARED(n) static CUDA_ON_CPU_SECTION(n)
#define __shared__ CUDA_ON_CPU_SHARED(__COUNTER__)

// For the stand-in's own functions: leave them out of the sanitizers' instrumentation.
#define CUDA_ON_CPU_UNCHECKED __attribute__((no_sanitize("thread", "address", "kernel-address", "undefined")))

// Where in the source a call stands: default arguments are evaluated at the caller.
#define CUDA_ON_CPU_SITE const char *file = __builtin_FILE(), int line = __builtin_LINE()

struct uint3 { unsigned x, y, z; };
struct dim3 {
  unsigned x, y, z;
  constexpr dim3(unsigned x = 1, unsigned y = 1, unsigned z = 1) : x(x), y(y), z(z) {}
};

namespace cuda_on_cpu {
// "const": within one fiber the answer never changes, so g++ may keep it in a register.
__attribute__((const)) uint3 thread_index();
__attribute__((const)) uint3 block_index();
__attribute__((const)) dim3 block_shape();
__attribute__((const)) dim3 grid_shape();
}  // namespace cuda_on_cpu

#define threadIdx (cuda_on_cpu::thread_index())
#define blockIdx (cuda_on_cpu::block_index())
#define blockDim (cuda_on_cpu::block_shape())
#define gridDim (cuda_on_cpu::grid_shape())
inline constexpr int warpSize = 32;
