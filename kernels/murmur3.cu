// MurmurHash3 x64 128 (Austin Appleby, public domain) of byte ranges of a text.
//
// Idea: a thread hashes a range. Ranges start anywhere; loads are whole aligned words, shifted into place, and each
// word of the text is loaded once.
//
//   buffer   | ........ | ..the ca | t sat on | the mat. | ........ |     aligned words of 8 bytes
//   range                 ^ start                ^ end
//   hashed            | the cat  | sat on  t | he m     |              blocks of 16, a tail of 0 to 15
//
// Cost for each range: 16 bytes of start and length read, 8 (16) bytes of hash written; neighbouring ranges overlap, so
// that the text itself comes from the first-level cache: 1.8e11 ranges/s on an H200 by memory. Instructions of a warp
// (32 ranges) in sm_90 code: 66 for each block and 160 for all else, so that 1.5e11 ranges/s of 16 to 24 bytes are the
// bound by instructions.
#include "murmur3.cuh"
#include "ragged.cuh"

#define BLOCK 256

extern "C" __global__ void __launch_bounds__(BLOCK)
murmur3(const u8* __restrict__ buffer, const i64* __restrict__ starts, const i64* __restrict__ lengths, i64 ranges,
        u64 seed, u64* __restrict__ hashes, u32 words) {
  STRIDED(j, ranges) {
    Hash hash = murmur3_of(buffer + starts[j], lengths[j], seed);
    hashes[j * words] = hash.first;
    if (words == 2) hashes[j * words + 1] = hash.second;
  }
}
