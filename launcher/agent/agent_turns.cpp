// SPDX-License-Identifier: BSD-3-Clause
// The agent and a cluster of cppruns, one of which is the leader: which one to ask next when the
// leader is lost, and whose messages count. The workers live on meanwhile, for the announced
// takeover window. coordinator_link.h explains why that is safe. The rest of the agent is in
// agent.cpp.

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "launcher/agent/agent.h"
#include "launcher/agent/agent_text.h"
#include "proto/bounds.h"
#include "rendezvous/daemon/place.h"

namespace cpprun {

namespace {

// Round trips per step of an attempt on a slow network: name lookup, connection, greeting or
// handshake, and retransmissions.
constexpr int trips_per_step = 4;
// Steps of an attempt; a name may resolve to several addresses.
constexpr int steps_per_attempt = 2;
// Maximum number of times the step timeout is doubled.
constexpr int doublings_max = 4;

}  // namespace

// A coordinator hosted by a node has a standby that nodes vote for: see agent_standby.cpp.
bool Agent::may_turn() const {
  return !link_.local() && !standby_ && !vote_ && !turned_away_;
}

bool Agent::turns() const {
  return may_turn() && places_.several();
}

// An attempt that gets no reply must not delay the next one.
void Agent::dial_next(TimePoint now, Actions& actions) {
  const Endpoint at = places_.next();
  Duration step = std::max(Duration{bounds::turn_step}, trips_per_step * link_.round_trip());
  if (!has_a_seat_to_lose()) step *= 1 << std::min(places_.turns(), doublings_max);
  step = std::min(step, Duration{bounds::dial_attempt_max});
  actions.emplace_back(agent::Dial{at, step});
  link_.dial_by(now + steps_per_attempt * step);
}

// The link is down, from now on or since earlier.
void Agent::link_lost(TimePoint now, bool fell_silent) {
  using Pause = CoordinatorLink::Pause;
  if (std::exchange(has_heard_, false) && !link_.in_doubt()) {
    alone_since_ = fell_silent ? link_.heard_at() : now;
  }
  if (!turns()) return link_.went_down(now);
  const bool is_early = places_.lost(fell_silent);
  if (!is_early) return link_.went_down(now, Pause::none);
  link_.went_down(now, has_a_seat_to_lose() ? Pause::is_short : Pause::grows);
}

// Whether the message comes from the leader, as far as is known. A message from a follower proves
// nothing.
bool Agent::is_worth_hearing(TimePoint now, const link::Message& message, Actions& actions) {
  const auto* const other = std::get_if<link::NotLeading>(&message);
  if (other != nullptr && may_turn()) {
    ask_elsewhere(now, *other, actions);
    return false;
  }
  if (!std::exchange(has_heard_, true)) unanswered_ = now - alone_since_;
  link_.heard(now);
  if (!link_.in_doubt() || std::holds_alternative<link::Refused>(message)) led_here();
  return true;
}

void Agent::led_here() {
  if (!turns()) return;
  places_.leads();
  config_.endpoint = places_.at();
  facts_.node.master_host = config_.endpoint.host;
}

// The workers' store requests are forwarded only once and not kept here. So they go only to the
// leader that has our seat.
void Agent::speak_for_workers(const link::Message& heard, Actions& actions) {
  const bool is_sure = link_.up() && !link_.in_doubt() && phase_ != Phase::over;
  if (!is_sure || std::holds_alternative<link::NotLeading>(heard)) return;
  if (!std::exchange(speaks_for_workers_, true)) actions.emplace_back(agent::SpeakForWorkers{});
}

void Agent::ask_elsewhere(TimePoint now, const link::NotLeading& answer, Actions& actions) {
  places_.leads_no_more();
  if (answer.port != 0) {
    places_.hint({answer.address, answer.port});
    link_.be_one_of_several(turns());
  }
  actions.emplace_back(agent::HangUp{answer.reason});
  on(now, agent::LinkDown{answer.reason}, actions);
}

void Agent::members(TimePoint now, const link::Members& members, Actions& actions) {
  if (!may_turn() || !link_.up()) return;
  if (members.epoch < epoch_) return follow_no_more(now, members.epoch, actions);
  const Endpoint at = places_.at();
  if (epoch_ != 0 && members.epoch != epoch_ && at != followed_) {
    const bool has_seat = in_round() && phase_ != Phase::succeeded;
    const bool runs_on = phase_ == Phase::running && !drain_asked_ && !stopped_by_;
    actions.emplace_back(agent::TellTurned{.from = followed_,
                                           .to = at,
                                           .epoch = members.epoch,
                                           .silence = has_seat ? unanswered_ : Duration{},
                                           .keeps_workers = runs_on && members.keeps_round});
  }
  epoch_ = members.epoch;
  followed_ = at;
  learn_places(members.places, actions);
  // Without an epoch, the agent could not distinguish a former leader from the current one.
  link_.leads(epoch_ != 0 ? members.patience : Duration{});
  led_here();
  if (phase_ == Phase::succeeded && !link_.lease_is_over(now)) seat_deadline_.reset();
}

// A former leader that is back and does not know that it was replaced.
void Agent::follow_no_more(TimePoint now, std::uint64_t epoch, Actions& actions) {
  const std::string reason = stale_text(to_string(places_.at()), epoch, epoch_);
  if (std::exchange(stale_told_, epoch) != epoch) actions.emplace_back(agent::TellWarning{reason});
  places_.leads_no_more();
  actions.emplace_back(agent::HangUp{reason});
  on(now, agent::LinkDown{reason}, actions);
}

// The first entry is the sender itself, which is already known by the name under which it was
// reached.
void Agent::learn_places(const std::vector<std::string>& told, Actions& actions) {
  std::vector<Endpoint> others;
  for (std::size_t i = 1; i < told.size(); ++i) {
    const auto place = parse_endpoint(told[i], place_port_default);
    if (place) {
      others.push_back(*place);
    } else {
      actions.emplace_back(
          agent::TellDetail{fmt::format("the cpprund at {} sent an invalid endpoint: {}",
                                        to_string(places_.at()), place.error().reason)});
    }
  }
  places_.told(std::move(others));
  link_.be_one_of_several(turns());
}

}  // namespace cpprun
