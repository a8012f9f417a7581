// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// Descriptors: one with an owner, writing all of a text to one, and closing all others.

#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <string_view>
#include <utility>
#include <vector>

namespace cpprun {

// A descriptor with an owner: closed exactly once, moved but never copied. Needs nothing but the C
// library, so that every io/ directory can use it.
class FileDescriptor {
 public:
  FileDescriptor() = default;
  explicit FileDescriptor(int fd) : fd_(fd) {}
  FileDescriptor(FileDescriptor&& other) noexcept : fd_(other.release()) {}
  FileDescriptor& operator=(FileDescriptor&& other) noexcept {
    reset(other.release());
    return *this;
  }
  FileDescriptor(const FileDescriptor&) = delete;
  FileDescriptor& operator=(const FileDescriptor&) = delete;
  ~FileDescriptor() { reset(); }

  int get() const { return fd_; }
  explicit operator bool() const { return fd_ >= 0; }

  // Gives the descriptor away without closing it.
  int release() { return std::exchange(fd_, -1); }

  // Closes what is held. An error of close(2) leaves nothing to be done: the descriptor is gone.
  void reset(int fd = -1) {
    const int old = std::exchange(fd_, fd);
    if (old >= 0) ::close(old);
  }

 private:
  int fd_ = -1;
};

// To a descriptor that blocks. Gives how many bytes were written; fewer than all where errno says
// why.
inline std::size_t write_all(int descriptor, std::string_view text) {
  std::size_t done = 0;
  while (done < text.size()) {
    const auto put = ::write(descriptor, text.data() + done, text.size() - done);
    if (put > 0) {
      done += static_cast<std::size_t>(put);
    } else if (put == 0 || errno != EINTR) {
      break;
    }
  }
  return done;
}

// Closing whatever a process was left with. Allocates nothing, so that a child that borrows its
// parent's memory may call it.
// Every open descriptor from `first` on; where the kernel has no call for it (before 5.9, or in a
// sandbox that refuses it), one by one.
void close_from(int first);

// As close_from, but for those in `kept`. For a child with memory of its own.
void close_from_but(int first, std::vector<int> kept);

}  // namespace cpprun
