// Small right kernels in the shapes that ours take: reduction, scan, compaction, histogram, byte ranges, tiles,
// carry-save counters. The tests run them in every mode and order, and compile them with NVRTC.
#include "../../../kernels/common.cuh"

#define LANE (threadIdx.x & 31)
#define ALL_LANES 0xffffffffu

// Sum of x: warp shuffles, then the first warp over the warps' sums, then one atomic a block.
extern "C" __global__ void __launch_bounds__(256) block_sum(const u32* __restrict__ x, u64* total, i64 n) {
  __shared__ u64 of_warp[32];
  i64 i = (i64)blockIdx.x * blockDim.x + threadIdx.x;
  u64 sum = i < n ? x[i] : 0;
  for (int d = 16; d; d >>= 1) sum += __shfl_down_sync(ALL_LANES, sum, d);
  if (LANE == 0) of_warp[threadIdx.x / 32] = sum;
  __syncthreads();
  if (threadIdx.x >= 32) return;
  sum = threadIdx.x < blockDim.x / 32 ? of_warp[threadIdx.x] : 0;
  for (int d = 16; d; d >>= 1) sum += __shfl_down_sync(ALL_LANES, sum, d);
  if (threadIdx.x == 0) atomicAdd(total, sum);
}

// Inclusive prefix sums of one block's elements, in dynamic shared memory (Hillis and Steele, two buffers).
extern "C" __global__ void block_scan(const u32* __restrict__ x, u32* __restrict__ y) {
  extern __shared__ u32 buffer[];
  u32 *from = buffer, *to = buffer + blockDim.x, t = threadIdx.x;
  i64 i = (i64)blockIdx.x * blockDim.x + t;
  from[t] = x[i];
  __syncthreads();
  for (u32 d = 1; d < blockDim.x; d *= 2) {
    to[t] = from[t] + (t >= d ? from[t - d] : 0);
    __syncthreads();
    u32* swap = from;
    from = to;
    to = swap;
  }
  y[i] = from[t];
}

// Indices of the elements below a limit: one ballot and one atomic a warp.
extern "C" __global__ void compact(const u32* __restrict__ x, i64* __restrict__ out, u32* count, u32 limit, i64 n) {
  i64 i = (i64)blockIdx.x * blockDim.x + threadIdx.x;
  bool wanted = i < n && x[i] < limit;
  u32 votes = __ballot_sync(ALL_LANES, wanted), base = 0;
  if (LANE == 0 && votes) base = atomicAdd(count, (u32)__popc(votes));
  base = __shfl_sync(ALL_LANES, base, 0);
  if (wanted) out[base + __popc(votes & ((1u << LANE) - 1))] = i;
}

// Byte histogram: counters in shared memory, one copy a block.
extern "C" __global__ void histogram(const u8* __restrict__ bytes, u32* counts, i64 n) {
  __shared__ u32 own[256];
  for (u32 b = threadIdx.x; b < 256; b += blockDim.x) own[b] = 0;
  __syncthreads();
  i64 step = (i64)gridDim.x * blockDim.x;
  for (i64 i = (i64)blockIdx.x * blockDim.x + threadIdx.x; i < n; i += step) atomicAdd(&own[bytes[i]], 1u);
  __syncthreads();
  for (u32 b = threadIdx.x; b < 256; b += blockDim.x)
    if (own[b]) atomicAdd(&counts[b], own[b]);
}

// The same, where lanes that hold the same byte send one of them (match_any).
extern "C" __global__ void histogram_by_match(const u8* __restrict__ bytes, u32* counts, i64 n) {
  i64 i = (i64)blockIdx.x * blockDim.x + threadIdx.x;
  int byte = i < n ? bytes[i] : -1;
  u32 same = __match_any_sync(ALL_LANES, byte);
  if (byte >= 0 && __ffs((int)same) - 1 == (int)LANE) atomicAdd(&counts[byte], (u32)__popc(same));
}

// FNV-1a of byte ranges, one a thread: unaligned starts, ragged lengths.
extern "C" __global__ void fnv1a(const u8* __restrict__ buffer, const i64* __restrict__ starts,
                                 const i64* __restrict__ lengths, u64* __restrict__ hashes, i64 m) {
  i64 j = (i64)blockIdx.x * blockDim.x + threadIdx.x;
  if (j >= m) return;
  u64 hash = 0xcbf29ce484222325ull;
  for (i64 i = 0; i < lengths[j]; ++i) hash = (hash ^ buffer[starts[j] + i]) * 0x100000001b3ull;
  hashes[j] = hash;
}

// Transpose of a matrix of 16-byte elements by tiles; the padding column keeps banks apart.
extern "C" __global__ void transpose(const uint4* __restrict__ a, uint4* __restrict__ b, int rows, int columns) {
  __shared__ uint4 tile[8][9];
  int row = blockIdx.y * 8 + threadIdx.y, column = blockIdx.x * 8 + threadIdx.x;
  if (row < rows && column < columns) tile[threadIdx.y][threadIdx.x] = a[(i64)row * columns + column];
  __syncthreads();
  row = blockIdx.y * 8 + threadIdx.x, column = blockIdx.x * 8 + threadIdx.y;
  if (row < rows && column < columns) b[(i64)column * rows + row] = tile[threadIdx.x][threadIdx.y];
}

// Hamming distances of 64-bit fingerprints: a tile of rows in shared memory, one column a thread.
extern "C" __global__ void __launch_bounds__(128) hamming_tile(const uint2* __restrict__ a, const uint2* __restrict__ b,
                                                               u8* __restrict__ out, int n_a, int n_b) {
  __shared__ uint2 rows[64];
  int first = blockIdx.y * 64, column = blockIdx.x * blockDim.x + threadIdx.x, n_rows = min(64, n_a - first);
  if ((int)threadIdx.x < n_rows) rows[threadIdx.x] = a[first + threadIdx.x];
  __syncthreads();
  if (column >= n_b) return;
  uint2 y = b[column];
#pragma unroll 4
  for (int r = 0; r < n_rows; ++r)
    out[(i64)(first + r) * n_b + column] = (u8)(__popc(rows[r].x ^ y.x) + __popc(rows[r].y ^ y.y));
}

// Bits set in most of 7 words a thread: counters in carry-save form, three planes.
__device__ __forceinline__ void full_adder(u32& carry, u32& sum, u32 a, u32 b, u32 c) {
  sum = a ^ b ^ c;
  carry = (a & b) | (a & c) | (b & c);
}
extern "C" __global__ void majority_of_7(const u32* __restrict__ words, u32* __restrict__ out, i64 n) {
  i64 i = (i64)blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  u32 w[7], ones, twos, fours, carry[3];
  for (int k = 0; k < 7; ++k) w[k] = words[k * n + i];
  full_adder(carry[0], ones, w[0], w[1], w[2]);
  full_adder(carry[1], ones, ones, w[3], w[4]);
  full_adder(carry[2], ones, ones, w[5], w[6]);
  full_adder(fours, twos, carry[0], carry[1], carry[2]);
  out[i] = fours;  // at least 4 of 7
}

// Largest and smallest key of each warp, by lanes talking through shared memory with __syncwarp.
template <int Lanes> __device__ __forceinline__ u64 exchange(u64* slots, u64 value, int partner) {
  slots[threadIdx.x % Lanes] = value;
  __syncwarp();
  u64 other = slots[partner];
  __syncwarp();
  return other;
}
extern "C" __global__ void warp_extremes(const u64* __restrict__ x, ulonglong2* __restrict__ out) {
  __shared__ u64 slots[8][32];
  u32 warp = threadIdx.x / 32;
  u64 low = x[blockIdx.x * blockDim.x + threadIdx.x], high = low;
  for (int d = 16; d; d >>= 1) {
    low = min(low, exchange<32>(slots[warp], low, LANE ^ d));
    high = max(high, exchange<32>(slots[warp], high, LANE ^ d));
  }
  if (LANE == 0) out[blockIdx.x * (blockDim.x / 32) + warp] = make_ulonglong2(low, high);
}
