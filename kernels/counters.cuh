// Ones counted at each bit of many words, in bit-sliced counters in carry-save form (Harley and Seal; see H. Warren,
// "Hacker's Delight", 2nd ed., section 5-1). Plane p of a counter is a word whose bit b is bit p of the count of ones
// at bit b. Eight lanes count the features of a document or part, every eighth feature each; then the lanes' counters
// are added, plane by plane, and compared with half the features, all 32 bits of a word at once.
//
//   plane 2 (fours)   0 1 0 0 ...
//   plane 1 (twos)    1 0 1 1 ...      one LOP3 for a sum bit, one for a carry
//   plane 0 (ones)    1 0 0 1 ...
//                     ^ count 3 of bit 31
#pragma once
#include "common.cuh"

#define ALL 0xFFFFFFFFu
#define LANES 8          // that count together
#define LANE_PLANES 8    // a lane counts up to 255 features
#define PLANES 11        // eight lanes up to 2040

// a + b + c, for each bit: 2 * carry + sum.
__device__ __forceinline__ void add3(u32& carry, u32& sum, u32 a, u32 b, u32 c) {
  carry = (a & b) | (c & (a ^ b));
  sum = a ^ b ^ c;
}

// Eight words into the counter: the planes of ones, twos and fours take three words at a time, the upper ones a carry.
__device__ __forceinline__ void add8(u32 (&planes)[PLANES], const u32 (&x)[8]) {
  u32 t0, t1, t2, t3, f0, f1, carry;
  add3(t0, planes[0], planes[0], x[0], x[1]);
  add3(t1, planes[0], planes[0], x[2], x[3]);
  add3(t2, planes[0], planes[0], x[4], x[5]);
  add3(t3, planes[0], planes[0], x[6], x[7]);
  add3(f0, planes[1], planes[1], t0, t1);
  add3(f1, planes[1], planes[1], t2, t3);
  add3(carry, planes[2], planes[2], f0, f1);
#pragma unroll
  for (int p = 3; p < LANE_PLANES; ++p) {
    u32 both = planes[p] & carry;
    planes[p] ^= carry;
    carry = both;
  }
}

// The counters of all lanes of a group, added, in each of them.
__device__ __forceinline__ void add_lanes(u32 (&planes)[PLANES]) {
#pragma unroll
  for (int step = 0; step < 3; ++step) {
    u32 carry = 0;
#pragma unroll
    for (int p = 0; p <= LANE_PLANES + step && p < PLANES; ++p) {
      u32 other = __shfl_xor_sync(ALL, planes[p], 1 << step);
      add3(carry, planes[p], planes[p], other, carry);
    }
  }
}

// Bits whose count is above `limit`.
__device__ __forceinline__ u32 above(const u32 (&planes)[PLANES], u32 limit) {
  u32 more = 0;
#pragma unroll
  for (int p = 0; p < PLANES; ++p) more = limit >> p & 1 ? more & planes[p] : more | planes[p];
  return more;
}
