// SPDX-License-Identifier: BSD-3-Clause
#include "rendezvous/daemon/state_file.h"

#include <fmt/format.h>

#include <boost/crc.hpp>
#include <charconv>
#include <cstdint>
#include <optional>

namespace cpprun {

namespace {

constexpr std::string_view state_mark = "cpprund-state ";
constexpr std::uint64_t state_version = 1;

}  // namespace

std::uint32_t checksum_of(std::string_view bytes, std::string_view more) {
  boost::crc_32_type crc;
  crc.process_bytes(bytes.data(), bytes.size());
  crc.process_bytes(more.data(), more.size());
  return crc.checksum();
}

std::optional<std::uint64_t> take_number(std::string_view& text, char end, int base) {
  std::uint64_t number = 0;
  const auto [rest, error] = std::from_chars(text.data(), text.data() + text.size(), number, base);
  const auto count = static_cast<std::size_t>(rest - text.data());
  if (error != std::errc{} || count == text.size() || text[count] != end) return std::nullopt;
  text.remove_prefix(count + 1);
  return number;
}

tl::unexpected<NoState> damaged_state(std::string clause) {
  return tl::unexpected<NoState>(NoState{.clause = "is damaged: " + std::move(clause)});
}

tl::unexpected<NoState> state_of_version(std::uint64_t said, std::uint64_t known) {
  return tl::unexpected<NoState>(NoState{
      .clause = fmt::format("is of version {}, and this cpprund reads version {}", said, known),
      .is_later = true});
}

std::string state_file_of(std::string_view record) {
  return fmt::format("{}{} {} {:08x}\n{}", state_mark, state_version, record.size(),
                     checksum_of(record), record);
}

tl::expected<std::string, NoState> record_of_state_file(std::string_view file) {
  if (!file.starts_with(state_mark)) return damaged_state("its first line is not one of cpprund's");
  file.remove_prefix(state_mark.size());
  const auto said = take_number(file, ' ');
  if (!said) return damaged_state("its first line names no version");
  if (*said != state_version) return state_of_version(*said, state_version);
  const auto size = take_number(file, ' ');
  const auto crc = size ? take_number(file, '\n', 16) : std::nullopt;
  if (!crc) return damaged_state("its first line is cut off");
  if (file.size() != *size) {
    return damaged_state(
        fmt::format("{} bytes are there, and {} were written", file.size(), *size));
  }
  if (checksum_of(file) != *crc) return damaged_state("its bytes are not those that were written");
  return std::string(file);
}

}  // namespace cpprun
