// SPDX-License-Identifier: BSD-3-Clause
#include "worker/env/io/error_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>

#include "proto/text.h"

namespace cpprun {
namespace {

bool write_all(int file, const char* bytes, std::size_t size) noexcept {
  while (size > 0) {
    const ssize_t written = ::write(file, bytes, size);
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return false;
    bytes += written;
    size -= static_cast<std::size_t>(written);
  }
  return true;
}

// Returns 0 or an errno. link() publishes the whole file and fails if the name exists. Uses rename
// if the file system has no hard links.
int put_in_place(const char* path, const char* temporary_path) noexcept {
  if (::link(temporary_path, path) == 0) {
    ::unlink(temporary_path);
    return 0;
  }
  const int refused = errno;
  const bool no_links = refused == EPERM || refused == EOPNOTSUPP || refused == ENOSYS;
  if (no_links && ::access(path, F_OK) != 0) {
    return ::rename(temporary_path, path) == 0 ? 0 : errno;
  }
  ::unlink(temporary_path);
  return no_links ? EEXIST : refused;
}

int create(const char* path, const char* temporary_path, const char* bytes,
           std::size_t size) noexcept {
  const int file = ::open(temporary_path, O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0644);
  if (file < 0) return errno;
  const bool whole = write_all(file, bytes, size);
  const int write_error = errno;
  ::close(file);
  if (whole) return put_in_place(path, temporary_path);
  ::unlink(temporary_path);
  return write_error;
}

}  // namespace

Result<ErrorFile> write_error_file(const std::string& path, std::string_view json) {
  const std::string temporary_path = fmt::format("{}.{}.tmp", path, ::getpid());
  const int error = create(path.c_str(), temporary_path.c_str(), json.data(), json.size());
  if (error == 0) return ErrorFile::written;
  if (error == EEXIST) return ErrorFile::already_there;
  return failure(fmt::format("cannot write error file \"{}\": {}", path, errno_text(error)));
}

void write_error_file_in_signal(const char* path, const char* temporary_path, const char* bytes,
                                std::size_t size) noexcept {
  // A failure cannot be handled: the process is dying of a signal.
  static_cast<void>(create(path, temporary_path, bytes, size));
}

}  // namespace cpprun
