// SPDX-License-Identifier: BSD-3-Clause
#include "rendezvous/status/io/own_host_names.h"

#include <fcntl.h>
#include <limits.h>
#include <unistd.h>

#include <array>
#include <utility>

#include "rendezvous/io/file_descriptor.h"

namespace cpprun {

namespace {

constexpr std::size_t text_bytes_max = 256 * 1024;  // of /etc/hosts, that is looked at

// Empty where there is no such file.
std::string text_of(const char* path) {
  const FileDescriptor file(::open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  std::string text;
  std::array<char, 4096> buffer;
  while (file && text.size() < text_bytes_max) {
    const ssize_t got = ::read(file.get(), buffer.data(), buffer.size());
    if (got <= 0) break;
    text.append(buffer.data(), static_cast<std::size_t>(got));
  }
  return text;
}

}  // namespace

HostNames own_host_names(HostNames given) {
  char name[HOST_NAME_MAX + 1] = {};
  // A machine that is called nothing has its addresses.
  (void)::gethostname(name, HOST_NAME_MAX);
  return host_names(
      std::move(given),
      {.host = name, .hosts = text_of("/etc/hosts"), .resolv = text_of("/etc/resolv.conf")});
}

}  // namespace cpprun
