// Runs a launch: the blocks one after another, the threads of a block by turns. A thread keeps the processor until it
// waits for others (a barrier, a warp collective) or returns; who is next is a matter of the launch's order, so a
// kernel whose result hangs on the order shows it.
#include <stdio.h>
#include <map>
#include <numeric>
#include <string>
#include <vector>
#include "block.hpp"
#include "checks.hpp"
#include "signals.hpp"

extern "C" {
EXPORTED alignas(1024) char cuda_dynamic_shared[227 << 10];  // the most that any GPU has
}

namespace cuda_on_cpu {

Launch launch;
Thread* current;
Thread threads[max_fibers];
unsigned n_threads, n_running;
uint3 block_at;

static Fiber scheduler;
static std::vector<Thread*> ready;  // from `next_ready` on: able to run, in the order they became so
static size_t next_ready;
static uint64_t random_state;

EXPORTED uint3 thread_index() { return current->index; }
EXPORTED uint3 block_index() { return block_at; }
EXPORTED dim3 block_shape() { return {launch.block[0], launch.block[1], launch.block[2]}; }
EXPORTED dim3 grid_shape() { return {launch.grid[0], launch.grid[1], launch.grid[2]}; }

static uint64_t random_below(uint64_t n) {  // xorshift64*
  random_state ^= random_state >> 12;
  random_state ^= random_state << 25;
  random_state ^= random_state >> 27;
  return (uint64_t)((unsigned __int128)(random_state * 0x2545F4914F6CDD1Dull) * n >> 64);
}

void make_ready(Thread& thread) {
  thread.state = State::ready;
  ready.push_back(&thread);
}

static Thread* take_next() {
  if (next_ready == ready.size()) {
    ready.clear();
    next_ready = 0;
    return nullptr;
  }
  if (launch.order == (int)Order::random)
    std::swap(ready[next_ready], ready[next_ready + random_below(ready.size() - next_ready)]);
  return ready[next_ready++];
}

static void leave() { switch_to(current->fiber, scheduler); }
void wait_for_others() { leave(); }
void abandon_thread() {
  leave();
  __builtin_unreachable();  // end_block makes the fiber start afresh
}

static void fiber_main() {
  for (;;) {  // one round a block: a fiber is started once and used again
    launch.kernel->invoke(launch.arguments);
    current->state = State::done;
    --n_running;
    thread_left(*current);
    leave();
  }
}

static void report_deadlock() {
  std::map<std::string, std::pair<unsigned, const Thread*>> waiting;  // place -> how many, one of them
  for (unsigned i = 0; i < n_threads; ++i) {
    const Thread& thread = threads[i];
    if (thread.state == State::done) continue;
    char what[256];
    if (thread.state == State::at_barrier) snprintf(what, sizeof what, "in __syncthreads at %s", describe(thread.site).text);
    else snprintf(what, sizeof what, "in %s(mask %08x) at %s", name_of(thread.kind), thread.mask, describe(thread.site).text);
    auto& entry = waiting.try_emplace(what, 0u, &thread).first->second;
    ++entry.first;
  }
  std::string list;
  for (auto& [what, entry] : waiting)
    list += "; " + std::to_string(entry.first) + " " + what + ", first " + describe(*entry.second).text;
  fail_launch("deadlock in block (%u,%u,%u): %u of %u threads have returned, the others wait for ever%s", block_at.x,
              block_at.y, block_at.z, n_threads - n_running, n_threads, list.c_str());
}

static void run_block() {
  memset(launch.module->shared_begin, 0xCD, launch.module->shared_end - launch.module->shared_begin);
  memset(cuda_dynamic_shared, 0xCD, launch.dynamic_shared_bytes);
  n_running = n_threads;
  ready.clear();
  next_ready = 0;
  begin_collectives();
  begin_block_checks();
  bool down = launch.order == (int)Order::descending;
  for (unsigned i = 0; i < n_threads; ++i) make_ready(threads[down ? n_threads - 1 - i : i]);
  while (n_running && !failed()) {
    Thread* thread = take_next();
    if (!thread) report_deadlock();
    else if (out_of_time()) fail_launch("still running after %g seconds", launch.timeout_seconds);
    else {
      current = thread;
      start_or_continue(scheduler, thread->fiber, thread->linear, fiber_main);
      current = nullptr;
    }
  }
  end_block_checks();
  if (!failed()) return;
  for (unsigned i = 0; i < n_threads; ++i) {  // left in the middle of the kernel
    threads[i].fiber.started = false;
    clear_stack_shadow(i);
  }
}

static bool prepare_launch() {
  const unsigned *grid = launch.grid, *block = launch.block;
  uint64_t size = (uint64_t)block[0] * block[1] * block[2];
  if (size == 0 || size > max_fibers || block[2] > 64)
    fail_launch("a block of %u x %u x %u threads: 1 to 1024 are possible, at most 64 along z", block[0], block[1], block[2]);
  else if (size > launch.kernel->max_threads)
    fail_launch("a block of %llu threads, but __launch_bounds__ allows %u", (unsigned long long)size, launch.kernel->max_threads);
  else if (!grid[0] || !grid[1] || !grid[2] || grid[0] > 0x7fffffffu || grid[1] > 65535 || grid[2] > 65535)
    fail_launch("a grid of %u x %u x %u blocks: 1 to 2^31-1 x 65535 x 65535 are possible", grid[0], grid[1], grid[2]);
  else if (launch.dynamic_shared_bytes > sizeof cuda_dynamic_shared)
    fail_launch("%u bytes of dynamic shared memory: a GPU has at most %zu", launch.dynamic_shared_bytes, sizeof cuda_dynamic_shared);
  else if (!fiber_stacks())
    fail_launch("cannot map the fibers' stacks: their fixed address is taken in this process");
  if (failed()) return false;
  n_threads = (unsigned)size;
  for (unsigned i = 0; i < n_threads; ++i) {
    Thread& thread = threads[i];
    thread.linear = i, thread.warp = i / 32, thread.lane = i % 32;
    thread.index = {i % block[0], i / block[0] % block[1], i / (block[0] * block[1])};
  }
  return true;
}

static void run_blocks() {
  const unsigned* grid = launch.grid;
  uint64_t n_blocks = (uint64_t)grid[0] * grid[1] * grid[2];
  // Random: start anywhere and go on by a stride coprime to the number of blocks, which visits each block once.
  uint64_t at = 0, step = 1;
  if (launch.order == (int)Order::descending) at = n_blocks - 1, step = n_blocks - 1;
  if (launch.order == (int)Order::random) {
    at = random_below(n_blocks);
    do step = 1 + random_below(n_blocks);
    while (std::gcd(step, n_blocks) != 1);
  }
  for (uint64_t i = 0; i < n_blocks && !failed(); ++i, at = (at + step) % n_blocks) {
    block_at = {(unsigned)(at % grid[0]), (unsigned)(at / grid[0] % grid[1]), (unsigned)(at / ((uint64_t)grid[0] * grid[1]))};
    run_block();
  }
}

}  // namespace cuda_on_cpu

// The one way in. Returns null, or a message that stays valid until the next launch.
extern "C" EXPORTED const char* cuda_on_cpu_launch(const cuda_on_cpu::Launch* request) {
  using namespace cuda_on_cpu;
  launch = *request;
  random_state = (launch.seed + 1) * 0x9E3779B97F4A7C15ull | 1;
  clear_failure();
  if (!prepare_launch()) return failure();
  begin_launch_checks();
  begin_signals();
  run_blocks();
  end_signals();
  end_launch_checks();
  return failure();
}
