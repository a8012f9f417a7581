// SPDX-License-Identifier: BSD-3-Clause
// The part of Coordinator that handles links that have not joined a job yet: a master that asks
// which coordinator it has reached, agents that introduce themselves, and links that stay silent.

#include <fmt/format.h>

#include <algorithm>

#include "proto/bounds.h"
#include "rendezvous/coordinator/coordinator.h"
#include "rendezvous/job/job_texts.h"

namespace cpprun {

// The peer considers itself a master, but the address it was given leads here.
void Coordinator::answer(TimePoint now, const Caller& caller, const link::WhoHosts& question,
                         Actions& actions) {
  const bool is_of_ours = options_.only && question.job == options_.only->id;
  if (is_of_ours && question.leads_port != 0 && options_.options.standby) {
    return hear_leader(now, caller, question, actions);
  }
  link::Hosts answer;
  if (options_.only) {
    const Member* host = hosted() == nullptr ? nullptr : hosted()->job.round().local_member();
    if (host == nullptr) {
      actions.emplace_back(coordinator::HangUp{caller.link, "no node hosts the job here yet"});
      return;
    }
    answer = {.job = options_.only->id,
              .host = host->join.host,
              .pid = host->join.pid,
              .itself = host->join.host == question.host && host->join.pid == question.pid &&
                        host->join.agent == question.agent};
    if (!answer.itself && question.job == answer.job) {
      actions.emplace_back(coordinator::Note{second_master_text(question, caller.peer)});
    }
  }
  actions.emplace_back(coordinator::Say{caller.link, answer});
  actions.emplace_back(coordinator::HangUp{caller.link, "it has its answer"});
}

// The agent sends its join through another link, before or after this. This link stays open and
// counts in the quota until the agent has joined.
void Coordinator::introduce(const Caller& caller, const link::WhoHosts& agent, Actions& actions) {
  const bool is_first = introduced_.emplace(caller.link, agent.agent).second;
  if (!is_first) {
    actions.emplace_back(coordinator::HangUp{caller.link, "it has introduced itself already"});
    return;
  }
  actions.emplace_back(
      coordinator::Say{caller.link, link::Hosts{.job = agent.job, .itself = true}});
  if (agent.agent == 0) return;  // Without a number the agent cannot be identified.
  introductions_.emplace(agent.agent, Introduction{agent, caller});
  if (const auto found = jobs_.find(agent.job);
      found != jobs_.end() && found->second->owner == caller.owner) {
    found->second->job.speaks_from(agent, caller.peer);
  }
}

void Coordinator::enter(TimePoint now, Entry& entry, const Newcomer& newcomer, Actions& actions) {
  const auto& [caller, join] = newcomer;
  job_of_link_[caller.link] = join.job;
  entry.job.join(now, caller, join, actions);
  if (join.turns) turning_.insert(caller.link);
  tell_members(caller.link, actions);
  welcome(entry.job, newcomer, actions);
  for (const link::Message& early : early_.take(caller.link)) {
    entry.job.hear(now, caller.link, early, actions);
  }
  // Members of a hosted job do not count in the quota of their address.
  if (options_.only && entry.job.round().find(caller.link) != nullptr) release(caller.link);
}

// A reconnecting agent repeats right after its join what may have been lost.
void Coordinator::hear_early(const Said& event, Actions& actions) {
  if (early_.keep(event.link, event.message)) return;
  actions.emplace_back(
      coordinator::HangUp{event.link, "it says more than any node before its job is there"});
}

// The agent is a member now, so it may also use the addresses from which it has introduced itself.
void Coordinator::welcome(Job& job, const Newcomer& newcomer, Actions& actions) {
  const link::Join& join = newcomer.second;
  const auto [first, last] = introductions_.equal_range(join.agent);
  for (auto at = first; at != last; ++at) {
    const auto& [agent, caller] = at->second;
    if (agent.job != join.job || caller.owner != newcomer.first.owner ||
        !job.speaks_from(agent, caller.peer))
      continue;
    actions.emplace_back(coordinator::HangUp{caller.link, "its agent has joined"});
  }
}

void Coordinator::forget_newcomer(LinkId link) {
  newcomers_.erase(link);
  const auto introduced = introduced_.extract(link);
  if (introduced.empty()) return;
  const auto [first, last] = introductions_.equal_range(introduced.mapped());
  const auto its_own =
      std::find_if(first, last, [link](const auto& each) { return each.second.from.link == link; });
  if (its_own != last) introductions_.erase(its_own);
}

// When to close the newcomer that has been silent longest: if there are too many, or if the hosted
// job is over, whose end a silent link must not delay.
std::optional<TimePoint> Coordinator::next_to_make_room() const {
  if (newcomer_leases_.size() == 0) return std::nullopt;
  if (!is_over() && newcomer_leases_.size() <= options_.limits.newcomers) return std::nullopt;
  return newcomer_leases_.longest_silent()->heard + bounds::join_patience_in_crowd;
}

void Coordinator::make_room(TimePoint now, Actions& actions) {
  for (auto due = next_to_make_room(); due && *due <= now; due = next_to_make_room()) {
    const LinkId link = newcomer_leases_.longest_silent()->holder;
    forget_newcomer(link);
    newcomer_leases_.forget(link);
    const auto* why = is_over() ? "the job is over" : "others need its descriptor (ulimit -Hn)";
    actions.emplace_back(
        coordinator::HangUp{link, fmt::format("it greeted, and then said nothing, and {}", why)});
  }
}

}  // namespace cpprun
