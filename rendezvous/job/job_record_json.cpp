// SPDX-License-Identifier: BSD-3-Clause
#include "rendezvous/job/job_record_json.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <optional>
#include <set>
#include <utility>
#include <variant>

#include "proto/link/codec.h"
#include "proto/parse_json.h"
#include "proto/text.h"
#include "rendezvous/job/job_terms.h"
#include "rendezvous/job/operator_command.h"

// The names in the JSON of a JobRecord, for writing and reading.
namespace cpprun::job_record {

inline constexpr int version = 1;
inline constexpr const char* version_key = "cpprund_job";
// In the order of Member::State and of Round::Phase.
inline constexpr std::array states = {"waiting", "running", "succeeded", "drained"};
inline constexpr std::array phases = {"gathering", "sealed", "draining"};

}  // namespace cpprun::job_record

namespace cpprun {

namespace {

using Json = nlohmann::json;
using job_record::phases;
using job_record::states;

template <class Enum, std::size_t count>
const char* word_of(const std::array<const char*, count>& words, Enum value) {
  return words[static_cast<std::size_t>(value)];
}

class Writer {
 public:
  explicit Writer(const ClockPair& moment) : moment_(moment) {}

  Json at(TimePoint time) const { return moment_.by_wall(time).time_since_epoch().count(); }
  Json at(const std::optional<TimePoint>& time) const { return time ? at(*time) : Json(); }
  static Json frame(const link::Message& message) {
    const std::string bytes = link::encode(message);
    return Json::binary({bytes.begin(), bytes.end()});
  }
  template <class M>
  static Json frame(const std::optional<M>& message) {
    return message ? frame(link::Message{*message}) : Json();
  }
  static Json frame(const link::Failure& failure) {
    return frame(link::Message{link::Failed{.failure = failure}});
  }
  static Json time(const NodeTime& time) {
    Json json = Json::array();
    for (const NodeDuration each : time) json.push_back(each.count());
    return json;
  }
  static Json consequences(const std::vector<link::Consequence>& list) {
    Json json = Json::array();
    for (const auto& each : list) {
      json.push_back(
          {each.rank.value, each.group_rank.value, each.status.signalled, each.status.value});
    }
    return json;
  }
  static Json node(const JobRecord::Node& node) {
    return {{"join", frame(link::Message{node.join})},
            {"peer", node.peer},
            {"further", node.further_peers},
            {"state", word_of(states, node.state)},
            {"node", node.group_rank ? Json(node.group_rank->value) : Json()},
            {"ranks", {node.ranks.base.value, node.ranks.role_base, node.ranks.role_world_size}},
            {"leaving", node.leaving},
            {"hosts", node.hosts},
            {"dismissed", node.dismissed}};
  }
  Json entry(const Failures::Entry& entry) const {
    return {{"failure", frame(entry.failure)},
            {"at", at(entry.at)},
            {"lost", entry.lost},
            {"what", entry.what},
            {"noticed", entry.noticed.count()},
            {"heard", at(entry.heard)},
            {"late", entry.late}};
  }
  Json end(const RoundEnd& end) const {
    Json failures = Json::array();
    for (const auto& each : end.failures.entries()) failures.push_back(entry(each));
    const auto& leaver = end.failures.leaver();
    return {{"reason", end.reason},
            {"at", at(end.at)},
            {"failures", std::move(failures)},
            {"failure_count", end.failures.count()},
            {"leaver", leaver ? entry(*leaver) : Json()},
            {"stop", frame(end.stop)},
            {"why_no_other", end.why_no_other},
            {"change", end.change},
            {"ordered", end.ordered},
            {"reached", {end.reached.step, end.reached.checkpoint_step}}};
  }
  template <class Records>
  Json rounds(const Records& records) const {
    Json json = Json::array();
    for (const RoundRecord& each : records) {
      json.push_back({{"round", each.round.value},
                      {"restart", each.restart},
                      {"began", at(each.began)},
                      {"ended", at(each.ended)},
                      {"reason", each.reason},
                      {"root", each.root ? frame(*each.root) : Json()},
                      {"consequences", consequences(each.consequences)},
                      {"consequence_count", each.consequence_count}});
    }
    return json;
  }
  Json history(const RoundHistory::Kept& kept) const {
    return {{"first", rounds(kept.first)},
            {"last", rounds(kept.last)},
            {"left_out", kept.left_out},
            {"failures", kept.failures},
            {"restarts", kept.restarts}};
  }
  // Its times are readings of the steady clock.
  Json accounting(const TimeAccounting::Kept& kept) const {
    const auto reading = [this](const std::optional<NodeDuration>& time) {
      return time ? at(TimePoint{*time}) : Json();
    };
    Json lost = Json::array();
    for (const LostTime& each : kept.lost) {
      lost.push_back({{"cause", each.cause},
                      {"host", each.host},
                      {"count", each.count},
                      {"time", time(each.time)}});
    }
    return {{"began", reading(kept.began)},
            {"until", reading(kept.until)},
            {"nodes", kept.nodes},
            {"kept", time(kept.kept)},
            {"lost", std::move(lost)},
            {"current", kept.current},
            {"broken", kept.broken ? time(*kept.broken) : Json()},
            {"nodes_at_break", kept.nodes_at_break},
            {"training", kept.round_training.count()},
            {"starting", kept.round_starting.count()},
            {"trains", kept.trains}};
  }

 private:
  const ClockPair& moment_;
};

}  // namespace

std::string job_record_bytes(const JobRecord& record, const ClockPair& moment) {
  const Writer writer{moment};
  Json nodes = Json::array();
  for (const auto& each : record.nodes) nodes.push_back(Writer::node(each));
  Json evicted_nodes = Json::array();
  for (const auto& each : record.evicted_nodes) {
    evicted_nodes.push_back(
        {{"host", each.host}, {"pid", each.pid}, {"agent", each.agent}, {"why", each.why}});
  }
  Json json = {
      {job_record::version_key, job_record::version},
      {"founder", record.founder},
      {"owner", record.owner},
      {"round", record.round.value},
      {"phase", word_of(phases, record.phase)},
      {"world_size", record.world_size},
      {"nodes", std::move(nodes)},
      {"sealed_at", writer.at(record.sealed_at)},
      {"since", writer.at(record.since)},
      {"restarts", restart_state_value(record.restarts, moment)},
      {"end", writer.end(record.round_end)},
      {"pause_until", writer.at(record.pause_until)},
      {"why_again", record.why_again},
      {"patience_ms", std::chrono::ceil<std::chrono::milliseconds>(record.takeover_window).count()},
      {"finish", Writer::frame(record.finish)},
      {"history", writer.history(record.history)},
      {"time", writer.accounting(record.time)},
      {"exclusions", exclusions_value(record.exclusions, moment)},
      {"dismissals", std::move(evicted_nodes)}};
  if (record.votes_needed != 0) json["votes_needed"] = record.votes_needed;
  std::string bytes;
  Json::to_cbor(json, bytes);
  return bytes;
}

namespace {

using State = Member::State;
using Phase = Round::Phase;

// The year 2128; it fits as nanoseconds.
constexpr std::int64_t wall_max = 5'000'000'000'000'000;

// Describes what is invalid. Thrown while reading, and caught by the function that started it.
struct Wrong {
  std::string what;
};

template <class Enum, std::size_t count>
Enum value_of(const std::array<const char*, count>& words, const Json& json) {
  const auto found = std::ranges::find(words, json.get<std::string>());
  if (found == words.end()) throw Wrong{json.get<std::string>()};
  return static_cast<Enum>(found - words.begin());
}

class Reader {
 public:
  explicit Reader(const ClockPair& moment) : moment_(moment) {}

  // `ahead_max`: how far in the future the time may be.
  TimePoint at(const Json& json, Duration ahead_max = {}) const {
    const auto wall = json.get<std::int64_t>();
    if (wall < -wall_max || wall > wall_max) throw Wrong{"a moment"};
    const Duration ago = moment_.wall.time_since_epoch() - std::chrono::microseconds{wall};
    return moment_.now - std::max(ago, -ahead_max);
  }
  std::optional<TimePoint> at_if(const Json& json, Duration ahead_max = {}) const {
    return json.is_null() ? std::nullopt : std::optional(at(json, ahead_max));
  }
  template <class M>
  static M frame(const Json& json) {
    const auto& bytes = json.get_binary();
    const auto decoded =
        link::decode(std::string_view(reinterpret_cast<const char*>(bytes.data()), bytes.size()));
    if (!decoded || !*decoded) throw Wrong{"a frame"};
    const auto* const message = std::get_if<M>(&(*decoded)->message);
    if (message == nullptr) throw Wrong{"a frame of another kind"};
    return *message;
  }
  template <class M>
  static std::optional<M> frame_if(const Json& json) {
    return json.is_null() ? std::nullopt : std::optional(frame<M>(json));
  }
  static NodeTime time(const Json& json) {
    NodeTime time{};
    for (std::size_t i = 0; i < account_count; ++i) {
      time[i] = NodeDuration{json.at(i).get<std::int64_t>()};
      if (time[i] < NodeDuration{} || time[i] > NodeDuration{time_use_max}) throw Wrong{"time"};
    }
    return time;
  }
  static std::vector<link::Consequence> consequences(const Json& json) {
    std::vector<link::Consequence> list;
    for (const Json& each : json) {
      list.push_back({.rank = Rank{each.at(0).get<int>()},
                      .group_rank = GroupRank{each.at(1).get<int>()},
                      .status = {each.at(2).get<bool>(), each.at(3).get<int>()}});
    }
    return list;
  }
  static JobRecord::Node node(const Json& json) {
    const Json& ranks = json.at("ranks");
    JobRecord::Node node{
        .join = frame<link::Join>(json.at("join")),
        .peer = json.at("peer").get<std::string>(),
        .further_peers = json.at("further").get<std::vector<std::string>>(),
        .state = value_of<State>(states, json.at("state")),
        .group_rank = json.at("node").is_null()
                          ? std::nullopt
                          : std::optional(GroupRank{json.at("node").get<int>()}),
        .ranks = {Rank{ranks.at(0).get<int>()}, ranks.at(1).get<int>(), ranks.at(2).get<int>()},
        .leaving = json.at("leaving").get<bool>(),
        .dismissed = json.at("dismissed").get<std::string>(),
        .hosts = json.value("hosts", false)};  // added in a later version
    if (const auto reason = impossible(node.join)) throw Wrong{*reason};
    return node;
  }
  Failures::Entry entry(const Json& json) const {
    return {.failure = frame<link::Failed>(json.at("failure")).failure,
            .at = at(json.at("at")),
            .lost = json.at("lost").get<bool>(),
            .what = json.at("what").get<std::string>(),
            .noticed = link::AgentTime{json.at("noticed").get<std::int64_t>()},
            .heard = at(json.at("heard")),
            .late = json.value("late", false)};
  }
  RoundEnd end(const Json& json) const {
    std::vector<Failures::Entry> failures;
    for (const Json& each : json.at("failures")) failures.push_back(entry(each));
    const auto count = json.at("failure_count").get<std::size_t>();
    if (count < failures.size() || (count > 0 && failures.empty())) throw Wrong{"failure_count"};
    const Json& reached = json.at("reached");
    Failures all{std::move(failures), count};
    const auto leaver = json.find("leaver");  // added in a later version
    if (leaver != json.end() && !leaver->is_null()) all.add_leaver(entry(*leaver));
    return {.reason = json.at("reason").get<std::string>(),
            .at = at(json.at("at")),
            .failures = std::move(all),
            .stop = frame_if<link::Leave>(json.at("stop")),
            .why_no_other = json.at("why_no_other").get<std::string>(),
            .change = json.at("change").get<bool>(),
            .ordered = json.at("ordered").get<bool>(),
            .reached = {reached.at(0).get<std::uint64_t>(), reached.at(1).get<std::uint64_t>()}};
  }
  template <class Records>
  Records rounds(const Json& json) const {
    Records records;
    for (const Json& each : json) {
      const auto root = frame_if<link::Failed>(each.at("root"));
      records.push_back({.round = RoundNumber{each.at("round").get<std::uint32_t>()},
                         .restart = each.at("restart").get<int>(),
                         .began = at(each.at("began")),
                         .ended = at_if(each.at("ended")),
                         .reason = each.at("reason").get<std::string>(),
                         .root = root ? std::optional(root->failure) : std::nullopt,
                         .consequences = consequences(each.at("consequences")),
                         .consequence_count = each.at("consequence_count").get<std::size_t>()});
    }
    return records;
  }
  RoundHistory::Kept history(const Json& json) const {
    using Counts = std::map<std::string, std::size_t>;
    return {.first = rounds<std::vector<RoundRecord>>(json.at("first")),
            .last = rounds<std::deque<RoundRecord>>(json.at("last")),
            .left_out = json.at("left_out").get<std::size_t>(),
            .failures = json.at("failures").get<Counts>(),
            .restarts = json.at("restarts").get<Counts>()};
  }
  TimeAccounting::Kept accounting(const Json& json) const {
    const auto reading = [this](const Json& each) -> std::optional<NodeDuration> {
      const auto time = at_if(each);
      if (!time) return std::nullopt;
      return std::chrono::floor<NodeDuration>(time->time_since_epoch());
    };
    TimeAccounting::Kept kept{
        .began = reading(json.at("began")),
        .until = reading(json.at("until")),
        .nodes = json.at("nodes").get<TimeAccounting::Nodes>(),
        .kept = time(json.at("kept")),
        .lost = {},
        .current = json.at("current").get<std::size_t>(),
        .nodes_at_break = json.at("nodes_at_break").get<std::size_t>(),
        .round_training = NodeDuration{json.at("training").get<std::int64_t>()},
        .round_starting = NodeDuration{json.at("starting").get<std::int64_t>()},
        .trains = json.at("trains").get<bool>()};
    if (!json.at("broken").is_null()) kept.broken = time(json.at("broken"));
    for (const Json& each : json.at("lost")) {
      kept.lost.push_back({.cause = each.at("cause").get<std::string>(),
                           .host = each.at("host").get<std::string>(),
                           .count = each.at("count").get<std::size_t>(),
                           .time = time(each.at("time"))});
    }
    if (kept.current >= kept.lost.size()) throw Wrong{"current"};
    return kept;
  }

 private:
  const ClockPair& moment_;
};

JobRecord read(const Json& json, const Reader& reader) {
  JobRecord record{.founder = json.at("founder").get<std::string>(),
                   .owner = json.at("owner").get<std::string>(),
                   .round = RoundNumber{json.at("round").get<std::uint32_t>()},
                   .phase = value_of<Phase>(phases, json.at("phase")),
                   .world_size = json.at("world_size").get<int>(),
                   .nodes = {},
                   .sealed_at = reader.at(json.at("sealed_at")),
                   .since = reader.at_if(json.at("since")),
                   .round_end = reader.end(json.at("end")),
                   .why_again = json.at("why_again").get<std::string>(),
                   .votes_needed = json.value("votes_needed", std::size_t{0}),
                   // Missing in records of older versions, which had no clusters of cpprunds.
                   .takeover_window = std::chrono::milliseconds(json.value("patience_ms", 0)),
                   .finish = Reader::frame_if<link::Finish>(json.at("finish")),
                   .history = reader.history(json.at("history")),
                   .time = reader.accounting(json.at("time"))};
  for (const Json& each : json.at("nodes")) record.nodes.push_back(Reader::node(each));
  if (record.nodes.empty()) throw Wrong{"no nodes"};
  const Duration pause_max = record.nodes.front().join.restarts.pause_max();
  record.pause_until = reader.at_if(json.at("pause_until"), pause_max);
  for (const Json& each : json.at("dismissals")) {
    record.evicted_nodes.push_back({.host = each.at("host").get<std::string>(),
                                    .pid = each.at("pid").get<int>(),
                                    .agent = each.at("agent").get<std::uint32_t>(),
                                    .why = each.at("why").get<std::string>()});
  }
  return record;
}

// Rejects seats that no round can have had. Job::check rejects everything else that is impossible.
std::optional<std::string> objection_to_seats(const JobRecord& record) {
  const JobTerms terms = terms_of(record.nodes.front().join);
  std::set<int> seats;
  for (const JobRecord::Node& each : record.nodes) {
    if (each.join.job != record.job()) return "it has nodes of two jobs";
    if (disagreement(terms, each.join)) return "its nodes have different settings";
    const bool waits = each.state == State::waiting;
    if (!each.group_rank && !waits) return "a node has no rank";
    if (each.group_rank && !seats.insert(each.group_rank->value).second) {
      return "two nodes have the same rank";
    }
    if (waits != (record.phase == Phase::gathering)) return "a seat contradicts its round";
    if (record.phase == Phase::sealed && each.state == State::drained) return "drained too early";
  }
  return std::nullopt;
}

tl::unexpected<Error> no_record(const std::string& what) {
  return failure(fmt::format("is not a job record of cpprund ({})", what));
}

}  // namespace

Result<JobRecord> read_job_record(std::string_view bytes, const ClockPair& moment) {
  const Json json = parse_cbor(bytes);
  const Json said = json.is_object() ? json.value(job_record::version_key, Json()) : Json();
  if (!said.is_number_unsigned()) return no_record(job_record::version_key);
  if (said != job_record::version) {
    return failure(fmt::format("is of version {}, but this cpprund reads version {}", said.dump(),
                               job_record::version));
  }
  try {
    JobRecord record = read(json, Reader{moment});
    const auto restarts = restart_state_of(json.at("restarts"), moment);
    if (!restarts) return no_record(restarts.error().reason);
    record.restarts = *restarts;
    auto exclusions = exclusions_of(json.at("exclusions"), moment);
    if (!exclusions) return no_record(exclusions.error().reason);
    record.exclusions = *std::move(exclusions);
    if (const auto objection = objection_to_seats(record)) return no_record(*objection);
    return record;
  } catch (const Json::exception& error) {
    return no_record(error.what());
  } catch (const Wrong& wrong) {
    return no_record(wrong.what);
  }
}

std::optional<TimePoint> writer_alive_at(const JobRecord& record, std::optional<WallTime> alive,
                                         const ClockPair& moment) {
  if (!alive) return std::nullopt;
  const TimePoint then = moment.now - std::max<Duration>(moment.wall - *alive, Duration{});
  return then < record.sealed_at ? std::nullopt : std::optional(then);
}

namespace {

constexpr const char* version_key = "cpprund_hosts";
constexpr int version = 1;
// The year 2128; it fits as nanoseconds.
constexpr std::int64_t exclusion_wall_max = 5'000'000'000'000'000;

Json record_in(std::string_view bytes) {
  return parse_cbor(bytes);
}

}  // namespace

Json exclusions_value(const std::vector<Exclusions::Entry>& entries, const ClockPair& moment) {
  Json json = Json::array();
  for (const auto& [host, until, why] : entries) {
    const Json end = until ? Json(moment.by_wall(*until).time_since_epoch().count()) : Json();
    json.push_back({{"host", host}, {"until", end}, {"why", why}});
  }
  return json;
}

Result<std::vector<Exclusions::Entry>> exclusions_of(const Json& json, const ClockPair& moment) {
  if (!json.is_array() || json.size() > bounds::exclusions_max) return failure("exclusions");
  std::vector<Exclusions::Entry> entries;
  try {
    for (const Json& each : json) {
      Exclusions::Entry entry{.host = each.at("host").get<std::string>(),
                              .why = each.at("why").get<std::string>()};
      if (const Json& until = each.at("until"); !until.is_null()) {
        if (!until.is_number_integer()) return failure("a moment");
        const auto wall = until.get<std::int64_t>();
        if (wall < -exclusion_wall_max || wall > exclusion_wall_max) return failure("a moment");
        // A wrong clock must not exclude a host for longer than an operator can ask for.
        const Duration ahead = std::chrono::microseconds{wall} - moment.wall.time_since_epoch();
        entry.until = moment.now + std::min<Duration>(ahead, bounds::exclusion_max);
      }
      entries.push_back(std::move(entry));
    }
  } catch (const Json::exception& error) {
    return failure(error.what());
  }
  std::ranges::sort(entries, {}, &Exclusions::Entry::host);
  return entries;
}

std::string hosts_record_bytes(const std::vector<Exclusions::Entry>& entries,
                               const ClockPair& moment) {
  std::string bytes;
  Json::to_cbor({{version_key, version}, {"exclusions", exclusions_value(entries, moment)}}, bytes);
  return bytes;
}

bool is_hosts_record(std::string_view bytes) {
  const Json json = record_in(bytes);
  return json.is_object() && json.contains(version_key);
}

Result<std::vector<Exclusions::Entry>> read_hosts_record(std::string_view bytes,
                                                         const ClockPair& moment) {
  const auto no_record = [](const std::string& what) {
    return failure(fmt::format("is not a record of excluded hosts of cpprund ({})", what));
  };
  const Json json = record_in(bytes);
  const Json said = json.is_object() ? json.value(version_key, Json()) : Json();
  if (!said.is_number_unsigned()) return no_record(version_key);
  if (said != version) {
    return failure(
        fmt::format("is of version {}, but this cpprund reads version {}", said.dump(), version));
  }
  auto entries = exclusions_of(json.value("exclusions", Json()), moment);
  if (!entries) return no_record(entries.error().reason);
  // Only an exclusion from a single job may have no end time: it ends with the job.
  if (std::ranges::any_of(*entries, [](const auto& each) { return !each.until; })) {
    return no_record("an exclusion has no end");
  }
  return entries;
}

namespace {

using SpentBudgets = std::map<std::string, RestartState::Moments, std::less<>>;

constexpr int state_version = 1;
constexpr const char* state_version_key = "cpprun_restart_state";
constexpr double seconds_max = 5e9;  // the year 2128; it fits as nanoseconds
constexpr std::uint64_t count_max = 1'000'000'000;

double wall_seconds(TimePoint at, const ClockPair& moment) {
  const auto wall = std::chrono::duration<double>(moment.wall.time_since_epoch());
  return wall.count() - in_seconds(moment.now - at);
}

Json to_json(const SpentBudgets& budgets, const ClockPair& moment) {
  Json json = Json::object();
  for (const auto& [name, moments] : budgets) {
    if (moments.empty()) continue;
    Json& times = json[name] = Json::array();
    // To the millisecond, which is precise enough for every reader.
    for (const TimePoint each : moments) {
      times.push_back(std::round(wall_seconds(each, moment) * 1e3) / 1e3);
    }
  }
  return json;
}

std::optional<SpentBudgets> budgets_of(const Json& json, const ClockPair& moment) {
  if (!json.is_object()) return std::nullopt;
  const double wall_now = wall_seconds(moment.now, moment);
  SpentBudgets budgets;
  for (const auto& [name, times] : json.items()) {
    if (!times.is_array()) return std::nullopt;
    auto& moments = budgets[name];
    for (const Json& each : times) {
      const double seconds = each.is_number() ? each.get<double>() : -1;
      if (!(seconds >= 0 && seconds <= seconds_max)) return std::nullopt;
      const std::chrono::duration<double> ago{std::max(0.0, wall_now - seconds)};
      moments.push_back(moment.now - std::chrono::duration_cast<Duration>(ago));
    }
    std::ranges::sort(moments);
  }
  return budgets;
}

std::optional<std::uint64_t> whole_at(const Json& json, const char* name, std::uint64_t most) {
  const auto found = json.find(name);
  if (found == json.end() || !found->is_number_unsigned()) return std::nullopt;
  const auto value = found->get<std::uint64_t>();
  return value <= most ? std::optional(value) : std::nullopt;
}

Json at(const Json& json, const char* name) {
  return json.is_object() ? json.value(name, Json()) : Json();
}

tl::unexpected<Error> not_ours(const std::string& key) {
  return failure(fmt::format(
      "is not a restart state file of cpprun ({}); remove it to start with the full restart budget",
      key));
}

}  // namespace

Json restart_state_value(const RestartState& state, const ClockPair& moment) {
  return {{"restarts_used", state.restarts_used},
          {"spent", to_json(state.spent, moment)},
          {"farthest",
           {{"step", state.farthest.step}, {"checkpoint_step", state.farthest.checkpoint_step}}},
          {"no_progress", state.fruitless},
          {"host_failures", to_json(state.host_failures, moment)}};
}

Result<RestartState> restart_state_of(const Json& json, const ClockPair& moment) {
  RestartState state;
  const auto used = whole_at(json, "restarts_used", count_max);
  if (!used) return failure("restarts_used");
  state.restarts_used = static_cast<int>(*used);
  const auto fruitless = whole_at(json, "no_progress", count_max);
  if (!fruitless) return failure("no_progress");
  state.fruitless = static_cast<int>(*fruitless);
  auto spent = budgets_of(at(json, "spent"), moment);
  if (!spent) return failure("spent");
  state.spent = *std::move(spent);
  auto failures = budgets_of(at(json, "host_failures"), moment);
  if (!failures) return failure("host_failures");
  state.host_failures = *std::move(failures);
  const Json farthest = at(json, "farthest");
  const auto step = whole_at(farthest, "step", UINT64_MAX);
  const auto checkpoint = whole_at(farthest, "checkpoint_step", UINT64_MAX);
  if (!step || !checkpoint) return failure("farthest");
  state.farthest = {.step = *step, .checkpoint_step = *checkpoint};
  return state;
}

std::string restart_state_json(const RestartState& state, const std::string& job,
                               const ClockPair& moment) {
  Json json = restart_state_value(state, moment);
  json[state_version_key] = state_version;
  json["job"] = job;
  return json.dump(2, ' ', true, Json::error_handler_t::replace) + "\n";
}

Result<RestartState> read_restart_state(std::string_view text, const std::string& job,
                                        const ClockPair& moment) {
  const Json json = parse_json(text);
  if (!json.is_object()) return not_ours("not a JSON object");
  const auto said = whole_at(json, state_version_key, UINT64_MAX);
  if (!said) return not_ours(state_version_key);
  if (*said != state_version) {
    return failure(
        fmt::format("is of version {}, but this cpprun reads version {}; use the cpprun that wrote "
                    "it, or remove it to start with the full restart budget",
                    *said, state_version));
  }
  const Json whose = at(json, "job");
  if (!whose.is_string()) return not_ours("job");
  if (whose != job) {
    return failure(fmt::format(
        "belongs to job \"{}\", but this is job \"{}\"; use one file per job, or set --rdzv-id",
        plain_line(whose.get<std::string>()), job));
  }
  auto state = restart_state_of(json, moment);
  if (!state) return not_ours(state.error().reason);
  return state;
}

}  // namespace cpprun
