// Text to canonical text and words (format version 1, steps 2 and 3).
//
// Idea: a thread owns a chunk of 16 bytes and needs nobody else. It turns the chunk into bitmaps (one u16 each: which
// bytes belong to words, where words begin) and counts; prefix sums of the counts, made by the host's library, say
// where its output goes; a second pass writes it.
//
//   text    | T h e   c a f é é !   漢 漢 漢 字 字 字 |     chunk of 16 bytes, any number of them a document
//   word      1 1 1 0 1 1 1 1 1 0 0 1 1 1 1 1 1        bytes of words
//   begin     1 0 0 0 1 0 0 0 0 0 0 1 0 0 1 0 0        first bytes of words; 漢 and 字 are words by themselves
//   kept      1 1 1 1 1 1 1 1 1 1 0 1 1 1 1 1 1        word bytes, and the first byte of each run of others: its space
//   ranks     kept bits and begin bits before each chunk
//
// Characters outside ASCII are folded first, into a new buffer, because lowercasing may change their length and some
// are dropped: sizes of each chunk's characters, prefix sums, write. What comes out holds only word characters outside
// ASCII; every other one has become a space. ASCII is folded on the fly.
//
// Cost for each byte of ASCII: text read twice and written once; for each chunk 4 bytes of bitmaps and 18 of counts and
// ranks, written, summed and read; 16 bytes for each word: about 11 bytes of memory traffic. Instructions of a warp
// (32 chunks) in sm_90 code: 140 to find the words, 398 to write them and 33 more for every word of a chunk after the
// first. An H200 starts 1.05e12 a second, so that with three words a chunk the bound is 8.7e11 bytes/s by instructions
// and 3.9e11 by memory.
#include "ragged.cuh"
#include "utf8.cuh"

#define BLOCK 256
#define MOST_FOLDED 24  // bytes that a chunk becomes: two-byte characters may become three

// -- characters outside ASCII -----------------------------------------------------------------------------------

// What the character at `at` becomes: its code point, or a space, or NOTHING.
#define NOTHING 0xFFFFFFFFu
__device__ __forceinline__ u32 fold(const u8* __restrict__ at, const Table& table, bool lowercase) {
  u32 code = decode(at);
  i32 entry = table[code];
  if (entry & DROP) return NOTHING;
  i32 step = entry >> 8;
  if (lowercase && step != 0) {
    code += step;
    entry = table[code];
  }
  return entry & WORD ? code : ' ';
}

// Bytes that the characters beginning in text[begin:end] fold to; all within one chunk.
__device__ __forceinline__ i64 folded_bytes(const u8* __restrict__ text, i64 begin, i64 end, const Table& table,
                                            bool lowercase) {
  i64 size = 0;
#pragma unroll 1
  for (i64 p = begin; p < end; ++p) {
    u32 byte = text[p];
    if (byte < 0x80) {
      ++size;
    } else if (!is_continuation(byte)) {
      u32 code = fold(text + p, table, lowercase);
      if (code != NOTHING) size += bytes_of(code);
    }
  }
  return size;
}

extern "C" __global__ void __launch_bounds__(BLOCK)
folded_sizes(const u8* __restrict__ text, i64 bytes, const u16* __restrict__ block_of,
             const i32* __restrict__ entries, u32 lowercase, u8* __restrict__ sizes) {
  Table table{block_of, entries};
  STRIDED(c, (bytes + CHUNK - 1) / CHUNK) {
    i64 begin = c * CHUNK, end = min(begin + CHUNK, bytes);
    bool ascii = Chunk(text, begin, bytes).is_ascii();
    sizes[c] = (u8)(ascii ? end - begin : folded_bytes(text, begin, end, table, lowercase));
  }
}

// positions: where each chunk's characters go, and the size of all behind the last.
extern "C" __global__ void __launch_bounds__(BLOCK)
fold_characters(const u8* __restrict__ text, i64 bytes, const u16* __restrict__ block_of,
                const i32* __restrict__ entries, u32 lowercase, const i64* __restrict__ positions,
                u8* __restrict__ out) {
  __shared__ __align__(16) u8 stage[BLOCK * MOST_FOLDED + 16];
  Table table{block_of, entries};
  i64 chunks = (bytes + CHUNK - 1) / CHUNK;
  STRIDED_TILES(tile, (chunks + BLOCK - 1) / BLOCK) {
    i64 first = tile * BLOCK, c = first + threadIdx.x;
    i64 tile_begin = positions[first], tile_end = positions[min(first + BLOCK, chunks)];
    if (c < chunks) {
      i64 begin = c * CHUNK, end = min(begin + CHUNK, bytes);
      u8* to = stage + (positions[c] - (tile_begin & ~(i64)15));
      for (i64 p = begin; p < end; ++p) {
        u32 byte = text[p];
        if (byte < 0x80) {
          *to++ = (u8)byte;
        } else if (!is_continuation(byte)) {
          u32 code = fold(text + p, table, lowercase);
          if (code == NOTHING) continue;
          u32 size = bytes_of(code), encoded = encode(code);
          for (u32 k = 0; k < size; ++k) *to++ = (u8)(encoded >> 8 * k);
        }
      }
    }
    __syncthreads();
    write_stage(stage, out, tile_begin, tile_end);
    __syncthreads();
  }
}

// Borders of documents in the folded text.
extern "C" __global__ void __launch_bounds__(BLOCK)
fold_offsets(const u8* __restrict__ text, const i64* __restrict__ offsets, i64 borders,
             const u16* __restrict__ block_of, const i32* __restrict__ entries, u32 lowercase,
             const i64* __restrict__ positions, i64* __restrict__ out) {
  Table table{block_of, entries};
  STRIDED(i, borders) {
    i64 p = offsets[i], begin = p & ~(i64)(CHUNK - 1);
    out[i] = positions[begin / CHUNK] + folded_bytes(text, begin, p, table, lowercase);
  }
}

// -- words ------------------------------------------------------------------------------------------------------

// One bit for the first byte of each document; `heads` is zero before.
extern "C" __global__ void __launch_bounds__(BLOCK)
mark_heads(const i64* __restrict__ offsets, i64 n, u32* __restrict__ heads) {
  STRIDED(i, n) atomicOr(&heads[offsets[i] >> 5], 1u << (offsets[i] & 31));
}

// Does the character before p belong to a word of one character and its marks? A mark belongs to the character
// directly before it, in the same document. Only a character that follows marks looks further back than one.
__device__ __forceinline__ bool follows_solo(const u8* __restrict__ text, const u32* __restrict__ heads, i64 p,
                                             const Table& table) {
  while (true) {
    do --p;
    while (is_continuation(text[p]));
    if (text[p] < 0x80) return false;
    u32 flags = table[decode(text + p)];
    if (flags & SOLO) return true;
    if (!(flags & MARK) || heads[p >> 5] >> (p & 31) & 1) return false;
  }
}

// The bits below the lowest one of `bits`.
__device__ __forceinline__ u32 below(u32 bits) { return (bits & (0u - bits)) - 1; }

// Word bits, begin bits and their counts, of `bytes / 16 + 1` chunks, so that one bit at least is behind the text.
extern "C" __global__ void __launch_bounds__(BLOCK)
find_words(const u8* __restrict__ text, i64 bytes, const u32* __restrict__ heads, const u16* __restrict__ block_of,
           const i32* __restrict__ entries, u16* __restrict__ word_bits, u16* __restrict__ begin_bits,
           u8* __restrict__ kept_counts, u8* __restrict__ begin_counts) {
  Table table{block_of, entries};
  STRIDED(c, bytes / CHUNK + 1) {
    i64 begin = c * CHUNK;
    Chunk chunk(text, begin, bytes);
    u32 word = chunk.word_bits();
    u32 byte_before = c ? text[begin - 1] : ' ';
    u32 behind = word << 1 | word_bytes(byte_before) >> 7;  // bit k: byte k - 1 is of a word
    u32 head = ((const u16*)heads)[c];
    u32 first = word & (head | ~behind);
    if (byte_before >= 0x80 || !chunk.is_ascii()) {
      // Words without spaces between them. A bit may begin one only where a word goes on.
      for (u32 left = word & ~first; left; left &= left - 1) {
        int k = __ffs((int)left) - 1;
        i64 p = begin + k;
        u32 byte = text[p];
        if (is_continuation(byte)) continue;
        u32 flags = byte < 0x80 ? 0 : table[decode(text + p)];
        if (flags & SOLO || (!(flags & MARK) && follows_solo(text, heads, p, table))) first |= 1u << k;
      }
    }
    word_bits[c] = (u16)word;
    begin_bits[c] = (u16)first;
    kept_counts[c] = (u8)__popc((word | behind) & in_text(begin, bytes));
    begin_counts[c] = (u8)__popc(first);
  }
}

// Canonical text, and the byte range of each word in it.
extern "C" __global__ void __launch_bounds__(BLOCK)
write_words(const u8* __restrict__ text, i64 bytes, u32 lowercase, const u16* __restrict__ word_bits,
            const u16* __restrict__ begin_bits, const i64* __restrict__ kept_ranks,
            const i64* __restrict__ begin_ranks, u8* __restrict__ out, i64* __restrict__ starts,
            i64* __restrict__ ends) {
  __shared__ __align__(16) u8 stage[BLOCK * CHUNK + 16];
  i64 chunks = bytes / CHUNK + 1;
  STRIDED_TILES(tile, (chunks + BLOCK - 1) / BLOCK) {
    i64 first = tile * BLOCK, c = first + threadIdx.x;
    i64 tile_begin = kept_ranks[first], tile_end = kept_ranks[min(first + BLOCK, chunks)];
    if (c < chunks) {
      Chunk chunk(text, c * CHUNK, bytes);
#pragma unroll
      for (int w = 0; w < 4; ++w) chunk.words[w] = canonical_bytes(chunk.words[w], lowercase);
      u32 word = word_bits[c], first_bytes = begin_bits[c];
      u32 behind = word << 1 | (c ? word_bits[c - 1] >> 15 : 0), kept = (word | behind) & in_text(c * CHUNK, bytes);
      u32 stops = behind & (first_bytes | ~word) & 0xFFFF;  // the byte before ends a word
      i64 place = kept_ranks[c], number = begin_ranks[c];
      u8* to = stage + (place - (tile_begin & ~(i64)15));
#pragma unroll
      for (int k = 0; k < CHUNK; ++k)
        if (kept >> k & 1) *to++ = (u8)chunk[k];
      for (u32 left = first_bytes; left; left &= left - 1) starts[number++] = place + __popc(kept & below(left));
      number = begin_ranks[c] - 1;  // of the word that goes on from the chunk before
      for (u32 left = stops; left; left &= left - 1)
        ends[number + __popc(first_bytes & below(left))] = place + __popc(kept & below(left));
    }
    __syncthreads();
    write_stage(stage, out, tile_begin, tile_end);
    __syncthreads();
  }
}

// Words before each border of documents.
extern "C" __global__ void __launch_bounds__(BLOCK)
count_words_before(const i64* __restrict__ offsets, i64 borders, const i64* __restrict__ begin_ranks,
                   const u16* __restrict__ begin_bits, i64* __restrict__ words) {
  STRIDED(i, borders) words[i] = rank_of(begin_ranks, begin_bits, offsets[i]);
}
