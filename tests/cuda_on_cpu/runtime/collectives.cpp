// Barriers and warp collectives: the last thread to arrive checks that the meeting is a proper one, works out every
// participant's answer, and makes the others ready again.
//
// The rules are CUDA's at their strictest. A barrier must be reached by every thread of the block, at one place in the
// source; a collective by exactly the lanes that the mask names, all with the same mask, at one place. A GPU forgives
// some breaches (threads that have returned, for one); none of our kernels relies on that.
#include "block.hpp"
#include "checks.hpp"

namespace cuda_on_cpu {

static unsigned n_at_barrier, n_true;
static unsigned waiting[max_fibers / 32], left[max_fibers / 32];  // lanes of each warp

void begin_collectives() {
  n_at_barrier = n_true = 0;
  for (unsigned warp = 0; warp * 32 < n_threads; ++warp) {
    unsigned lanes = n_threads - warp * 32;
    waiting[warp] = 0;
    left[warp] = lanes < 32 ? ~0u << lanes : 0;  // lanes that the block does not have
  }
}

template <class Visit> static void for_each(unsigned count, Visit visit) {
  bool down = launch.order == (int)Order::descending;
  for (unsigned i = 0; i < count; ++i) visit(down ? count - 1 - i : i);
}

// -- the whole block -------------------------------------------------------------------------------------------

static void fail_if_threads_left() {
  if (n_running == n_threads) return;
  for (unsigned i = 0; i < n_threads; ++i) {
    if (threads[i].state != State::at_barrier) continue;
    fail_waiting(threads[i], "divergent barrier: %u of %u threads reach this __syncthreads, the others have returned",
         n_running, n_threads);
  }
}

static void complete_barrier() {
  const Thread& first = *current;
  for (unsigned i = 0; i < n_threads; ++i)
    if (threads[i].state == State::at_barrier && !(threads[i].site == first.site))
      fail(first.site, "divergent barrier: this thread waits in __syncthreads here, %s at %s", describe(threads[i]).text,
           describe(threads[i].site).text);
  fail_if_threads_left();
  unsigned count = n_true;
  n_at_barrier = n_true = 0;
  barrier_passed();
  for_each(n_threads, [&](unsigned i) {
    Thread& thread = threads[i];
    switch ((Barrier)thread.argument) {
      case Barrier::plain: thread.result = 0; break;
      case Barrier::count: thread.result = count; break;
      case Barrier::all: thread.result = count == n_threads; break;
      case Barrier::any: thread.result = count != 0; break;
    }
    make_ready(thread);
  });
}

EXPORTED int barrier(Barrier kind, int predicate, const char* file, int line) {
  Thread& me = *current;
  me.state = State::at_barrier;
  me.site = {file, line, nullptr};
  me.argument = (int)kind;
  n_true += predicate != 0;
  if (++n_at_barrier == n_running) complete_barrier();
  wait_for_others();
  return (int)me.result;
}

// -- one warp --------------------------------------------------------------------------------------------------

const char* name_of(Warp kind) {
  static const char* const names[] = {
      "__syncwarp", "__shfl_sync", "__shfl_up_sync", "__shfl_down_sync", "__shfl_xor_sync", "__ballot_sync", "__all_sync",
      "__any_sync", "__match_any_sync", "__match_all_sync", "__reduce_add_sync", "__reduce_min_sync", "__reduce_max_sync",
      "__reduce_min_sync", "__reduce_max_sync", "__reduce_and_sync", "__reduce_or_sync", "__reduce_xor_sync"};
  return names[(int)kind];
}

static uint64_t combine(Warp kind, uint64_t a, uint64_t b) {
  switch (kind) {
    case Warp::add: return (uint32_t)(a + b);
    case Warp::min_signed: return (int32_t)a < (int32_t)b ? a : b;
    case Warp::max_signed: return (int32_t)a > (int32_t)b ? a : b;
    case Warp::min_unsigned: return a < b ? a : b;
    case Warp::max_unsigned: return a > b ? a : b;
    case Warp::bit_and: return a & b;
    case Warp::bit_or: return a | b;
    default: return a ^ b;
  }
}

// The lane that `lane` reads in a shuffle: segments of `width` lanes, and its own value where the source lies outside.
static int source_lane(const Thread& thread) {
  int lane = (int)thread.lane, width = thread.width, low = lane & ~(width - 1);
  switch (thread.kind) {
    case Warp::shuffle: return low + (thread.argument & (width - 1));
    case Warp::shuffle_up: return lane - low < thread.argument ? lane : lane - thread.argument;
    case Warp::shuffle_down: return lane - low + thread.argument >= width ? lane : lane + thread.argument;
    default: {
      int source = lane ^ thread.argument;
      return source >= low + width ? lane : source;
    }
  }
}

static void check_meeting(const Thread* lanes, const Thread& me, unsigned mask) {
  for (unsigned lane = 0; lane < 32; ++lane) {
    if (!(mask >> lane & 1)) continue;
    const Thread& other = lanes[lane];
    if (other.mask != mask)
      fail_waiting(me, "%s names lanes %08x, but lane %u waits in %s at %s with mask %08x", name_of(me.kind), mask, lane,
                    name_of(other.kind), describe(other.site).text, other.mask);
    if (other.kind != me.kind || !(other.site == me.site))
      fail_waiting(other, "lanes of one warp meet in different collectives: lane %u in %s here, lane %u in %s at %s", lane,
           name_of(other.kind), me.lane, name_of(me.kind), describe(me.site).text);
  }
}

static uint64_t answer(const Thread* lanes, const Thread& me) {
  unsigned mask = me.mask, matching = 0, is_true = 0;
  uint64_t total = 0;
  for (unsigned lane = 0, first = 1; lane < 32; ++lane) {
    if (!(mask >> lane & 1)) continue;
    uint64_t value = lanes[lane].value;
    matching |= (unsigned)(value == me.value) << lane;
    is_true |= (unsigned)(value != 0) << lane;
    total = first ? value : combine(me.kind, total, value);
    first = 0;
  }
  switch (me.kind) {
    case Warp::sync: return 0;
    case Warp::ballot: return is_true;
    case Warp::any: return is_true != 0;
    case Warp::all: return is_true == mask;
    case Warp::match_any: return matching;
    case Warp::match_all: return matching == mask ? mask : 0;
    case Warp::shuffle: case Warp::shuffle_up: case Warp::shuffle_down: case Warp::shuffle_xor: {
      int source = source_lane(me);
      if (!(mask >> source & 1))
        fail_waiting(me, "lane %u reads lane %d in %s, which the mask %08x does not name", me.lane, source, name_of(me.kind), mask);
      return lanes[source].value;
    }
    default: return total;
  }
}

// All lanes of `mask` wait, or have left.
static void complete_collective(unsigned warp, unsigned mask) {
  Thread* lanes = threads + warp * 32;
  unsigned here = mask & waiting[warp];
  const Thread& first = current->state == State::at_collective ? *current : lanes[__builtin_ctz(here)];
  if (here != mask)
    fail_waiting(first, "%s names lanes %08x, but lanes %08x of warp %u have returned or do not exist", name_of(first.kind), mask,
         mask & ~here, warp);
  check_meeting(lanes, first, mask);
  for (unsigned lane = 0; lane < 32; ++lane)
    if (mask >> lane & 1) lanes[lane].result = answer(lanes, lanes[lane]);
  if (first.kind == Warp::sync) warp_synchronised(warp, mask);
  waiting[warp] &= ~mask;
  for_each(32, [&](unsigned lane) {
    if (mask >> lane & 1) make_ready(lanes[lane]);
  });
}

EXPORTED unsigned long long collective(Warp kind, unsigned mask, unsigned long long value, int argument, int width,
                                       const char* file, int line) {
  Thread& me = *current;
  Site site{file, line, nullptr};
  if (!(mask >> me.lane & 1))
    fail(site, "lane %u calls %s with mask %08x, which does not name it", me.lane, name_of(kind), mask);
  if (width < 1 || width > 32 || (width & (width - 1)))
    fail(site, "%s with width %d, which is no power of two up to 32", name_of(kind), width);
  me.state = State::at_collective;
  me.site = site, me.kind = kind, me.mask = mask, me.value = value, me.argument = argument, me.width = width;
  waiting[me.warp] |= 1u << me.lane;
  if (!(mask & ~(waiting[me.warp] | left[me.warp]))) complete_collective(me.warp, mask);
  wait_for_others();
  return me.result;
}

// Which lanes run together is the hardware's affair. The one promise is that the caller is among them, and that is
// all this tells: a kernel that takes __activemask for more gets caught.
EXPORTED unsigned active_lanes() { return 1u << current->lane; }

void thread_left(Thread& thread) {
  left[thread.warp] |= 1u << thread.lane;
  if (n_at_barrier && n_at_barrier == n_running) fail_if_threads_left();
  for (unsigned lane = 0; lane < 32; ++lane) {
    if (!(waiting[thread.warp] >> lane & 1)) continue;
    unsigned mask = threads[thread.warp * 32 + lane].mask;
    if (!(mask & ~(waiting[thread.warp] | left[thread.warp]))) complete_collective(thread.warp, mask);
  }
}

}  // namespace cuda_on_cpu
