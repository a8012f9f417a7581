// SPDX-License-Identifier: BSD-3-Clause
#include "launcher/control/views.h"

#include <fmt/format.h>

#include <utility>

#include "proto/bounds.h"

namespace cpprun {

Result<std::vector<std::string>> EventStream::hear(std::string_view bytes) {
  std::vector<std::string> whole;
  unread_ += bytes;
  std::size_t begin = 0;
  for (auto end = unread_.find('\n'); end != std::string::npos; end = unread_.find('\n', begin)) {
    auto line = std::string_view(unread_).substr(begin, end - begin);
    if (line.ends_with('\r')) line.remove_suffix(1);
    take_line(line, whole);
    begin = end + 1;
  }
  unread_.erase(0, begin);
  if (unread_.size() + data_.size() > bounds::event_bytes_max) {
    return failure(fmt::format("an event has more than {} bytes", bounds::event_bytes_max));
  }
  return whole;
}

void EventStream::take_line(std::string_view line, std::vector<std::string>& whole) {
  if (line.empty()) {
    if (std::exchange(has_data_, false)) whole.push_back(std::exchange(data_, {}));
    return;
  }
  const auto colon = line.find(':');
  const auto name = line.substr(0, colon);
  auto value = colon == std::string_view::npos ? std::string_view() : line.substr(colon + 1);
  if (value.starts_with(' ')) value.remove_prefix(1);
  if (name == "id") {
    last_ = value;
  } else if (name == "data") {
    if (has_data_) data_ += '\n';
    data_ += value;
    has_data_ = true;
  }
}

}  // namespace cpprun
