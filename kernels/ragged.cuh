// Ragged batches: what every kernel over documents, features or bitmaps needs.
#pragma once
#include "common.cuh"

// A thread takes every (number of threads)-th item, so that any grid covers any number of items.
#define STRIDED(i, count)                                                     \
  for (i64 i = (i64)blockIdx.x * blockDim.x + threadIdx.x; i < (count);       \
       i += (i64)gridDim.x * blockDim.x)

// The same for tiles of a block, where all threads of a block must stay together.
#define STRIDED_TILES(tile, count) for (i64 tile = blockIdx.x; tile < (count); tile += gridDim.x)

// Whose is item j? The i with offsets[i] <= j < offsets[i + 1], for 0 <= j < offsets[n]. Neighbouring threads ask for
// neighbouring items, so that nearly all loads of a warp are of one address.
template <class Index>
__device__ __forceinline__ Index owner(const Index* __restrict__ offsets, Index n, Index j) {
  Index low = 0, high = n;
  while (high - low > 1) {
    Index middle = (low + high) / 2;
    if (offsets[middle] <= j) low = middle; else high = middle;
  }
  return low;
}

// Bitmaps with counts: bit p of `bits` (16 to a chunk), and in ranks[c] the set bits before chunk c. How many bits are
// set before position p?
__device__ __forceinline__ i64 rank_of(const i64* __restrict__ ranks, const u16* __restrict__ bits, i64 p) {
  return ranks[p >> 4] + __popc(bits[p >> 4] & ((1u << (p & 15)) - 1));
}
