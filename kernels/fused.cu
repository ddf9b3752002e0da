// Byte ranges to fingerprints in one pass, without weights (format version 1, steps 5 to 8): hashes live and die in
// shared memory.
//
// Idea: documents are laid on a line, each CHARGE longer than its number of features. A tile is what begins on one
// piece of `step` of that line, so that neither many short documents nor many empty ones are too much for a block. The
// block takes the documents of its tile in rounds of as many whole ones as have `most` features together: it hashes
// them, a thread a feature; drops repeated features by one hash table for all of them (distinct.cuh); and counts ones,
// eight lanes for each half of a 64-bit word (counters.cuh). A repeated feature becomes zeros, which add nothing, so
// that nothing has to move. Documents of more than `most` features are left to other kernels.
//
//   line        |--0--|1|--2--|--------- 3 ---------|4|5|  6  |      tiles begin every `step`
//   tiles       |  0, 1, 2      |  3        |       4, 5, 6 |        3 is long; its tile is left empty
//   hashes      | a b a c | d | a e e |                              a round: documents 0, 1, 2 side by side
//   kept          1 1 0 1   1   1 1 0                                ballots of 32: how many are distinct
//   hashes      | a b 0 c | d | a e 0 |                              what is counted
//
// Cost for each feature: 16 bytes of start and length read; neighbouring ranges overlap, so that the text itself is
// read once: with 6 bytes of it a feature 1.9e11 features/s on an H200 by memory. The separate kernels write hashes
// twice and read them three times besides. Instructions of a warp in sm_90 code, for 32 features of 64 bits and 16 to
// 24 bytes: 226 to hash them, 130 to look them up and 10 for each step of the search for the document, up to 32 to
// clear their slots, 16 to count; about 420, so that 8e10 features/s are the bound by instructions. Two documents take
// 350 more.
#include "counters.cuh"
#include "distinct.cuh"
#include "murmur3.cuh"
#include "ragged.cuh"

#define BLOCK 256
#define HASH_WORDS 1952  // of a round; counters hold 2040, but so two blocks fit in 64 KB of shared memory
#define SLOTS 4096       // two to four for each feature
#define CHARGE 8         // places on the line that a document takes beside its features
#define MOST_DOCUMENTS 128

// firsts: the first document of each of `tiles` tiles, and `documents`. step: up to CHARGE * MOST_DOCUMENTS.
extern "C" __global__ void __launch_bounds__(BLOCK)
find_tiles(const i64* __restrict__ offsets, i64 documents, i64 step, i64 tiles, i64* __restrict__ firsts) {
  STRIDED(t, tiles + 1) {
    i64 low = 0, high = documents;
    while (low < high) {
      i64 middle = (low + high) / 2;
      if (offsets[middle] + CHARGE * middle < t * step) low = middle + 1; else high = middle;
    }
    firsts[t] = low;
  }
}

// most: features of a round, up to HASH_WORDS / words. repeats: whether to count repeated features too. features: how
// many distinct ones each document has.
extern "C" __global__ void __launch_bounds__(BLOCK)
fingerprints(const u8* __restrict__ buffer, const i64* __restrict__ starts, const i64* __restrict__ lengths,
             const i64* __restrict__ offsets, const i64* __restrict__ firsts, i64 tiles, u32 most, u64 seed, u32 words,
             u32 repeats, u64* __restrict__ out, i64* __restrict__ features) {
  __shared__ u64 hashes[HASH_WORDS];
  __shared__ u32 table[SLOTS], kept[HASH_WORDS / 32 + 1], begins[MOST_DOCUMENTS + 1];
  u32 lane = threadIdx.x & 31;
  STRIDED_TILES(tile, tiles) {
    i64 first = firsts[tile], origin = offsets[first];
    u32 documents = (u32)(firsts[tile + 1] - first);
    for (u32 d = threadIdx.x; d <= documents; d += BLOCK)
      begins[d] = (u32)min(offsets[first + d] - origin, (i64)(ALL / 2));
    __syncthreads();
    for (u32 begin = 0, end; begin < documents; begin = end) {
      end = owner(begins, documents + 1, begins[begin] + most);
      if (end == begin) {  // a long one
        ++end;
        continue;
      }
      u32 base = begins[begin], count = begins[end] - base, mask = ALL >> __clz((int)(2 * count | 1));

      for (u32 slot = threadIdx.x; slot <= mask; slot += BLOCK) table[slot] = ALL;
      for (u32 i = threadIdx.x; i < count; i += BLOCK) {
        i64 j = origin + base + i;
        Hash hash = murmur3_of(buffer + starts[j], lengths[j], seed);
        hashes[i * words] = hash.first;
        if (words == 2) hashes[i * words + 1] = hash.second;
      }
      __syncthreads();

      for (u32 i = threadIdx.x; i - lane < count; i += BLOCK) {
        bool found = false;
        if (i < count) {
          u32 d = begin + owner(begins + begin, end - begin, base + i), own = begins[d] - base;
          Features<u32> document{hashes + own * words, words, own, begins[d + 1] - begins[d]};
          u32 slot = (u32)hashes[i * words] + 0x9E3779B9u * d;  // MurmurHash3 is mixed well enough
          found = claim(table, mask, document, i - own, slot) == ALL;
          // Nobody else looks at the hash of a feature that the table does not name.
          if (!found && !repeats)
            for (u32 word = 0; word < words; ++word) hashes[i * words + word] = 0;
        }
        u32 votes = __ballot_sync(ALL, found);
        if (lane == 0) kept[i >> 5] = votes;
      }
      __syncthreads();

      // Neighbouring groups take the halves of one document. All lanes of a warp go round together, because they
      // shuffle; those past the last half count nothing.
      const u32* halves = (const u32*)hashes;
      u32 units = (end - begin) * 2 * words, member = threadIdx.x % LANES;
      for (u32 round = 0; round < units; round += BLOCK / LANES) {
        u32 unit = round + threadIdx.x / LANES;
        bool mine = unit < units;
        u32 d = begin + (mine ? unit >> words : 0), half = unit & (2 * words - 1);
        u32 from = begins[d] - base, stop = mine ? begins[d + 1] - base : from;
        u32 planes[PLANES] = {}, distinct = 0;
        for (u32 at = from + member; at < stop; at += 8 * LANES) {
          u32 x[8];
#pragma unroll
          for (int k = 0; k < 8; ++k) {
            u32 i = at + k * LANES;
            x[k] = i < stop ? halves[i * 2 * words + half] : 0;
          }
          add8(planes, x);
        }
        for (u32 group = (from & ~31u) + 32 * member; group < stop; group += 32 * LANES) {
          u32 votes = kept[group >> 5];
          if (group < from) votes &= ALL << (from & 31);
          if (stop - group < 32) votes &= (1u << (stop & 31)) - 1;
          distinct += __popc(votes);
        }
        __syncwarp();
        add_lanes(planes);
        for (int step = 1; step < LANES; step *= 2) distinct += __shfl_xor_sync(ALL, distinct, step);
        if (mine && member == 0) {
          u32 summed = repeats ? stop - from : distinct;
          ((u32*)out)[(first + d) * 2 * words + half] = above(planes, summed / 2);
          if (half == 0) features[first + d] = distinct;
        }
      }
      __syncthreads();
    }
    __syncthreads();
  }
}

// -- long documents ---------------------------------------------------------------------------------------------

// The ranges of some documents side by side; those of document which[k] begin at new_offsets[k].
extern "C" __global__ void __launch_bounds__(BLOCK)
gather_ranges(const i64* __restrict__ starts, const i64* __restrict__ lengths, const i64* __restrict__ offsets,
              const i64* __restrict__ which, const i64* __restrict__ new_offsets, i64 documents, i64 ranges,
              i64* __restrict__ new_starts, i64* __restrict__ new_lengths) {
  STRIDED(j, ranges) {
    i64 k = owner(new_offsets, documents, j), from = offsets[which[k]] + (j - new_offsets[k]);
    new_starts[j] = starts[from];
    new_lengths[j] = lengths[from];
  }
}
