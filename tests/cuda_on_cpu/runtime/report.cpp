// Messages: "<file>:<line>: <what happened>; block (x,y,z), thread (x,y,z)". Code addresses are written as
// "@[library+0xoffset]", which Python replaces by file and line (addr2line).
#include <dlfcn.h>
#include <stdarg.h>
#include <stdio.h>
#include <string>
#include "block.hpp"

namespace cuda_on_cpu {

static std::string message;

bool failed() { return !message.empty(); }
void clear_failure() { message.clear(); }
const char* failure() { return failed() ? message.c_str() : nullptr; }

Text describe(Site site) {
  Text out;
  Dl_info library;
  if (site.file) snprintf(out.text, sizeof out.text, "%s:%d", site.file, site.line);
  else if (site.pc && dladdr(site.pc, &library))
    snprintf(out.text, sizeof out.text, "@[%s+0x%zx]", library.dli_fname,
             (size_t)((const char*)site.pc - (const char*)library.dli_fbase));
  else snprintf(out.text, sizeof out.text, "unknown place");
  return out;
}

Text describe(const Thread& thread) {
  Text out;
  snprintf(out.text, sizeof out.text, "thread (%u,%u,%u)", thread.index.x, thread.index.y, thread.index.z);
  return out;
}

static std::string formatted(const char* format, va_list arguments) {
  char text[1024];
  vsnprintf(text, sizeof text, format, arguments);
  return text;
}

static void record(Site site, const Thread& thread, const std::string& what) {
  if (failed()) return;
  char block[64];
  snprintf(block, sizeof block, "; block (%u,%u,%u), ", block_at.x, block_at.y, block_at.z);
  message = std::string(describe(site).text) + ": " + what + block + describe(thread).text;
}

void fail(Site site, const char* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  record(site, *current, formatted(format, arguments));
  va_end(arguments);
  abandon_thread();
}

void fail_waiting(const Thread& thread, const char* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  record(thread.site, thread, formatted(format, arguments));
  va_end(arguments);
  abandon_thread();
}

void fail_launch(const char* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  if (!failed()) message = formatted(format, arguments);
  va_end(arguments);
}

}  // namespace cuda_on_cpu
