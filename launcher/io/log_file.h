#pragma once
// A file of a worker's words, written to until its disk is full, and closed like everything else.

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
  bool open(const std::string& path, bool emptied);
  void close() { file_.reset(); }
  explicit operator bool() const { return bool(file_); }

  // The first time something cannot be written, `complain` is told the sentence.
  using Complain = std::function<void(const std::string&)>;
  void write(std::string_view bytes, const Complain& complain);

 private:
  FileDescriptor file_;
  std::string path_;
  bool complained_ = false;
};

}  // namespace cpprun::io
