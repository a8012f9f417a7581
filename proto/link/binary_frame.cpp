// SPDX-License-Identifier: BSD-3-Clause
#include "proto/link/binary_frame.h"

#include <fmt/format.h>

#include <concepts>
#include <cstring>

#include "proto/link/bounds.h"

namespace cpprun::link {

namespace {

using Kind = StreamRecord::Kind;

constexpr std::size_t length_bytes = 4;
constexpr std::size_t head_bytes = length_bytes + 1 + 4;  // length, mark, round

// Little-endian, like all supported machines and the store's protocol.
template <std::unsigned_integral Number>
void put(std::string& into, Number number) {
  char bytes[sizeof number];
  std::memcpy(bytes, &number, sizeof number);
  into.append(bytes, sizeof number);
}

template <std::unsigned_integral Number>
bool take(std::string_view& from, Number& number) {
  if (from.size() < sizeof number) return false;
  std::memcpy(&number, from.data(), sizeof number);
  from.remove_prefix(sizeof number);
  return true;
}

bool has_place(Kind kind) {
  return kind == Kind::bytes || kind == Kind::taken || kind == Kind::closed;
}

tl::unexpected<Error> torn() {
  return failure("a link frame has a truncated stream record");
}

}  // namespace

Result<std::optional<std::string_view>> first_frame(std::string_view bytes) {
  std::uint32_t length = 0;
  std::string_view rest = bytes;
  if (!take(rest, length)) return std::nullopt;
  if (length > bounds::link_frame_bytes_max) {
    return failure(fmt::format("a link frame has {} bytes; the maximum is {}", length,
                               bounds::link_frame_bytes_max));
  }
  if (rest.size() < length) return std::nullopt;
  return rest.substr(0, length);
}

StreamFrameWriter::StreamFrameWriter(RoundNumber round) {
  put(frame_, std::uint32_t{0});
  frame_.push_back(stream_mark);
  put(frame_, round.value);
}

void StreamFrameWriter::add(const StreamRecord& record) {
  frame_.push_back(static_cast<char>(record.kind));
  put(frame_, record.stream.value);
  if (has_place(record.kind)) put(frame_, record.place);
  if (record.kind != Kind::bytes) return;
  put(frame_, static_cast<std::uint32_t>(record.bytes.size()));
  frame_.append(record.bytes);
}

std::size_t StreamFrameWriter::room() const {
  const std::size_t used = frame_.size() - length_bytes + stream_record_head;
  return used < bounds::link_frame_bytes_max ? bounds::link_frame_bytes_max - used : 0;
}

bool StreamFrameWriter::empty() const {
  return frame_.size() == head_bytes;
}

std::string StreamFrameWriter::finish() {
  const auto length = static_cast<std::uint32_t>(frame_.size() - length_bytes);
  std::memcpy(frame_.data(), &length, sizeof length);
  return std::move(frame_);
}

StreamFrameReader::StreamFrameReader(std::string_view frame) : rest_(frame) {}

Result<RoundNumber> StreamFrameReader::round() {
  RoundNumber round;
  if (!carries_streams(rest_)) return failure("a link frame has no streams");
  rest_.remove_prefix(1);
  if (!take(rest_, round.value)) return torn();
  return round;
}

Result<std::optional<StreamRecord>> StreamFrameReader::next() {
  if (rest_.empty()) return std::nullopt;
  std::uint8_t kind = 0;
  StreamRecord record;
  if (!take(rest_, kind) || !take(rest_, record.stream.value)) return torn();
  if (kind < static_cast<std::uint8_t>(Kind::open) ||
      kind > static_cast<std::uint8_t>(Kind::unknown)) {
    return failure(fmt::format("a link frame has a record of the unknown kind {}", kind));
  }
  record.kind = static_cast<Kind>(kind);
  if (has_place(record.kind) && !take(rest_, record.place)) return torn();
  if (record.kind != Kind::bytes) return record;
  std::uint32_t length = 0;
  if (!take(rest_, length) || rest_.size() < length) return torn();
  record.bytes = rest_.substr(0, length);
  rest_.remove_prefix(length);
  return record;
}

namespace {

using StandbyKind = StandbyRecord::Kind;

constexpr std::size_t standby_head_bytes = 1 + 1 + 8 + 4 + 2;  // mark, kind, number, round, length

// Little-endian, like all supported machines.
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
    return failure("a frame is not a replication frame");
  }
  StandbyRecord record;
  frame.remove_prefix(1);
  const auto kind = take_number<std::uint8_t>(frame);
  if (kind < static_cast<std::uint8_t>(StandbyKind::part) ||
      kind > static_cast<std::uint8_t>(StandbyKind::renew)) {
    return failure(fmt::format("a replication frame has the unknown kind {}", kind));
  }
  record.kind = static_cast<StandbyKind>(kind);
  record.number = take_number<std::uint64_t>(frame);
  record.round.value = take_number<std::uint32_t>(frame);
  const auto length = take_number<std::uint16_t>(frame);
  if (frame.size() < length) return failure("a replication frame is truncated");
  record.job = frame.substr(0, length);
  record.bytes = frame.substr(length);
  return record;
}

}  // namespace cpprun::link
