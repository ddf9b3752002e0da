// The nearest rows of a base to each query, for any k: collects candidates, which are then sorted.
//
// Idea: the k-th nearest row of a part of the base bounds the k-th nearest of the whole. So the host asks for the
// nearest in every 16th row first (and there in every 16th of those, and so on) and has only what is not beyond that
// bound collected from the whole: about 16 k rows a query. A bound, like a candidate, is distance and row in one
// number, so that ties are settled by the lower row and cannot multiply.
//
//   key        | query, 16 bits | distance, 8 bits | row, 40 bits |      ascending keys: query, distance, row
//
//   keys       | . . . . ~ ~ | . . ~ ~ ~ ~ | . . . . . . |               `capacity` places a query, the rest padding
//                query 0        query 1      query 2: found[2] > capacity, is asked again with a closer bound
//
// Cost for each pair: its distance, 2 population counts (3 for 128 bits) of 16 a clock and multiprocessor: at most
// 2.1e12 pairs/s (1.4e12) on an H200. Compared in strips (strip.cuh) of 128 queries.
#include "strip.cuh"

#define ROW_BITS 40
#define QUERY_SHIFT 48

template <int W>
__device__ __forceinline__ void collect(const u64* __restrict__ queries, const u64* __restrict__ base, i64 n_queries,
                                        i64 n, const u64* __restrict__ bounds, u64* __restrict__ keys, u64* found,
                                        i64 capacity, u64 (&columns)[W][STRIP_COLUMNS]) {
  i64 across = (n + STRIP_COLUMNS - 1) / STRIP_COLUMNS;
  i64 top = blockIdx.x / across * STRIP_ROWS, left = blockIdx.x % across * STRIP_COLUMNS;
  Strip<W> strip(queries, n_queries, base, n, top, left, columns);
  u32 limit = 0;
  for (int i = 0; i < THREAD_ROWS; ++i)
    if (strip.row_of(i) < strip.height) limit = max(limit, (u32)(bounds[top + strip.row_of(i)] >> ROW_BITS));
  strip.template visit<2 * W>(limit, [&](int row, int column, u32 distance) {
    i64 query = top + row;
    u64 key = (u64)distance << ROW_BITS | (u64)(left + column);
    if (key > bounds[query]) return;
    // Where the whole base fits, every row has a place and nobody need count.
    u64 place = capacity >= n ? (u64)(left + column) : atomicAdd(&found[query], 1ull);
    if (place < (u64)capacity) keys[query * capacity + (i64)place] = (u64)query << QUERY_SHIFT | key;
  });
}

// bounds (q,): keys without a query, nothing above is wanted; keys (q, capacity), padded; found (q,), zeros: how many
// there would have been.
extern "C" __global__ void __launch_bounds__(THREADS)
    nearest_collect_64(const u64* __restrict__ queries, const u64* __restrict__ base, i64 n_queries, i64 n,
                       const u64* __restrict__ bounds, u64* __restrict__ keys, u64* found, i64 capacity) {
  __shared__ u64 columns[1][STRIP_COLUMNS];
  collect<1>(queries, base, n_queries, n, bounds, keys, found, capacity, columns);
}

extern "C" __global__ void __launch_bounds__(THREADS)
    nearest_collect_128(const u64* __restrict__ queries, const u64* __restrict__ base, i64 n_queries, i64 n,
                        const u64* __restrict__ bounds, u64* __restrict__ keys, u64* found, i64 capacity) {
  __shared__ u64 columns[2][STRIP_COLUMNS];
  collect<2>(queries, base, n_queries, n, bounds, keys, found, capacity, columns);
}
