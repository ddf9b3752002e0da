// Comparing 128 rows with a strip of 1024 columns, and acting on the few pairs that are near: for pairs.cu, nearest.cu.
//
//                 columns in shared memory, word by word
//                 0 ......... 16 ......... 32 ......       thread (x, y), x = t % 16, y = t / 16, has
//    rows   0     x                                          rows     y, y + 16, ..., y + 112 (registers)
//           1                                                columns  x, x + 16, ..., x + 1008
//          ...    y
//
// A column costs one load from shared memory, in which half a warp reads 16 neighbours and the other half the same, and
// eight bounds. Only if the least of the eight is within the limit is any distance looked at.
#pragma once
#include "fingerprint.cuh"

#define THREADS 256
#define STRIP_ROWS 128
#define STRIP_COLUMNS 1024
#define THREAD_ROWS 8  // STRIP_ROWS / 16

template <int W>
struct Strip {
  Fingerprint<W> row[THREAD_ROWS];
  const u64 (*columns)[STRIP_COLUMNS];  // [W], shared
  int height, width;                    // how many rows and columns there are

  // Columns from `left` on to shared memory, rows from `top` on to registers. All threads of the block together.
  __device__ __forceinline__ Strip(const u64* __restrict__ a, i64 n_a, const u64* __restrict__ b, i64 n_b, i64 top,
                                   i64 left, u64 (&shared)[W][STRIP_COLUMNS])
      : columns(shared), height((int)min(n_a - top, (i64)STRIP_ROWS)), width((int)min(n_b - left, (i64)STRIP_COLUMNS)) {
#pragma unroll
    for (int k = 0; k < STRIP_COLUMNS * W / THREADS; ++k) {
      int i = k * THREADS + threadIdx.x;
      shared[i % W][i / W] = i < width * W ? b[left * W + i] : 0;
    }
#pragma unroll
    for (int i = 0; i < THREAD_ROWS; ++i) row[i] = load_row<W>(a + top * W, row_of(i), height);
    __syncthreads();
  }

  __device__ __forceinline__ static int row_of(int i) { return threadIdx.x / 16 + 16 * i; }

  // near(row, column, distance), counted from the strip's first, for at least those of the thread's pairs that are
  // within the limit.
  template <int FOLD, class Near>
  __device__ __forceinline__ void visit(u32 limit, Near near) const {
#pragma unroll 2
    for (int k = 0; k < STRIP_COLUMNS / 16; ++k) {
      int c = 16 * k + threadIdx.x % 16;
      Fingerprint<W> column;
      for (int word = 0; word < W; ++word) column.set(word, columns[word][c]);
      u32 least = 64 * W;
#pragma unroll
      for (int i = 0; i < THREAD_ROWS; ++i) least = min(least, least_distance<W, FOLD>(row[i], column));
      if (least > limit || c >= width) continue;
      // Were these known to be the same numbers, the compiler would keep the differences with all rows for here, and no
      // longer fold them in as few instructions.
      for (int part = 0; part < 2 * W; ++part) asm("" : "+r"(column.part[part]));
#pragma unroll
      for (int i = 0; i < THREAD_ROWS; ++i)
        if (row_of(i) < height) near(row_of(i), c, hamming_distance(row[i], column));
    }
  }
};
