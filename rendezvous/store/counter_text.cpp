// SPDX-License-Identifier: BSD-3-Clause
#include "rendezvous/store/counter_text.h"

#include <algorithm>
#include <charconv>

namespace cpprun {

std::optional<std::int64_t> parse_counter(std::string_view text) {
  const std::size_t start = text.find_first_not_of(" \t\n\v\f\r");
  if (start == std::string_view::npos || start > bounds::store_number_blanks_max) {
    return std::nullopt;
  }
  text.remove_prefix(start);
  if (text.starts_with('+')) {
    text.remove_prefix(1);
    if (text.starts_with('-')) return std::nullopt;
  }
  const std::size_t sign = text.starts_with('-') ? 1 : 0;
  const std::size_t end_of_digits = text.find_first_not_of("0123456789", sign);
  if (std::min(end_of_digits, text.size()) > sign + bounds::store_number_digits_max) {
    return std::nullopt;
  }
  std::int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc{}) return std::nullopt;
  return number;
}

}  // namespace cpprun
