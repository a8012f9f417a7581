// SPDX-License-Identifier: BSD-3-Clause
#include "launcher/agent/hang_reports.h"

#include <utility>

#include "proto/link/bounds.h"
#include "rendezvous/hang/evidence.h"
#include "rendezvous/hang/evidence_json.h"

namespace cpprun {

namespace {

hang::Evidence evidence_of(const std::vector<hang::Observation>& observations) {
  std::vector<hang::WorkerEvidence> workers;
  for (const hang::Observation& each : observations) workers.push_back(hang::evidence_of(each));
  return hang::cluster(workers);
}

}  // namespace

void HangReports::add_to(link::Heartbeat& beat, TimePoint now, Duration quiet,
                         Duration hang_timeout) {
  beat.quiet = quiet;
  beat.hang_timeout = hang_timeout;
  beat.timed_out = std::exchange(has_timed_out_, false);
  reported_ = since(now, quiet);
}

bool HangReports::has_news(TimePoint now, Duration quiet, bool is_local) const {
  const auto from = since(now, quiet);
  return has_timed_out_ || (from != reported_ && (is_local || !from));
}

std::vector<link::Captured> HangReports::reply_to_capture(const agent::WorkersObserved& event,
                                                          RoundNumber round, Duration quiet) {
  captured_ = event;
  captured_.observations.clear();
  hang::Evidence evidence = evidence_of(event.observations);
  hang::limit(evidence);
  std::string bytes = hang::evidence_json(evidence);
  while (bytes.size() > link::evidence_bytes_max) {
    evidence.positions.empty() ? evidence.clusters.pop_back() : evidence.positions.pop_back();
    bytes = hang::evidence_json(evidence);
  }
  constexpr std::size_t most = bounds::record_part_bytes_max;
  std::vector<link::Captured> parts((bytes.size() + most - 1) / most);
  for (std::size_t i = 0; i < parts.size(); ++i) {
    parts[i] = {.round = round,
                .number = event.number,
                .part = static_cast<int>(i),
                .parts = static_cast<int>(parts.size()),
                .bytes = bytes.substr(i * most, most),
                .quiet = quiet};
  }
  return parts;
}

events::HangFound HangReports::found(const link::Verdict& verdict, const link::Sealed& sealed,
                                     bool is_here) const {
  return {.verdict = verdict,
          .is_here = is_here,
          .is_first_node = sealed.group_rank == GroupRank{},
          .stacks_file = captured_.number == verdict.number ? captured_.stacks_file : ""};
}

WallTime HangReports::observed_at(const link::Verdict& verdict) const {
  return captured_.number == verdict.number ? captured_.time : WallTime{};
}

std::string HangReports::text_of(const agent::WorkersObserved& event) {
  std::string text = "workers on this node:";
  for (const hang::Cluster& each : evidence_of(event.observations).clusters) {
    text += "\n  " + hang::text_of(each);
  }
  if (!event.stacks_file.empty()) text += "\n  full stacks: " + event.stacks_file;
  return text;
}

}  // namespace cpprun
