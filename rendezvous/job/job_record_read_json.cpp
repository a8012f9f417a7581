// SPDX-License-Identifier: BSD-3-Clause
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>
#include <variant>

#include "proto/link/codec.h"
#include "proto/parse_json.h"
#include "rendezvous/job/exclusions_json.h"
#include "rendezvous/job/job_record_json.h"
#include "rendezvous/job/job_record_words.h"
#include "rendezvous/job/job_terms.h"
#include "rendezvous/job/join_check.h"
#include "rendezvous/job/restart_state_json.h"

namespace cpprun {

namespace {

using Json = nlohmann::json;
using State = Member::State;
using Phase = Round::Phase;
using job_record::phases;
using job_record::states;

// The year 2128; as nanoseconds it fits.
constexpr std::int64_t wall_max = 5'000'000'000'000'000;

// What is not as it should be; caught where reading begins.
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
  explicit Reader(const Moment& moment) : moment_(moment) {}

  // As far in the future as it may be.
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
        .hosts = json.value("hosts", false)};  // later than the others
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
    const auto leaver = json.find("leaver");  // later than the others
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
  TimeLedger::Kept ledger(const Json& json) const {
    const auto reading = [this](const Json& each) -> std::optional<NodeDuration> {
      const auto time = at_if(each);
      if (!time) return std::nullopt;
      return std::chrono::floor<NodeDuration>(time->time_since_epoch());
    };
    TimeLedger::Kept kept{.began = reading(json.at("began")),
                          .until = reading(json.at("until")),
                          .nodes = json.at("nodes").get<TimeLedger::Nodes>(),
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
  const Moment& moment_;
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
                   // A cpprund of before there were several knows of none.
                   .patience = std::chrono::milliseconds(json.value("patience_ms", 0)),
                   .finish = Reader::frame_if<link::Finish>(json.at("finish")),
                   .history = reader.history(json.at("history")),
                   .time = reader.ledger(json.at("time"))};
  for (const Json& each : json.at("nodes")) record.nodes.push_back(Reader::node(each));
  if (record.nodes.empty()) throw Wrong{"no nodes"};
  const Duration pause_max = record.nodes.front().join.restarts.pause_max();
  record.pause_until = reader.at_if(json.at("pause_until"), pause_max);
  for (const Json& each : json.at("dismissals")) {
    record.dismissals.push_back({.host = each.at("host").get<std::string>(),
                                 .pid = each.at("pid").get<int>(),
                                 .agent = each.at("agent").get<std::uint32_t>(),
                                 .why = each.at("why").get<std::string>()});
  }
  return record;
}

// Seats that no round can have had; what else cannot be is Job::check's to see.
std::optional<std::string> objection_to_seats(const JobRecord& record) {
  const JobTerms terms = terms_of(record.nodes.front().join);
  std::set<int> seats;
  for (const JobRecord::Node& each : record.nodes) {
    if (each.join.job != record.job()) return "it is of two jobs";
    if (disagreement(terms, each.join)) return "its nodes do not agree";
    const bool waits = each.state == State::waiting;
    if (!each.group_rank && !waits) return "a node has no number";
    if (each.group_rank && !seats.insert(each.group_rank->value).second) {
      return "two nodes have one number";
    }
    if (waits != (record.phase == Phase::gathering)) return "a seat and its round do not fit";
    if (record.phase == Phase::sealed && each.state == State::drained) return "drained too early";
  }
  return std::nullopt;
}

tl::unexpected<Error> no_record(const std::string& what) {
  return failure(fmt::format("is no record of a job as cpprund writes it ({})", what));
}

}  // namespace

Result<JobRecord> read_job_record(std::string_view bytes, const Moment& moment) {
  const Json json = parse_cbor(bytes);
  const Json said = json.is_object() ? json.value(job_record::version_key, Json()) : Json();
  if (!said.is_number_unsigned()) return no_record(job_record::version_key);
  if (said != job_record::version) {
    return failure(fmt::format("is of version {}, and this cpprund reads version {}", said.dump(),
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
                                         const Moment& moment) {
  if (!alive) return std::nullopt;
  const TimePoint then = moment.now - std::max<Duration>(moment.wall - *alive, Duration{});
  return then < record.sealed_at ? std::nullopt : std::optional(then);
}

}  // namespace cpprun
