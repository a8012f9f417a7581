// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// Server-sent events read out of bytes: those that are whole, in order.

#include <string>
#include <string_view>
#include <vector>

#include "proto/result.h"

namespace cpprun {

class EventStream {
 public:
  // So many bytes have come; what has become whole with them. Remarks are passed over.
  Result<std::vector<std::string>> hear(std::string_view bytes);
  // The id of the last one that was heard, as it was said; empty: none had one.
  const std::string& last() const { return last_; }

 private:
  void take_line(std::string_view line, std::vector<std::string>& whole);

  std::string unread_;  // of a line that is not whole
  std::string data_;    // of an event that is not whole
  bool has_data_ = false;
  std::string last_;
};

}  // namespace cpprun
