// One planted fault a kernel, as test_bugs.py names them: each must be found, at the line marked FAULT.
#include "../../../kernels/common.cuh"

extern "C" __global__ void missing_syncthreads(const u32* x, u32* y) {
  __shared__ u32 s[64];
  s[threadIdx.x] = x[threadIdx.x];
  y[threadIdx.x] = s[63 - threadIdx.x];  // FAULT
}

// The same, one statement of the loop short: the next round overwrites what others still read.
extern "C" __global__ void missing_second_syncthreads(const u32* x, u32* y) {
  __shared__ u32 s[64];
  u32 sum = 0;
  for (u32 round = 0; round < 2; ++round) {
    s[threadIdx.x] = x[threadIdx.x] + round;  // FAULT
    __syncthreads();
    sum += s[63 - threadIdx.x];  // FAULT
  }
  y[threadIdx.x] = sum;
}

extern "C" __global__ void missing_syncwarp(const u32* x, u32* y) {
  __shared__ u32 s[32];
  s[threadIdx.x] = x[threadIdx.x];
  y[threadIdx.x] = s[threadIdx.x ^ 1];  // FAULT
}

// A __syncwarp of some lanes does not order the others.
extern "C" __global__ void syncwarp_of_too_few(const u32* x, u32* y) {
  __shared__ u32 s[32];
  s[threadIdx.x] = x[threadIdx.x];
  if (threadIdx.x < 16) __syncwarp(0x0000ffffu);
  else __syncwarp(0xffff0000u);
  y[threadIdx.x] = s[31 - threadIdx.x];  // FAULT
}

extern "C" __global__ void global_read_past_end(const u32* x, u32* y, int n) {
  int i = threadIdx.x;
  if (i < n) y[i] = x[i + 1];  // FAULT
}

extern "C" __global__ void global_write_past_end(const u32* x, u32* y, int n) {
  int i = threadIdx.x;
  if (i <= n) y[i] = 1;  // FAULT
}

extern "C" __global__ void global_write_before_start(u32* y) {
  y[(int)threadIdx.x - 1] = 1;  // FAULT
}

extern "C" __global__ void wild_pointer(u32* y) {
  y[threadIdx.x + (1ull << 40)] = 1;  // FAULT
}

extern "C" __global__ void shared_read_past_end(u32* y) {
  __shared__ u32 s[64];
  __shared__ u32 next[64];
  s[threadIdx.x] = next[threadIdx.x] = threadIdx.x;
  __syncthreads();
  const u32* p = s + 1;
  y[threadIdx.x] = p[threadIdx.x] + next[threadIdx.x];  // FAULT
}

extern "C" __global__ void shared_write_before_start(u32* y) {
  __shared__ u32 s[64];
  u32* p = s - 1;
  p[threadIdx.x] = threadIdx.x;  // FAULT
  __syncthreads();
  y[threadIdx.x] = p[threadIdx.x];
}

extern "C" __global__ void dynamic_shared_past_end(u32* y) {
  extern __shared__ u32 s[];
  s[threadIdx.x] = threadIdx.x;  // FAULT
  __syncthreads();
  y[threadIdx.x] = s[threadIdx.x];
}

extern "C" __global__ void local_array_past_end(const u32* x, u32* y) {
  u32 counters[8];
  for (int i = 0; i < 8; ++i) counters[i] = x[i];
  u32* p = counters + x[9];
  *p += 1;  // FAULT
  y[threadIdx.x] = counters[threadIdx.x & 7];
}

__constant__ u32 table[8] = {1, 2, 3, 4, 5, 6, 7, 8};
extern "C" __global__ void constant_past_end(u32* y) {
  const u32* p = table;
  y[threadIdx.x] = p[threadIdx.x];  // FAULT
}

extern "C" __global__ void atomic_past_end(u32* y, int n) {
  atomicAdd(&y[n], 1u);  // FAULT
}

extern "C" __global__ void lost_update(u32* y) {
  y[0] += 1;  // FAULT
}

extern "C" __global__ void lost_update_between_blocks(u32* y) {
  if (threadIdx.x == 0) y[0] += 1;  // FAULT
}

extern "C" __global__ void blocks_write_one_word(u32* y) {
  if (threadIdx.x == 0) y[0] = blockIdx.x;  // FAULT
}

extern "C" __global__ void block_reads_what_another_writes(u32* y) {
  y[blockIdx.x * blockDim.x + threadIdx.x] = y[threadIdx.x] + 1;  // FAULT
}

extern "C" __global__ void uninitialised_shared(u32* y) {
  __shared__ u32 count;
  if (threadIdx.x == 40) atomicAdd(&count, 1u);  // FAULT
  __syncthreads();
  y[threadIdx.x] = count;
}

extern "C" __global__ void divergent_barrier(u32* y) {
  if (threadIdx.x < 32) {
    y[threadIdx.x] = 1;
    __syncthreads();  // FAULT
  } else {
    __syncthreads();  // FAULT
  }
}

extern "C" __global__ void return_before_barrier(u32* y, int n) {
  if ((int)threadIdx.x >= n) return;
  __syncthreads();  // FAULT
  y[threadIdx.x] = 1;
}

extern "C" __global__ void barrier_against_collective(u32* y) {
  if (threadIdx.x < 16) __syncthreads();  // FAULT
  else y[threadIdx.x] = __ballot_sync(0xffffffffu, 1);  // FAULT
}

extern "C" __global__ void mask_names_absent_lanes(u32* y) {
  if (threadIdx.x < 16) y[threadIdx.x] = __shfl_down_sync(0xffffffffu, threadIdx.x, 1);  // FAULT
}

extern "C" __global__ void mask_omits_caller(u32* y) {
  y[threadIdx.x] = __ballot_sync(0x7fffffffu, 1);  // FAULT
}

extern "C" __global__ void masks_disagree(u32* y) {
  y[threadIdx.x] = __ballot_sync(threadIdx.x == 7 ? 0x000000ffu : 0xffffffffu, 1);  // FAULT
}

extern "C" __global__ void shuffle_from_absent_lane(u32* y) {
  if (threadIdx.x < 16) y[threadIdx.x] = __shfl_sync(0x0000ffffu, threadIdx.x, 20);  // FAULT
}

extern "C" __global__ void shuffle_in_ragged_loop(const u32* x, u32* y, int n) {
  for (int i = threadIdx.x; i < n; i += 32) y[i] = __shfl_xor_sync(0xffffffffu, x[i], 1);  // FAULT
}

extern "C" __global__ void misaligned_vector_load(const u32* x, u32* y) {
  uint4 v = *(const uint4*)(x + 1);  // FAULT
  y[threadIdx.x] = v.x + v.w;
}

extern "C" __global__ void shift_by_width(const u32* x, u64* y) {
  y[threadIdx.x] = 1ull << (x[threadIdx.x] + 63);  // FAULT
}

extern "C" __global__ void division_by_zero(const u32* x, u32* y) {
  y[threadIdx.x] = x[threadIdx.x] / y[0];  // FAULT
}

extern "C" __global__ void waits_for_another_block(volatile u32* y) {
  y[blockIdx.x] = 1;
  while (y[1 - blockIdx.x] == 0) {}  // FAULT
}

__device__ __noinline__ u32 recurse(int n) {  // FAULT
  volatile u32 room[4096];                    // FAULT
  room[n & 4095] = n;                         // FAULT
  return recurse(n + 1) + room[n & 7];        // FAULT
}
extern "C" __global__ void endless_recursion(u32* y, int n) { y[0] = recurse(n); }

// Right, but slow: what the traffic counts must show.
extern "C" __global__ void column_major(const u32* x, u32* y, int n) {
  for (int i = 0; i < n; ++i) y[threadIdx.x * n + i] = x[threadIdx.x * n + i];  // UNCOALESCED
}
extern "C" __global__ void row_major(const u32* x, u32* y, int n) {
  for (int i = 0; i < n; ++i) y[i * 32 + threadIdx.x] = x[i * 32 + threadIdx.x];  // COALESCED
}
extern "C" __global__ void vectors(const uint4* x, uint4* y) {
  y[threadIdx.x] = x[threadIdx.x];  // VECTORS
}
extern "C" __global__ void bank_conflicts(u32* y) {
  __shared__ u32 square[32 * 32];
  for (int i = 0; i < 32; ++i) square[i * 32 + threadIdx.x] = threadIdx.x;  // ROWS
  __syncwarp();
  u32 sum = 0;
  for (int i = 0; i < 32; ++i) sum += square[threadIdx.x * 32 + i];  // COLUMNS
  y[threadIdx.x] = sum;
}
