// The memory a kernel may touch: the buffers its arguments point into, its block's shared memory, its own stack, and
// its module's constants. Anything else is a fault, even where this process happens to have memory.
#include "checks.hpp"
#include <link.h>
#include <stdio.h>
#include <algorithm>
#include <vector>

extern "C" char cuda_dynamic_shared[];

namespace cuda_on_cpu {

constexpr size_t red_zone = 256;  // module.py leaves as much around each buffer

// g++ announces each static variable of an address-sanitized module, with the red zone it has put behind it.
struct Variable {
  uintptr_t begin, bytes, bytes_with_red_zone;
  const char *name, *module_name;
  uintptr_t has_dynamic_init;
  const void* location;
  uintptr_t odr_indicator;
};
static std::vector<Variable> variables;
static std::vector<Range> ranges;
static char *module_begin, *module_end;

Range* ranges_begin() { return ranges.data(); }
Range* ranges_end() { return ranges.data() + ranges.size(); }
bool on_own_stack(const void* p) { return (uintptr_t)p - (uintptr_t)fiber_stack(current->linear) < stack_bytes; }
bool in_module(const void* p) { return p >= module_begin && p < module_end; }
static bool in_static_shared(const void* p) { return p >= launch.module->shared_begin && p < launch.module->shared_end; }

static void find_module() {
  module_begin = module_end = nullptr;
  dl_iterate_phdr([](dl_phdr_info* info, size_t, void*) {
    uintptr_t low = ~(uintptr_t)0, high = 0, wanted = (uintptr_t)launch.module;
    for (int i = 0; i < info->dlpi_phnum; ++i) {
      if (info->dlpi_phdr[i].p_type != PT_LOAD) continue;
      uintptr_t begin = info->dlpi_addr + info->dlpi_phdr[i].p_vaddr;
      low = std::min(low, begin);
      high = std::max(high, begin + info->dlpi_phdr[i].p_memsz);
    }
    if (wanted < low || wanted >= high) return 0;
    module_begin = (char*)low, module_end = (char*)high;
    return 1;
  }, nullptr);
}

void list_ranges() {
  ranges.clear();
  find_module();
  for (int i = 0; i < launch.n_buffers; ++i) {
    const Buffer& b = launch.buffers[i];
    ranges.push_back({b.begin, b.begin + b.bytes, b.begin - red_zone, b.begin + b.bytes + red_zone, Space::global, b.argument,
                      nullptr, nullptr});
  }
  char* dynamic_end = cuda_dynamic_shared + launch.dynamic_shared_bytes;
  ranges.push_back({cuda_dynamic_shared, dynamic_end, cuda_dynamic_shared, dynamic_end + red_zone, Space::shared, -1,
                    "dynamic shared memory", nullptr});
  bool known = false;
  for (const Variable& v : variables) {
    char* begin = (char*)v.begin;
    if (!in_module(begin)) continue;
    bool shared = in_static_shared(begin);
    known |= shared;
    ranges.push_back({begin, begin + v.bytes, begin, begin + v.bytes_with_red_zone, shared ? Space::shared : Space::module, -1,
                      v.name, nullptr});
  }
  if (!known)
    ranges.push_back({launch.module->shared_begin, launch.module->shared_end, launch.module->shared_begin,
                      launch.module->shared_end, Space::shared, -1, "shared memory", nullptr});
}

static const char* name_of(const Range& range) {
  static char text[64];
  if (range.name) return range.name;
  snprintf(text, sizeof text, "the buffer of argument %d", range.argument);
  return text;
}

static const char* name_of(Access access) {
  return access == Access::read ? "read" : access == Access::write ? "write" : "atomic update";
}

[[noreturn]] static void out_of_bounds(const Range& range, const char* p, size_t bytes, Access access, const void* pc) {
  size_t size = range.end - range.begin;
  if (p < range.begin)
    fail({nullptr, 0, pc}, "out of bounds: %s of %zu bytes, %zu bytes before the start of %s (%zu bytes)", name_of(access), bytes,
         (size_t)(range.begin - p), name_of(range), size);
  fail({nullptr, 0, pc}, "out of bounds: %s of %zu bytes at offset %zu of %s (%zu bytes)", name_of(access), bytes,
       (size_t)(p - range.begin), name_of(range), size);
}

Range& require_range(const void* address, size_t bytes, Access access, const void* pc) {
  const char* p = (const char*)address;
  static Range image;
  for (Range& range : ranges)
    if (p >= range.begin && p + bytes <= range.end) return range;
  for (Range& range : ranges)
    if (p >= range.zone_begin && p < range.zone_end) out_of_bounds(range, p, bytes, access, pc);
  if (in_module(p) && !in_static_shared(p)) {
    image = {module_begin, module_end, module_begin, module_end, Space::module, -1, nullptr, nullptr};
    return image;
  }
  fail({nullptr, 0, pc}, "out of bounds: %s of %zu bytes at %p, which lies in none of the kernel's buffers", name_of(access),
       bytes, address);
}

}  // namespace cuda_on_cpu

extern "C" EXPORTED void __asan_register_globals(const cuda_on_cpu::Variable* first, size_t n) {
  cuda_on_cpu::variables.insert(cuda_on_cpu::variables.end(), first, first + n);
}
extern "C" EXPORTED void __asan_unregister_globals(const cuda_on_cpu::Variable* first, size_t n) {
  auto gone = [&](const cuda_on_cpu::Variable& v) {
    return std::any_of(first, first + n, [&](const cuda_on_cpu::Variable& w) { return v.begin == w.begin; });
  };
  std::erase_if(cuda_on_cpu::variables, gone);
}
