// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// A descriptor with an owner: closed exactly once, moved but never copied. Needs nothing but the C
// library, so that every io folder can use it.

#include <unistd.h>

#include <utility>

namespace cpprun {

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

  // Gives the descriptor away; nobody closes it any more.
  int release() { return std::exchange(fd_, -1); }

  // Closes what is held. An error of close(2) leaves nothing to be done: the descriptor is gone.
  void reset(int fd = -1) {
    const int old = std::exchange(fd_, fd);
    if (old >= 0) ::close(old);
  }

 private:
  int fd_ = -1;
};

}  // namespace cpprun
