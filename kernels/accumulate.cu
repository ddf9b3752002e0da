// Signed sums of feature hashes, quantised to fingerprints (format version 1, steps 7 and 8).
//
// Every document is cut into parts of at most `part` features, at least one part each, so that a long document keeps
// many blocks busy and a short one little of a warp. Parts are dealt out in order: part g belongs to the document
// i with parts[i] <= g < parts[i + 1]. A document of one part is done where it was summed. Those of several parts add
// theirs up in `sums` (64 numbers for each word), at row parts[i] - i, which no two of them share; a last kernel
// quantises these.
//
//   documents   |---0---|-1-|------------------ 2 ------------------||-4-|      3 is empty, 2 is long
//   parts       |   0   | 1 |     2      |      3      |      4     |5| 6 |
//   row in sums                   2 - 2 = 0 for all three
//
// Without weights: bit-sliced counters (counters.cuh), eight lanes a part.
//
// With weights: a warp takes a part; lane b owns bits b and b + 32, and all lanes read the same feature. The sum of the
// weights whose bit is 1, doubled, is compared with the sum of all weights: 64-bit whole numbers, so that neither order
// nor grouping can matter.
//
// Cost for each feature: 8 bytes of each hash word read, and as many of a weight: 5.4e11 and 2.7e11 features/s of 64
// bits on an H200 by memory. Instructions of a warp in sm_90 code: without weights 115 for 256 features of long
// documents, so 2.3e12 features/s, and about 440 to add and compare four parts; with weights 62 for 4 features, so
// 6.7e10 features/s.
#include "counters.cuh"
#include "ragged.cuh"

#define BLOCK 256

extern "C" __global__ void __launch_bounds__(BLOCK)
count_parts(const i64* __restrict__ offsets, i64 documents, i64 part, i64* __restrict__ counts) {
  STRIDED(i, documents) {
    i64 size = offsets[i + 1] - offsets[i];
    counts[i] = max((size + part - 1) / part, (i64)1);
  }
}

// -- without weights --------------------------------------------------------------------------------------------

__device__ __forceinline__ u32 count_of(const u32 (&planes)[PLANES], int bit) {
  u32 count = 0;
#pragma unroll
  for (int p = 0; p < PLANES; ++p) count |= (planes[p] >> bit & 1) << p;
  return count;
}

// sums: zero before; counts of ones.
extern "C" __global__ void __launch_bounds__(BLOCK)
count_ones(const u64* __restrict__ hashes, u32 words, const i64* __restrict__ offsets, i64 documents,
           i64 part, const i64* __restrict__ parts, u64* __restrict__ sums, u64* __restrict__ fingerprints) {
  u32 lane = threadIdx.x % LANES;
  i64 units = parts[documents] * words, in_grid = (i64)gridDim.x * (BLOCK / LANES);
  // Units of neighbouring groups are the words of one part, so that a warp reads whole features. All lanes of a warp
  // go round together, because they shuffle; those past the last unit count nothing.
  i64 first = ((i64)blockIdx.x * BLOCK + threadIdx.x) / LANES;
  for (i64 round = 0; round * in_grid < units; ++round) {
    i64 unit = round * in_grid + first;
    bool mine = unit < units;
    i64 number = mine ? unit >> (words - 1) : 0, document = owner(parts, documents, number);
    u32 word = mine ? (u32)unit & (words - 1) : 0;
    i64 begin = offsets[document] + (number - parts[document]) * part;
    i64 end = mine ? min(begin + part, offsets[document + 1]) : begin;
    u32 low[PLANES] = {}, high[PLANES] = {};
    for (i64 at = begin + lane; at < end; at += 8 * LANES) {
      u32 x[8], y[8];
#pragma unroll
      for (int k = 0; k < 8; ++k) {
        i64 j = at + k * LANES;
        u64 hash = j < end ? hashes[j * words + word] : 0;
        x[k] = (u32)hash, y[k] = (u32)(hash >> 32);
      }
      add8(low, x);
      add8(high, y);
    }
    __syncwarp();
    add_lanes(low);
    add_lanes(high);
    if (!mine) continue;
    if (parts[document + 1] - parts[document] == 1) {
      u32 half = (u32)(end - begin) / 2;
      if (lane == 0) fingerprints[document * words + word] = (u64)above(high, half) << 32 | above(low, half);
    } else {
      u64* row = sums + ((parts[document] - document) * words + word) * 64;
      for (int b = (int)lane; b < 32; b += LANES) {
        atomicAdd(&row[b], (u64)count_of(low, b));
        atomicAdd(&row[b + 32], (u64)count_of(high, b));
      }
    }
  }
}

// -- with weights -----------------------------------------------------------------------------------------------

// sums: zero before; twice the weights whose bit is 1, less all weights.
extern "C" __global__ void __launch_bounds__(BLOCK)
sum_weights(const u64* __restrict__ hashes, u32 words, const i64* __restrict__ weights,
            const i64* __restrict__ offsets, i64 documents, i64 part, const i64* __restrict__ parts,
            u64* __restrict__ sums, u64* __restrict__ fingerprints) {
  u32 lane = threadIdx.x & 31;
  i64 units = parts[documents] * words, in_grid = (i64)gridDim.x * (BLOCK / 32);
  for (i64 unit = ((i64)blockIdx.x * BLOCK + threadIdx.x) / 32; unit < units; unit += in_grid) {
    i64 number = unit >> (words - 1), document = owner(parts, documents, number);
    u32 word = (u32)unit & (words - 1);
    i64 begin = offsets[document] + (number - parts[document]) * part;
    i64 end = min(begin + part, offsets[document + 1]);
    u64 low = 0, high = 0, all = 0;
#pragma unroll 4
    for (i64 j = begin; j < end; ++j) {
      u64 hash = hashes[j * words + word], weight = (u64)weights[j];
      if ((u32)hash >> lane & 1) low += weight;
      if ((u32)(hash >> 32) >> lane & 1) high += weight;
      all += weight;
    }
    low = 2 * low - all, high = 2 * high - all;
    if (parts[document + 1] - parts[document] == 1) {
      u32 low_bits = __ballot_sync(ALL, (i64)low > 0), high_bits = __ballot_sync(ALL, (i64)high > 0);
      if (lane == 0) fingerprints[document * words + word] = (u64)high_bits << 32 | low_bits;
    } else {
      u64* row = sums + ((parts[document] - document) * words + word) * 64;
      atomicAdd(&row[lane], low);
      atomicAdd(&row[lane + 32], high);
    }
  }
}

// -- long documents ---------------------------------------------------------------------------------------------

// Fingerprints of the documents of several parts, a warp for each word.
extern "C" __global__ void __launch_bounds__(BLOCK)
quantize(const u64* __restrict__ sums, u32 words, u32 weighted, const i64* __restrict__ offsets, i64 documents,
         const i64* __restrict__ parts, u64* __restrict__ fingerprints) {
  u32 lane = threadIdx.x & 31;
  i64 in_grid = (i64)gridDim.x * (BLOCK / 32);
  for (i64 unit = ((i64)blockIdx.x * BLOCK + threadIdx.x) / 32; unit < documents * words; unit += in_grid) {
    i64 document = unit >> (words - 1);
    if (parts[document + 1] - parts[document] == 1) continue;
    const u64* row = sums + ((parts[document] - document) * words + (unit & (words - 1))) * 64;
    i64 limit = weighted ? 0 : (offsets[document + 1] - offsets[document]) / 2;
    u32 low = __ballot_sync(ALL, (i64)row[lane] > limit), high = __ballot_sync(ALL, (i64)row[lane + 32] > limit);
    if (lane == 0) fingerprints[unit] = (u64)high << 32 | low;
  }
}
