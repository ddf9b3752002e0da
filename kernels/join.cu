// One table of the pigeonhole join: compares only fingerprints that share some of their bits (their key).
//
// Idea: rows are sorted by a 32-bit hash of the key, so that those that may share it lie side by side. A thread takes a
// row and goes along the run of its key:
//
//   position      0   1   2   3   4   5   6
//   hash          5   5   5   8   9   9  12         sorted
//   first         1   2   3   4   5   6   7         where a row's partners begin: behind it among rows of one array, at
//   compared      01 02 12        45                the run of its hash where a row of a meets those of b
//
// Neighbouring threads read neighbouring rows, or the same, so that a long run costs hardly more for each pair than a
// tile would. table_count counts the pairs of every row; table_fill writes those of the rows that have any to places
// that the counts give. A pair that agrees on the key of an earlier table was found there.
//
// connect_rows does not list pairs: it joins the components of near rows in `labels`, a forest in which a row points
// to a smaller row of its component or, the smallest, to itself. Roots hook to smaller roots by compare-and-swap, so
// the result does not depend on the order (Shiloach and Vishkin, "An O(log n) parallel connectivity algorithm", Journal
// of Algorithms 3, 1982; without locks as in Jaiganesh and Burtscher, "A high-performance connected components
// implementation for GPUs", HPDC 2018). Rows lie sorted by hash and then label, and `first` is where another label
// begins, so that rows known to belong together are not compared.
//
// Cost: for each row 4 bytes of hash and 8 (16) of fingerprint, once sorted; for each compared pair one load of each
// and 2 (3) population counts of 16 a clock and multiprocessor.
#include "fingerprint.cuh"
#include "ragged.cuh"

#define THREADS 256

// Do the fingerprints agree on all bits of the mask?
template <int W>
__device__ __forceinline__ bool agree(const u64* __restrict__ a, const u64* __restrict__ b,
                                      const u64* __restrict__ mask) {
  u64 differing = 0;
  for (int word = 0; word < W; ++word) differing |= (a[word] ^ b[word]) & mask[word];
  return differing == 0;
}

// Fingerprints in the order of their hashes.
struct Sorted {
  const u32* __restrict__ hash;
  const u64* __restrict__ fingerprint;
  i64 n;
};

// found(j, distance) for each position j of b, from `first` on and fewer than `window` further, that shares the hash
// and the key of position i of a and is within the distance.
template <int W, class Found>
__device__ __forceinline__ void go_along(const Sorted& a, i64 i, const Sorted& b, i64 first, i64 window,
                                         const u64* __restrict__ key, u32 max_distance, Found found) {
  const u64* mine = a.fingerprint + i * W;
  Fingerprint<W> x = load_row<W>(a.fingerprint, i, a.n);
  u32 hash = a.hash[i];
  i64 stop = min(b.n, first + min(window, b.n));
  for (i64 j = first; j < stop && b.hash[j] == hash; ++j) {
    u32 distance = hamming_distance(x, load_row<W>(b.fingerprint, j, b.n));
    if (distance <= max_distance && agree<W>(mine, b.fingerprint + j * W, key)) found(j, distance);
  }
}

// The same without the pairs of earlier tables; masks (1 + n_earlier, W): this table's key first.
template <int W, class Found>
__device__ __forceinline__ void new_pairs(const Sorted& a, i64 i, const Sorted& b, i64 first,
                                          const u64* __restrict__ masks, i64 n_earlier, u32 max_distance, Found found) {
  go_along<W>(a, i, b, first, b.n, masks, max_distance, [&](i64 j, u32 distance) {
    for (i64 e = 1; e <= n_earlier; ++e)
      if (agree<W>(a.fingerprint + i * W, b.fingerprint + j * W, masks + e * W)) return;
    found(j, distance);
  });
}

// -- union-find. Others change labels meanwhile, so they are read by an atomic that changes nothing.

__device__ __forceinline__ u64 read_label(u64* labels, u64 row) { return atomicAdd(&labels[row], 0ull); }

// The root above a row; halves the way there for the next.
__device__ __forceinline__ u64 find_root(u64* labels, u64 row) {
  u64 parent = read_label(labels, row);
  while (parent != row) {
    u64 above = read_label(labels, parent);
    if (above != parent) atomicMin(&labels[row], above);
    row = parent;
    parent = above;
  }
  return row;
}

__device__ __forceinline__ void unite(u64* labels, u64 a, u64 b) {
  for (;;) {
    a = find_root(labels, a);
    b = find_root(labels, b);
    if (a == b) return;
    u64 low = min(a, b), high = max(a, b);
    if (atomicCAS(&labels[high], high, low) == high) return;
  }
}

// -- kernels. `words` is 1 or 2; with so few registers in use, both in one kernel cost nothing.

// hashes (n,) of the bits of the key of (n, words) rows, by multiply-shift; mask (words,).
extern "C" __global__ void __launch_bounds__(THREADS)
    table_hash(const u64* __restrict__ rows, i64 n, i32 words, const u64* __restrict__ mask, u32* __restrict__ hashes) {
  STRIDED(i, n) {
    u64 sum = (rows[i * words] & mask[0]) * 0x9E3779B97F4A7C15ull;
    if (words == 2) sum += (rows[i * words + 1] & mask[1]) * 0xC2B2AE3D27D4EB4Full;
    hashes[i] = (u32)(sum >> 32);
  }
}

// counts (n_a,): the pairs of each position of a; first (n_a,), masks (1 + n_earlier, words).
extern "C" __global__ void __launch_bounds__(THREADS)
    table_count(const u32* __restrict__ hash_a, const u64* __restrict__ a, i64 n_a, const u32* __restrict__ hash_b,
                const u64* __restrict__ b, i64 n_b, i32 words, const i64* __restrict__ first,
                const u64* __restrict__ masks, i64 n_earlier, u32 max_distance, i64* __restrict__ counts) {
  Sorted left = {hash_a, a, n_a}, right = {hash_b, b, n_b};
  STRIDED(i, n_a) {
    i64 count = 0;
    auto found = [&](i64, u32) { ++count; };
    if (words == 1)
      new_pairs<1>(left, i, right, first[i], masks, n_earlier, max_distance, found);
    else
      new_pairs<2>(left, i, right, first[i], masks, n_earlier, max_distance, found);
    counts[i] = count;
  }
}

// The same for positions (p,) of a that have pairs; starts (p,): where they go. row_a, row_b: which row lies where.
extern "C" __global__ void __launch_bounds__(THREADS)
    table_fill(const u32* __restrict__ hash_a, const u64* __restrict__ a, i64 n_a, const u32* __restrict__ hash_b,
               const u64* __restrict__ b, i64 n_b, i32 words, const i64* __restrict__ first,
               const u64* __restrict__ masks, i64 n_earlier, u32 max_distance, const i64* __restrict__ row_a,
               const i64* __restrict__ row_b, const i64* __restrict__ positions, const i64* __restrict__ starts,
               i64 n_positions, i64* __restrict__ pair_left, i64* __restrict__ pair_right,
               u8* __restrict__ pair_distance) {
  Sorted left = {hash_a, a, n_a}, right = {hash_b, b, n_b};
  STRIDED(p, n_positions) {
    i64 i = positions[p], at = starts[p];
    auto found = [&](i64 j, u32 distance) {
      pair_left[at] = row_a[i];
      pair_right[at] = row_b[j];
      pair_distance[at] = (u8)distance;
      ++at;
    };
    if (words == 1)
      new_pairs<1>(left, i, right, first[i], masks, n_earlier, max_distance, found);
    else
      new_pairs<2>(left, i, right, first[i], masks, n_earlier, max_distance, found);
  }
}

// Joins positions begin to end of n with at most `window` others each, in the labels of all rows. (4 blocks a
// multiprocessor are enough: ptxas would spill registers to make room for 8.)
extern "C" __global__ void __launch_bounds__(THREADS, 4)
    connect_rows(const u32* __restrict__ hash, const u64* __restrict__ fingerprints, const i64* __restrict__ row, i64 n,
                 i32 words, const i64* __restrict__ first, const u64* __restrict__ mask, u32 max_distance, i64 window,
                 i64 begin, i64 end, u64* labels) {
  Sorted rows = {hash, fingerprints, n};
  STRIDED(p, end - begin) {
    i64 i = begin + p;
    auto found = [&](i64 j, u32) { unite(labels, (u64)row[i], (u64)row[j]); };
    if (words == 1)
      go_along<1>(rows, i, rows, first[i], window, mask, max_distance, found);
    else
      go_along<2>(rows, i, rows, first[i], window, mask, max_distance, found);
  }
}

// roots (n,): the root above every row.
extern "C" __global__ void __launch_bounds__(THREADS)
    find_roots(const i64* __restrict__ labels, i64* __restrict__ roots, i64 n) {
  STRIDED(i, n) {
    i64 row = i;
    while (labels[row] != row) row = labels[row];
    roots[i] = row;
  }
}
