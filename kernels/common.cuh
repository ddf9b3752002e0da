// Integer types by width, for every kernel. NVRTC has no <stdint.h>, and CUDA's atomics and shuffles are defined for
// `unsigned long long`, which is not the type that hosts call uint64_t: so kernels use these names and include no
// system header.
#pragma once

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;
typedef int i32;
typedef long long i64;
