// SPDX-License-Identifier: BSD-3-Clause
// The part of Coordinator for one of several daemons. One of them leads and has all jobs. The
// others have none and redirect agents to the leader. The election happens elsewhere. An epoch that
// only grows distinguishes the current leader from earlier ones.

#include <fmt/format.h>

#include <utility>

#include "rendezvous/coordinator/coordinator.h"

namespace cpprun {

// It decided nothing while it followed. It knows only the nodes that connect from now on.
void Coordinator::on(TimePoint, const Leads& event, Actions& actions) {
  following_.reset();
  members_ = event.members;
  for (const LinkId link : turning_) tell_members(link, actions);
  actions.emplace_back(
      coordinator::Note{fmt::format("this cpprund leads, in epoch {}", members_->epoch)});
}

void Coordinator::on(TimePoint, const Follows& event, Actions& actions) {
  if (!following_) drop_everything(event, actions);
  following_ = event;
  if (event.is_about_to_lead) return;
  for (const auto& [caller, join] : std::exchange(waiting_, {})) {
    turns_away(caller, join, actions);
  }
}

void Coordinator::on(TimePoint now, const LetsIn&, Actions& actions) {
  for (const auto& [caller, hers] : std::exchange(waiting_, {})) join(now, caller, hers, actions);
}

void Coordinator::on(TimePoint, const MembersChanged& event, Actions& actions) {
  if (!members_ || members_->places == event.places) return;
  members_->places = event.places;
  for (const LinkId link : turning_) tell_members(link, actions);
}

// Another daemon may have these jobs by now, so nodes receive only the new leader's address.
void Coordinator::drop_everything(const Follows& event, Actions& actions) {
  const std::string why = event.reason;
  actions.emplace_back(
      coordinator::Note{.line = "this cpprund is no longer the leader: " + why,
                        .level = event.is_planned ? LogLevel::info : LogLevel::warning});
  const auto turn_away = [&](LinkId link) {
    actions.emplace_back(coordinator::Say{link, link::NotLeading{why, event.address, event.port}});
    actions.emplace_back(coordinator::HangUp{link, why});
  };
  for (const auto& [link, job] : job_of_link_) turn_away(link);
  for (const auto& [link, caller] : newcomers_) turn_away(link);
  for (const auto& [job, entry] : jobs_) {
    actions.emplace_back(coordinator::CloseStore{job, "its job goes on elsewhere", true});
  }
  for (const auto& [job, begins] : awaiting_store_) {
    actions.emplace_back(coordinator::CloseStore{job, "its job goes on elsewhere", true});
  }
  CoordinatorOptions options = options_;
  options.follows = true;
  *this = Coordinator{std::move(options)};
}

// An agent that has followed a leader of a later epoch is rejected. Its claim cannot be verified,
// so this daemon keeps the leadership for as long as its lease lasts.
bool Coordinator::turns_away(const Caller& caller, const link::Join& join, Actions& actions) {
  link::NotLeading answer;
  if (following_ && following_->is_about_to_lead) {
    waiting_.emplace_back(caller, join);
    early_.expect(caller.link);
    return true;
  }
  if (following_) {
    answer = {.reason = "this cpprund is a standby: " + following_->reason,
              .address = following_->address,
              .port = following_->port};
  } else if (members_ && join.epoch > members_->epoch) {
    answer.reason = fmt::format(
        "this cpprund leads in epoch {}, and this node has followed one of "
        "epoch {}",
        members_->epoch, join.epoch);
    actions.emplace_back(
        coordinator::Note{.line = answer.reason, .level = LogLevel::warning, .of_stranger = true});
  } else {
    return false;
  }
  actions.emplace_back(coordinator::Say{caller.link, answer});
  actions.emplace_back(coordinator::HangUp{caller.link, answer.reason});
  return true;
}

void Coordinator::tell_members(LinkId link, Actions& actions) const {
  if (!members_ || !turning_.contains(link)) return;
  link::Members members = *members_;
  const std::string* const job = job_of(link);
  const auto found = job == nullptr ? jobs_.end() : jobs_.find(*job);
  members.keeps_round = found != jobs_.end() && found->second->job.keeps_round_of(link);
  actions.emplace_back(coordinator::Say{link, std::move(members)});
}

}  // namespace cpprun
