// What the checking modes look at, and when the scheduler tells them of progress.
//
//   memory.cpp     which memory a kernel may touch
//   address.cpp    sanitize mode: calls that -fsanitize=kernel-address plants before loads and stores
//   undefined.cpp  all modes: calls that -fsanitize=undefined (or =alignment) plants
//   race.cpp       race mode: calls that -fsanitize=thread plants
//   traffic.cpp    race mode, on request: sectors and bank conflicts of every load and store
#pragma once
#include "block.hpp"

namespace cuda_on_cpu {

void begin_launch_checks();
void end_launch_checks();
void begin_block_checks();
void end_block_checks();
void barrier_passed();                                // every thread of the block
void warp_synchronised(unsigned warp, unsigned mask);  // __syncwarp; other collectives order no memory

// -- memory.cpp ------------------------------------------------------------------------------------------------
enum class Space { global, shared, module };  // module: constants and the like
enum class Access { read, write, atomic };
struct Cell;

struct Range {
  char *begin, *end;  // what may be touched
  char* zone_begin;   // with the red zones around it
  char* zone_end;
  Space space;
  int argument;      // of a buffer; else -1
  const char* name;  // of a variable; else null
  Cell* cells;       // race.cpp: one per byte, where it keeps any
};

void list_ranges();    // at the start of a launch
Range* ranges_begin();
Range* ranges_end();
bool on_own_stack(const void* p);
bool in_module(const void* p);
Range& require_range(const void* p, size_t bytes, Access access, const void* pc);  // fails where there is none

// -- race.cpp, traffic.cpp -------------------------------------------------------------------------------------
void begin_race_launch();
void end_race_launch();
void begin_race_block();
void count_traffic(const char* p, size_t bytes, Access access, Space space, const void* pc);
void flush_traffic();

}  // namespace cuda_on_cpu
