// The CUDA device language for g++: force-included (-include) before a kernel source, which stays as it is.
//
// A kernel is ordinary C++ but for a few words (`__global__`, `__shared__`), a few variables (`threadIdx`) and a
// few hundred functions. The headers below supply those a kernel of ours may use, with CUDA's exact parameter types,
// so that a call NVRTC would refuse is refused here too. What a thread does alone is done in place; what needs the
// other threads (barriers, warp collectives) calls the runtime library, which switches to another thread's fiber.
#pragma once
#include "language.hpp"
#include "vector_types.hpp"
#include "intrinsics.hpp"
#include "collectives.hpp"
#include "atomics.hpp"
#include "kernel_record.hpp"
