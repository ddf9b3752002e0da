// Features as windows of units, words or code points (format version 1, step 4).
//
// Idea: units of all documents lie side by side; a document of u units has u - n + 1 windows of n units (one, of all
// units, where it has fewer than n). A thread owns a window: it looks up whose it is and subtracts two positions.
//
//   units      | the | cat | sat | on ||  a  | dog || ...       starts and ends in canonical text
//   windows n=3  the cat sat, cat sat on,  a dog                starts and lengths in canonical text
//
// Code points come from canonical text by the same steps as words from text (see text.cu): lead bits, prefix sums,
// list. The space between two documents belongs to neither.
//
// Cost for each window: 16 bytes read and 16 written, which bounds an H200 to 1.3e11 windows/s. Instructions of a warp
// (32 windows) in sm_90 code: 26, and 20 for every step of the search for the document, whose loads the warp shares.
#include "ragged.cuh"
#include "utf8.cuh"

#define BLOCK 256

// -- code points ------------------------------------------------------------------------------------------------

// One bit for each space in canonical text that separates documents; `gaps` is zero before. words: words before each
// border of documents. One space more than the text has may be marked: the first of those behind it.
extern "C" __global__ void __launch_bounds__(BLOCK)
mark_gaps(const u8* __restrict__ text, const i64* __restrict__ ends, const i64* __restrict__ words, i64 n,
          u32* __restrict__ gaps) {
  STRIDED(i, n) {
    if (words[i] == words[i + 1]) continue;
    i64 end = ends[words[i + 1] - 1];
    if (text[end] == ' ') atomicOr(&gaps[end >> 5], 1u << (end & 31));
  }
}

// Lead bits and their counts, of `bytes / 16 + 1` chunks.
extern "C" __global__ void __launch_bounds__(BLOCK)
find_characters(const u8* __restrict__ text, i64 bytes, const u32* __restrict__ gaps, u16* __restrict__ lead_bits,
                u8* __restrict__ lead_counts) {
  STRIDED(c, bytes / CHUNK + 1) {
    u32 lead = Chunk(text, c * CHUNK, bytes).lead_bits() & in_text(c * CHUNK, bytes) & ~(u32)((const u16*)gaps)[c];
    lead_bits[c] = (u16)lead;
    lead_counts[c] = (u8)__popc(lead);
  }
}

extern "C" __global__ void __launch_bounds__(BLOCK)
list_characters(const u8* __restrict__ text, i64 bytes, const u16* __restrict__ lead_bits,
                const i64* __restrict__ ranks, i64* __restrict__ starts, i64* __restrict__ ends) {
  STRIDED(c, bytes / CHUNK + 1) {
    i64 next = ranks[c];
    for (u32 left = lead_bits[c]; left; left &= left - 1, ++next) {
      i64 p = c * CHUNK + __ffs((int)left) - 1;
      u32 byte = text[p];
      starts[next] = p;
      ends[next] = p + (byte < 0x80 ? 1 : byte < 0xE0 ? 2 : byte < 0xF0 ? 3 : 4);
    }
  }
}

// Code points before each border of documents. starts: of the words; bytes: of canonical text.
extern "C" __global__ void __launch_bounds__(BLOCK)
count_characters_before(const i64* __restrict__ words, i64 borders, i64 n_words, const i64* __restrict__ starts,
                        i64 bytes, const i64* __restrict__ ranks, const u16* __restrict__ lead_bits,
                        i64* __restrict__ characters) {
  STRIDED(i, borders)
    characters[i] = rank_of(ranks, lead_bits, words[i] < n_words ? starts[words[i]] : bytes);
}

// -- windows ----------------------------------------------------------------------------------------------------

// Windows of each document. units: units before each border of documents.
extern "C" __global__ void __launch_bounds__(BLOCK)
count_windows(const i64* __restrict__ units, i64 documents, i64 n, i64* __restrict__ counts) {
  STRIDED(i, documents) {
    i64 own = units[i + 1] - units[i];
    counts[i] = own >= n ? own - n + 1 : min(own, (i64)1);
  }
}

extern "C" __global__ void __launch_bounds__(BLOCK)
list_windows(const i64* __restrict__ starts, const i64* __restrict__ ends, const i64* __restrict__ units,
             const i64* __restrict__ offsets, i64 documents, i64 n, i64 windows, i64* __restrict__ window_starts,
             i64* __restrict__ window_lengths) {
  STRIDED(j, windows) {
    i64 i = owner(offsets, documents, j);
    i64 first = units[i] + (j - offsets[i]);
    i64 last = min(first + n, units[i + 1]) - 1;
    i64 start = starts[first];
    window_starts[j] = start;
    window_lengths[j] = ends[last] - start;
  }
}
