// SPDX-License-Identifier: BSD-3-Clause
#include "rendezvous/io/file_descriptor.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>

namespace cpprun {

namespace {

// Instrumented code would look for the shadow of a stack that is not the thread's.
#define CPPRUN_BARE __attribute__((no_sanitize("address", "undefined", "thread")))

// The kernel's layout of a directory entry: a number, an offset, a length, a kind, a name.
constexpr int length_at = 16;
constexpr int name_at = 19;
// Without a /proc: more than the limit of any process.
constexpr int descriptors_max = 1 << 20;

CPPRUN_BARE int number_in(const char* name) {
  int number = 0;
  for (; *name >= '0' && *name <= '9'; ++name) number = number * 10 + (*name - '0');
  return *name == '\0' ? number : -1;
}

CPPRUN_BARE bool close_listed(int first) {
  const int directory = ::open("/proc/self/fd", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (directory < 0) return false;
  alignas(8) char entries[2048];
  long got = ::syscall(SYS_getdents64, directory, entries, sizeof entries);
  for (; got > 0; got = ::syscall(SYS_getdents64, directory, entries, sizeof entries)) {
    for (long at = 0; at < got;) {
      const int descriptor = number_in(entries + at + name_at);
      if (descriptor >= first && descriptor != directory) ::close(descriptor);
      at += *reinterpret_cast<unsigned short*>(entries + at + length_at);
    }
  }
  ::close(directory);
  return got == 0;
}

}  // namespace

CPPRUN_BARE void close_from(int first) {
  if (::syscall(SYS_close_range, static_cast<unsigned>(first), ~0U, 0U) == 0) return;
  if (close_listed(first)) return;
  rlimit limit{};
  ::getrlimit(RLIMIT_NOFILE, &limit);
  for (int each = first; each < descriptors_max && static_cast<rlim_t>(each) < limit.rlim_cur;
       ++each)
    ::close(each);
}

void close_from_but(int first, std::vector<int> kept) {
  std::sort(kept.begin(), kept.end());
  for (const int each : kept) {
    for (; first < each; ++first) ::close(first);
    first = std::max(first, each + 1);
  }
  close_from(first);
}

}  // namespace cpprun
