// SPDX-License-Identifier: BSD-3-Clause
#include "proto/link/codec.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <concepts>
#include <cstdint>
#include <cstdlib>
#include <limits>
#include <nlohmann/json.hpp>
#include <string_view>
#include <type_traits>
#include <utility>

#include "proto/fields_json.h"
#include "proto/json_text.h"
#include "proto/link/bounds.h"
#include "proto/link/message.h"
#include "proto/link/values_json.h"
#include "proto/parse_json.h"
#include "proto/text.h"

namespace cpprun::link {

namespace {

using nlohmann::json;

// Members whose JSON value differs from their type.

// Two flags as one number, to keep a Join short: 0, 1 for idle, 2 for idle and done.
template <class Bool>
struct Idle {
  Bool& idle;
  Bool& done;
};
template <class Bool>
Idle(Bool&, Bool&) -> Idle<Bool>;

// Two flags as one number, to keep a Join short: 1 for turns, 2 for captures as well. Every agent
// that captures also turns, and earlier versions read any other number than 0 as turns.
template <class Bool>
struct Turns {
  Bool& turns;
  Bool& captures;
  bool is_known() const { return turns; }
};
template <class Bool>
Turns(Bool&, Bool&) -> Turns<Bool>;

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
  bool is_known() const { return is_set; }
};
template <class Bool>
Flag(Bool&) -> Flag<Bool>;

// A duration sent as a whole number of that unit; the remainder is dropped.
template <class Unit, class Value>
struct Whole {
  Value& duration;
  bool is_known() const { return duration >= Unit{1}; }
};
template <class Value>
Whole<std::chrono::milliseconds, Value> milliseconds(Value& duration) {
  return {duration};
}
template <class Value>
Whole<std::chrono::microseconds, Value> microseconds(Value& duration) {
  return {duration};
}

// The names of the messages, in the order of the variant.
constexpr std::array<std::string_view, std::variant_size_v<Message>> message_names = {
    "join",           "failed",   "succeeded", "drained",   "leave",     "heartbeat",   "waiting",
    "refused",        "sealed",   "drain",     "finish",    "who_hosts", "hosts",       "save",
    "dismissed",      "status",   "record",    "stands",    "standby",   "not_leading", "led",
    "members",        "follow",   "leads",     "take_over", "captured",  "capture",     "verdict",
    "restart_worker", "upgraded", "upgrade"};

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

template <class Value>
Value read_or_throw(Result<Value> read) {
  if (!read) throw BadNumber{std::move(read.error().reason)};
  return std::move(*read);
}

template <class T, class... Values>
concept OneOf = (Of<T, Values> || ...);

struct LinkFormat {
  // The members of every message.
  void fields(auto& f, Of<Failure> auto& m) const {
    f("rank", m.rank), f("local_rank", m.local_rank), f("node", m.group_rank);
    f("host", m.host), f("pid", m.pid), f("signalled", m.status.signalled);
    f("status", m.status.value), f("time", m.time), f("message", m.message);
    f("cause", m.cause), f("consequence", m.consequence);
  }

  void fields(auto& f, Of<Join> auto& m) const {
    f("job", m.job), f("host", m.host), f("pid", m.pid), f("agent", m.agent),
        f.where_known("node_rank", m.node_rank);
    f("min", m.nodes_min), f("max", m.nodes_max), f("workers", m.local_world_size);
    f("role", m.role), f("restarts", m.restarts.max),
        f("backoff_ms", milliseconds(m.restarts.backoff));
    f("window_ms", milliseconds(m.restarts.window)), f("final", m.restarts.final_codes);
    f("addresses", m.addresses), f("lease_ms", milliseconds(m.lease));
    f("last_call_ms", milliseconds(m.last_call)), f("after", m.after),
        f("idle", Idle{m.idle, m.done});
    f("sent", m.sent), f.where_known("local_store", m.store_is_local);
    f.where_known("budgets", m.restarts.budgets);
    f.where_known("free", m.restarts.free_codes),
        f.where_known("fruitless", m.restarts.fruitless_max);
    f.where_known("host_failures", m.restarts.host_limit.failures);
    f.where_known("host_window_ms", milliseconds(m.restarts.host_limit.window));
    f.where_known("go", Flag{m.can_lead}), f.where_known("vote", m.vote);
    f.where_known("turns", Turns{m.turns, m.captures}), f.where_known("epoch", m.epoch);
    f.where_known("fresh", Flag{m.fresh}), f.where_known("scope", m.restarts.scope);
    f.where_known("upgrades", Flag{m.upgrades});
    f.where_known("reconfigures", Flag{m.restarts.reconfigures});
  }

  void fields(auto& f, Of<Failed> auto& m) const {
    f("round", m.round), f("failure", m.failure), f("noticed", m.noticed);
    f.where_known("late", Flag{m.late}), f.where_known("attempt", m.attempt);
  }

  void fields(auto& f, Of<Succeeded> auto& m) const { f("round", m.round); }

  void fields(auto& f, Of<Drained> auto& m) const {
    f("round", m.round), f.where_known("unsaved_ms", milliseconds(m.unsaved));
    f.where_known("step", m.reached.step), f.where_known("saved", m.reached.checkpoint_step);
    f.where_known("asked", m.asked);
  }

  void fields(auto& f, Of<Status> auto& m) const { f("round", m.round), f("workers", m.workers); }

  void fields(auto& f, Of<Leave> auto& m) const {
    f("signal", m.signal), f("reason", m.reason), f.where_known("asked", m.asked);
  }

  void fields(auto& f, Of<Heartbeat> auto& m) const {
    f("sent", m.sent), f("trip", microseconds(m.round_trip));
    f.where_known("watch_ms", milliseconds(m.watch)), f.where_known("moment", m.moment);
    f.where_known("notice", m.notice), f.where_known("quiet_ms", milliseconds(m.quiet));
    f.where_known("hang_ms", milliseconds(m.hang_timeout));
    f.where_known("timed_out", Flag{m.timed_out});
  }

  void fields(auto& f, Of<Waiting> auto& m) const { f("reason", m.reason), f("spare", m.spare); }

  void fields(auto& f, OneOf<Refused, Dismissed> auto& m) const { f("reason", m.reason); }

  void fields(auto& f, Of<NotLeading> auto& m) const {
    f("reason", m.reason);
    f.where_known("address", m.address), f.where_known("port", m.port);
  }

  void fields(auto& f, Of<Members> auto& m) const {
    f("epoch", m.epoch), f("places", m.places), f("patience_ms", milliseconds(m.takeover_window));
    f.where_known("keeps_round", Flag{m.keeps_round});
  }

  void fields(auto& f, OneOf<Follow, Leads> auto& m) const {
    f("name", m.name), f("cluster", m.cluster), f("version", m.version);
    f("features", m.features), f("epoch", m.epoch);
    if constexpr (requires { m.address; }) f("address", m.address);
    f.where_known("etcd", Flag{m.has_etcd});
  }

  void fields(auto& f, Of<TakeOver> auto& m) const { f("epoch", m.epoch); }

  void fields(auto& f, Of<Sealed> auto& m) const {
    f("round", m.round), f("restart", m.restart_count), f("node", m.group_rank);
    f("nodes", m.group_world_size), f("base", m.base_rank), f("world", m.world_size);
    f("role_base", m.role_base_rank), f("role_world", m.role_world_size);
    f("store_port", m.store_port), f("neighbour", m.neighbour);
    f.where_known("failed_before", m.failed_before);
    f.where_known("scope", Flag{m.restarts_workers});
    f.where_known("captures", Flag{m.captures_timeouts});
  }

  void fields(auto& f, Of<Drain> auto& m) const {
    f("round", m.round), f("reason", m.reason);
    f.where_known("keeps_vote", Flag{m.keeps_vote}), f.where_known("ends_job", Flag{m.ends_job});
    f.where_known("keeps_workers", Flag{m.keeps_workers});
  }

  void fields(auto& f, Of<RestartWorker> auto& m) const {
    f("round", m.round), f("rank", m.rank), f("attempt", m.attempt);
    f("restart", m.restart_count), f.where_known("pause_ms", milliseconds(m.pause));
    f("reason", m.reason);
  }

  void fields(auto& f, Of<Save> auto& m) const {
    f("round", m.round), f("signal", m.signal), f("at", m.at);
  }

  void fields(auto& f, Of<Finish> auto& m) const {
    f("code", m.exit_code), f("reason", m.reason), f.where_known("root", m.root);
    f("others", m.consequences), f("other_count", m.consequence_count),
        f.where_known("time", m.time), f.where_known("restarts", m.restarts);
  }

  void fields(auto& f, Of<WhoHosts> auto& m) const {
    f("job", m.job), f("host", m.host), f("pid", m.pid), f("agent", m.agent);
    f.where_known("joins", m.joins);
    f.where_known("leads_at", m.leads_address), f.where_known("leads_port", m.leads_port);
  }

  void fields(auto& f, Of<Hosts> auto& m) const {
    f("job", m.job), f("host", m.host), f("pid", m.pid), f("itself", m.itself);
  }

  void fields(auto& f, Of<Record> auto& m) const {
    f("round", m.round), f("part", m.part), f("parts", m.parts), f("bytes", Hex{m.bytes});
  }

  void fields(auto& f, Of<Captured> auto& m) const {
    f("round", m.round), f("number", m.number), f("part", m.part), f("parts", m.parts);
    f("bytes", Hex{m.bytes}), f.where_known("quiet_ms", milliseconds(m.quiet));
  }

  void fields(auto& f, Of<Capture> auto& m) const {
    f("round", m.round), f("number", m.number);
    f.where_known("native", Flag{m.native}), f.where_known("timeout", Flag{m.is_timeout});
  }

  void fields(auto& f, Of<Verdict> auto& m) const {
    f("round", m.round), f("number", m.number), f("rank", m.rank);
    f("quiet_ms", milliseconds(m.quiet)), f("kind", m.kind), f("sentence", m.sentence);
    f("clusters", m.clusters), f.where_known("timeout", Flag{m.is_timeout});
  }

  void fields(auto& f, Of<Upgraded> auto& m) const {
    f("number", m.number), f("version", m.version), f.where_known("error", m.error);
    f.where_known("took_us", microseconds(m.took));
  }

  void fields(auto& f, Of<Upgrade> auto& m) const { f("number", m.number); }

  void fields(auto& f, Of<Stands> auto& m) const { f("round", m.round), f("port", m.port); }

  void fields(auto& f, Of<Standby> auto& m) const {
    f("round", m.round), f("address", m.address), f("port", m.port);
  }

  void fields(auto& f, Of<Led> auto& m) const { f("address", m.address), f("port", m.port); }

  // Values with a form of their own.

  static json write(const std::string& value) {
    // A text is a sentence, not a log; longer ones are cut.
    return value.size() <= bounds::link_text_bytes_max
               ? value
               : value.substr(0, bounds::link_text_bytes_max) + "…";
  }
  static json write(const std::vector<std::string>& value) { return value; }
  static json write(const WallTime& value) { return value.time_since_epoch().count(); }
  static json write(const AgentTime& value) { return value.count(); }
  template <class Unit>
  static json write(const Whole<Unit, const Duration>& value) {
    using Limits = std::numeric_limits<int>;  // the reader's type
    const std::int64_t count = std::chrono::duration_cast<Unit>(value.duration).count();
    return std::clamp<std::int64_t>(count, Limits::min(), Limits::max());
  }
  static json write(const Flag<const bool>& value) { return value.is_set ? 1 : 0; }
  static json write(const std::vector<WorkerStats>& value) { return rows_of(value); }
  static json write(const std::vector<CauseBudget>& value) { return budgets_json(value); }
  static json write(const RestartScope& value) { return value == RestartScope::worker ? 1 : 0; }
  static json write(const Turns<const bool>& value) { return value.captures ? 2 : 1; }
  static json write(const Idle<const bool>& value) { return value.done ? 2 : value.idle ? 1 : 0; }
  // A row of numbers each, since a failing job has many: rank, node, exit code or negative signal.
  static json write(const Consequence& value) {
    const int status = value.status.signalled ? -value.status.value : value.status.value;
    return {value.rank.value, value.group_rank.value, status};
  }
  static json write(const Hex<const std::string>& value) { return hex_of(value.bytes); }
  static json write(const TimeUse& value) { return time_use_json(value); }

  // The library would truncate a number that does not fit: 2^32 + 1 would become 1.
  template <std::integral T>
    requires(!std::same_as<T, bool>)
  static void read(const char* key, const json& said, T& value) {
    value = whole<T>(key, said);
  }
  static void read(const char* key, const json& said, WallTime& value) {
    value = WallTime{std::chrono::microseconds{whole<std::int64_t>(key, said)}};
  }
  static void read(const char* key, const json& said, AgentTime& value) {
    // Clamped so that the difference of any two fits nanoseconds.
    const auto most = std::int64_t{std::chrono::microseconds{bounds::agent_time_max}.count()};
    value = AgentTime{std::clamp(whole<std::int64_t>(key, said), -most, most)};
  }
  template <class Unit>
  static void read(const char* key, const json& said, const Whole<Unit, Duration>& value) {
    value.duration = Unit{whole<int>(key, said)};
  }
  static void read(const char* key, const json& said, const Flag<bool>& value) {
    value.is_set = whole<int>(key, said) != 0;
  }
  static void read(const char*, const json& said, std::vector<WorkerStats>& value) {
    value = read_or_throw(figures_in(said));
  }
  static void read(const char*, const json& said, std::vector<CauseBudget>& value) {
    value = read_or_throw(budgets_of(said));
  }
  static void read(const char* key, const json& said, RestartScope& value) {
    value = whole<int>(key, said) == 1 ? RestartScope::worker : RestartScope::job;
  }
  static void read(const char* key, const json& said, const Turns<bool>& value) {
    const int number = whole<int>(key, said);
    value.turns = number != 0;
    value.captures = number == 2;
  }
  static void read(const char* key, const json& said, const Idle<bool>& value) {
    const int number = said.is_boolean() ? int{said.get<bool>()} : whole<int>(key, said);
    if (number < 0 || number > 2) throw BadNumber{fmt::format("{} is {}", key, number)};
    value.idle = number != 0;
    value.done = number == 2;
  }
  // Untrusted texts end up in logs and on terminals, so control characters are removed.
  static void read(const char* key, const json& said, std::string& value) {
    const auto text = said.get<std::string>();
    // Only a failure's message, such as a traceback, may have several lines.
    const bool has_lines = key == std::string_view("message");
    value = has_lines ? plain_lines(text) : plain_line(text);
  }
  static void read(const char*, const json& said, std::vector<std::string>& value) {
    value = said.get<std::vector<std::string>>();
    for (std::string& each : value) each = plain_line(each);
  }
  static void read(const char* key, const json& row, Consequence& value) {
    // Sixteen bits, so that negating it cannot overflow.
    const int status = whole<std::int16_t>(key, row.at(2));
    value = {.rank = Rank{whole<int>(key, row.at(0))},
             .group_rank = GroupRank{whole<int>(key, row.at(1))},
             .status = {.signalled = status < 0, .value = std::abs(status)}};
  }
  static void read(const char* key, const json& said, const Hex<std::string>& value) {
    auto read = bytes_of_hex(said.get<std::string>());
    if (!read) throw BadNumber{fmt::format("{} is not hexadecimal", key)};
    value.bytes = std::move(*read);
  }
  static void read(const char*, const json& said, TimeUse& value) {
    value = read_or_throw(time_use_of(said));
  }

  // Of a Captured, from the text.
  template <std::integral T>
    requires(!std::same_as<T, bool>)
  static void read(const char* key, JsonText& said, T& value) {
    const std::uint64_t number = said.number();
    if (!std::in_range<T>(number)) throw JsonText::Invalid(key);
    value = static_cast<T>(number);
  }
  template <class Unit>
  static void read(const char* key, JsonText& said, const Whole<Unit, Duration>& value) {
    int count = 0;
    read(key, said, count);
    value.duration = Unit{count};
  }
  static void read(const char* key, JsonText& said, const Hex<std::string>& value) {
    auto read = bytes_of_hex(said.string());
    if (!read) throw JsonText::Invalid(key);
    value.bytes = std::move(*read);
  }
  // An empty one is omitted and never null.
  template <class T>
  void read(const char* key, const json& said, std::optional<T>& value) const {
    read_json(*this, key, said, value.emplace());
  }
};

// When a large job is captured, a thousand nodes send one of these at once, of several kilobytes
// each, so it is read without a tree of values. Nothing if this is another message, has its members
// in another order, or is invalid: then the reader of all messages says why.
std::optional<Message> captured_of(std::string_view text) {
  if (!text.ends_with(R"("say":"captured"})")) return std::nullopt;
  try {
    Message message(value_of_text<Captured>(LinkFormat{}, JsonText(text, bounds::json_depth_max)));
    if (beyond_limits(message)) return std::nullopt;
    return message;
  } catch (const JsonText::Invalid&) {
    return std::nullopt;
  }
}

}  // namespace

std::string encode(const Message& message) {
  json object = std::visit([](const auto& m) { return json_of<json>(LinkFormat{}, m); }, message);
  object["say"] = message_names[message.index()];
  const std::string body = text_of_json(object);
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
    return failure(fmt::format("a link frame has {} bytes; the maximum is {}", length,
                               bounds::link_frame_bytes_max));
  }
  if (bytes.size() - 4 < length) return std::nullopt;
  if (auto captured = captured_of(bytes.substr(4, length))) {
    return Decoded{*std::move(captured), 4 + length};
  }
  try {
    const json object = parse_json(bytes.substr(4, length));
    if (object.is_discarded()) return failure("invalid link frame: not JSON");
    const auto name = object.at("say").get<std::string>();
    const auto found = std::ranges::find(message_names, name);
    if (found == message_names.end()) {
      return failure(fmt::format("unknown link message \"{}\"",
                                 plain_line(name, bounds::name_shown_bytes_max)));
    }
    auto message = alternative<Message>(static_cast<std::size_t>(found - message_names.begin()));
    std::visit([&](auto& m) { read_json(LinkFormat{}, "", object, m); }, message);
    if (const auto reason = beyond_limits(message)) {
      return failure(fmt::format("invalid link message \"{}\": {}", name, *reason));
    }
    return Decoded{std::move(message), 4 + length};
  } catch (const BadNumber& error) {
    return failure(fmt::format("invalid link frame: {}", error.reason));
  } catch (const json::exception& error) {
    // The message quotes the invalid input.
    return failure(fmt::format("invalid link frame: {}",
                               plain_line(error.what(), bounds::link_text_bytes_max)));
  }
}

}  // namespace cpprun::link
