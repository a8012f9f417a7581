// SPDX-License-Identifier: BSD-3-Clause
// The half that writes; job_record_read_json.cpp is the other.
#include "rendezvous/job/job_record_json.h"

#include <nlohmann/json.hpp>
#include <utility>

#include "proto/link/codec.h"
#include "rendezvous/job/exclusions_json.h"
#include "rendezvous/job/job_record_words.h"
#include "rendezvous/job/restart_state_json.h"

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
  explicit Writer(const Moment& moment) : moment_(moment) {}

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
  // Its moments count as the clock that decides does.
  Json ledger(const TimeLedger::Kept& kept) const {
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
  const Moment& moment_;
};

}  // namespace

std::string job_record_bytes(const JobRecord& record, const Moment& moment) {
  const Writer writer{moment};
  Json nodes = Json::array();
  for (const auto& each : record.nodes) nodes.push_back(Writer::node(each));
  Json dismissals = Json::array();
  for (const auto& each : record.dismissals) {
    dismissals.push_back(
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
      {"patience_ms", std::chrono::ceil<std::chrono::milliseconds>(record.patience).count()},
      {"finish", Writer::frame(record.finish)},
      {"history", writer.history(record.history)},
      {"time", writer.ledger(record.time)},
      {"exclusions", exclusions_value(record.exclusions, moment)},
      {"dismissals", std::move(dismissals)}};
  if (record.votes_needed != 0) json["votes_needed"] = record.votes_needed;
  std::string bytes;
  Json::to_cbor(json, bytes);
  return bytes;
}

}  // namespace cpprun
