// Signal handlers for the time of a launch. A handler that finds a kernel's fiber running leaves it for good, as any
// other fault does; the handler runs on a stack of its own, since the fiber's may be what overflowed.
#include "signals.hpp"
#include <errno.h>
#include <signal.h>
#include <sys/syscall.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>
#include "checks.hpp"

namespace cuda_on_cpu {

static const int faults[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL};
static struct sigaction saved[4], saved_alarm;
static stack_t saved_stack;
static timer_t timer;
static bool has_timer;
static volatile sig_atomic_t timed_out;
static char handler_stack[64 << 10];

bool out_of_time() { return timed_out; }

void fail_out_of_time(const void* pc) {
  fail({nullptr, 0, pc}, "still running after %g seconds: an endless loop, or a wait for a thread or block that cannot run "
       "before this one ends", launch.timeout_seconds);
}

static const void* interrupted_at(void* context) {
#if defined(__x86_64__)
  return (const char*)((ucontext_t*)context)->uc_mcontext.gregs[REG_RIP] + 1;  // +1: as if it were a return address
#elif defined(__aarch64__)
  return (const char*)((ucontext_t*)context)->uc_mcontext.pc + 1;
#else
  return nullptr;
#endif
}

static void on_fault(int signal, siginfo_t* info, void* context) {
  if (!current) {  // not the kernel's fault: let the process's own handling see it
    end_signals();
    return;
  }
  Site site{nullptr, 0, interrupted_at(context)};
  const char* p = (const char*)info->si_addr;
  if (signal == SIGFPE) fail(site, "integer division by zero");
  if (signal == SIGILL) fail(site, "__trap, or unreachable code reached");
  if (p >= fiber_stack(current->linear) - (64 << 10) && p < fiber_stack(current->linear))
    fail(site, "stack overflow: more than %zu bytes of local variables", stack_bytes);
  fail(site, "out of bounds: address %p is not mapped", info->si_addr);
}

static void on_alarm(int, siginfo_t*, void* context) {
  timed_out = 1;
  const void* pc = interrupted_at(context);
  if (current && in_module(pc)) fail_out_of_time(pc);  // in the runtime itself: the scheduler or the next check sees it
}

void begin_signals() {
  stack_t stack{};
  stack.ss_sp = handler_stack;
  stack.ss_size = sizeof handler_stack;
  sigaltstack(&stack, &saved_stack);
  struct sigaction action {};
  action.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER;
  action.sa_sigaction = on_fault;
  for (int i = 0; i < 4; ++i) sigaction(faults[i], &action, &saved[i]);
  action.sa_sigaction = on_alarm;
  sigaction(SIGRTMIN, &action, &saved_alarm);
  timed_out = 0;
  sigevent event{};
  event.sigev_notify = SIGEV_THREAD_ID;
  event.sigev_signo = SIGRTMIN;
  event._sigev_un._tid = (pid_t)syscall(SYS_gettid);
  has_timer = timer_create(CLOCK_MONOTONIC, &event, &timer) == 0;
  itimerspec when{};
  when.it_interval.tv_nsec = 50'000'000;  // again and again: one may fall into the runtime
  when.it_value.tv_sec = (time_t)launch.timeout_seconds;
  when.it_value.tv_nsec = (long)((launch.timeout_seconds - (double)when.it_value.tv_sec) * 1e9);
  if (has_timer) timer_settime(timer, 0, &when, nullptr);
}

void end_signals() {
  if (has_timer) timer_delete(timer);
  has_timer = false;
  for (int i = 0; i < 4; ++i) sigaction(faults[i], &saved[i], nullptr);
  sigaction(SIGRTMIN, &saved_alarm, nullptr);
  sigaltstack(&saved_stack, nullptr);
}

}  // namespace cuda_on_cpu
