// SPDX-License-Identifier: BSD-3-Clause
#include "proto/link/standby_frame.h"

#include <fmt/format.h>

#include <concepts>
#include <cstring>

#include "proto/bounds.h"

namespace cpprun::link {

namespace {

using StandbyKind = StandbyRecord::Kind;

constexpr std::size_t standby_head_bytes = 1 + 1 + 8 + 4 + 2;  // mark, kind, number, round, length

// Little-endian, as all that cpprun runs on is.
template <std::unsigned_integral Number>
void put_number(std::string& into, Number number) {
  char bytes[sizeof number];
  std::memcpy(bytes, &number, sizeof number);
  into.append(bytes, sizeof number);
}

template <std::unsigned_integral Number>
Number take_number(std::string_view& from) {
  Number number{};
  std::memcpy(&number, from.data(), sizeof number);
  from.remove_prefix(sizeof number);
  return number;
}

}  // namespace

std::size_t standby_frame_room(std::string_view job) {
  return bounds::link_frame_bytes_max - standby_head_bytes - job.size();
}

std::string standby_frame(const StandbyRecord& record) {
  std::string frame;
  const std::size_t size = standby_head_bytes + record.job.size() + record.bytes.size();
  frame.reserve(sizeof(std::uint32_t) + size);
  put_number(frame, static_cast<std::uint32_t>(size));
  frame.push_back(standby_mark);
  frame.push_back(static_cast<char>(record.kind));
  put_number(frame, record.number);
  put_number(frame, record.round.value);
  put_number(frame, static_cast<std::uint16_t>(record.job.size()));
  frame.append(record.job);
  frame.append(record.bytes);
  return frame;
}

Result<StandbyRecord> read_standby_frame(std::string_view frame) {
  if (!is_standby_frame(frame) || frame.size() < standby_head_bytes) {
    return failure("a link frame that is none of those between cppruns");
  }
  StandbyRecord record;
  frame.remove_prefix(1);
  const auto kind = take_number<std::uint8_t>(frame);
  if (kind < static_cast<std::uint8_t>(StandbyKind::part) ||
      kind > static_cast<std::uint8_t>(StandbyKind::renew)) {
    return failure(fmt::format("a link frame between cppruns of unknown kind {}", kind));
  }
  record.kind = static_cast<StandbyKind>(kind);
  record.number = take_number<std::uint64_t>(frame);
  record.round.value = take_number<std::uint32_t>(frame);
  const auto length = take_number<std::uint16_t>(frame);
  if (frame.size() < length) return failure("a link frame between cppruns that is cut off");
  record.job = frame.substr(0, length);
  record.bytes = frame.substr(length);
  return record;
}

}  // namespace cpprun::link
