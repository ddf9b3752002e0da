// CUDA's vector types: plain structs whose alignment is what lets a GPU load them in one instruction. A pointer cast
// to one of them must be aligned to it, there and here (the compiler's alignment check reports it otherwise).
#pragma once

#define CUDA_ON_CPU_VECTORS(prefix, T, align2, align4)                                                     \
  struct prefix##1 { T x; };                                                                               \
  struct alignas(align2) prefix##2 { T x, y; };                                                            \
  struct alignas(align4) prefix##4 { T x, y, z, w; };                                                      \
  inline prefix##1 make_##prefix##1(T x) { return {x}; }                                                   \
  inline prefix##2 make_##prefix##2(T x, T y) { return {x, y}; }                                           \
  inline prefix##4 make_##prefix##4(T x, T y, T z, T w) { return {x, y, z, w}; }

CUDA_ON_CPU_VECTORS(char, signed char, 2, 4)
CUDA_ON_CPU_VECTORS(uchar, unsigned char, 2, 4)
CUDA_ON_CPU_VECTORS(short, short, 4, 8)
CUDA_ON_CPU_VECTORS(ushort, unsigned short, 4, 8)
CUDA_ON_CPU_VECTORS(int, int, 8, 16)
CUDA_ON_CPU_VECTORS(uint, unsigned, 8, 16)
CUDA_ON_CPU_VECTORS(longlong, long long, 16, 16)
CUDA_ON_CPU_VECTORS(ulonglong, unsigned long long, 16, 16)
CUDA_ON_CPU_VECTORS(float, float, 8, 16)
CUDA_ON_CPU_VECTORS(double, double, 16, 16)
#undef CUDA_ON_CPU_VECTORS

struct int3 { int x, y, z; };
inline int3 make_int3(int x, int y, int z) { return {x, y, z}; }
inline uint3 make_uint3(unsigned x, unsigned y, unsigned z) { return {x, y, z}; }
