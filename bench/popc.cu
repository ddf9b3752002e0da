// How many population counts a second: eight independent chains a thread, a logical operation between two counts.
extern "C" __global__ void __launch_bounds__(256) popc_rate(unsigned* sums, int rounds) {
  unsigned x[8], thread = blockIdx.x * 256 + threadIdx.x;
  for (int i = 0; i < 8; ++i) x[i] = thread + i;
  for (int r = 0; r < rounds; ++r)
    for (int i = 0; i < 8; ++i) x[i] = __popc(x[i] ^ r);
  sums[thread] = x[0] + x[1] + x[2] + x[3] + x[4] + x[5] + x[6] + x[7];
}
