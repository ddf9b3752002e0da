// Race mode: `g++ -fsanitize=thread` calls these before every load and store. Where its own library would check them
// against the rules of pthreads, this checks them against CUDA's.
//
// Every byte of global and shared memory remembers who wrote it last and two who read it since. Two accesses, one of
// them a write and not both atomic, race unless one thread made them or something orders them:
//   - __syncthreads: each thread counts the barriers it has passed (its epoch);
//   - __syncwarp: each lane carries a vector clock of its warp.
// Nothing orders two blocks of a launch, nor does an atomic order what surrounds it. (A GPU also allows fences with
// flags; our kernels use neither.)
#include <stdlib.h>
#include <algorithm>
#include "checks.hpp"
#include "signals.hpp"

namespace cuda_on_cpu {

struct Stamp {
  uint32_t block = 0;  // serial number of the block within the launch, from 1; 0: nobody yet
  uint16_t thread = 0, atomic = 0;
  uint32_t epoch = 0, clock = 0;
  const void* pc = nullptr;
};
struct Cell {
  Stamp write, read[2];
};

static uint32_t block_serial, epoch;
static struct Clock { uint32_t own, seen[32]; } clocks[max_fibers];

void begin_race_launch() {
  block_serial = 0;
  for (Range* r = ranges_begin(); r != ranges_end(); ++r)  // calloc: only pages that are touched cost memory
    if (r->space != Space::module) r->cells = (Cell*)calloc(r->end - r->begin + 1, sizeof(Cell));
}

void end_race_launch() {
  for (Range* r = ranges_begin(); r != ranges_end(); ++r) free(r->cells);
}

void begin_race_block() {
  ++block_serial;
  epoch = 0;
  for (unsigned i = 0; i < n_threads; ++i) clocks[i] = {1, {}};
}

void barrier_passed() { ++epoch; }

void warp_synchronised(unsigned warp, unsigned mask) {
  Clock* lanes = clocks + warp * 32;
  uint32_t joined[32] = {};
  auto each = [&](auto visit) {
    for (unsigned lane = 0; lane < 32; ++lane)
      if (mask >> lane & 1) visit(lane);
  };
  each([&](unsigned lane) {
    for (int i = 0; i < 32; ++i) joined[i] = std::max(joined[i], lanes[lane].seen[i]);
    joined[lane] = std::max(joined[lane], lanes[lane].own);
  });
  each([&](unsigned lane) {
    std::copy(joined, joined + 32, lanes[lane].seen);
    ++lanes[lane].own;
  });
}

static bool ordered(const Stamp& earlier, const Stamp& now) {
  if (!earlier.block || (earlier.block == now.block && earlier.thread == now.thread)) return true;
  if (earlier.block != now.block) return false;
  if (earlier.epoch != now.epoch) return true;
  return earlier.thread / 32 == now.thread / 32 && clocks[now.thread].seen[earlier.thread % 32] >= earlier.clock;
}

static void check_order(const Stamp& earlier, const char* did, const Stamp& now, const char* does, Space space) {
  if (ordered(earlier, now) || (earlier.atomic && now.atomic)) return;
  Site before{nullptr, 0, earlier.pc};
  if (earlier.block != now.block)
    fail({nullptr, 0, now.pc}, "data race in global memory: %s here, and %s by another block at %s; blocks run in any order", does,
         did, describe(before).text);
  fail({nullptr, 0, now.pc}, "data race in %s memory: %s here, and %s by %s at %s, with no barrier between",
       space == Space::shared ? "shared" : "global", does, did, describe(threads[earlier.thread]).text, describe(before).text);
}

static void access(const void* address, size_t bytes, Access access, const void* pc) {
  if (!current || on_own_stack(address)) return;
  if (out_of_time()) fail_out_of_time(pc);
  Range& range = require_range(address, bytes, access, pc);
  if (!range.cells) return;
  const Clock& clock = clocks[current->linear];
  Stamp now{block_serial, (uint16_t)current->linear, access == Access::atomic, epoch, clock.own, pc};
  const char* does = access == Access::read ? "read" : access == Access::write ? "written" : "atomically updated";
  for (size_t i = 0; i < bytes; ++i) {
    Cell& cell = range.cells[(const char*)address - range.begin + i];
    if (range.space == Space::shared && cell.write.block != block_serial) {
      if (access != Access::write)
        fail({nullptr, 0, pc}, "uninitialised shared memory: %s, but nobody in this block has written it", does);
      cell = {};
    }
    check_order(cell.write, cell.write.atomic ? "atomically updated" : "written", now, does, range.space);
    if (access == Access::read) {
      if (cell.read[0].block != now.block || cell.read[0].thread != now.thread) cell.read[1] = cell.read[0];
      cell.read[0] = now;
    } else {
      for (const Stamp& read : cell.read) check_order(read, "read", now, does, range.space);
      cell = {now, {}};
    }
  }
  if (launch.checks & count_memory) count_traffic((const char*)address, bytes, access, range.space, pc);
}

EXPORTED void before_atomic(const void* address, unsigned bytes, const void* pc) {
  if ((uintptr_t)address % bytes) fail({nullptr, 0, pc}, "misaligned access: an atomic of %u bytes", bytes);
  if (launch.checks & check_races) access(address, bytes, Access::atomic, pc);
  else if (launch.checks & check_bounds) require_range(address, bytes, Access::atomic, pc);
}

// -- the scheduler's notices -----------------------------------------------------------------------------------

void begin_launch_checks() {
  list_ranges();
  if (launch.checks & check_races) begin_race_launch();
}
void end_launch_checks() {
  if (launch.checks & check_races) end_race_launch();
}
void begin_block_checks() { begin_race_block(); }
void end_block_checks() {
  if (launch.checks & count_memory) flush_traffic();
}

}  // namespace cuda_on_cpu

#define HOOK(name, n, kind)                                                                        \
  extern "C" EXPORTED void __tsan_##name(const void* p) {                                          \
    cuda_on_cpu::access(p, n, cuda_on_cpu::Access::kind, __builtin_return_address(0));             \
  }
#define HOOKS(n)                                                                                   \
  HOOK(read##n, n, read)                                                                           \
  HOOK(write##n, n, write)                                                                         \
  HOOK(unaligned_read##n, n, read)                                                                 \
  HOOK(unaligned_write##n, n, write)                                                               \
  HOOK(volatile_read##n, n, read)                                                                  \
  HOOK(volatile_write##n, n, write)
HOOKS(1)
HOOKS(2)
HOOKS(4)
HOOKS(8)
HOOKS(16)
extern "C" EXPORTED void __tsan_read_range(const void* p, size_t bytes) {
  cuda_on_cpu::access(p, bytes, cuda_on_cpu::Access::read, __builtin_return_address(0));
}
extern "C" EXPORTED void __tsan_write_range(const void* p, size_t bytes) {
  cuda_on_cpu::access(p, bytes, cuda_on_cpu::Access::write, __builtin_return_address(0));
}
extern "C" EXPORTED void __tsan_init() {}
extern "C" EXPORTED void __tsan_func_entry(const void*) {}
extern "C" EXPORTED void __tsan_func_exit() {}
