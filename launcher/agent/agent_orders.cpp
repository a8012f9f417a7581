// SPDX-License-Identifier: BSD-3-Clause
// Requests to this node, by a signal or by an operator through the coordinator: to save at the same
// time as all other nodes, and to leave the job. The rest of the agent is in agent.cpp.

#include <fmt/format.h>

#include <algorithm>
#include <csignal>
#include <utility>

#include "launcher/agent/agent.h"
#include "launcher/agent/agent_text.h"
#include "proto/signal_names.h"

namespace cpprun {

namespace {

// Upper bound of a save time in the future. The coordinator schedules one second ahead.
constexpr Duration save_lead_max = std::chrono::seconds(60);

}  // namespace

// All nodes received the same time, each in terms of its own clock. A node that is late saves at
// once, because the other ranks may wait for its ranks in their save.
void Agent::save(TimePoint now, const link::Save& save) {
  if (phase_ != Phase::running || save.round != sealed_->round) return;
  const TimePoint at{save.at};
  saving_ = Saving{save.signal, std::clamp(at, now, now + save_lead_max)};
}

void Agent::save_if_due(TimePoint now, Actions& actions) {
  if (!saving_ || now < saving_->at) return;
  const int signal = saving_->signal;
  saving_.reset();
  // Workers that are stopping have already received another signal.
  if (phase_ != Phase::running || !supervisor_) return;
  pass_on(now, supervisor_->handle(worker_time(now), supervisor::Deliver{signal}), actions);
}

void Agent::on(TimePoint now, const agent::Signalled& event, Actions& actions) {
  if (!asks_to_end(event.signal)) return forward(now, event.signal, actions);
  if (stopped_by_) {
    insisted_ = true;
    if (phase_ != Phase::running || !supervisor_) {
      exit_by_signal(actions);
      return;
    }
    const std::string reason = fmt::format("{} arrived again", signal_name(event.signal));
    pass_on(now, supervisor_->handle(worker_time(now), supervisor::Insist{reason}), actions);
    return;
  }
  stopped_by_ = event.signal;
  pending_failures_.stopped(now);
  const std::string reason = fmt::format("asked to stop by {}{}", signal_name(event.signal),
                                         event.by.empty() ? "" : ": " + event.by);
  stop_reason_ = reason;
  say(link::Leave{.signal = event.signal, .reason = reason, .asked = link_.heartbeat(now).sent},
      actions);
  if (phase_ == Phase::running) {
    stop_workers(now, reason, event.signal, actions);
  } else if (!facts_.hosts_coordinator) {
    // This breaks the round, and this node will not be there to receive the Drain.
    if (phase_ == Phase::succeeded) say(link::Drained{sealed_->round}, actions);
    exit_by_signal(actions);
  }
  // The node that hosts the coordinator leaves when the coordinator reports that the job is over.
}

void Agent::exit_by_signal(Actions& actions) {
  const int signal = stopped_by_.value_or(SIGTERM);
  const auto reason =
      stop_reason_.empty() ? fmt::format("asked to stop by {}", signal_name(signal)) : stop_reason_;
  exit({.code = 128 + signal,
        .reason = has_had_seat_ ? reason : interrupted_text(signal, phase_ == Phase::dialing)},
       actions);
}

// All ranks save, not only those of this node, so the coordinator has to know.
void Agent::on(TimePoint now, const agent::Noticed& event, Actions& actions) {
  const bool can_save = phase_ == Phase::running && !stopped_by_;
  actions.emplace_back(agent::TellNote{
      fmt::format("note: preemption notice ({}){}", event.what,
                  can_save ? "; asking all ranks to save" : ", with no worker that could save")});
  if (!can_save) return;
  notice_ = event.what;
  if (link_.up()) actions.emplace_back(agent::Say{heartbeat(now)});
}

link::Heartbeat Agent::heartbeat(TimePoint now) {
  auto beat = link_.heartbeat(now);
  beat.notice = std::exchange(notice_, {});
  return beat;
}

// A signal that does not mean stop. A signal in config_.notices goes only to workers that handle
// it, because it would terminate the others.
void Agent::forward(TimePoint now, int signal, Actions& actions) {
  if (phase_ != Phase::running || !supervisor_) return;
  const bool is_notice = std::ranges::find(config_.notices, signal) != config_.notices.end();
  const TimePoint at = worker_time(now);
  const auto from = is_notice ? supervisor_->handle(at, supervisor::Deliver{signal})
                              : supervisor_->handle(at, supervisor::Forward{signal});
  pass_on(now, from, actions);
}

// No worker of a round is alive here. If one is, this node has a seat that the sender does not know
// of.
void Agent::dismissed(const link::Dismissed& dismissed, Actions& actions) {
  if (phase_ == Phase::running) return;
  actions.emplace_back(agent::TellNote{"this node leaves the job: " + dismissed.reason});
  exit({.code = stopped_by_ ? 128 + *stopped_by_ : 0, .reason = dismissed.reason}, actions);
}

}  // namespace cpprun
