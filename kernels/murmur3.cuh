// MurmurHash3 x64 128 (Austin Appleby, public domain) of one byte range of a text. murmur3.cu has a picture.
#pragma once
#include "common.cuh"

#define C1 0x87C37B91114253D5ull
#define C2 0x4CF5AD432745937Full

__device__ __forceinline__ u64 rotate(u64 x, int bits) { return x << bits | x >> (64 - bits); }
__device__ __forceinline__ u64 scramble1(u64 k) { return rotate(k * C1, 31) * C2; }
__device__ __forceinline__ u64 scramble2(u64 k) { return rotate(k * C2, 33) * C1; }
__device__ __forceinline__ u64 finalize(u64 h) {
  h = (h ^ h >> 33) * 0xFF51AFD7ED558CCDull;
  h = (h ^ h >> 33) * 0xC4CEB9FE1A85EC53ull;
  return h ^ h >> 33;
}

// The words of a byte range, one after the other. The last may hold bytes from behind the range.
struct Words {
  const u64* next;
  u32 shift;  // bits by which the range lies off the aligned words
  u64 held;   // the aligned word that the next bytes begin in
  __device__ __forceinline__ explicit Words(const u8* at)
      : next((const u64*)(at - ((u64)at & 7))), shift(8 * ((u64)at & 7)), held(*next++) {}
  __device__ __forceinline__ u64 take() {
    u64 low = held;
    held = *next++;
    return shift ? low >> shift | held << (64 - shift) : low;
  }
};

// `bytes` 0 to 8: the lowest ones of k.
__device__ __forceinline__ u64 lowest(u64 k, u32 bytes) { return bytes >= 8 ? k : k & ((1ull << 8 * bytes) - 1); }

struct Hash {
  u64 first, second;
};

// Reads up to 16 bytes past the end of a range, and up to 7 before its start, never outside aligned words that hold
// bytes of the buffer, which is readable for 16 bytes past the last range.
__device__ __forceinline__ Hash murmur3_of(const u8* __restrict__ at, i64 length, u64 seed) {
  u64 h1 = seed, h2 = seed;
  Words in(at);
  for (i64 left = length; left >= 16; left -= 16) {
    h1 = (rotate(h1 ^ scramble1(in.take()), 27) + h2) * 5 + 0x52DCE729;
    h2 = (rotate(h2 ^ scramble2(in.take()), 31) + h1) * 5 + 0x38495AB5;
  }
  u32 tail = length & 15;
  if (tail) h1 ^= scramble1(lowest(in.take(), tail));
  if (tail > 8) h2 ^= scramble2(lowest(in.take(), tail - 8));
  h1 ^= (u64)length, h2 ^= (u64)length;
  h1 += h2, h2 += h1;
  h1 = finalize(h1), h2 = finalize(h2);
  h1 += h2, h2 += h1;
  return {h1, h2};
}
