// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// A file that is there whole or not at all, whatever happens while it is written: the bytes go to a
// temporary file beside it, reach the disk, and only then take the name; then the folder's entry
// reaches the disk as well.

#include <cstdint>
#include <string>
#include <string_view>

#include "proto/result.h"

namespace cpprun {

class DurableFile {
 public:
  // Creates the temporary file, `path` + `.tmp-` + six letters.
  static Result<DurableFile> create(const std::string& path);
  // Without commit() nothing remains.
  ~DurableFile();
  DurableFile(DurableFile&& other) noexcept;
  DurableFile& operator=(DurableFile&&) = delete;

  Result<void> append(std::string_view bytes);
  // Overwrites what was appended before.
  Result<void> replace(std::uint64_t offset, std::string_view bytes);
  // Replaces a file that has the name already. When it returns, a loss of power no longer matters.
  Result<void> commit();

 private:
  DurableFile(std::string path, std::string temporary_path, int file);
  Result<void> write_at(std::uint64_t offset, std::string_view bytes);
  tl::unexpected<Error> cannot(std::string_view what) const;

  std::string path_;
  std::string temporary_path_;  // empty once there is nothing to remove
  int file_ = -1;
  std::uint64_t size_ = 0;
};

}  // namespace cpprun
