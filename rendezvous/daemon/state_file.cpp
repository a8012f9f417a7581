// SPDX-License-Identifier: BSD-3-Clause
#include "rendezvous/daemon/state_file.h"

#include <fmt/format.h>
#include <boost/crc.hpp>

#include <charconv>
#include <cstdint>
#include <limits>
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
      .clause = fmt::format("is of version {}, but this cpprund reads version {}", said, known),
      .is_later = true});
}

std::string state_file_of(std::string_view record) {
  return fmt::format("{}{} {} {:08x}\n{}", state_mark, state_version, record.size(),
                     checksum_of(record), record);
}

tl::expected<std::string, NoState> record_of_state_file(std::string_view file) {
  if (!file.starts_with(state_mark)) return damaged_state("invalid first line");
  file.remove_prefix(state_mark.size());
  const auto said = take_number(file, ' ');
  if (!said) return damaged_state("no version in the first line");
  if (*said != state_version) return state_of_version(*said, state_version);
  const auto size = take_number(file, ' ');
  const auto crc = size ? take_number(file, '\n', 16) : std::nullopt;
  if (!crc) return damaged_state("the first line is incomplete");
  if (file.size() != *size) {
    return damaged_state(fmt::format("{} bytes instead of {}", file.size(), *size));
  }
  if (checksum_of(file) != *crc) return damaged_state("wrong checksum");
  return std::string(file);
}

namespace {

constexpr std::string_view mark = "cpprund-log ";
constexpr std::uint64_t version = 1;
constexpr std::size_t chunk_head = 1 + 4 + 4;

void put(std::string& out, std::uint32_t number) {
  for (int shift = 0; shift < 32; shift += 8) out.push_back(static_cast<char>(number >> shift));
}

std::uint32_t number_at(std::string_view bytes) {
  std::uint32_t number = 0;
  for (std::size_t at = 4; at > 0; --at) {
    number = number << 8 | static_cast<unsigned char>(bytes[at - 1]);
  }
  return number;
}

tl::expected<LogFile, NoState> read_head(std::string_view& file) {
  if (!file.starts_with(mark)) return damaged_state("invalid first line");
  file.remove_prefix(mark.size());
  const auto said = take_number(file, ' ');
  if (!said) return damaged_state("no version in the first line");
  if (*said != version) return state_of_version(*said, version);
  const auto round = take_number(file, ' ');
  const auto synced = round ? take_number(file, ' ') : std::nullopt;
  const auto line = synced ? file.find('\n') : file.npos;
  if (line == file.npos || *synced > 1 || *round > std::numeric_limits<std::uint32_t>::max()) {
    return damaged_state("the first line is incomplete");
  }
  const std::string boot(file.substr(0, line));
  file.remove_prefix(line + 1);
  return LogFile{.round = RoundNumber{static_cast<std::uint32_t>(*round)},
                 .is_synced = *synced == 1,
                 .boot = boot};
}

}  // namespace

std::string log_file_head(RoundNumber round, bool is_synced, std::string_view boot) {
  return fmt::format("{}{} {} {} {}\n", mark, version, round.value, is_synced ? 1 : 0, boot);
}

std::string log_chunk(LogChunk kind, std::string_view bytes) {
  std::string chunk;
  chunk.reserve(chunk_head + bytes.size());
  chunk.push_back(static_cast<char>(kind));
  put(chunk, static_cast<std::uint32_t>(bytes.size()));
  put(chunk, checksum_of(std::string_view(chunk).substr(0, 1), bytes));
  chunk.append(bytes);
  return chunk;
}

tl::expected<LogFile, NoState> read_log_file(std::string_view file) {
  std::string_view rest = file;
  auto log = read_head(rest);
  if (!log) return log;
  log->size = file.size() - rest.size();
  while (!rest.empty()) {
    const auto at = static_cast<std::uint64_t>(file.size() - rest.size());
    const bool has_head = rest.size() >= chunk_head;
    const std::size_t size = has_head ? number_at(rest.substr(1)) : 0;
    if (!has_head || rest.size() - chunk_head < size) return log;
    const std::string_view bytes = rest.substr(chunk_head, size);
    const bool is_last = rest.size() == chunk_head + size;
    if (checksum_of(rest.substr(0, 1), bytes) != number_at(rest.substr(5))) {
      // After a crash, a file may have its final size without the last bytes having been written.
      if (is_last) return log;
      return damaged_state(
          fmt::format("wrong checksum at byte {}, and {} bytes follow", at, rest.size()));
    }
    log->has_end = false;
    switch (static_cast<LogChunk>(rest.front())) {
      case LogChunk::bytes:
        log->bytes.append(bytes);
        break;
      case LogChunk::whole:
        log->is_whole = true;
        break;
      case LogChunk::end:
        log->has_end = true;
        break;
      case LogChunk::again:
        break;
    }
    rest.remove_prefix(chunk_head + size);
    log->size = file.size() - rest.size();
  }
  return log;
}

bool is_member_record(std::string_view bytes) {
  return bytes.starts_with(R"({"cpprund":)");
}

}  // namespace cpprun
