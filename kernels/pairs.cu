// All pairs within a Hamming distance, by comparing every row of a with every row of b (or every two rows of a).
//
// Idea: a block compares a strip (strip.cuh) of 128 rows with 1024 columns. First all strips are counted. From the
// counts the host knows the exact size of the result, and which strips hold any pair at all; those are compared again
// and write their pairs to places of their own. So nothing is dropped, nothing is reserved in vain, and the pairs come
// in the same order in every run.
//
//   strips   | 0 | 0 | 3 | 0 | 1 | ...    pairs_count, one number each
//   fill               |       |          pairs_fill: strip[0] = 2, start[0] = 0, strip[1] = 4, start[1] = 3
//   pairs          | p p p | p |
//
// Cost for each pair: the filter, a lower bound of the distance by FOLD population counts (POPC), 16 a clock and
// multiprocessor, beside logical operations and minima (ALU), 64 a clock. From the SASS for sm_90, eight pairs:
//
//   bits, FOLD     POPC   ALU   all     pairs a clock and multiprocessor, at most     on an H200
//    64, 1            8    24    38     16 (POPC)                                     4.2e12 /s
//    64, 2           16    28    49      8 (POPC)                                     2.1e12
//   128, 1            8    39    54     13 (ALU)                                      3.4e12
//   128, 2           16    42    66      8 (POPC)                                     2.1e12
//   128, 4           24    87   134      5.3 (POPC)                                   1.4e12
#include "strip.cuh"

// What a block keeps in shared memory.
template <int W>
struct Memory {
  u64 columns[W][STRIP_COLUMNS];
  u32 of_warp[THREADS / 32];
};

// Exclusive prefix sum over the block's threads; the total comes back as well.
__device__ __forceinline__ u32 block_scan(u32 value, u32& total, u32 (&of_warp)[THREADS / 32]) {
  int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  u32 sum = value;
  for (int step = 1; step < 32; step *= 2) {
    u32 before = __shfl_up_sync(ALL_LANES, sum, step);
    if (lane >= step) sum += before;
  }
  if (lane == 31) of_warp[warp] = sum;
  __syncthreads();
  u32 earlier = 0;
  total = 0;
  for (int w = 0; w < THREADS / 32; ++w) {
    if (w < warp) earlier += of_warp[w];
    total += of_warp[w];
  }
  return earlier + sum - value;
}

struct Query {
  i64 n_a, n_b;
  u32 max_distance;
  bool self;  // b is a, and of each two rows only (lower, higher) counts
};

// Strips are numbered row by row: `across` of them from column `left` on, the first beginning at row `top`.
struct Grid {
  i64 top, left, across;
  __device__ __forceinline__ i64 row(i64 strip) const { return top + strip / across * STRIP_ROWS; }
  __device__ __forceinline__ i64 column(i64 strip) const { return left + strip % across * STRIP_COLUMNS; }
};

// found(row, column, distance) for the thread's pairs of a strip that count.
template <int FOLD, int W, class Found>
__device__ __forceinline__ void find_pairs(const Strip<W>& strip, const Query& query, i64 top, i64 left, Found found) {
  // Above the diagonal is where column > row + diagonal, counted from the strip's first; -STRIP_ROWS is everywhere.
  int diagonal = query.self ? (int)max(top - left, (i64)-STRIP_ROWS) : -STRIP_ROWS;
  strip.template visit<FOLD>(query.max_distance, [&](int row, int column, u32 distance) {
    if (distance <= query.max_distance && column > row + diagonal) found(row, column, distance);
  });
}

template <int W, int FOLD>
__device__ __forceinline__ void count_strip(const u64* __restrict__ a, const u64* __restrict__ b, Query query,
                                            Grid grid, u32* __restrict__ counts, Memory<W>& memory) {
  i64 top = grid.row(blockIdx.x), left = grid.column(blockIdx.x);
  u32 count = 0, total = 0;
  if (!query.self || left + STRIP_COLUMNS > top) {
    Strip<W> strip(a, query.n_a, b, query.n_b, top, left, memory.columns);
    find_pairs<FOLD>(strip, query, top, left, [&](int, int, u32) { ++count; });
    block_scan(count, total, memory.of_warp);
  }
  if (threadIdx.x == 0) counts[blockIdx.x] = total;
}

// pair_left[at], pair_right[at], pair_distance[at]: the pairs of one strip, from `start` on.
template <int W>
__device__ __forceinline__ void fill_strip(const u64* __restrict__ a, const u64* __restrict__ b, Query query, i64 top,
                                           i64 left, i64 start, i64* __restrict__ pair_left,
                                           i64* __restrict__ pair_right, u8* __restrict__ pair_distance,
                                           Memory<W>& memory) {
  Strip<W> strip(a, query.n_a, b, query.n_b, top, left, memory.columns);
  u32 count = 0, total;
  find_pairs<2>(strip, query, top, left, [&](int, int, u32) { ++count; });
  i64 at = start + block_scan(count, total, memory.of_warp);
  find_pairs<2>(strip, query, top, left, [&](int row, int column, u32 distance) {
    pair_left[at] = top + row;
    pair_right[at] = left + column;
    pair_distance[at] = (u8)distance;
    ++at;
  });
}

// pairs_count_BITS_FOLD: counts (strips,) of a launch with a block for each strip.

extern "C" __global__ void __launch_bounds__(THREADS)
    pairs_count_64_1(const u64* __restrict__ a, const u64* __restrict__ b, i64 n_a, i64 n_b, u32 max_distance,
                     bool self, i64 top, i64 left, i64 across, u32* __restrict__ counts) {
  __shared__ Memory<1> memory;
  count_strip<1, 1>(a, b, {n_a, n_b, max_distance, self}, {top, left, across}, counts, memory);
}

extern "C" __global__ void __launch_bounds__(THREADS)
    pairs_count_64_2(const u64* __restrict__ a, const u64* __restrict__ b, i64 n_a, i64 n_b, u32 max_distance,
                     bool self, i64 top, i64 left, i64 across, u32* __restrict__ counts) {
  __shared__ Memory<1> memory;
  count_strip<1, 2>(a, b, {n_a, n_b, max_distance, self}, {top, left, across}, counts, memory);
}

extern "C" __global__ void __launch_bounds__(THREADS)
    pairs_count_128_1(const u64* __restrict__ a, const u64* __restrict__ b, i64 n_a, i64 n_b, u32 max_distance,
                      bool self, i64 top, i64 left, i64 across, u32* __restrict__ counts) {
  __shared__ Memory<2> memory;
  count_strip<2, 1>(a, b, {n_a, n_b, max_distance, self}, {top, left, across}, counts, memory);
}

extern "C" __global__ void __launch_bounds__(THREADS)
    pairs_count_128_2(const u64* __restrict__ a, const u64* __restrict__ b, i64 n_a, i64 n_b, u32 max_distance,
                      bool self, i64 top, i64 left, i64 across, u32* __restrict__ counts) {
  __shared__ Memory<2> memory;
  count_strip<2, 2>(a, b, {n_a, n_b, max_distance, self}, {top, left, across}, counts, memory);
}

extern "C" __global__ void __launch_bounds__(THREADS)
    pairs_count_128_4(const u64* __restrict__ a, const u64* __restrict__ b, i64 n_a, i64 n_b, u32 max_distance,
                      bool self, i64 top, i64 left, i64 across, u32* __restrict__ counts) {
  __shared__ Memory<2> memory;
  count_strip<2, 4>(a, b, {n_a, n_b, max_distance, self}, {top, left, across}, counts, memory);
}

// pairs_fill_BITS: a block for each of strips (s,), numbered as they were counted; its pairs begin at starts (s,).
// (2 blocks a multiprocessor are enough: ptxas would spill registers to make room for 4.)

extern "C" __global__ void __launch_bounds__(THREADS, 2)
    pairs_fill_64(const u64* __restrict__ a, const u64* __restrict__ b, i64 n_a, i64 n_b, u32 max_distance, bool self,
                  i64 top, i64 left, i64 across, const i64* __restrict__ strips, const i64* __restrict__ starts,
                  i64* __restrict__ pair_left, i64* __restrict__ pair_right, u8* __restrict__ pair_distance) {
  __shared__ Memory<1> memory;
  Grid grid = {top, left, across};
  i64 strip = strips[blockIdx.x];
  fill_strip<1>(a, b, {n_a, n_b, max_distance, self}, grid.row(strip), grid.column(strip), starts[blockIdx.x],
                pair_left, pair_right, pair_distance, memory);
}

extern "C" __global__ void __launch_bounds__(THREADS, 2)
    pairs_fill_128(const u64* __restrict__ a, const u64* __restrict__ b, i64 n_a, i64 n_b, u32 max_distance, bool self,
                   i64 top, i64 left, i64 across, const i64* __restrict__ strips, const i64* __restrict__ starts,
                   i64* __restrict__ pair_left, i64* __restrict__ pair_right, u8* __restrict__ pair_distance) {
  __shared__ Memory<2> memory;
  Grid grid = {top, left, across};
  i64 strip = strips[blockIdx.x];
  fill_strip<2>(a, b, {n_a, n_b, max_distance, self}, grid.row(strip), grid.column(strip), starts[blockIdx.x],
                pair_left, pair_right, pair_distance, memory);
}
