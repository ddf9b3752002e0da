// What threads do together. Each call hands its value and its place in the source to the runtime (collectives.cpp),
// which checks who takes part and resumes the fiber with the answer.
#pragma once

namespace cuda_on_cpu {
enum class Barrier { plain, count, all, any };
enum class Warp {
  sync, shuffle, shuffle_up, shuffle_down, shuffle_xor, ballot, all, any, match_any, match_all,
  add, min_signed, max_signed, min_unsigned, max_unsigned, bit_and, bit_or, bit_xor
};
int barrier(Barrier kind, int predicate, const char* file, int line);
unsigned long long collective(Warp kind, unsigned mask, unsigned long long value, int argument, int width,
                              const char* file, int line);
unsigned active_lanes();

template <class T> unsigned long long to_bits(T value) {
  unsigned long long bits = 0;
  __builtin_memcpy(&bits, &value, sizeof value);
  return bits;
}
template <class T> T from_bits(unsigned long long bits) {
  T value;
  __builtin_memcpy(&value, &bits, sizeof value);
  return value;
}
}  // namespace cuda_on_cpu

// -- the whole block -------------------------------------------------------------------------------------------
#define CUDA_ON_CPU_BARRIER(name, kind)                                                                    \
  inline int name(int predicate, CUDA_ON_CPU_SITE) {                                                       \
    return cuda_on_cpu::barrier(cuda_on_cpu::Barrier::kind, predicate, file, line);                        \
  }
inline void __syncthreads(CUDA_ON_CPU_SITE) { cuda_on_cpu::barrier(cuda_on_cpu::Barrier::plain, 0, file, line); }
CUDA_ON_CPU_BARRIER(__syncthreads_count, count)
CUDA_ON_CPU_BARRIER(__syncthreads_and, all)
CUDA_ON_CPU_BARRIER(__syncthreads_or, any)
#undef CUDA_ON_CPU_BARRIER

// -- one warp --------------------------------------------------------------------------------------------------
#define CUDA_ON_CPU_COLLECTIVE(kind, value, argument, width)                                               \
  cuda_on_cpu::collective(cuda_on_cpu::Warp::kind, mask, cuda_on_cpu::to_bits(value), argument, width, file, line)

inline void __syncwarp(unsigned mask = 0xffffffffu, CUDA_ON_CPU_SITE) { CUDA_ON_CPU_COLLECTIVE(sync, 0, 0, 32); }
inline unsigned __activemask() { return cuda_on_cpu::active_lanes(); }
inline unsigned __ballot_sync(unsigned mask, int predicate, CUDA_ON_CPU_SITE) {
  return (unsigned)CUDA_ON_CPU_COLLECTIVE(ballot, predicate != 0, 0, 32);
}
inline int __all_sync(unsigned mask, int predicate, CUDA_ON_CPU_SITE) {
  return (int)CUDA_ON_CPU_COLLECTIVE(all, predicate != 0, 0, 32);
}
inline int __any_sync(unsigned mask, int predicate, CUDA_ON_CPU_SITE) {
  return (int)CUDA_ON_CPU_COLLECTIVE(any, predicate != 0, 0, 32);
}

#define CUDA_ON_CPU_PER_TYPE(T)                                                                            \
  inline T __shfl_sync(unsigned mask, T value, int lane, int width = 32, CUDA_ON_CPU_SITE) {               \
    return cuda_on_cpu::from_bits<T>(CUDA_ON_CPU_COLLECTIVE(shuffle, value, lane, width));                 \
  }                                                                                                        \
  inline T __shfl_up_sync(unsigned mask, T value, unsigned delta, int width = 32, CUDA_ON_CPU_SITE) {      \
    return cuda_on_cpu::from_bits<T>(CUDA_ON_CPU_COLLECTIVE(shuffle_up, value, (int)delta, width));        \
  }                                                                                                        \
  inline T __shfl_down_sync(unsigned mask, T value, unsigned delta, int width = 32, CUDA_ON_CPU_SITE) {    \
    return cuda_on_cpu::from_bits<T>(CUDA_ON_CPU_COLLECTIVE(shuffle_down, value, (int)delta, width));      \
  }                                                                                                        \
  inline T __shfl_xor_sync(unsigned mask, T value, int lanes, int width = 32, CUDA_ON_CPU_SITE) {          \
    return cuda_on_cpu::from_bits<T>(CUDA_ON_CPU_COLLECTIVE(shuffle_xor, value, lanes, width));            \
  }                                                                                                        \
  inline unsigned __match_any_sync(unsigned mask, T value, CUDA_ON_CPU_SITE) {                             \
    return (unsigned)CUDA_ON_CPU_COLLECTIVE(match_any, value, 0, 32);                                      \
  }                                                                                                        \
  inline unsigned __match_all_sync(unsigned mask, T value, int* same, CUDA_ON_CPU_SITE) {                  \
    unsigned lanes = (unsigned)CUDA_ON_CPU_COLLECTIVE(match_all, value, 0, 32);                            \
    *same = lanes != 0;                                                                                    \
    return lanes;                                                                                          \
  }
CUDA_ON_CPU_PER_TYPE(int)
CUDA_ON_CPU_PER_TYPE(unsigned)
CUDA_ON_CPU_PER_TYPE(long)
CUDA_ON_CPU_PER_TYPE(unsigned long)
CUDA_ON_CPU_PER_TYPE(long long)
CUDA_ON_CPU_PER_TYPE(unsigned long long)
CUDA_ON_CPU_PER_TYPE(float)
CUDA_ON_CPU_PER_TYPE(double)
#undef CUDA_ON_CPU_PER_TYPE

#if __CUDA_ARCH__ >= 800  // sm_75 has no warp reduction
#define CUDA_ON_CPU_REDUCE(name, T, kind)                                                                  \
  inline T name(unsigned mask, T value, CUDA_ON_CPU_SITE) { return (T)CUDA_ON_CPU_COLLECTIVE(kind, value, 0, 32); }
CUDA_ON_CPU_REDUCE(__reduce_add_sync, int, add)
CUDA_ON_CPU_REDUCE(__reduce_min_sync, int, min_signed)
CUDA_ON_CPU_REDUCE(__reduce_max_sync, int, max_signed)
CUDA_ON_CPU_REDUCE(__reduce_add_sync, unsigned, add)
CUDA_ON_CPU_REDUCE(__reduce_min_sync, unsigned, min_unsigned)
CUDA_ON_CPU_REDUCE(__reduce_max_sync, unsigned, max_unsigned)
CUDA_ON_CPU_REDUCE(__reduce_and_sync, unsigned, bit_and)
CUDA_ON_CPU_REDUCE(__reduce_or_sync, unsigned, bit_or)
CUDA_ON_CPU_REDUCE(__reduce_xor_sync, unsigned, bit_xor)
#undef CUDA_ON_CPU_REDUCE
#endif
#undef CUDA_ON_CPU_COLLECTIVE

// One thread runs at a time and memory is coherent: a fence has nothing to do. It orders nothing for the race
// detector either: a barrier does.
inline void __threadfence() {}
inline void __threadfence_block() {}
