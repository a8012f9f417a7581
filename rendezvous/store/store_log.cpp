// SPDX-License-Identifier: BSD-3-Clause
#include "rendezvous/store/store_log.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <exception>
#include <limits>
#include <utility>

#include "proto/c10d/bounds.h"

namespace cpprun {

namespace {

using Kind = StoreRecord::Kind;

// The fields that a kind has, in the order in which they are written.
enum Field : unsigned {
  has_client = 1,
  has_node = 2,
  has_stream = 4,
  has_place = 8,
  has_count = 16,
  has_flags = 32,
  has_key = 64,
  has_bytes = 128,
};

constexpr unsigned fields_of(Kind kind) {
  switch (kind) {
    case Kind::opened:
      return has_client | has_node | has_stream | has_key;
    case Kind::read:
      return has_client | has_bytes;
    case Kind::decided:
      return has_client | has_count;
    case Kind::listed:
      return has_client | has_count | has_bytes;
    case Kind::renamed:
      return has_client | has_place | has_count;
    case Kind::taken:
      return has_node | has_stream | has_place;
    case Kind::closed:
    case Kind::abandoned:
      return has_client;
    case Kind::over:
      return has_node | has_stream;
    case Kind::numbered:
      return has_node | has_stream | has_key;
    case Kind::value:
    case Kind::queued:
      return has_key | has_bytes;
    case Kind::waits:
      return has_client | has_count | has_key;
    case Kind::watches:
    case Kind::owed:
      return has_client | has_key;
    case Kind::session:
      return has_client | has_flags | has_key | has_bytes;
    case Kind::stream:
      return has_node | has_stream | has_place | has_count | has_flags | has_bytes;
  }
  return 0;
}

// For an inbox, an outbox or a value: what a client may make us hold of one of them, and a frame of
// the store's protocol around it.
constexpr std::uint64_t field_bytes_max =
    std::uint64_t{2} *
    std::max<std::uint64_t>(bounds::store_request_bytes_max, bounds::store_reply_bytes_max);

void put(std::string& out, std::uint64_t number) {
  while (number >= 0x80) {
    out.push_back(static_cast<char>(0x80 | (number & 0x7f)));
    number >>= 7;
  }
  out.push_back(static_cast<char>(number));
}

void put(std::string& out, std::string_view bytes) {
  put(out, bytes.size());
  out.append(bytes);
}

// Takes fields from the front of bytes. `is_short`: they end too early; `is_wrong`: a field is
// invalid.
class Fields {
 public:
  explicit Fields(std::string_view bytes) : rest_(bytes), size_(bytes.size()) {}

  std::uint64_t number(std::uint64_t most = std::numeric_limits<std::uint64_t>::max()) {
    std::uint64_t number = 0;
    for (unsigned shift = 0; shift < 64; shift += 7) {
      if (rest_.empty()) {
        is_short = true;
        return 0;
      }
      const auto digit = static_cast<unsigned char>(rest_.front());
      rest_.remove_prefix(1);
      const auto part = static_cast<std::uint64_t>(digit & 0x7fU);
      if (shift == 63 && part > 1) break;
      number |= part << shift;
      if ((digit & 0x80U) != 0) continue;
      if (number > most) break;
      return number;
    }
    is_wrong = true;
    return 0;
  }

  std::string_view text() {
    const std::uint64_t size = number(field_bytes_max);
    if (is_wrong || is_short) return {};
    if (size > rest_.size()) {
      is_short = true;
      return {};
    }
    const std::string_view text = rest_.substr(0, size);
    rest_.remove_prefix(size);
    return text;
  }

  std::size_t used() const { return size_ - rest_.size(); }

  bool is_short = false;
  bool is_wrong = false;

 private:
  std::string_view rest_;
  std::size_t size_;
};

constexpr std::uint64_t number32_max = std::numeric_limits<std::uint32_t>::max();

void read(Fields& fields, StoreRecord& record) {
  const unsigned has = fields_of(record.kind);
  const auto number = [&](unsigned field, std::uint64_t most) -> std::uint64_t {
    const bool is_there = (has & field) != 0 && !fields.is_short && !fields.is_wrong;
    return is_there ? fields.number(most) : 0;
  };
  const auto text = [&](unsigned field) -> std::string_view {
    const bool is_there = (has & field) != 0 && !fields.is_short && !fields.is_wrong;
    return is_there ? fields.text() : std::string_view();
  };
  constexpr std::uint64_t any = std::numeric_limits<std::uint64_t>::max();
  record.client.value = number(has_client, any);
  record.node.value = static_cast<decltype(record.node.value)>(
      number(has_node, std::numeric_limits<std::int32_t>::max()));
  record.stream.value = static_cast<std::uint32_t>(number(has_stream, number32_max));
  record.place = number(has_place, any);
  record.count = number(has_count, any);
  record.flags = number(has_flags, any);
  record.key = text(has_key);
  record.bytes = text(has_bytes);
}

}  // namespace

std::string bytes_of(const PeerAddress& peer) {
  std::string bytes(reinterpret_cast<const char*>(peer.ip.data()), peer.ip.size());
  bytes.push_back(static_cast<char>(peer.port & 0xff));
  bytes.push_back(static_cast<char>(peer.port >> 8));
  return bytes;
}

std::optional<PeerAddress> peer_of(std::string_view bytes) {
  PeerAddress peer;
  if (bytes.size() != peer.ip.size() + 2) return std::nullopt;
  std::memcpy(peer.ip.data(), bytes.data(), peer.ip.size());
  const auto byte = [&](std::size_t at) { return static_cast<unsigned char>(bytes[at]); };
  peer.port = static_cast<std::uint16_t>(byte(peer.ip.size()) | (byte(peer.ip.size() + 1) << 8));
  return peer;
}

// --- writing -------------------------------------------------------------------------------------

void StoreLog::write(const StoreRecord& record) const noexcept {
  const unsigned has = fields_of(record.kind);
  const std::size_t before = bytes_.size();
  try {
    bytes_.push_back(static_cast<char>(record.kind));
    if ((has & has_client) != 0) put(bytes_, record.client.value);
    if ((has & has_node) != 0) put(bytes_, static_cast<std::uint64_t>(record.node.value));
    if ((has & has_stream) != 0) put(bytes_, record.stream.value);
    if ((has & has_place) != 0) put(bytes_, record.place);
    if ((has & has_count) != 0) put(bytes_, record.count);
    if ((has & has_flags) != 0) put(bytes_, record.flags);
    if ((has & has_key) != 0) put(bytes_, record.key);
    if ((has & has_bytes) != 0) put(bytes_, record.bytes);
    written_ += bytes_.size() - before;
  } catch (const std::exception&) {
    bytes_.resize(before);
    is_lost_ = true;
  }
}

void StoreLog::write_decisions() const noexcept {
  if (decided_ == 0) return;
  write({.kind = Kind::decided, .client = decider_, .count = std::exchange(decided_, 0)});
}

void StoreLog::add(const StoreRecord& record) noexcept {
  write_decisions();
  write(record);
}

void StoreLog::read(ConnectionId client, std::string_view bytes) noexcept {
  add({.kind = Kind::read, .client = client, .bytes = bytes});
}

void StoreLog::decided(ConnectionId client, std::size_t count) noexcept {
  if (decider_ != client) write_decisions();
  decider_ = client;
  decided_ += count;
}

void StoreLog::listed(ConnectionId client, std::size_t count, std::string_view reply) noexcept {
  add({.kind = Kind::listed, .client = client, .count = count, .bytes = reply});
}

void StoreLog::abandoned(ConnectionId client) noexcept {
  add({.kind = Kind::abandoned, .client = client});
}

void StoreLog::closed(ConnectionId client) noexcept {
  add({.kind = Kind::closed, .client = client});
}

std::string StoreLog::take() noexcept {
  write_decisions();
  return std::exchange(bytes_, {});
}

// --- reading -------------------------------------------------------------------------------------

void StoreLogReader::hear(std::string_view bytes) {
  bytes_.erase(0, std::exchange(at_, 0));
  bytes_.append(bytes);
}

Result<std::optional<StoreRecord>> StoreLogReader::next() {
  const std::string_view rest = std::string_view(bytes_).substr(at_);
  if (rest.empty()) return std::nullopt;
  StoreRecord record;
  record.kind = static_cast<Kind>(static_cast<unsigned char>(rest.front()));
  if (fields_of(record.kind) == 0) {
    return failure(
        fmt::format("a record has the unknown kind {}", static_cast<unsigned>(record.kind)));
  }
  Fields fields(rest.substr(1));
  read(fields, record);
  if (fields.is_wrong) {
    return failure(fmt::format("a record of kind {} has a number that is too large",
                               static_cast<unsigned>(record.kind)));
  }
  if (fields.is_short) return std::nullopt;
  at_ += 1 + fields.used();
  return record;
}

}  // namespace cpprun
