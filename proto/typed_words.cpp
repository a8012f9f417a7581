// SPDX-License-Identifier: BSD-3-Clause
#include "proto/typed_words.h"

#include <algorithm>
#include <cctype>
#include <cstddef>

#include "proto/text.h"

namespace cpprun {

std::optional<std::uint64_t> byte_size(std::string_view text) {
  constexpr std::string_view letters = "kmgtpe";
  constexpr int bits_per_unit = 10;
  text = trimmed(text);
  const auto end = std::min(text.find_first_not_of("0123456789"), text.size());
  const auto number = exact_number<std::uint64_t>(text.substr(0, end));
  if (!number) return std::nullopt;
  const auto unit = trimmed(text.substr(end));
  if (unit.empty() || is_alike(unit, "b")) return number;
  const auto power = letters.find(static_cast<char>(std::tolower(unit.front())));
  const auto rest = unit.substr(1);
  const bool is_unit = rest.empty() || is_alike(rest, "b") || is_alike(rest, "ib");
  if (power == std::string_view::npos || !is_unit) return std::nullopt;
  const int shift = bits_per_unit * (static_cast<int>(power) + 1);
  const std::uint64_t bytes = *number << shift;
  return bytes >> shift == *number ? std::optional(bytes) : std::nullopt;
}

namespace {

char plain_byte(char byte) {
  return byte == '_' ? '-' : static_cast<char>(std::tolower(static_cast<unsigned char>(byte)));
}

// How many letters have to be changed, added, left out or swapped with their neighbour.
std::size_t edits_between(std::string_view left, std::string_view right) {
  std::vector<std::size_t> before(right.size() + 1);
  std::vector<std::size_t> last(right.size() + 1);
  std::vector<std::size_t> row(right.size() + 1);
  for (std::size_t at = 0; at <= right.size(); ++at) last[at] = at;
  for (std::size_t i = 1; i <= left.size(); ++i) {
    row[0] = i;
    for (std::size_t j = 1; j <= right.size(); ++j) {
      const bool is_same = plain_byte(left[i - 1]) == plain_byte(right[j - 1]);
      row[j] = std::min({last[j] + 1, row[j - 1] + 1, last[j - 1] + (is_same ? 0 : 1)});
      const bool is_swapped = i > 1 && j > 1 &&
                              plain_byte(left[i - 1]) == plain_byte(right[j - 2]) &&
                              plain_byte(left[i - 2]) == plain_byte(right[j - 1]);
      if (is_swapped) row[j] = std::min(row[j], before[j - 2] + 1);
    }
    before.swap(last);
    last.swap(row);
  }
  return last[right.size()];
}

}  // namespace

const std::string* nearest(std::string_view typed, const std::vector<std::string>& names) {
  constexpr std::size_t typed_bytes_max = 64;  // longer than any name
  if (typed.size() > typed_bytes_max) return nullptr;
  const std::string* found = nullptr;
  std::size_t least = typed.size() / 3 + 1;  // as many may differ
  if (typed.starts_with("--")) least = (typed.size() - 2) / 3 + 1;
  for (const auto& name : names) {
    const auto edits = edits_between(typed, name);
    if (edits > least || (found != nullptr && edits == least)) continue;
    found = &name;
    least = edits;
  }
  return found;
}

}  // namespace cpprun
