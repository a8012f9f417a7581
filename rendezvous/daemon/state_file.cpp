// SPDX-License-Identifier: BSD-3-Clause
#include "rendezvous/daemon/state_file.h"

#include <fmt/format.h>

#include <boost/crc.hpp>
#include <charconv>
#include <cstdint>
#include <optional>

namespace cpprun {

namespace {

constexpr std::string_view mark = "cpprund-state ";
constexpr std::uint64_t version = 1;

std::uint32_t checksum(std::string_view bytes) {
  boost::crc_32_type crc;
  crc.process_bytes(bytes.data(), bytes.size());
  return crc.checksum();
}

// The number before that character, both of which are taken away.
std::optional<std::uint64_t> take_number(std::string_view& text, char end, int base = 10) {
  std::uint64_t number = 0;
  const auto [rest, error] = std::from_chars(text.data(), text.data() + text.size(), number, base);
  const auto count = static_cast<std::size_t>(rest - text.data());
  if (error != std::errc{} || count == text.size() || text[count] != end) return std::nullopt;
  text.remove_prefix(count + 1);
  return number;
}

tl::unexpected<NoState> damaged(std::string clause) {
  return tl::unexpected<NoState>(NoState{.clause = "is damaged: " + std::move(clause)});
}

}  // namespace

std::string state_file_of(std::string_view record) {
  return fmt::format("{}{} {} {:08x}\n{}", mark, version, record.size(), checksum(record), record);
}

tl::expected<std::string, NoState> record_of_state_file(std::string_view file) {
  if (!file.starts_with(mark)) return damaged("its first line is not one of cpprund's");
  file.remove_prefix(mark.size());
  const auto said = take_number(file, ' ');
  if (!said) return damaged("its first line names no version");
  if (*said != version) {
    return tl::unexpected<NoState>(NoState{
        .clause =
            fmt::format("is of version {}, and this cpprund reads version {}", *said, version),
        .is_later = true});
  }
  const auto size = take_number(file, ' ');
  const auto crc = size ? take_number(file, '\n', 16) : std::nullopt;
  if (!crc) return damaged("its first line is cut off");
  if (file.size() != *size) {
    return damaged(fmt::format("{} bytes are there, and {} were written", file.size(), *size));
  }
  if (checksum(file) != *crc) return damaged("its bytes are not those that were written");
  return std::string(file);
}

}  // namespace cpprun
