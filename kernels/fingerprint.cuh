// Fingerprints in registers: what every kernel that compares them needs.
#pragma once
#include "common.cuh"

#define ALL_LANES 0xffffffffu

// W words of 64 bits, as the 32-bit halves that a GPU computes with.
template <int W>
struct Fingerprint {
  u32 part[2 * W];
  __device__ __forceinline__ void set(int word, u64 value) {
    part[2 * word] = (u32)value;
    part[2 * word + 1] = (u32)(value >> 32);
  }
};

// Row `row` of (n, W) fingerprints; zeros past the end.
template <int W, class Index>
__device__ __forceinline__ Fingerprint<W> load_row(const u64* __restrict__ rows, Index row, Index n) {
  Fingerprint<W> x = {};
  if (row < n)
    for (int word = 0; word < W; ++word) x.set(word, rows[row * W + word]);
  return x;
}

// Hamming distance. Population counts are what a GPU does slowest here (16 a clock and multiprocessor, where it does 64
// logical operations), so that 128 bits take three instead of four: a full adder and a half adder turn four words into
// one of weight 1 and two of weight 2.
template <int W>
__device__ __forceinline__ u32 hamming_distance(const Fingerprint<W>& a, const Fingerprint<W>& b) {
  u32 x[2 * W];
  for (int i = 0; i < 2 * W; ++i) x[i] = a.part[i] ^ b.part[i];
  if constexpr (W == 1) {
    return __popc(x[0]) + __popc(x[1]);
  } else {
    u32 sum = x[0] ^ x[1] ^ x[2], carry = (x[0] & x[1]) | (x[0] & x[2]) | (x[1] & x[2]);
    return __popc(sum ^ x[3]) + 2 * (__popc(carry) + __popc(sum & x[3]));
  }
}

// A lower bound of the distance by FOLD population counts: the differing bits laid over each other in FOLD words of 32.
// Folding loses bits and never adds one. With FOLD == 2 * W nothing is laid over anything: the distance itself.
template <int W, int FOLD>
__device__ __forceinline__ u32 least_distance(const Fingerprint<W>& a, const Fingerprint<W>& b) {
  if constexpr (FOLD == 2 * W) return hamming_distance(a, b);
  u32 count = 0;
  for (int f = 0; f < FOLD; ++f) {
    u32 folded = 0;
    for (int i = f; i < 2 * W; i += FOLD) folded |= a.part[i] ^ b.part[i];
    count += __popc(folded);
  }
  return count;
}
