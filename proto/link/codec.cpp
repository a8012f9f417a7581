// SPDX-License-Identifier: BSD-3-Clause
#include "proto/link/codec.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <concepts>
#include <cstdint>
#include <cstdlib>
#include <limits>
#include <nlohmann/json.hpp>
#include <string_view>
#include <type_traits>
#include <utility>

#include "proto/bounds.h"
#include "proto/link/message.h"
#include "proto/link/values_json.h"
#include "proto/parse_json.h"
#include "proto/text.h"

namespace cpprun::link {

namespace {

using nlohmann::json;

// Members whose JSON value differs from their type.

// Two flags as one number, to keep a Join short: 0, 1 for idle, 2 for idle and done.
template <class Flag>
struct Idle {
  Flag& idle;
  Flag& done;
};
template <class Flag>
Idle(Flag&, Flag&) -> Idle<Flag>;

// Binary data as hexadecimal digits, which JSON strings require.
template <class Text>
struct Hex {
  Text& bytes;
};
template <class Text>
Hex(Text&) -> Hex<Text>;

// A flag that is sent as 1 if set, and omitted otherwise.
template <class Bool>
struct Flag {
  Bool& is_set;
};
template <class Bool>
Flag(Bool&) -> Flag<Bool>;

// A duration sent as a whole number of that unit; the remainder is dropped.
template <class Unit, class Value>
struct Whole {
  Value& duration;
};
template <class Value>
Whole<std::chrono::milliseconds, Value> milliseconds(Value& duration) {
  return {duration};
}
template <class Value>
Whole<std::chrono::microseconds, Value> microseconds(Value& duration) {
  return {duration};
}

// The members of every message with their JSON names.

// Each message lists its members once, for both writing and reading.
template <class M, class F>
void each_member(M& m, F&& f)
  requires std::same_as<std::remove_const_t<M>, Failure>
{
  f("rank", m.rank.value), f("local_rank", m.local_rank.value), f("node", m.group_rank.value);
  f("host", m.host), f("pid", m.pid), f("signalled", m.status.signalled);
  f("status", m.status.value), f("time", m.time), f("message", m.message);
  f("cause", m.cause), f("consequence", m.consequence);
}

template <class M, class F>
void each_member(M& m, F&& f)
  requires std::same_as<std::remove_const_t<M>, Join>
{
  f("job", m.job), f("host", m.host), f("pid", m.pid), f("agent", m.agent),
      f("node_rank", m.node_rank);
  f("min", m.nodes_min), f("max", m.nodes_max), f("workers", m.local_world_size);
  f("role", m.role), f("restarts", m.restarts.max),
      f("backoff_ms", milliseconds(m.restarts.backoff));
  f("window_ms", milliseconds(m.restarts.window)), f("final", m.restarts.final_codes);
  f("addresses", m.addresses), f("lease_ms", milliseconds(m.lease));
  f("last_call_ms", milliseconds(m.last_call)), f("after", m.after.value),
      f("idle", Idle{m.idle, m.done});
  f("sent", m.sent), f.where_known("local_store", m.store_is_local);
  f.where_known("budgets", m.restarts.budgets);
  f.where_known("free", m.restarts.free_codes),
      f.where_known("fruitless", m.restarts.fruitless_max);
  f.where_known("host_failures", m.restarts.host_limit.failures);
  f.where_known("host_window_ms", milliseconds(m.restarts.host_limit.window));
  f.where_known("go", Flag{m.can_lead}), f.where_known("vote", m.vote.value);
  f.where_known("turns", Flag{m.turns}), f.where_known("epoch", m.epoch);
  f.where_known("fresh", Flag{m.fresh});
}

template <class M, class F>
void each_member(M& m, F&& f)
  requires std::same_as<std::remove_const_t<M>, Failed>
{
  f("round", m.round.value), f("failure", m.failure), f("noticed", m.noticed);
  f.where_known("late", Flag{m.late});
}

template <class M, class F>
void each_member(M& m, F&& f)
  requires std::same_as<std::remove_const_t<M>, Succeeded>
{
  f("round", m.round.value);
}

template <class M, class F>
void each_member(M& m, F&& f)
  requires std::same_as<std::remove_const_t<M>, Drained>
{
  f("round", m.round.value), f.where_known("unsaved_ms", milliseconds(m.unsaved));
  f.where_known("step", m.reached.step), f.where_known("saved", m.reached.checkpoint_step);
  f.where_known("asked", m.asked);
}

template <class M, class F>
void each_member(M& m, F&& f)
  requires std::same_as<std::remove_const_t<M>, Status>
{
  f("round", m.round.value), f("workers", m.workers);
}

template <class M, class F>
void each_member(M& m, F&& f)
  requires std::same_as<std::remove_const_t<M>, Leave>
{
  f("signal", m.signal), f("reason", m.reason), f.where_known("asked", m.asked);
}

template <class M, class F>
void each_member(M& m, F&& f)
  requires std::same_as<std::remove_const_t<M>, Heartbeat>
{
  f("sent", m.sent), f("trip", microseconds(m.round_trip));
  f.where_known("watch_ms", milliseconds(m.watch)), f.where_known("moment", m.moment);
  f.where_known("notice", m.notice);
}

template <class M, class F>
void each_member(M& m, F&& f)
  requires std::same_as<std::remove_const_t<M>, Waiting>
{
  f("reason", m.reason), f("spare", m.spare);
}

template <class M, class F>
void each_member(M& m, F&& f)
  requires std::same_as<std::remove_const_t<M>, Refused> ||
           std::same_as<std::remove_const_t<M>, Dismissed>
{
  f("reason", m.reason);
}

template <class M, class F>
void each_member(M& m, F&& f)
  requires std::same_as<std::remove_const_t<M>, NotLeading>
{
  f("reason", m.reason);
  f.where_known("address", m.address), f.where_known("port", m.port);
}

template <class M, class F>
void each_member(M& m, F&& f)
  requires std::same_as<std::remove_const_t<M>, Members>
{
  f("epoch", m.epoch), f("places", m.places), f("patience_ms", milliseconds(m.takeover_window));
  f.where_known("keeps_round", Flag{m.keeps_round});
}

template <class M, class F>
void each_member(M& m, F&& f)
  requires std::same_as<std::remove_const_t<M>, Follow> ||
           std::same_as<std::remove_const_t<M>, Leads>
{
  f("name", m.name), f("cluster", m.cluster), f("version", m.version);
  f("features", m.features), f("epoch", m.epoch);
  if constexpr (requires { m.address; }) f("address", m.address);
  f.where_known("etcd", Flag{m.has_etcd});
}

template <class M, class F>
void each_member(M& m, F&& f)
  requires std::same_as<std::remove_const_t<M>, TakeOver>
{
  f("epoch", m.epoch);
}

template <class M, class F>
void each_member(M& m, F&& f)
  requires std::same_as<std::remove_const_t<M>, Sealed>
{
  f("round", m.round.value), f("restart", m.restart_count), f("node", m.group_rank.value);
  f("nodes", m.group_world_size), f("base", m.base_rank.value), f("world", m.world_size);
  f("role_base", m.role_base_rank), f("role_world", m.role_world_size);
  f("store_port", m.store_port), f("neighbour", m.neighbour);
  f("failed_before", m.failed_before);
}

template <class M, class F>
void each_member(M& m, F&& f)
  requires std::same_as<std::remove_const_t<M>, Drain>
{
  f("round", m.round.value), f("reason", m.reason);
  f.where_known("keeps_vote", Flag{m.keeps_vote}), f.where_known("ends_job", Flag{m.ends_job});
}

template <class M, class F>
void each_member(M& m, F&& f)
  requires std::same_as<std::remove_const_t<M>, Save>
{
  f("round", m.round.value), f("signal", m.signal), f("at", m.at);
}

template <class M, class F>
void each_member(M& m, F&& f)
  requires std::same_as<std::remove_const_t<M>, Finish>
{
  f("code", m.exit_code), f("reason", m.reason), f("root", m.root);
  f("others", m.consequences), f("other_count", m.consequence_count), f("time", m.time);
}

template <class M, class F>
void each_member(M& m, F&& f)
  requires std::same_as<std::remove_const_t<M>, WhoHosts>
{
  f("job", m.job), f("host", m.host), f("pid", m.pid), f("agent", m.agent);
  f.where_known("joins", m.joins);
  f.where_known("leads_at", m.leads_address), f.where_known("leads_port", m.leads_port);
}

template <class M, class F>
void each_member(M& m, F&& f)
  requires std::same_as<std::remove_const_t<M>, Hosts>
{
  f("job", m.job), f("host", m.host), f("pid", m.pid), f("itself", m.itself);
}

template <class M, class F>
void each_member(M& m, F&& f)
  requires std::same_as<std::remove_const_t<M>, Record>
{
  f("round", m.round.value), f("part", m.part), f("parts", m.parts), f("bytes", Hex{m.bytes});
}

template <class M, class F>
void each_member(M& m, F&& f)
  requires std::same_as<std::remove_const_t<M>, Stands>
{
  f("round", m.round.value), f("port", m.port);
}

template <class M, class F>
void each_member(M& m, F&& f)
  requires std::same_as<std::remove_const_t<M>, Standby>
{
  f("round", m.round.value), f("address", m.address), f("port", m.port);
}

template <class M, class F>
void each_member(M& m, F&& f)
  requires std::same_as<std::remove_const_t<M>, Led>
{
  f("address", m.address), f("port", m.port);
}

template <class M>
constexpr std::string_view name_of() {
  if constexpr (std::same_as<M, Join>) return "join";
  if constexpr (std::same_as<M, Failed>) return "failed";
  if constexpr (std::same_as<M, Succeeded>) return "succeeded";
  if constexpr (std::same_as<M, Drained>) return "drained";
  if constexpr (std::same_as<M, Leave>) return "leave";
  if constexpr (std::same_as<M, Heartbeat>) return "heartbeat";
  if constexpr (std::same_as<M, Waiting>) return "waiting";
  if constexpr (std::same_as<M, Refused>) return "refused";
  if constexpr (std::same_as<M, Sealed>) return "sealed";
  if constexpr (std::same_as<M, Drain>) return "drain";
  if constexpr (std::same_as<M, Finish>) return "finish";
  if constexpr (std::same_as<M, WhoHosts>) return "who_hosts";
  if constexpr (std::same_as<M, Hosts>) return "hosts";
  if constexpr (std::same_as<M, Save>) return "save";
  if constexpr (std::same_as<M, Dismissed>) return "dismissed";
  if constexpr (std::same_as<M, Status>) return "status";
  if constexpr (std::same_as<M, Record>) return "record";
  if constexpr (std::same_as<M, Stands>) return "stands";
  if constexpr (std::same_as<M, Standby>) return "standby";
  if constexpr (std::same_as<M, NotLeading>) return "not_leading";
  if constexpr (std::same_as<M, Led>) return "led";
  if constexpr (std::same_as<M, Members>) return "members";
  if constexpr (std::same_as<M, Follow>) return "follow";
  if constexpr (std::same_as<M, Leads>) return "leads";
  if constexpr (std::same_as<M, TakeOver>) return "take_over";
}

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
  if (!fits) throw BadNumber{fmt::format("{} is not a whole number, or out of range", key)};
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
    return failure(fmt::format("a link frame of {} bytes, and the maximum is {}", length,
                               bounds::link_frame_bytes_max));
  }
  if (bytes.size() - 4 < length) return std::nullopt;
  try {
    const json object = parse_json(bytes.substr(4, length));
    if (object.is_discarded()) return failure("invalid link frame: not JSON");
    const auto name = object.at("say").get<std::string>();
    auto message = read_named(name, object);
    if (!message) {
      return failure(fmt::format("unknown link message \"{}\"",
                                 plain_line(name, bounds::name_shown_bytes_max)));
    }
    if (const auto reason = beyond_limits(*message)) {
      return failure(fmt::format("invalid link message \"{}\": {}", name, *reason));
    }
    return Decoded{std::move(*message), 4 + length};
  } catch (const BadNumber& error) {
    return failure(fmt::format("invalid link frame: {}", error.reason));
  } catch (const json::exception& error) {
    // The message quotes the invalid input.
    return failure(fmt::format("invalid link frame: {}",
                               plain_line(error.what(), bounds::link_text_bytes_max)));
  }
}

}  // namespace cpprun::link
