// Distinct features of each document, the first occurrence of each kept.
//
// Idea: one hash table for all documents of the batch, open addressing with linear probing, keyed by feature hash and
// document. A slot holds the index of a feature; who finds a slot of its own key leaves the smaller index there, so
// that after all insertions every slot holds a first occurrence, whatever the order of the threads.
//
//   features   | a | b | a | c || a | c | c ||         documents side by side
//   table      | . | 1 | . | 0 | 3 | . | 4 | 5 | .     slots: indices, two or more slots for each feature
//   bits         1   1   0   1    1   1   0            features that their slot still names
//   ranks        kept features before each 32, by prefix sums: where each kept one goes
//
// Cost for each feature: one atomic and about two more random accesses of 8 bytes to the table. Make batches so that
// the table stays in the second-level cache.
#include "ragged.cuh"

#define BLOCK 256
#define EMPTY (~0ull)

__device__ __forceinline__ u64 mixed(u64 h) {
  h = (h ^ h >> 33) * 0xFF51AFD7ED558CCDull;
  h = (h ^ h >> 33) * 0xC4CEB9FE1A85EC53ull;
  return h ^ h >> 33;
}

// table: EMPTY before; a power of two of slots, more than features. slots: where each feature found itself.
extern "C" __global__ void __launch_bounds__(BLOCK)
insert_features(const u64* __restrict__ hashes, u32 words, i64 features, const i64* __restrict__ offsets,
                i64 documents, u64* __restrict__ table, u64 slot_mask, u64* __restrict__ slots) {
  STRIDED(j, features) {
    i64 document = owner(offsets, documents, j);
    u64 begin = (u64)offsets[document], end = (u64)offsets[document + 1];
    u64 first = hashes[j * words], second = words == 2 ? hashes[j * words + 1] : 0;
    u64 slot = mixed(mixed(first + 0x9E3779B97F4A7C15ull * (u64)document) + second) & slot_mask;
    while (true) {
      u64 held = atomicCAS(&table[slot], EMPTY, (u64)j);
      if (held == EMPTY) break;
      // A slot's key never changes: whichever feature it names has that key.
      if (held >= begin && held < end && hashes[held * words] == first &&
          (words == 1 || hashes[held * words + 1] == second)) {
        if (held > (u64)j) atomicMin(&table[slot], (u64)j);
        break;
      }
      slot = (slot + 1) & slot_mask;
    }
    slots[j] = slot;
  }
}

// One bit and a count for each 32 features; occurrences of each first one, where `occurrences` (zero before) is given.
extern "C" __global__ void __launch_bounds__(BLOCK)
find_first(const u64* __restrict__ table, const u64* __restrict__ slots, i64 features, u32* __restrict__ bits,
           u8* __restrict__ bit_counts, u64* __restrict__ occurrences) {
  i64 whole_warps = (features + 31) & ~(i64)31;
  STRIDED(j, whole_warps) {
    u64 first = j < features ? table[slots[j]] : EMPTY;
    u32 votes = __ballot_sync(0xFFFFFFFFu, first == (u64)j);
    if ((j & 31) == 0) {
      bits[j >> 5] = votes;
      bit_counts[j >> 5] = (u8)__popc(votes);
    }
    if (occurrences && j < features) atomicAdd(&occurrences[first], 1ull);
  }
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
    for (u32 w = 0; w < words; ++w) kept_hashes[to * words + w] = hashes[j * words + w];
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
