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

#include "proto/fields_json.h"
#include "proto/link/codec.h"
#include "proto/parse_json.h"
#include "proto/text.h"
#include "rendezvous/job/job_terms.h"
#include "rendezvous/job/operator_command.h"

namespace cpprun {

namespace {

using Json = nlohmann::json;
using State = Member::State;
using Phase = Round::Phase;

// Of each of the three formats.
constexpr int record_version = 1;
// The year 2128; it fits as nanoseconds.
constexpr std::int64_t wall_max = 5'000'000'000'000'000;
constexpr double wall_seconds_max = 5e9;
constexpr std::uint64_t restarts_max = 1'000'000'000;
// What link::RestartWorker can carry.
constexpr Duration restart_pause_max = std::chrono::hours(24 * 24);

// Names in the order of Member::State and of Round::Phase.
constexpr std::array states = {"waiting", "running", "succeeded", "drained"};
constexpr std::array phases = {"gathering", "sealed", "draining"};

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

// Fields whose JSON differs from that of other fields of their type.

// A moment that may be ahead by that much, and in the past by any time.
template <class Time>
struct Ahead {
  Time& time;
  Duration most;
};
template <class Time>
Ahead(Time&, Duration) -> Ahead<Time>;

// The end of an exclusion: a wrong clock must not extend it beyond what an operator can ask for.
template <class Time>
struct Until {
  Time& time;
};
template <class Time>
Until(Time&) -> Until<Time>;

// A reading of the steady clock.
template <class Time>
struct Reading {
  Time& time;
};
template <class Time>
Reading(Time&) -> Reading<Time>;

// Rounded up to whole milliseconds.
template <class Time>
struct WholeMilliseconds {
  Time& time;
};
template <class Time>
WholeMilliseconds(Time&) -> WholeMilliseconds<Time>;

// The restarts that a job has used. Times are seconds since 1970.
struct RestartStateFormat {
  const ClockPair& moment;
  using SpentBudgets = std::map<std::string, RestartState::Moments, std::less<>>;

  void fields(auto& f, Of<RestartState> auto& state) const {
    f("restarts_used", state.restarts_used), f("no_progress", state.fruitless);
    f("spent", state.spent), f("host_failures", state.host_failures);
    f("farthest", state.farthest);
  }

  double wall_seconds(TimePoint at) const {
    const auto wall = std::chrono::duration<double>(moment.wall.time_since_epoch());
    return wall.count() - in_seconds(moment.now - at);
  }
  Json write(const SpentBudgets& budgets) const {
    Json json = Json::object();
    for (const auto& [name, moments] : budgets) {
      if (moments.empty()) continue;
      Json& times = json[name] = Json::array();
      // To the millisecond, which is precise enough for every reader.
      for (const TimePoint each : moments) {
        times.push_back(std::round(wall_seconds(each) * 1e3) / 1e3);
      }
    }
    return json;
  }
  static Json write(const link::Reached& reached) {
    return {{"step", reached.step}, {"checkpoint_step", reached.checkpoint_step}};
  }

  static const Json& member(const Json& json, const char* key) { return member_or_null(json, key); }
  static std::uint64_t whole(const char* key, const Json& json, std::uint64_t most) {
    if (!json.is_number_unsigned() || json.get<std::uint64_t>() > most) throw Wrong{key};
    return json.get<std::uint64_t>();
  }
  static void read(const char* key, const Json& json, int& count) {
    count = static_cast<int>(whole(key, json, restarts_max));
  }
  static void read(const char* key, const Json& json, link::Reached& reached) {
    reached = {.step = whole(key, member(json, "step"), UINT64_MAX),
               .checkpoint_step = whole(key, member(json, "checkpoint_step"), UINT64_MAX)};
  }
  void read(const char* key, const Json& json, SpentBudgets& budgets) const {
    if (!json.is_object()) throw Wrong{key};
    const double wall_now = wall_seconds(moment.now);
    for (const auto& [name, times] : json.items()) {
      if (!times.is_array()) throw Wrong{key};
      auto& moments = budgets[name];
      for (const Json& each : times) {
        const double seconds = each.is_number() ? each.get<double>() : -1;
        if (!(seconds >= 0 && seconds <= wall_seconds_max)) throw Wrong{key};
        const std::chrono::duration<double> ago{std::max(0.0, wall_now - seconds)};
        moments.push_back(moment.now - std::chrono::duration_cast<Duration>(ago));
      }
      std::ranges::sort(moments);
    }
  }
};

// How far ahead the end of a job's pause may be.
Duration pause_max_of(const JobRecord& record) {
  return record.nodes.empty() ? Duration{} : record.nodes.front().join.restarts.pause_max();
}

// What failed in a round, as fields.
struct StoredFailures {
  std::vector<Failures::Entry> entries;
  std::size_t count = 0;
  std::optional<Failures::Entry> leaver;

  explicit StoredFailures(const Failures& failures)
      : entries(failures.entries()), count(failures.count()), leaver(failures.leaver()) {}
  Failures restored() && {
    if (count < entries.size() || (count > 0 && entries.empty())) throw Wrong{"failure_count"};
    Failures failures{std::move(entries), count};
    if (leaver) failures.add_leaver(*std::move(leaver));
    return failures;
  }
};

// A job's record. Messages are stored as frames, and times as microseconds since 1970.
struct RecordFormat {
  const ClockPair& moment;

  void fields(auto& f, Of<JobRecord> auto& record) const {
    f("founder", record.founder), f("owner", record.owner), f("round", record.round);
    f("phase", record.phase), f("world_size", record.world_size);
    f("sealed_at", record.sealed_at), f("since", record.since), f("end", record.round_end);
    f("why_again", record.why_again), f.where_known("votes_needed", record.votes_needed);
    // Missing in records of older versions, which had no clusters of cpprunds.
    f.added("patience_ms", WholeMilliseconds{record.takeover_window});
    f("finish", record.finish), f("history", record.history), f("time", record.time);
    f("nodes", record.nodes), f("pause_until", Ahead{record.pause_until, pause_max_of(record)});
    f("dismissals", record.evicted_nodes), f("restarts", record.restarts);
    f("exclusions", record.exclusions);
    f.where_known("restarted_workers", record.restarted_workers);
  }
  void fields(auto& f, Of<JobRecord::Node> auto& node) const {
    f("ranks", node.ranks), f("join", node.join), f("peer", node.peer);
    f("further", node.further_peers), f("state", node.state), f("node", node.group_rank);
    f("leaving", node.leaving), f("dismissed", node.dismissed), f.added("hosts", node.hosts);
    if constexpr (std::remove_cvref_t<decltype(f)>::reads) {
      if (const auto reason = impossible(node.join)) throw Wrong{*reason};
    }
  }
  void fields(auto& f, Of<Failures::Entry> auto& entry) const {
    f("failure", entry.failure), f("at", entry.at), f("lost", entry.lost), f("what", entry.what);
    f("noticed", entry.noticed), f("heard", entry.heard), f.added("late", entry.late);
  }
  void fields(auto& f, Of<RoundEnd> auto& end) const {
    StoredFailures failures(end.failures);
    f("failures", failures.entries), f("failure_count", failures.count);
    f.added("leaver", failures.leaver);
    f("reason", end.reason), f("at", end.at), f("stop", end.stop);
    f("why_no_other", end.why_no_other), f("change", end.change), f("ordered", end.ordered);
    f("reached", end.reached);
    if constexpr (std::remove_cvref_t<decltype(f)>::reads) {
      end.failures = std::move(failures).restored();
    }
  }
  void fields(auto& f, Of<RoundRecord> auto& round) const {
    f("root", round.root), f("round", round.round), f("restart", round.restart);
    f("began", round.began), f("ended", round.ended), f("reason", round.reason);
    f("consequences", round.consequences), f("consequence_count", round.consequence_count);
    f.where_known("worker_restarts", round.worker_restarts);
  }
  void fields(auto& f, Of<RestartedWorker> auto& worker) const {
    f("rank", worker.rank), f("attempt", worker.attempt), f("restart", worker.restart_count);
    f("due", Ahead{worker.due, restart_pause_max}), f("reason", worker.reason);
  }
  void fields(auto& f, Of<RoundHistory::Kept> auto& kept) const {
    f("first", kept.first), f("last", kept.last), f("left_out", kept.left_out);
    f("failures", kept.failures), f("restarts", kept.restarts);
  }
  void fields(auto& f, Of<TimeAccounting::Kept> auto& kept) const {
    f("began", Reading{kept.began}), f("until", Reading{kept.until}), f("nodes", kept.nodes);
    f("kept", kept.kept), f("current", kept.current), f("nodes_at_break", kept.nodes_at_break);
    f("training", kept.round_training), f("starting", kept.round_starting);
    f("trains", kept.trains), f("broken", kept.broken), f("lost", kept.lost);
    if constexpr (std::remove_cvref_t<decltype(f)>::reads) {
      if (kept.current >= kept.lost.size()) throw Wrong{"current"};
    }
  }
  void fields(auto& f, Of<LostTime> auto& lost) const {
    f("cause", lost.cause), f("host", lost.host), f("count", lost.count), f("time", lost.time);
  }
  void fields(auto& f, Of<Exclusions::Entry> auto& entry) const {
    f("host", entry.host), f("why", entry.why), f("until", Until{entry.until});
  }
  void fields(auto& f, Of<EvictedNodes::Entry> auto& entry) const {
    f("host", entry.host), f("pid", entry.pid), f("agent", entry.agent), f("why", entry.why);
  }

  // Messages as frames.
  static Json write(const link::Message& message) {
    const std::string bytes = link::encode(message);
    return Json::binary({bytes.begin(), bytes.end()});
  }
  static Json write(const link::Join& join) { return write(link::Message{join}); }
  static Json write(const link::Leave& leave) { return write(link::Message{leave}); }
  static Json write(const link::Finish& finish) { return write(link::Message{finish}); }
  static Json write(const link::Failure& failure) {
    return write(link::Message{link::Failed{.failure = failure}});
  }
  template <class M>
    requires std::constructible_from<link::Message, M>
  static void read(const char*, const Json& json, M& message) {
    const auto& bytes = json.get_binary();
    const auto decoded =
        link::decode(std::string_view(reinterpret_cast<const char*>(bytes.data()), bytes.size()));
    if (!decoded || !*decoded) throw Wrong{"a frame"};
    const auto* const read = std::get_if<M>(&(*decoded)->message);
    if (read == nullptr) throw Wrong{"a frame of another kind"};
    message = *read;
  }
  static void read(const char* key, const Json& json, link::Failure& failure) {
    link::Failed failed;
    read(key, json, failed);
    failure = failed.failure;
  }

  // Times.
  Json write(TimePoint time) const { return moment.by_wall(time).time_since_epoch().count(); }
  void read(const char* key, const Json& json, TimePoint& time) const {
    read(key, json, Ahead{time, Duration{}});
  }
  Json write(const Ahead<const TimePoint>& ahead) const { return write(ahead.time); }
  Json write(const Ahead<const std::optional<TimePoint>>& ahead) const {
    return json_of<Json>(*this, ahead.time);
  }
  void read(const char* key, const Json& json, const Ahead<std::optional<TimePoint>>& ahead) const {
    if (!json.is_null()) read(key, json, Ahead{ahead.time.emplace(), ahead.most});
  }
  void read(const char*, const Json& json, const Ahead<TimePoint>& ahead) const {
    const Duration ago = moment.wall.time_since_epoch() - wall_in(json);
    ahead.time = moment.now - std::max(ago, -ahead.most);
  }
  Json write(const Until<const std::optional<TimePoint>>& until) const {
    return json_of<Json>(*this, until.time);
  }
  void read(const char*, const Json& json, const Until<std::optional<TimePoint>>& until) const {
    if (json.is_null()) return;
    if (!json.is_number_integer()) throw Wrong{"a moment"};
    const Duration ahead = wall_in(json) - moment.wall.time_since_epoch();
    until.time = moment.now + std::min<Duration>(ahead, bounds::exclusion_max);
  }
  static std::chrono::microseconds wall_in(const Json& json) {
    const auto wall = json.get<std::int64_t>();
    if (wall < -wall_max || wall > wall_max) throw Wrong{"a moment"};
    return std::chrono::microseconds{wall};
  }
  Json write(const Reading<const std::optional<NodeDuration>>& reading) const {
    return reading.time ? write(TimePoint{*reading.time}) : Json();
  }
  void read(const char* key, const Json& json,
            const Reading<std::optional<NodeDuration>>& reading) const {
    std::optional<TimePoint> time;
    read_json(*this, key, json, time);
    if (time) reading.time = std::chrono::floor<NodeDuration>(time->time_since_epoch());
  }
  static Json write(const WholeMilliseconds<const Duration>& rounded) {
    return std::chrono::ceil<std::chrono::milliseconds>(rounded.time).count();
  }
  static void read(const char*, const Json& json, const WholeMilliseconds<Duration>& rounded) {
    rounded.time = std::chrono::milliseconds(json.get<int>());
  }
  static Json write(NodeDuration time) { return time.count(); }
  static void read(const char*, const Json& json, NodeDuration& time) {
    time = NodeDuration{json.get<std::int64_t>()};
  }
  static Json write(const NodeTime& time) {
    Json json = Json::array();
    for (const NodeDuration each : time) json.push_back(each.count());
    return json;
  }
  static void read(const char* key, const Json& json, NodeTime& time) {
    for (std::size_t i = 0; i < account_count; ++i) {
      read(key, json.at(i), time[i]);
      if (time[i] < NodeDuration{} || time[i] > NodeDuration{time_use_max}) throw Wrong{"time"};
    }
  }

  // Names and rows.
  static Json write(State state) { return states[static_cast<std::size_t>(state)]; }
  static void read(const char*, const Json& json, State& state) {
    state = value_of<State>(states, json);
  }
  static Json write(Phase phase) { return phases[static_cast<std::size_t>(phase)]; }
  static void read(const char*, const Json& json, Phase& phase) {
    phase = value_of<Phase>(phases, json);
  }
  static Json write(const RankRange& ranks) {
    return {ranks.base.value, ranks.role_base, ranks.role_world_size};
  }
  static void read(const char*, const Json& row, RankRange& ranks) {
    ranks = {Rank{row.at(0).get<int>()}, row.at(1).get<int>(), row.at(2).get<int>()};
  }
  static Json write(const link::Reached& reached) {
    return {reached.step, reached.checkpoint_step};
  }
  static void read(const char*, const Json& row, link::Reached& reached) {
    reached = {row.at(0).get<std::uint64_t>(), row.at(1).get<std::uint64_t>()};
  }
  static Json write(const link::Consequence& each) {
    return {each.rank.value, each.group_rank.value, each.status.signalled, each.status.value};
  }
  static void read(const char*, const Json& row, link::Consequence& each) {
    each = {.rank = Rank{row.at(0).get<int>()},
            .group_rank = GroupRank{row.at(1).get<int>()},
            .status = {row.at(2).get<bool>(), row.at(3).get<int>()}};
  }

  Json write(const RestartState& state) const {
    return json_of<Json>(RestartStateFormat{moment}, state);
  }
  void read(const char* key, const Json& json, RestartState& state) const {
    read_json(RestartStateFormat{moment}, key, json, state);
  }
  void read(const char* key, const Json& json, std::vector<Exclusions::Entry>& entries) const {
    if (!json.is_array() || json.size() > bounds::exclusions_max) throw Wrong{key};
    for (const Json& each : json) read_json(*this, key, each, entries.emplace_back());
    std::ranges::sort(entries, {}, &Exclusions::Entry::host);
  }
};

// A kind of record: the member that has its version, and its name in errors.
struct RecordKind {
  const char* version_key;
  const char* name;
};
constexpr RecordKind job_kind{"cpprund_job", "a job record"};
constexpr RecordKind hosts_kind{"cpprund_hosts", "a record of excluded hosts"};

std::string record_bytes(const RecordKind& kind, Json json) {
  json[kind.version_key] = record_version;
  std::string bytes;
  Json::to_cbor(json, bytes);
  return bytes;
}

template <class Read>
auto read_record(const RecordKind& kind, std::string_view bytes, const Read& read)
    -> Result<decltype(read(Json()))> {
  const auto no_record = [&kind](const std::string& what) {
    return failure(fmt::format("is not {} of cpprund ({})", kind.name, what));
  };
  const Json json = parse_cbor(bytes);
  const Json& said = member_or_null(json, kind.version_key);
  if (!said.is_number_unsigned()) return no_record(kind.version_key);
  if (said != record_version) {
    return failure(fmt::format("is of version {}, but this cpprund reads version {}", said.dump(),
                               record_version));
  }
  try {
    return read(json);
  } catch (const Json::exception& error) {
    return no_record(error.what());
  } catch (const Wrong& wrong) {
    return no_record(wrong.what);
  }
}

// Rejects seats that no round can have had. Job::check rejects everything else that is impossible.
std::optional<std::string> objection_to_seats(const JobRecord& record) {
  const JobTerms terms = terms_of(record.nodes.front().join);
  for (const RestartedWorker& each : record.restarted_workers) {
    const bool is_possible = each.rank.value >= 0 && each.rank.value < record.world_size &&
                             each.attempt > 0 && each.restart_count > 0;
    if (!is_possible) return "a worker was restarted that cannot exist";
  }
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

}  // namespace

std::string job_record_bytes(const JobRecord& record, const ClockPair& moment) {
  return record_bytes(job_kind, json_of<Json>(RecordFormat{moment}, record));
}

Result<JobRecord> read_job_record(std::string_view bytes, const ClockPair& moment) {
  return read_record(job_kind, bytes, [&moment](const Json& json) {
    auto record = value_of_json<JobRecord>(RecordFormat{moment}, json);
    if (record.nodes.empty()) throw Wrong{"no nodes"};
    if (const auto objection = objection_to_seats(record)) throw Wrong{*objection};
    return record;
  });
}

std::optional<TimePoint> writer_alive_at(const JobRecord& record, std::optional<WallTime> alive,
                                         const ClockPair& moment) {
  if (!alive) return std::nullopt;
  const TimePoint then = moment.now - std::max<Duration>(moment.wall - *alive, Duration{});
  return then < record.sealed_at ? std::nullopt : std::optional(then);
}

std::string hosts_record_bytes(const std::vector<Exclusions::Entry>& entries,
                               const ClockPair& moment) {
  return record_bytes(hosts_kind, {{"exclusions", json_of<Json>(RecordFormat{moment}, entries)}});
}

bool is_hosts_record(std::string_view bytes) {
  const Json json = parse_cbor(bytes);
  return json.is_object() && json.contains(hosts_kind.version_key);
}

Result<std::vector<Exclusions::Entry>> read_hosts_record(std::string_view bytes,
                                                         const ClockPair& moment) {
  return read_record(hosts_kind, bytes, [&moment](const Json& json) {
    std::vector<Exclusions::Entry> entries;
    RecordFormat{moment}.read("exclusions", member_or_null(json, "exclusions"), entries);
    // Only an exclusion from a single job may have no end time: it ends with the job.
    if (std::ranges::any_of(entries, [](const auto& each) { return !each.until; })) {
      throw Wrong{"an exclusion has no end"};
    }
    return entries;
  });
}

namespace {

constexpr const char* state_version_key = "cpprun_restart_state";

tl::unexpected<Error> not_ours(const std::string& key) {
  return failure(fmt::format(
      "is not a restart state file of cpprun ({}); remove it to start with the full restart budget",
      key));
}

}  // namespace

std::string restart_state_json(const RestartState& state, const std::string& job,
                               const ClockPair& moment) {
  Json json = json_of<Json>(RestartStateFormat{moment}, state);
  json[state_version_key] = record_version;
  json["job"] = job;
  return json.dump(2, ' ', true, Json::error_handler_t::replace) + "\n";
}

Result<RestartState> read_restart_state(std::string_view text, const std::string& job,
                                        const ClockPair& moment) {
  const Json json = parse_json(text);
  if (!json.is_object()) return not_ours("not a JSON object");
  const Json& said = member_or_null(json, state_version_key);
  if (!said.is_number_unsigned()) return not_ours(state_version_key);
  if (said != record_version) {
    return failure(
        fmt::format("is of version {}, but this cpprun reads version {}; use the cpprun that wrote "
                    "it, or remove it to start with the full restart budget",
                    said.get<std::uint64_t>(), record_version));
  }
  const Json& whose = member_or_null(json, "job");
  if (!whose.is_string()) return not_ours("job");
  if (whose != job) {
    return failure(fmt::format(
        "belongs to job \"{}\", but this is job \"{}\"; use one file per job, or set --rdzv-id",
        plain_line(whose.get<std::string>()), job));
  }
  try {
    return value_of_json<RestartState>(RestartStateFormat{moment}, json);
  } catch (const Wrong& wrong) {
    return not_ours(wrong.what);
  }
}

}  // namespace cpprun
