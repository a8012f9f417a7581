// SPDX-License-Identifier: BSD-3-Clause
#include "rendezvous/io/random_bytes.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/random.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <string>

#include "proto/text.h"
#include "rendezvous/io/file_descriptor.h"

namespace cpprun {

namespace {

constexpr const char* device = "/dev/urandom";

// Takes them from wherever `some` gives some. 0: all are there; else the errno.
template <class Some>
int fill(std::span<unsigned char> bytes, Some some) {
  while (!bytes.empty()) {
    const ssize_t got = some(bytes);
    if (got < 0 && errno == EINTR) continue;  // a signal came first
    if (got <= 0) return got < 0 ? errno : EIO;
    bytes = bytes.subspan(static_cast<std::size_t>(got));
  }
  return 0;
}

}  // namespace

Result<void> fill_randomly(std::span<unsigned char> bytes) {
  const int refused = fill(bytes, [](std::span<unsigned char> rest) {
    return ::getrandom(rest.data(), rest.size(), 0);
  });
  if (refused == 0) return {};
  const FileDescriptor file(::open(device, O_RDONLY | O_CLOEXEC));
  const int unread = !file ? errno : fill(bytes, [&file](std::span<unsigned char> rest) {
    return ::read(file.get(), rest.data(), rest.size());
  });
  if (unread == 0) return {};
  return failure(fmt::format("cannot get random numbers from the kernel (getrandom: {}; {}: {})",
                             errno_text(refused), device, errno_text(unread)));
}

void need_random(std::span<unsigned char> bytes) {
  const auto filled = fill_randomly(bytes);
  if (filled) return;
  const std::string line = "cpprun: error: " + filled.error().reason + "\n";
  (void)!::write(STDERR_FILENO, line.data(), line.size());  // best effort
  ::_exit(1);
}

std::uint64_t random_word() {
  std::array<unsigned char, sizeof(std::uint64_t)> bytes{};
  need_random(bytes);
  std::uint64_t word = 0;
  for (const unsigned char byte : bytes) word = word << 8U | byte;
  return word;
}

}  // namespace cpprun
