// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// A log file, written to until its disk is full and closed like any other. If its size is limited,
// a full file becomes <path>.1, replacing an earlier one, and a new one begins: at least that much
// is kept, and at most twice as much.

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "rendezvous/io/file_descriptor.h"

namespace cpprun::io {

class LogFile {
 public:
  LogFile() = default;  // none is kept

  // Keeps none where the path is empty; false with an errno where it cannot be had. An earlier one
  // is emptied or continued.
  bool open(const std::string& path, bool emptied, std::uint64_t bytes_max = 0);
  void close() { file_.reset(); }
  explicit operator bool() const { return bool(file_); }
  int descriptor() const { return file_.get(); }

  // The first time something cannot be written, `complain` is told the errno.
  using Complain = std::function<void(int error_number)>;
  void write(std::string_view bytes, const Complain& complain);

 private:
  bool write_all(std::string_view bytes, const Complain& complain);
  bool rotate(const Complain& complain);
  bool refused(int error_number, const Complain& complain);

  FileDescriptor file_;
  std::string path_;
  std::uint64_t bytes_ = 0;      // in it
  std::uint64_t bytes_max_ = 0;  // 0: no limit
  bool complained_ = false;
};

}  // namespace cpprun::io
