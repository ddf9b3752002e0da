// Text in chunks of 16 bytes, and the characters in it.
//
//   bytes   | t h e   c a f é é   n e a r b |   16 bytes: one load, one thread
//   bitmap  | 1 1 1 0 1 1 1 1 1 0 1 1 1 1 1 |   16 bits: one u16
//
// A chunk owns the characters that begin in it; a character may reach into the next chunk. Text is valid UTF-8, so
// that a lead byte is always followed by its whole character.
#pragma once
#include "common.cuh"

#define CHUNK 16

// Flags of a code point: the low byte of its table entry (gpusim.unicode.Flag). The upper 24 bits are what to add for
// its simple lowercase, 0 for most.
#define WORD 1u
#define MARK 2u
#define SOLO 4u
#define DROP 8u

// The table is in two stages: blocks of 128 code points, and for each 128 code points the number of their block.
struct Table {
  const u16* __restrict__ block_of;
  const i32* __restrict__ entries;
  __device__ __forceinline__ i32 operator[](u32 code) const {
    return entries[block_of[code >> 7] * 128 + (code & 127)];
  }
};

__device__ __forceinline__ bool is_continuation(u32 byte) { return (byte & 0xC0) == 0x80; }

// The character outside ASCII whose lead byte is at `at`.
__device__ __forceinline__ u32 decode(const u8* __restrict__ at) {
  u32 lead = at[0];
  if (lead < 0xE0) return (lead & 0x1F) << 6 | (at[1] & 0x3F);
  if (lead < 0xF0) return (lead & 0x0F) << 12 | (at[1] & 0x3F) << 6 | (at[2] & 0x3F);
  return (lead & 0x07) << 18 | (at[1] & 0x3F) << 12 | (at[2] & 0x3F) << 6 | (at[3] & 0x3F);
}

__device__ __forceinline__ u32 bytes_of(u32 code) { return 1 + (code >= 0x80) + (code >= 0x800) + (code >= 0x10000); }

// The bytes of a character, the first one lowest.
__device__ __forceinline__ u32 encode(u32 code) {
  if (code < 0x80) return code;
  if (code < 0x800) return (0xC0 | code >> 6) | (0x80 | (code & 0x3F)) << 8;
  if (code < 0x10000) return (0xE0 | code >> 12) | (0x80 | (code >> 6 & 0x3F)) << 8 | (0x80 | (code & 0x3F)) << 16;
  return (0xF0 | code >> 18) | (0x80 | (code >> 12 & 0x3F)) << 8 | (0x80 | (code >> 6 & 0x3F)) << 16 |
         (0x80 | (code & 0x3F)) << 24;
}

// Four bytes at once. Answers are in the highest bit of each byte.
#define EACH(byte) ((u32)(byte) * 0x01010101u)
#define TOP EACH(0x80)

// Bytes below 0x80 that are `least` or more: no sum carries into the next byte.
__device__ __forceinline__ u32 at_least(u32 bytes, u32 least) { return bytes + EACH(0x80 - least); }

// Word bytes: letters, digits and the underscore of ASCII, and all of characters outside ASCII.
__device__ __forceinline__ u32 word_bytes(u32 bytes) {
  u32 ascii = bytes & ~TOP, small = ascii | EACH(0x20);
  u32 letter = at_least(small, 'a') & ~at_least(small, 'z' + 1);
  u32 digit = at_least(ascii, '0') & ~at_least(ascii, '9' + 1);
  u32 underscore = ~at_least(ascii ^ EACH('_'), 1);
  return (letter | digit | underscore | bytes) & TOP;
}

// Canonical form: capital letters of ASCII made small (if `lowercase`), spaces for what belongs to no word.
__device__ __forceinline__ u32 canonical_bytes(u32 bytes, bool lowercase) {
  u32 ascii = bytes & ~TOP, capital = at_least(ascii, 'A') & ~at_least(ascii, 'Z' + 1) & ~bytes & TOP;
  if (lowercase) bytes |= capital >> 2;
  u32 keep = (word_bytes(bytes) >> 7) * 0xFF;
  return (bytes & keep) | (EACH(' ') & ~keep);
}

// The answers as four bits, the first byte's lowest.
__device__ __forceinline__ u32 gathered(u32 answers) { return ((answers & TOP) >> 7) * 0x10204080u >> 28; }

// 16 bytes in registers; spaces where the text has ended.
struct Chunk {
  u32 words[4];

  __device__ __forceinline__ Chunk(const u8* __restrict__ text, i64 begin, i64 bytes) {
    if (begin + CHUNK <= bytes && ((u64)text & (CHUNK - 1)) == 0) {
      uint4 all = *(const uint4*)(text + begin);
      words[0] = all.x, words[1] = all.y, words[2] = all.z, words[3] = all.w;
      return;
    }
    for (int w = 0; w < 4; ++w) {
      words[w] = 0x20202020;
      for (int k = 0; k < 4; ++k) {
        i64 p = begin + 4 * w + k;
        if (p < bytes) words[w] = (words[w] & ~(0xFFu << 8 * k)) | (u32)text[p] << 8 * k;
      }
    }
  }

  // Loops over bytes are unrolled, so that this is a register and a shift.
  __device__ __forceinline__ u32 operator[](int k) const { return words[k >> 2] >> (8 * (k & 3)) & 0xFF; }

  // Bytes of words.
  __device__ __forceinline__ u32 word_bits() const {
    u32 bits = 0;
#pragma unroll
    for (int w = 0; w < 4; ++w) bits |= gathered(word_bytes(words[w])) << 4 * w;
    return bits;
  }

  // Bytes that begin a character: all but those of the form 10xxxxxx.
  __device__ __forceinline__ u32 lead_bits() const {
    u32 bits = 0;
#pragma unroll
    for (int w = 0; w < 4; ++w) bits |= gathered(~words[w] | words[w] << 1) << 4 * w;
    return bits;
  }

  __device__ __forceinline__ bool is_ascii() const {
    return ((words[0] | words[1] | words[2] | words[3]) & 0x80808080u) == 0;
  }
};

// Bits of the chunk at `begin` that stand for bytes of the text.
__device__ __forceinline__ u32 in_text(i64 begin, i64 bytes) {
  return bytes - begin >= CHUNK ? 0xFFFFu : (1u << (bytes - begin)) - 1;
}

// Threads of a block hold bytes for consecutive places of `out`, from `begin` to `end`; stage[k] is the byte for place
// (begin rounded down to 16) + k. Written as whole 16 bytes but at the two ends, which other blocks share.
__device__ __forceinline__ void write_stage(const u8* stage, u8* __restrict__ out, i64 begin, i64 end) {
  i64 origin = begin & ~(i64)15;
  for (i64 at = origin + 16 * (i64)threadIdx.x; at < end; at += 16 * (i64)blockDim.x) {
    if (at >= begin && at + 16 <= end) {
      *(uint4*)(out + at) = *(const uint4*)(stage + (at - origin));
    } else {
      for (int k = 0; k < 16; ++k)
        if (at + k >= begin && at + k < end) out[at + k] = stage[at - origin + k];
    }
  }
}
