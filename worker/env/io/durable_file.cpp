// SPDX-License-Identifier: BSD-3-Clause
#include "worker/env/io/durable_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <utility>

#include "proto/text.h"

namespace cpprun {
namespace {

// Linux writes at most 2 GiB per call.
constexpr std::size_t write_bytes_max = std::size_t{1} << 30U;

std::string directory_of(const std::string& path) {
  const std::size_t slash = path.rfind('/');
  if (slash == std::string::npos) return ".";
  return slash == 0 ? "/" : path.substr(0, slash);
}

// Returns 0 or an errno.
int sync_directory(const std::string& directory) {
  const int open = ::open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (open < 0) return errno;
  const int error = ::fsync(open) == 0 ? 0 : errno;
  ::close(open);
  // Some file systems (FUSE, SMB) cannot sync a directory and have no alternative.
  return error == EINVAL || error == ENOTSUP ? 0 : error;
}

}  // namespace

DurableFile::DurableFile(std::string path, std::string temporary_path, int file)
    : path_(std::move(path)), temporary_path_(std::move(temporary_path)), file_(file) {}

DurableFile::DurableFile(DurableFile&& other) noexcept
    : path_(std::move(other.path_)),
      temporary_path_(std::exchange(other.temporary_path_, {})),
      file_(std::exchange(other.file_, -1)),
      size_(other.size_) {}

DurableFile::~DurableFile() {
  if (file_ >= 0) ::close(file_);
  if (!temporary_path_.empty()) ::unlink(temporary_path_.c_str());
}

tl::unexpected<Error> DurableFile::cannot(std::string_view what) const {
  return failure(fmt::format("cannot {} \"{}\": {}", what, path_, errno_text(errno)));
}

Result<DurableFile> DurableFile::create(const std::string& path) {
  std::string temporary_path = path + ".tmp-XXXXXX";
  const int file = ::mkostemp(temporary_path.data(), O_CLOEXEC);
  if (file < 0) {
    return failure(fmt::format("cannot write \"{}\": {}", path, errno_text(errno)));
  }
  DurableFile created(path, std::move(temporary_path), file);
  // mkostemp creates a private file; a checkpoint should be readable by others.
  if (::fchmod(file, 0644) != 0) return created.cannot("write");
  return created;
}

Result<void> DurableFile::write_at(std::uint64_t offset, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::pwrite(file_, bytes.data(), std::min(bytes.size(), write_bytes_max),
                                     static_cast<off_t>(offset));
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return cannot("write");
    offset += static_cast<std::uint64_t>(written);
    bytes.remove_prefix(static_cast<std::size_t>(written));
  }
  return {};
}

Result<void> DurableFile::append(std::string_view bytes) {
  auto written = write_at(size_, bytes);
  size_ += bytes.size();
  return written;
}

Result<void> DurableFile::replace(std::uint64_t offset, std::string_view bytes) {
  return write_at(offset, bytes);
}

Result<void> DurableFile::commit() {
  if (::fsync(file_) != 0) return cannot("write to disk");
  // A network file system may report a full disk only at close().
  if (::close(std::exchange(file_, -1)) != 0) return cannot("write to disk");
  if (::rename(temporary_path_.c_str(), path_.c_str()) != 0) return cannot("create");
  temporary_path_.clear();
  if (const int error = sync_directory(directory_of(path_)); error != 0) {
    errno = error;
    return cannot("sync the directory of");
  }
  return {};
}

}  // namespace cpprun
