// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// Writes a file atomically and durably. The bytes go to a temporary file in the same directory and
// are synced to disk. Then the file is renamed, and the directory is synced.

#include <cstdint>
#include <string>
#include <string_view>

#include "proto/result.h"

namespace cpprun {

class DurableFile {
 public:
  // Creates the temporary file, `path` + `.tmp-` + six letters.
  static Result<DurableFile> create(const std::string& path);
  // Without commit(), removes the temporary file.
  ~DurableFile();
  DurableFile(DurableFile&& other) noexcept;
  DurableFile& operator=(DurableFile&&) = delete;

  Result<void> append(std::string_view bytes);
  // Overwrites bytes that were appended before.
  Result<void> replace(std::uint64_t offset, std::string_view bytes);
  // Replaces an existing file of that name. After it returns, the file survives a power loss.
  Result<void> commit();

 private:
  DurableFile(std::string path, std::string temporary_path, int file);
  Result<void> write_at(std::uint64_t offset, std::string_view bytes);
  tl::unexpected<Error> cannot(std::string_view what) const;

  std::string path_;
  std::string temporary_path_;  // empty if there is nothing to remove
  int file_ = -1;
  std::uint64_t size_ = 0;
};

}  // namespace cpprun
