// SPDX-License-Identifier: BSD-3-Clause
// Status texts for people, and worker stats: while a client looks at the job, nodes are asked what
// their workers do. The question travels with the reply to a heartbeat, so it causes no extra
// wake-up and spreads over time as heartbeats do. The rest of the job is in job.cpp.

#include <algorithm>

#include "proto/link/message.h"
#include "rendezvous/job/job.h"
#include "rendezvous/job/job_texts.h"

namespace cpprun {

namespace {

// How long nodes are asked for worker stats after a client's last look.
constexpr Duration watch_time = std::chrono::seconds(10);

}  // namespace

void Job::look(TimePoint now, coordinator::Actions& actions) {
  watched_until_ = now + watch_time;
  // The agent in our own process sends no heartbeats.
  round_.each([&](LinkId link, const Member& member) {
    if (!member.local) return;
    const Duration watch = ask_for_figures(now, link);
    if (watch > Duration{}) {
      actions.emplace_back(coordinator::Say{link, link::Heartbeat{.watch = watch}});
    }
  });
}

// How long the node is to report every change, if it is time to ask it; otherwise 0.
Duration Job::ask_for_figures(TimePoint now, LinkId link) {
  const bool watched = watched_until_ && now < *watched_until_;
  if (!watched || round_.phase() == Round::Phase::gathering || over()) return {};
  const Duration pause = pause_between_looks(round_.size());
  auto& asked = round_.figures_of(link).asked;
  if (asked && now - *asked < pause) return {};
  asked = now;
  return std::min<Duration>(*watched_until_ - now + pause, link::watch_time_max);
}

// The reply repeats the times in the heartbeat, and none of its other contents.
void Job::answer(TimePoint now, LinkId link, const link::Heartbeat& beat,
                 coordinator::Actions& actions) {
  const Duration watch = ask_for_figures(now, link);
  link::Heartbeat answer{beat.sent, beat.round_trip, watch};
  votes_.heard(link, std::min(TimePoint{beat.moment}, now));
  if (votes_.may_be_lost()) {
    answer.moment = std::chrono::floor<link::AgentTime>(now.time_since_epoch());
  }
  actions.emplace_back(coordinator::Say{link, answer});
}

std::string Job::waits_for(TimePoint now) const {
  if (over() || round_.phase() == Round::Phase::sealed) return {};
  Waits waits{.reason = pause_until_ ? why_again_ : round_end_.reason};
  if (pause_until_) waits.pause = *pause_until_ - now;
  if (const auto over_at = last_call_.over_at()) {
    waits.last_call = std::max(*over_at - now, Duration{});
  }
  if (round_.local_member() == nullptr) waits.master = master_waits_;
  return status_of(round_, terms_, waits);
}

void Job::tell_status(TimePoint now, coordinator::Actions& actions) {
  status_due_ = now + options_.status_interval;
  const std::string reason = waits_for(now);
  const auto audience =
      round_.phase() == Round::Phase::gathering ? Member::State::waiting : Member::State::drained;
  for (const auto& [link, member] : round_.members()) {
    if (member->state == audience && member->connected) {
      actions.emplace_back(coordinator::Say{link, link::Waiting{reason}});
    }
  }
}

}  // namespace cpprun
