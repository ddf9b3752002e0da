// What the parts of the runtime share: the launch, the threads of the running block, and how a fault is reported.
#pragma once
#include <stdint.h>
#include "../include/cuda_on_cpu.hpp"
#include "fiber.hpp"
#undef threadIdx
#undef blockIdx
#undef blockDim
#undef gridDim

#define EXPORTED __attribute__((visibility("default")))  // called from kernel modules or from Python

namespace cuda_on_cpu {

// A place in the kernel's source: known as such (collectives), or as a code address that Python looks up later.
struct Site {
  const char* file = nullptr;
  int line = 0;
  const void* pc = nullptr;
};
inline bool operator==(const Site& a, const Site& b) {
  return a.line == b.line && a.pc == b.pc && (a.file == b.file || (a.file && b.file && !strcmp(a.file, b.file)));
}

// Memory handed to the kernel: one whole allocation that an argument points into. Python fills these in (module.py).
struct Buffer {
  char* begin;
  size_t bytes;
  int argument;
};

enum class Order : int { ascending, descending, random };
enum Checks : int { check_bounds = 1, check_races = 2, count_memory = 4 };

struct Launch {
  const Kernel* kernel;
  const Module* module;
  void** arguments;
  const Buffer* buffers;
  int n_buffers;
  unsigned grid[3], block[3];
  unsigned dynamic_shared_bytes;
  int order, checks;
  uint64_t seed;
  double timeout_seconds;
};

enum class State : uint8_t { ready, at_barrier, at_collective, done };

struct Thread {
  Fiber fiber;
  uint3 index;
  unsigned linear, warp, lane;
  State state;
  // What it waits for, and what it gets.
  Site site;
  Warp kind;
  unsigned mask;
  uint64_t value, result;
  int argument, width;
};

extern Launch launch;
extern Thread* current;  // the thread whose fiber runs; null in the scheduler
extern Thread threads[max_fibers];
extern unsigned n_threads, n_running;  // of the block; of those, not yet returned
extern uint3 block_at;

// scheduler.cpp
void make_ready(Thread&);
void wait_for_others();  // give up the processor until made ready again

// collectives.cpp
void begin_collectives();
void thread_left(Thread&);  // its exit may complete, or spoil, what others wait for
const char* name_of(Warp);

// report.cpp: the first fault ends the launch; the fiber that finds it is never resumed.
[[noreturn, gnu::format(printf, 2, 3)]] void fail(Site, const char* format, ...);                    // in this thread
[[noreturn, gnu::format(printf, 2, 3)]] void fail_waiting(const Thread&, const char* format, ...);   // where it waits
[[gnu::format(printf, 1, 2)]] void fail_launch(const char* format, ...);
bool failed();
void clear_failure();
const char* failure();
[[noreturn]] void abandon_thread();  // scheduler.cpp

struct Text { char text[160]; };
Text describe(Site);
Text describe(const Thread&);

}  // namespace cuda_on_cpu
