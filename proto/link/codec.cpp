// SPDX-License-Identifier: BSD-3-Clause
#include "proto/link/codec.h"

#include <fmt/format.h>

#include <algorithm>
#include <concepts>
#include <cstdint>
#include <cstdlib>
#include <limits>
#include <nlohmann/json.hpp>
#include <utility>

#include "proto/bounds.h"
#include "proto/link/message.h"
#include "proto/link/message_fields.h"
#include "proto/link/values_json.h"
#include "proto/parse_json.h"
#include "proto/text.h"

namespace cpprun::link {

namespace {

using nlohmann::json;

struct Writer {
  json& object;

  template <class T>
  void operator()(const char* key, const T& value) {
    object[key] = value;
  }
  void operator()(const char* key, const std::string& value) {
    // A text is a sentence, not a log; longer ones are cut.
    object[key] = value.size() <= bounds::link_text_bytes_max
                      ? value
                      : value.substr(0, bounds::link_text_bytes_max) + "…";
  }
  void operator()(const char* key, const WallTime& value) {
    object[key] = value.time_since_epoch().count();
  }
  void operator()(const char* key, const AgentTime& value) { object[key] = value.count(); }
  template <class Unit>
  void operator()(const char* key, const Whole<Unit, const Duration>& value) {
    using Limits = std::numeric_limits<int>;  // the reader's type
    const std::int64_t count = std::chrono::duration_cast<Unit>(value.duration).count();
    object[key] = std::clamp<std::int64_t>(count, Limits::min(), Limits::max());
  }
  // Omitted if it is zero.
  template <class Value>
  void where_known(const char* key, const Value& value) {
    if (value != Value{}) (*this)(key, value);
  }
  template <class Unit>
  void where_known(const char* key, const Whole<Unit, const Duration>& value) {
    if (value.duration >= Unit{1}) (*this)(key, value);
  }
  void where_known(const char* key, const Flag<const bool>& value) {
    if (value.is_set) object[key] = 1;
  }
  void operator()(const char* key, const std::vector<WorkerStats>& value) {
    object[key] = rows_of(value);
  }
  void operator()(const char* key, const std::vector<CauseBudget>& value) {
    object[key] = budgets_json(value);
  }
  void operator()(const char* key, const Idle<const bool>& value) {
    object[key] = value.done ? 2 : value.idle ? 1 : 0;
  }
  // A row of numbers each, since a failing job has many: rank, node, exit code or negative signal.
  void operator()(const char* key, const std::vector<Consequence>& value) {
    json rows = json::array();
    for (const Consequence& each : value) {
      const int status = each.status.signalled ? -each.status.value : each.status.value;
      rows.push_back({each.rank.value, each.group_rank.value, status});
    }
    object[key] = std::move(rows);
  }
  void operator()(const char* key, const Hex<const std::string>& value) {
    object[key] = hex_of(value.bytes);
  }
  void operator()(const char* key, const TimeUse& value) { object[key] = time_use_json(value); }
  void operator()(const char* key, const Failure& value) {
    json inner = json::object();
    each_member(value, Writer{inner});
    object[key] = std::move(inner);
  }
  template <class T>
  void operator()(const char* key, const std::optional<T>& value) {
    if (value.has_value()) (*this)(key, *value);
  }
};

// An invalid number in a received frame.
struct BadNumber {
  std::string reason;
};

template <std::integral T>
T whole(const char* key, const json& value) {
  const bool fits = value.is_number_unsigned()
                        ? std::in_range<T>(value.get<std::uint64_t>())
                        : value.is_number_integer() && std::in_range<T>(value.get<std::int64_t>());
  if (!fits) throw BadNumber{fmt::format("{} is not a whole number that fits there", key)};
  return value.get<T>();
}

struct Reader {
  const json& object;

  template <class T>
  void operator()(const char* key, T& value) {
    value = object.at(key).template get<T>();
  }
  // The library would truncate a number that does not fit: 2^32 + 1 would become 1.
  template <std::integral T>
    requires(!std::same_as<T, bool>)
  void operator()(const char* key, T& value) {
    value = whole<T>(key, object.at(key));
  }
  void operator()(const char* key, std::vector<int>& value) {
    value.clear();
    for (const json& each : object.at(key)) value.push_back(whole<int>(key, each));
  }
  void operator()(const char* key, WallTime& value) {
    value = WallTime{std::chrono::microseconds{whole<std::int64_t>(key, object.at(key))}};
  }
  void operator()(const char* key, AgentTime& value) {
    // Clamped so that the difference of any two fits nanoseconds.
    const auto most = std::int64_t{std::chrono::microseconds{bounds::agent_time_max}.count()};
    value = AgentTime{std::clamp(whole<std::int64_t>(key, object.at(key)), -most, most)};
  }
  template <class Unit>
  void operator()(const char* key, const Whole<Unit, Duration>& value) {
    value.duration = Unit{whole<int>(key, object.at(key))};
  }
  template <class Value>
  void where_known(const char* key, Value&& value) {
    if (object.contains(key)) (*this)(key, std::forward<Value>(value));
  }
  void operator()(const char* key, const Flag<bool>& value) {
    value.is_set = whole<int>(key, object.at(key)) != 0;
  }
  void operator()(const char* key, std::vector<WorkerStats>& value) {
    auto read = figures_in(object.at(key));
    if (!read) throw BadNumber{std::move(read.error().reason)};
    value = std::move(*read);
  }
  void operator()(const char* key, std::vector<CauseBudget>& value) {
    auto read = budgets_of(object.at(key));
    if (!read) throw BadNumber{std::move(read.error().reason)};
    value = std::move(*read);
  }
  void operator()(const char* key, const Idle<bool>& value) {
    const json& said = object.at(key);
    const int number = said.is_boolean() ? int{said.get<bool>()} : whole<int>(key, said);
    if (number < 0 || number > 2) throw BadNumber{fmt::format("{} is {}", key, number)};
    value.idle = number != 0;
    value.done = number == 2;
  }
  // Untrusted texts end up in logs and on terminals, so control characters are removed.
  void operator()(const char* key, std::string& value) {
    const auto text = object.at(key).get<std::string>();
    // Only a failure's message, such as a traceback, may have several lines.
    const bool has_lines = key == std::string_view("message");
    value = has_lines ? plain_lines(text) : plain_line(text);
  }
  void operator()(const char* key, std::vector<std::string>& value) {
    value = object.at(key).get<std::vector<std::string>>();
    for (std::string& each : value) each = plain_line(each);
  }
  void operator()(const char* key, std::vector<Consequence>& value) {
    for (const json& row : object.at(key)) {
      // Sixteen bits, so that negating it cannot overflow.
      const int status = whole<std::int16_t>(key, row.at(2));
      value.push_back({.rank = Rank{whole<int>(key, row.at(0))},
                       .group_rank = GroupRank{whole<int>(key, row.at(1))},
                       .status = {.signalled = status < 0, .value = std::abs(status)}});
    }
  }
  void operator()(const char* key, const Hex<std::string>& value) {
    auto read = bytes_of_hex(object.at(key).get<std::string>());
    if (!read) throw BadNumber{fmt::format("{} is not hexadecimal", key)};
    value.bytes = std::move(*read);
  }
  void operator()(const char* key, TimeUse& value) {
    auto read = time_use_of(object.at(key));
    if (!read) throw BadNumber{read.error().reason};
    value = std::move(*read);
  }
  void operator()(const char* key, Failure& value) { each_member(value, Reader{object.at(key)}); }
  template <class T>
  void operator()(const char* key, std::optional<T>& value) {
    if (object.contains(key)) (*this)(key, value.emplace());
  }
};

// Finds the variant's alternative by name.
template <std::size_t I = 0>
std::optional<Message> read_named(std::string_view name, const json& object) {
  if constexpr (I == std::variant_size_v<Message>) {
    return std::nullopt;
  } else {
    using M = std::variant_alternative_t<I, Message>;
    if (name != name_of<M>()) return read_named<I + 1>(name, object);
    M message;
    each_member(message, Reader{object});
    return Message{std::move(message)};
  }
}

}  // namespace

std::string encode(const Message& message) {
  json object = json::object();
  std::visit(
      [&object]<class M>(const M& m) {
        object["say"] = std::string{name_of<M>()};
        each_member(m, Writer{object});
      },
      message);
  // Texts come from workers' output and may contain partial characters; a frame is always valid
  // UTF-8.
  const std::string body = object.dump(-1, ' ', false, json::error_handler_t::replace);
  std::string frame;
  frame.reserve(4 + body.size());
  for (unsigned shift = 0; shift < 32; shift += 8) {
    frame.push_back(static_cast<char>((body.size() >> shift) & 0xFF));
  }
  return frame + body;
}

Result<std::optional<Decoded>> decode(std::string_view bytes) {
  if (bytes.size() < 4) return std::nullopt;
  std::size_t length = 0;
  for (std::size_t i = 0; i < 4; ++i) {
    length |= static_cast<std::size_t>(static_cast<unsigned char>(bytes[i])) << (8 * i);
  }
  if (length > bounds::link_frame_bytes_max) {
    return failure(fmt::format("a link frame of {} bytes was announced, the limit is {}", length,
                               bounds::link_frame_bytes_max));
  }
  if (bytes.size() - 4 < length) return std::nullopt;
  try {
    const json object = parse_json(bytes.substr(4, length));
    if (object.is_discarded()) return failure("a link frame that cannot be read: it is no JSON");
    const auto name = object.at("say").get<std::string>();
    auto message = read_named(name, object);
    if (!message) {
      return failure(fmt::format("unknown link message \"{}\"",
                                 plain_line(name, bounds::name_shown_bytes_max)));
    }
    if (const auto reason = beyond_limits(*message)) {
      return failure(fmt::format("a link frame \"{}\" that says {}", name, *reason));
    }
    return Decoded{std::move(*message), 4 + length};
  } catch (const BadNumber& error) {
    return failure(fmt::format("a link frame that cannot be read: {}", error.reason));
  } catch (const json::exception& error) {
    // The message quotes the invalid input.
    return failure(fmt::format("a link frame that cannot be read: {}",
                               plain_line(error.what(), bounds::link_text_bytes_max)));
  }
}

}  // namespace cpprun::link
