// Distinct features of each document, the first occurrence of each kept.
//
// Idea: a hash table of the document's features, open addressing with linear probing. A slot holds the number of a
// feature; who finds a slot of its own key leaves the smaller number there, so that after all insertions every slot
// holds a first occurrence, whatever the order of the threads. A document of up to SHORT features has a block to itself
// and its table in shared memory; the features of longer ones share a table in global memory, where the document is
// part of the key.
//
//   features   | a | b | a | c | a | c |     numbers 0 to 5
//   table      | . | 1 | . | 0 | 3 | . | .   two to four slots for each feature: b, a, c
//   bits         1   1   0   1   0   0       features that their slot names
//   ranks        kept features before each 32, by prefix sums: where each kept one goes
//
// Cost for each feature of a short document, w words of hash: 8 w bytes read to find it, 8 w read and 8 w + 8 written
// to gather it: 1.3e11 features/s of 64 bits on an H200. Of a long document, three random accesses to global memory
// more.
#include "distinct.cuh"
#include "ragged.cuh"

#define BLOCK 256
#define ALL 0xFFFFFFFFu

// The slot of feature i; it names the first of the equal features in the end. `salt` tells documents apart.
template <class Number>
__device__ __forceinline__ Number insert(Number* table, Number mask, const Features<Number>& features, Number i,
                                         u64 salt) {
  Number slot = (Number)features.key(i, salt), own = features.first + i, held = claim(table, mask, features, i, slot);
  if (held != ~(Number)0 && held > own) atomicMin(&table[slot], own);
  return slot;
}

// -- short documents --------------------------------------------------------------------------------------------

#define SHORT 2048
#define SHORT_BLOCK 128

// bits: one a feature, zero before. occurrences: null, or zero before and then those of each first feature.
extern "C" __global__ void __launch_bounds__(SHORT_BLOCK)
find_first_in_short(const u64* __restrict__ hashes, u32 words, const i64* __restrict__ offsets, i64 documents,
                    u32* __restrict__ bits, u64* __restrict__ occurrences) {
  __shared__ u32 table[2 * SHORT];
  __shared__ u16 slots[SHORT];
  u32 lane = threadIdx.x & 31;
  STRIDED_TILES(document, documents) {
    i64 begin = offsets[document], size = offsets[document + 1] - begin;
    if (size == 0 || size > SHORT) continue;
    Features<u32> features{hashes + begin * words, words, 0, (u32)size};
    u32 mask = ALL >> __clz((int)(2 * size - 1));
    for (u32 slot = threadIdx.x; slot <= mask; slot += SHORT_BLOCK) table[slot] = ALL;
    __syncthreads();
    for (u32 i = threadIdx.x; i < size; i += SHORT_BLOCK) slots[i] = (u16)insert(table, mask, features, i, 0);
    __syncthreads();
    for (u32 i = threadIdx.x; i - lane < size; i += SHORT_BLOCK) {
      u32 first = i < size ? table[slots[i]] : ALL;
      u32 votes = __ballot_sync(ALL, first == i);
      i64 place = begin + i;
      u32 shift = place & 31;
      if (lane == 0) {
        if (votes << shift) atomicOr(&bits[place >> 5], votes << shift);
        if (shift && votes >> (32 - shift)) atomicOr(&bits[(place >> 5) + 1], votes >> (32 - shift));
      }
      if (occurrences && i < size) atomicAdd(&occurrences[begin + first], 1ull);
    }
    __syncthreads();
  }
}

// -- long documents ---------------------------------------------------------------------------------------------

// Features of each document, if it is a long one.
extern "C" __global__ void __launch_bounds__(BLOCK)
count_in_long(const i64* __restrict__ offsets, i64 documents, i64* __restrict__ counts) {
  STRIDED(i, documents) {
    i64 size = offsets[i + 1] - offsets[i];
    counts[i] = size > SHORT ? size : 0;
  }
}

// The features of long documents have numbers of their own: those of document i begin at long_offsets[i].
// table: all ones before; a power of two of slots, more than features. slots: where each feature found itself.
extern "C" __global__ void __launch_bounds__(BLOCK)
insert_long(const u64* __restrict__ hashes, u32 words, const i64* __restrict__ offsets, i64 documents,
            const i64* __restrict__ long_offsets, i64 count, u64* __restrict__ table, u64 mask,
            u64* __restrict__ slots) {
  STRIDED(j, count) {
    i64 document = owner(long_offsets, documents, j), first = long_offsets[document];
    Features<u64> features{hashes + offsets[document] * words, words, (u64)first,
                           (u64)(long_offsets[document + 1] - first)};
    slots[j] = insert(table, mask, features, (u64)(j - first), 0x9E3779B97F4A7C15ull * (u64)document);
  }
}

// bits and occurrences: as above.
extern "C" __global__ void __launch_bounds__(BLOCK)
find_first_in_long(const i64* __restrict__ offsets, i64 documents, const i64* __restrict__ long_offsets, i64 count,
                   const u64* __restrict__ table, const u64* __restrict__ slots, u32* __restrict__ bits,
                   u64* __restrict__ occurrences) {
  STRIDED(j, count) {
    i64 document = owner(long_offsets, documents, j), first = (i64)table[slots[j]];
    i64 moved = offsets[document] - long_offsets[document], place = j + moved;
    if (first == j) atomicOr(&bits[place >> 5], 1u << (place & 31));
    if (occurrences) atomicAdd(&occurrences[first + moved], 1ull);
  }
}

// -- all documents ----------------------------------------------------------------------------------------------

extern "C" __global__ void __launch_bounds__(BLOCK)
count_bits(const u32* __restrict__ bits, i64 groups, u8* __restrict__ counts) {
  STRIDED(g, groups) counts[g] = (u8)__popc(bits[g]);
}

// The kept features side by side. counts and occurrences: both null, or neither.
extern "C" __global__ void __launch_bounds__(BLOCK)
gather_first(const u64* __restrict__ hashes, u32 words, i64 features, const u32* __restrict__ bits,
             const i64* __restrict__ ranks, const u64* __restrict__ occurrences, u64* __restrict__ kept_hashes,
             i64* __restrict__ first, u64* __restrict__ counts) {
  STRIDED(j, features) {
    u32 own = bits[j >> 5], bit = 1u << (j & 31);
    if (!(own & bit)) continue;
    i64 to = ranks[j >> 5] + __popc(own & (bit - 1));
    kept_hashes[to * words] = hashes[j * words];
    if (words == 2) kept_hashes[to * words + 1] = hashes[j * words + 1];
    first[to] = j;
    if (counts) counts[to] = occurrences[j];
  }
}

// Kept features before each border of documents.
extern "C" __global__ void __launch_bounds__(BLOCK)
count_first_before(const i64* __restrict__ offsets, i64 borders, const u32* __restrict__ bits,
                   const i64* __restrict__ ranks, i64* __restrict__ kept_offsets) {
  STRIDED(i, borders) {
    i64 j = offsets[i];
    u32 bit = j & 31;  // 0 may be the one behind the last word of the bitmap
    kept_offsets[i] = ranks[j >> 5] + (bit ? __popc(bits[j >> 5] & ((1u << bit) - 1)) : 0);
  }
}
