// SPDX-License-Identifier: BSD-3-Clause
#include "launcher/fanout/message.h"

#include <array>
#include <utility>

namespace cpprun::fanout {

namespace {

constexpr std::size_t number_bytes = 4;
constexpr std::size_t head_bytes = number_bytes + 1;
constexpr unsigned bits_of_byte = 8;

class MessageWriter {
 public:
  void put(std::uint32_t number) {
    for (std::size_t at = 0; at < number_bytes; ++at) {
      bytes += static_cast<char>((number >> (at * bits_of_byte)) & 0xFFU);
    }
  }
  void put(int number) { put(static_cast<std::uint32_t>(number)); }
  void put(bool flag) { bytes += flag ? '\1' : '\0'; }
  void put(const std::string& text) {
    put(static_cast<std::uint32_t>(text.size()));
    bytes += text;
  }
  void put(const Member& member) { all(member.number, member.name, member.slots); }
  void put(const Environment& variables) {
    put(static_cast<std::uint32_t>(variables.size()));
    for (const auto& [name, value] : variables) all(name, value);
  }
  template <class T>
  void put(const std::vector<T>& list) {
    put(static_cast<std::uint32_t>(list.size()));
    for (const auto& each : list) put(each);
  }
  template <class... Values>
  void all(const Values&... values) {
    (put(values), ...);
  }

  std::string bytes;
};

class MessageReader {
 public:
  explicit MessageReader(std::string_view bytes) : bytes_(bytes) {}

  void get(std::uint32_t& number) {
    number = 0;
    const auto taken = take(number_bytes);
    for (std::size_t at = 0; at < taken.size(); ++at) {
      number |= static_cast<std::uint32_t>(static_cast<unsigned char>(taken[at]))
                << (at * bits_of_byte);
    }
  }
  void get(int& number) {
    std::uint32_t value = 0;
    get(value);
    number = static_cast<int>(value);
  }
  void get(bool& flag) {
    const auto taken = take(1);
    flag = !taken.empty() && taken.front() != '\0';
  }
  void get(std::string& text) {
    std::uint32_t size = 0;
    get(size);
    text = take(size);
  }
  void get(Member& member) { all(member.number, member.name, member.slots); }
  void get(Environment& variables) {
    for (std::uint32_t left = count(); left > 0 && good_; --left) {
      std::string name;
      std::string value;
      all(name, value);
      variables.emplace(std::move(name), std::move(value));
    }
  }
  template <class T>
  void get(std::vector<T>& list) {
    for (std::uint32_t left = count(); left > 0 && good_; --left) get(list.emplace_back());
  }
  template <class... Values>
  void all(Values&... values) {
    (get(values), ...);
  }
  // All bytes were used, and none were missing.
  bool good() const { return good_ && bytes_.empty(); }

 private:
  std::uint32_t count() {
    std::uint32_t count = 0;
    get(count);
    return count;
  }
  std::string_view take(std::size_t size) {
    if (size > bytes_.size()) good_ = false;
    const auto taken = good_ ? bytes_.substr(0, size) : std::string_view{};
    bytes_.remove_prefix(taken.size());
    return taken;
  }

  std::string_view bytes_;
  bool good_ = true;
};

// Lists the members of each message, for both encoding and decoding.
template <class Side, class T>
void members(Side& side, T& m) {
  using M = std::remove_const_t<T>;
  if constexpr (std::is_same_v<M, Terms>) {
    auto& job = m.job;
    side.all(m.members, job.flags, job.program, job.environment, job.directory, job.secrets);
    side.all(job.shell, job.nodes, job.elastic, job.conf, job.ship, job.grace_milliseconds,
             job.is_rehearsal);
  } else if constexpr (std::is_same_v<M, Begin>) {
    side.all(m.only, m.master, m.address, m.port);
  } else if constexpr (std::is_same_v<M, Stop>) {
    side.all(m.signal);
  } else if constexpr (std::is_same_v<M, Here>) {
    side.all(m.number, m.address, m.port);
  } else if constexpr (std::is_same_v<M, Gone>) {
    side.all(m.number, m.reason);
  } else if constexpr (std::is_same_v<M, Words>) {
    side.all(m.number, m.is_error, m.text);
  } else if constexpr (std::is_same_v<M, Ask>) {
    side.all(m.text);
  } else if constexpr (std::is_same_v<M, Answer>) {
    side.all(m.number, m.text);
  } else if constexpr (std::is_same_v<M, Ended>) {
    side.all(m.number, m.code, m.ran);
  }
}

template <class Variant>
std::string encode_any(const Variant& message) {
  MessageWriter body;
  std::visit([&](const auto& m) { members(body, m); }, message);
  MessageWriter whole;
  whole.put(static_cast<std::uint32_t>(body.bytes.size()));
  return whole.bytes + static_cast<char>(message.index()) + body.bytes;
}

template <class Variant, std::size_t... Kinds>
Variant blank(std::size_t kind, std::index_sequence<Kinds...>) {
  const std::array<Variant, sizeof...(Kinds)> all = {Variant(std::in_place_index<Kinds>)...};
  return all[kind];
}

template <class Variant>
Result<std::optional<Variant>> take_any(std::string& bytes) {
  constexpr auto kinds = std::variant_size_v<Variant>;
  if (bytes.size() < head_bytes) return std::optional<Variant>{};
  MessageReader head(std::string_view(bytes).substr(0, number_bytes));
  std::uint32_t size = 0;
  head.get(size);
  const std::size_t kind = static_cast<unsigned char>(bytes[number_bytes]);
  if (size > message_bytes_max || kind >= kinds) {
    return failure("not a cpprun message");
  }
  if (bytes.size() < head_bytes + size) return std::optional<Variant>{};
  Variant message = blank<Variant>(kind, std::make_index_sequence<kinds>());
  MessageReader body(std::string_view(bytes).substr(head_bytes, size));
  std::visit([&](auto& m) { members(body, m); }, message);
  if (!body.good()) return failure("incomplete cpprun message");
  bytes.erase(0, head_bytes + size);
  return std::optional<Variant>(std::move(message));
}

}  // namespace

std::string encode(const Down& message) {
  return encode_any(message);
}
std::string encode(const Up& message) {
  return encode_any(message);
}
Result<std::optional<Down>> take_down(std::string& bytes) {
  return take_any<Down>(bytes);
}
Result<std::optional<Up>> take_up(std::string& bytes) {
  return take_any<Up>(bytes);
}

}  // namespace cpprun::fanout
