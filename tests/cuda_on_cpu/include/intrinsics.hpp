// What one thread computes alone: bit tricks, byte tricks, cached loads and stores.
#pragma once

// -- counting and reversing bits -------------------------------------------------------------------------------
inline int __popc(unsigned x) { return __builtin_popcount(x); }
inline int __popcll(unsigned long long x) { return __builtin_popcountll(x); }
inline int __clz(int x) { return x ? __builtin_clz(x) : 32; }
inline int __clzll(long long x) { return x ? __builtin_clzll(x) : 64; }
inline int __ffs(int x) { return __builtin_ffs(x); }
inline int __ffsll(long long x) { return __builtin_ffsll(x); }
inline unsigned __brev(unsigned x) {
  unsigned reversed = 0;
  for (int i = 0; i < 32; ++i) reversed |= (x >> i & 1u) << (31 - i);
  return reversed;
}
inline unsigned long long __brevll(unsigned long long x) {
  return (unsigned long long)__brev((unsigned)x) << 32 | __brev((unsigned)(x >> 32));
}

// -- high halves of products -----------------------------------------------------------------------------------
inline int __mulhi(int a, int b) { return (int)((long long)a * b >> 32); }
inline unsigned __umulhi(unsigned a, unsigned b) { return (unsigned)((unsigned long long)a * b >> 32); }
inline long long __mul64hi(long long a, long long b) { return (long long)((__int128)a * b >> 64); }
inline unsigned long long __umul64hi(unsigned long long a, unsigned long long b) {
  return (unsigned long long)((unsigned __int128)a * b >> 64);
}

// -- shifting and choosing across two words: hi:lo is one 64-bit value -----------------------------------------
inline unsigned __funnelshift_l(unsigned lo, unsigned hi, unsigned shift) {
  return (unsigned)((((unsigned long long)hi << 32 | lo) << (shift & 31)) >> 32);
}
inline unsigned __funnelshift_r(unsigned lo, unsigned hi, unsigned shift) {
  return (unsigned)(((unsigned long long)hi << 32 | lo) >> (shift & 31));
}
inline unsigned __funnelshift_lc(unsigned lo, unsigned hi, unsigned shift) {
  return shift >= 32 ? lo : __funnelshift_l(lo, hi, shift);
}
inline unsigned __funnelshift_rc(unsigned lo, unsigned hi, unsigned shift) {
  return shift >= 32 ? hi : __funnelshift_r(lo, hi, shift);
}
// Byte i of the result is byte (nibble i of `select`, its low 3 bits) of y:x; bit 3 of a nibble spreads the sign.
inline unsigned __byte_perm(unsigned x, unsigned y, unsigned select) {
  unsigned long long bytes = (unsigned long long)y << 32 | x;
  unsigned result = 0;
  for (int i = 0; i < 4; ++i) {
    unsigned nibble = select >> (4 * i) & 15, byte = (unsigned)(bytes >> (8 * (nibble & 7))) & 0xff;
    if (nibble & 8) byte = byte & 0x80 ? 0xff : 0;
    result |= byte << (8 * i);
  }
  return result;
}

// -- four bytes at once: all ones where true -------------------------------------------------------------------
#define CUDA_ON_CPU_BYTES(name, expression)                                                                \
  inline unsigned name(unsigned a, unsigned b) {                                                           \
    unsigned result = 0;                                                                                   \
    for (int i = 0; i < 32; i += 8) {                                                                      \
      unsigned x = a >> i & 0xff, y = b >> i & 0xff;                                                       \
      result |= ((unsigned)(expression) & 0xff) << i;                                                      \
    }                                                                                                      \
    return result;                                                                                         \
  }
CUDA_ON_CPU_BYTES(__vadd4, x + y)
CUDA_ON_CPU_BYTES(__vsub4, x - y)
CUDA_ON_CPU_BYTES(__vcmpeq4, x == y ? 0xff : 0)
CUDA_ON_CPU_BYTES(__vcmpne4, x != y ? 0xff : 0)
CUDA_ON_CPU_BYTES(__vcmpltu4, x < y ? 0xff : 0)
CUDA_ON_CPU_BYTES(__vcmpleu4, x <= y ? 0xff : 0)
CUDA_ON_CPU_BYTES(__vcmpgtu4, x > y ? 0xff : 0)
CUDA_ON_CPU_BYTES(__vcmpgeu4, x >= y ? 0xff : 0)
#undef CUDA_ON_CPU_BYTES
inline int __dp4a(int a, int b, int sum) {
  for (int i = 0; i < 32; i += 8) sum += (int)(signed char)(a >> i) * (int)(signed char)(b >> i);
  return sum;
}
inline unsigned __dp4a(unsigned a, unsigned b, unsigned sum) {
  for (int i = 0; i < 32; i += 8) sum += (a >> i & 0xff) * (b >> i & 0xff);
  return sum;
}

// -- same bits, other type -------------------------------------------------------------------------------------
inline unsigned __float_as_uint(float x) { return __builtin_bit_cast(unsigned, x); }
inline float __uint_as_float(unsigned x) { return __builtin_bit_cast(float, x); }
inline int __float_as_int(float x) { return __builtin_bit_cast(int, x); }
inline float __int_as_float(int x) { return __builtin_bit_cast(float, x); }
inline long long __double_as_longlong(double x) { return __builtin_bit_cast(long long, x); }
inline double __longlong_as_double(long long x) { return __builtin_bit_cast(double, x); }

// -- smaller and larger ----------------------------------------------------------------------------------------
#define CUDA_ON_CPU_MIN_MAX(T, A, B)                                                                       \
  constexpr T min(A a, B b) { return (T)b < (T)a ? (T)b : (T)a; }                                          \
  constexpr T max(A a, B b) { return (T)a < (T)b ? (T)b : (T)a; }
#define CUDA_ON_CPU_INTEGERS(T)                                                                            \
  CUDA_ON_CPU_MIN_MAX(T, T, T)                                                                             \
  CUDA_ON_CPU_MIN_MAX(unsigned T, unsigned T, unsigned T)                                                  \
  CUDA_ON_CPU_MIN_MAX(unsigned T, unsigned T, T)                                                           \
  CUDA_ON_CPU_MIN_MAX(unsigned T, T, unsigned T)
CUDA_ON_CPU_INTEGERS(int)
CUDA_ON_CPU_INTEGERS(long)
CUDA_ON_CPU_INTEGERS(long long)
CUDA_ON_CPU_MIN_MAX(float, float, float)
CUDA_ON_CPU_MIN_MAX(double, double, double)
#undef CUDA_ON_CPU_INTEGERS
#undef CUDA_ON_CPU_MIN_MAX

// -- loads and stores with a cache hint: always inlined, so that a fault is reported at the kernel's line ------
#define CUDA_ON_CPU_LOAD(name)                                                                             \
  template <class T> __forceinline__ T name(const T* from) { return *from; }
#define CUDA_ON_CPU_STORE(name)                                                                            \
  template <class T> __forceinline__ void name(T* to, T value) { *to = value; }
CUDA_ON_CPU_LOAD(__ldg)
CUDA_ON_CPU_LOAD(__ldca)
CUDA_ON_CPU_LOAD(__ldcg)
CUDA_ON_CPU_LOAD(__ldcs)
CUDA_ON_CPU_STORE(__stwb)
CUDA_ON_CPU_STORE(__stcg)
CUDA_ON_CPU_STORE(__stcs)
#undef CUDA_ON_CPU_LOAD
#undef CUDA_ON_CPU_STORE
