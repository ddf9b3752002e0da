// Atomics. One OS thread runs every CUDA thread, so a plain read-modify-write is atomic; the runtime is told first,
// to check the address and to know that two such accesses are no data race. Only the overloads CUDA has are here.
#pragma once

namespace cuda_on_cpu {
void before_atomic(const void* address, unsigned bytes, const void* pc);
}

#define CUDA_ON_CPU_ATOMIC(name, T, updated)                                                               \
  __attribute__((noinline, unused)) CUDA_ON_CPU_UNCHECKED static T name(T* address, T value) {             \
    cuda_on_cpu::before_atomic(address, sizeof(T), __builtin_return_address(0));                           \
    T old = *address;                                                                                      \
    *address = updated;                                                                                    \
    return old;                                                                                            \
  }
#define CUDA_ON_CPU_CAS(T)                                                                                 \
  __attribute__((noinline, unused)) CUDA_ON_CPU_UNCHECKED static T atomicCAS(T* address, T expected, T value) { \
    cuda_on_cpu::before_atomic(address, sizeof(T), __builtin_return_address(0));                           \
    T old = *address;                                                                                      \
    if (old == expected) *address = value;                                                                 \
    return old;                                                                                            \
  }

CUDA_ON_CPU_ATOMIC(atomicAdd, int, (int)((unsigned)old + (unsigned)value))
CUDA_ON_CPU_ATOMIC(atomicAdd, unsigned, old + value)
CUDA_ON_CPU_ATOMIC(atomicAdd, unsigned long long, old + value)
CUDA_ON_CPU_ATOMIC(atomicAdd, float, old + value)
CUDA_ON_CPU_ATOMIC(atomicAdd, double, old + value)
CUDA_ON_CPU_ATOMIC(atomicSub, int, (int)((unsigned)old - (unsigned)value))
CUDA_ON_CPU_ATOMIC(atomicSub, unsigned, old - value)
CUDA_ON_CPU_ATOMIC(atomicExch, int, value)
CUDA_ON_CPU_ATOMIC(atomicExch, unsigned, value)
CUDA_ON_CPU_ATOMIC(atomicExch, unsigned long long, value)
CUDA_ON_CPU_ATOMIC(atomicExch, float, value)
CUDA_ON_CPU_ATOMIC(atomicInc, unsigned, old >= value ? 0 : old + 1)
CUDA_ON_CPU_ATOMIC(atomicDec, unsigned, old == 0 || old > value ? value : old - 1)
#define CUDA_ON_CPU_PER_TYPE(T)                                                                            \
  CUDA_ON_CPU_ATOMIC(atomicMin, T, old < value ? old : value)                                              \
  CUDA_ON_CPU_ATOMIC(atomicMax, T, old > value ? old : value)                                              \
  CUDA_ON_CPU_ATOMIC(atomicAnd, T, old & value)                                                            \
  CUDA_ON_CPU_ATOMIC(atomicOr, T, old | value)                                                             \
  CUDA_ON_CPU_ATOMIC(atomicXor, T, old ^ value)
CUDA_ON_CPU_PER_TYPE(int)
CUDA_ON_CPU_PER_TYPE(unsigned)
CUDA_ON_CPU_PER_TYPE(unsigned long long)
#undef CUDA_ON_CPU_PER_TYPE
CUDA_ON_CPU_ATOMIC(atomicMin, long long, old < value ? old : value)
CUDA_ON_CPU_ATOMIC(atomicMax, long long, old > value ? old : value)
CUDA_ON_CPU_CAS(unsigned short)
CUDA_ON_CPU_CAS(int)
CUDA_ON_CPU_CAS(unsigned)
CUDA_ON_CPU_CAS(unsigned long long)
#undef CUDA_ON_CPU_ATOMIC
#undef CUDA_ON_CPU_CAS
