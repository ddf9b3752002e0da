// Memory traffic as a GPU would see it. The loads that the lanes of a warp make by one instruction are one request;
// lanes are matched by how often each has executed that instruction. Of a request count:
//   global memory: the 32-byte sectors it touches, and the fewest that could hold its bytes;
//   shared memory: the passes it takes. 32 banks, 4 bytes wide, serve one word each a pass; 8-byte accesses go by half
//   warps and 16-byte ones by quarters. The fewest is one pass for each such part.
#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <unordered_map>
#include <vector>
#include "checks.hpp"

namespace cuda_on_cpu {

struct Request {
  std::map<unsigned, uintptr_t> addresses;  // of each lane
  size_t bytes;
  Space space;
  Access access;
};
struct Total {
  uint64_t requests = 0, cost = 0, least = 0;  // sectors or passes
};

static std::unordered_map<uint64_t, unsigned> executed;                          // (code address, thread) -> times
static std::map<std::tuple<const void*, unsigned, unsigned>, Request> requests;  // code address, warp, which time
static std::map<std::tuple<const void*, Space, Access, size_t>, Total> totals;

void count_traffic(const char* p, size_t bytes, Access access, Space space, const void* pc) {
  unsigned time = executed[(uint64_t)pc * max_fibers + current->linear]++;
  Request& request = requests[{pc, current->warp, time}];
  request.bytes = bytes, request.space = space, request.access = access;
  request.addresses[current->lane] = (uintptr_t)p;
}

static void count_sectors(const Request& request, Total& total) {
  std::set<uintptr_t> sectors, bytes;
  for (auto [lane, a] : request.addresses)
    for (size_t i = 0; i < request.bytes; ++i) bytes.insert(a + i), sectors.insert((a + i) / 32);
  total.cost += sectors.size();
  total.least += (bytes.size() + 31) / 32;
}

static void count_passes(const Request& request, Total& total) {
  unsigned lanes_a_part = 128 / (unsigned)std::clamp<size_t>(request.bytes, 4, 128);
  std::map<unsigned, std::map<uintptr_t, std::set<uintptr_t>>> words;  // part of the warp -> bank -> words
  for (auto [lane, a] : request.addresses)
    for (size_t i = 0; i < request.bytes; ++i) words[lane / lanes_a_part][(a + i) / 4 % 32].insert((a + i) / 4);
  for (auto& [part, banks] : words) {
    size_t passes = 0;
    for (auto& [bank, wanted] : banks) passes = std::max(passes, wanted.size());
    total.cost += passes;
    total.least += 1;
  }
}

void flush_traffic() {
  for (auto& [key, request] : requests) {
    Total& total = totals[{std::get<0>(key), request.space, request.access, request.bytes}];
    ++total.requests;
    if (request.space == Space::global) count_sectors(request, total);
    else count_passes(request, total);
  }
  requests.clear();
  executed.clear();
}

}  // namespace cuda_on_cpu

// What has been counted since the last call, a line each: place, space, access, bytes, requests, cost, least.
extern "C" EXPORTED const char* cuda_on_cpu_take_traffic() {
  using namespace cuda_on_cpu;
  static std::string text;
  text.clear();
  for (auto& [key, total] : totals) {
    auto [pc, space, access, bytes] = key;
    static const char* const accesses[] = {"read", "write", "atomic"};
    text += std::string(describe(Site{nullptr, 0, pc}).text) + "\t" + (space == Space::global ? "global" : "shared") + "\t" +
            accesses[(int)access] + "\t" + std::to_string(bytes) + "\t" + std::to_string(total.requests) + "\t" +
            std::to_string(total.cost) + "\t" + std::to_string(total.least) + "\n";
  }
  totals.clear();
  return text.c_str();
}
