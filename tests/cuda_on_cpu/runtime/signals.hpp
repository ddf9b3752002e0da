// What would kill the process or never end: invalid addresses, division by zero, a stack overflow, an endless loop.
// While a launch runs, their signals end the launch with a message instead.
#pragma once

namespace cuda_on_cpu {
void begin_signals();
void end_signals();
bool out_of_time();
[[noreturn]] void fail_out_of_time(const void* pc);
}  // namespace cuda_on_cpu
