// Dense Hamming distances: every row of a with every row of b, one byte each.
//
// Idea: a block fills a tile of 128 x 128 distances. Each warp takes 16 rows, each lane 4 neighbouring columns, so that
// a lane holds the four bytes of a word and a warp stores a row of the tile, 128 bytes side by side. Where b is a, a
// tile above the diagonal is also the transpose of one below: bytes are turned 4 x 4 in registers, collected in shared
// memory and stored again as rows.
//
//               columns, 4 a lane                        mirror (shared): word k of column c lies at k ^ (c / 4), so
//            0..3  4..7      124..127                    that neither writing by column nor reading by row makes two
//   warp 0  +-----+-----+...+-------+  rows 0..15        lanes meet in one bank
//   warp 1  |     |     |   |       |  rows 16..31
//    ...    +-----+-----+...+-------+                    out[r0 + r][c0 + c]  and  out[c0 + c][r0 + r]
//
// Rows of out begin at any address, so a warp shifts its bytes by what the row is off a multiple of 4: all but the ends
// of a row are stored as aligned words.
//
// Cost for each pair: 2 population counts (3 for 128 bits) of 16 a clock and multiprocessor, and one byte stored. On an
// H200 that is at most 2.1e12 pairs/s (1.4e12), twice as many distances where they are mirrored; memory takes about
// 4.3e12 bytes/s. All instructions of 64 bits, in aligned rows, from the SASS for sm_90: 8 a pair, 12 where it is
// mirrored, of 128 a clock: not the limit.
#include "fingerprint.cuh"

#define TILE 128
#define THREADS 256
#define WARP_ROWS 16  // TILE / (THREADS / 32)

// Stores `columns` bytes, 4 a lane. All lanes of a warp together. aligned: the row begins at a multiple of 4, and all
// 128 columns are there.
__device__ __forceinline__ void store_row(u8* row, u32 bytes, int columns, bool aligned) {
  int lane = threadIdx.x % 32;
  if (aligned) {
    ((u32*)row)[lane] = bytes;
    return;
  }
  int off = (int)((u64)row & 3), first = 4 * lane - off;
  u32 before = __shfl_up_sync(ALL_LANES, bytes, 1);
  u32 word = __funnelshift_l(before, bytes, 8 * off);
  if (first >= 0 && first + 4 <= columns)
    *(u32*)(row + first) = word;
  else
    for (int i = 0; i < 4; ++i)
      if (first + i >= 0 && first + i < columns) row[first + i] = (u8)(word >> 8 * i);
  if (lane == 31)
    for (int i = 4 - off; i < 4; ++i)
      if (TILE - 4 + i < columns) row[TILE - 4 + i] = (u8)(bytes >> 8 * i);
}

// Rows of bytes to columns of bytes, four of each.
__device__ __forceinline__ void transpose(u32 (&x)[4]) {
  u32 low01 = __byte_perm(x[0], x[1], 0x5140), low23 = __byte_perm(x[2], x[3], 0x5140);
  u32 high01 = __byte_perm(x[0], x[1], 0x7362), high23 = __byte_perm(x[2], x[3], 0x7362);
  x[0] = __byte_perm(low01, low23, 0x5410);
  x[1] = __byte_perm(low01, low23, 0x7632);
  x[2] = __byte_perm(high01, high23, 0x5410);
  x[3] = __byte_perm(high01, high23, 0x7632);
}

// Which tile is the block's? Without symmetry, row by row. With it, the tiles on and above the diagonal of a T x T
// grid: rows i and T - 1 - i have T + 1 of them together, and follow one another. False: no tile is left (the middle
// row of an odd number stands alone).
__device__ __forceinline__ bool find_tile(u32 tiles_across, bool symmetric, u32& row, u32& column) {
  u32 across = tiles_across + symmetric;
  row = blockIdx.x / across;
  column = blockIdx.x % across;
  if (!symmetric) return true;
  u32 of_row = tiles_across - row;
  if (column < of_row) {
    column += row;
    return true;
  }
  bool alone = row == of_row - 1;
  row = of_row - 1;
  column += row - of_row;
  return !alone;
}

template <int W>
struct Tile {
  u64 rows[W][TILE], columns[W][TILE];
  u32 mirror[TILE][TILE / 4];
};

template <int W>
__device__ __forceinline__ void fill_tile(const u64* __restrict__ a, const u64* __restrict__ b, u8* __restrict__ out,
                                          i64 n_a, i64 n_b, bool symmetric, Tile<W>& tile) {
  u32 row_tile, column_tile;
  if (!find_tile((u32)((n_b + TILE - 1) / TILE), symmetric, row_tile, column_tile)) return;
  i64 top = (i64)row_tile * TILE, left = (i64)column_tile * TILE;
  int lane = threadIdx.x % 32, warp = threadIdx.x / 32;

  bool loads_rows = threadIdx.x < TILE;  // half of the block loads the rows, the other half the columns
  const u64* from = loads_rows ? a + top * W : b + left * W;
  int words = (int)min(loads_rows ? n_a - top : n_b - left, (i64)TILE) * W;
  u64* to = loads_rows ? tile.rows[0] : tile.columns[0];
#pragma unroll
  for (int k = 0; k < W; ++k) {
    int i = k * TILE + threadIdx.x % TILE;
    to[i % W * TILE + i / W] = i < words ? from[i] : 0;
  }
  __syncthreads();
  Fingerprint<W> column[4];
  for (int q = 0; q < 4; ++q)
    for (int word = 0; word < W; ++word) column[q].set(word, tile.columns[word][4 * lane + q]);

  bool mirrored = symmetric && row_tile != column_tile, aligned = (((u64)out | (u64)n_b) & 3) == 0;
  int width = (int)min(n_b - left, (i64)TILE), height = (int)min(n_a - top, (i64)TILE), first = WARP_ROWS * warp;
  u8* out_row = out + (top + first) * n_b + left;
#pragma unroll 1
  for (int group = 0; group < WARP_ROWS / 4; ++group) {
    u32 bytes[4];
#pragma unroll
    for (int i = 0; i < 4; ++i, out_row += n_b) {
      int r = first + 4 * group + i;
      Fingerprint<W> row;
      for (int word = 0; word < W; ++word) row.set(word, tile.rows[word][r]);
      bytes[i] = 0;
      for (int q = 0; q < 4; ++q) bytes[i] |= hamming_distance(row, column[q]) << 8 * q;
      if (r < height) store_row(out_row, bytes[i], width, aligned && width == TILE);
    }
    if (mirrored) {
      transpose(bytes);
      for (int q = 0; q < 4; ++q) tile.mirror[4 * lane + q][(first / 4 + group) ^ lane] = bytes[q];
    }
  }
  if (!mirrored) return;
  __syncthreads();
  out_row = out + (left + first) * n_b + top;  // a tile above the diagonal is full in height
#pragma unroll 4
  for (int c = first; c < min(first + WARP_ROWS, width); ++c, out_row += n_b)
    store_row(out_row, tile.mirror[c][lane ^ (c / 4)], TILE, aligned);
}

// out (n_a, n_b). symmetric: b is a, and the grid covers the tiles on and above the diagonal.
extern "C" __global__ void __launch_bounds__(THREADS)
    hamming_64(const u64* __restrict__ a, const u64* __restrict__ b, u8* __restrict__ out, i64 n_a, i64 n_b,
               bool symmetric) {
  __shared__ Tile<1> tile;
  fill_tile(a, b, out, n_a, n_b, symmetric, tile);
}

extern "C" __global__ void __launch_bounds__(THREADS)
    hamming_128(const u64* __restrict__ a, const u64* __restrict__ b, u8* __restrict__ out, i64 n_a, i64 n_b,
                bool symmetric) {
  __shared__ Tile<2> tile;
  fill_tile(a, b, out, n_a, n_b, symmetric, tile);
}
