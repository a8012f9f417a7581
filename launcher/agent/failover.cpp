// SPDX-License-Identifier: BSD-3-Clause
#include "launcher/agent/failover.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "launcher/agent/bounds.h"
#include "proto/link/bounds.h"
#include "rendezvous/client/bounds.h"
#include "rendezvous/endpoint.h"
#include "rendezvous/job/bounds.h"

namespace cpprun {

namespace {

using namespace std::chrono_literals;

// Round trips per step of an attempt on a slow network: name lookup, connection, greeting or
// handshake, and retransmissions.
constexpr int trips_per_step = 4;
// Steps of an attempt; a name may resolve to several addresses.
constexpr int steps_per_attempt = 2;
// Maximum number of times the step timeout is doubled.
constexpr int doublings_max = 4;

// The nodes' last contacts with the coordinator differ by up to a heartbeat, so the standby may not
// campaign yet, and a host without power does not reply for seconds. So the agent alternates
// between standby and master, with these timeouts.
constexpr Duration standby_turn = 1s;
constexpr Duration master_turn = 500ms;
// The pause before asking a standby again that has our vote.
constexpr Duration standby_pause = 250ms;

}  // namespace

EndpointRotation::EndpointRotation(const Endpoint& first, std::vector<Endpoint> named)
    : named_(std::move(named)), led_last_(first), at_(first) {}

std::vector<Endpoint> EndpointRotation::all() const {
  std::vector<Endpoint> all{led_last_};
  const auto add = [&all](const Endpoint& place) {
    if (std::ranges::find(all, place) == all.end()) all.push_back(place);
  };
  std::ranges::for_each(told_, add);
  std::ranges::for_each(named_, add);
  if (hinted_) add(*hinted_);
  return all;
}

bool EndpointRotation::was_asked(const Endpoint& place) const {
  return std::ranges::find(asked_, place) != asked_.end();
}

std::optional<Endpoint> EndpointRotation::left() const {
  if (hinted_ && !was_asked(*hinted_)) return hinted_;
  for (const Endpoint& each : all()) {
    if (!was_asked(each)) return each;
  }
  return std::nullopt;
}

const Endpoint& EndpointRotation::next() {
  auto place = left();
  if (!place) {
    begin_turn();
    ++turns_;
    place = left();
  }
  at_ = *place;
  asked_.push_back(at_);
  leads_ = false;
  return at_;
}

void EndpointRotation::begin_turn() {
  asked_.clear();
  hints_ = 0;
}

void EndpointRotation::leads() {
  leads_ = true;
  led_last_ = at_;
  hinted_.reset();
  turns_ = 0;
}

// It reported this itself, so a new cycle begins, in which it counts as asked.
void EndpointRotation::leads_no_more() {
  if (!std::exchange(leads_, false)) return;
  begin_turn();
  asked_.push_back(at_);
}

void EndpointRotation::hint(const Endpoint& there) {
  if (!was_asked(at_)) asked_.push_back(at_);
  // Do not follow an endless chain of redirects.
  if (hints_ == static_cast<int>(bounds::members_max)) return;
  ++hints_;
  hinted_ = there;
}

bool EndpointRotation::lost(bool fell_silent) {
  if (std::exchange(leads_, false)) {
    begin_turn();
    if (fell_silent) asked_.push_back(at_);
    return !fell_silent;
  }
  return !left();
}

// An attempt that gets no reply must not delay the next one.
void ClusterFailover::dial(TimePoint now, bool has_seat, CoordinatorLink& link, Actions& actions) {
  const Endpoint at = places_.next();
  Duration step = std::max(Duration{bounds::turn_step}, trips_per_step * link.round_trip());
  if (!has_seat) step *= 1 << std::min(places_.turns(), doublings_max);
  step = std::min(step, Duration{bounds::dial_attempt_max});
  actions.emplace_back(agent::Dial{at, step});
  link.dial_by(now + steps_per_attempt * step);
}

CoordinatorLink::Pause ClusterFailover::lost(bool fell_silent, bool has_seat) {
  using Pause = CoordinatorLink::Pause;
  const bool is_early = places_.lost(fell_silent);
  if (!is_early) return Pause::none;
  return has_seat ? Pause::is_short : Pause::grows;
}

const Endpoint& ClusterFailover::leads() {
  places_.leads();
  return places_.at();
}

void ClusterFailover::not_leading(const link::NotLeading& answer) {
  places_.leads_no_more();
  if (answer.port != 0) places_.hint({answer.address, answer.port});
}

std::string ClusterFailover::reject(std::uint64_t epoch, Actions& actions) {
  std::string reason = fmt::format(
      "ignoring the cpprund at {}, which acts as leader of epoch {}: another one became leader in "
      "epoch {}",
      to_string(places_.at()), epoch, epoch_);
  if (std::exchange(stale_told_, epoch) != epoch)
    actions.emplace_back(events::Note{reason, LogLevel::warning});
  places_.leads_no_more();
  return reason;
}

std::optional<Endpoint> ClusterFailover::follow(std::uint64_t epoch) {
  const Endpoint at = places_.at();
  const bool has_moved = epoch_ != 0 && epoch != epoch_ && at != followed_;
  epoch_ = epoch;
  const Endpoint before = std::exchange(followed_, at);
  return has_moved ? std::optional(before) : std::nullopt;
}

// The first entry is the sender itself, which is already known by the name under which it was
// reached.
void ClusterFailover::learn(const std::vector<std::string>& members, Actions& actions) {
  std::vector<Endpoint> others;
  for (std::size_t i = 1; i < members.size(); ++i) {
    const auto place = parse_endpoint(members[i], rendezvous_port_default);
    if (place) {
      others.push_back(*place);
    } else {
      actions.emplace_back(
          events::Note{fmt::format("the cpprund at {} sent an invalid endpoint: {}",
                                   to_string(places_.at()), place.error().reason),
                       LogLevel::debug});
    }
  }
  places_.told(std::move(others));
}

// --- the standby of a job ------------------------------------------------------------------------

// The first Standby received with our port after this node opened its own refers to this node. In a
// draining round another node may replace it, with the same port.
void StandbyFailover::named(const link::Standby& standby, bool may_vote) {
  if (!standby_) may_vote_ = may_vote;
  standby_ = standby;
  const bool is_own =
      own_ && !own_place_ && own_->round == standby.round && own_->port == standby.port;
  if (is_own) own_place_ = standby;
}

// A part out of order belongs to a broken link.
std::optional<agent::StandBy> StandbyFailover::record(const link::Record& part) {
  const bool begins = part.part == 0;
  const bool follows = !begins && part.round == record_.round && part.parts == record_.parts &&
                       part.part == record_.part + 1;
  if (!begins && !follows) {
    record_ = {};
    return std::nullopt;
  }
  std::string bytes = begins ? std::string() : std::move(record_.bytes);
  record_ = {part.round, part.part, part.parts, std::move(bytes) + part.bytes};
  if (part.part + 1 < part.parts) return std::nullopt;
  return agent::StandBy{part.round, std::exchange(record_, {}).bytes};
}

void StandbyFailover::follow() {
  standby_.reset();
  own_.reset();
  own_place_.reset();
  record_ = {};
  may_vote_ = false;
  is_released_ = false;
  vote_.reset();
  is_at_standby_ = false;
  has_stepped_down_ = false;
}

bool StandbyFailover::release_vote() {
  may_vote_ = false;
  return standby_ && !std::exchange(is_released_, true);
}

void StandbyFailover::consider_voting(TimePoint heard_at, std::optional<RoundNumber> round) {
  if (!standby_) return;
  vote_ = Vote{.round = may_vote_ ? round.value_or(RoundNumber{}) : RoundNumber{},
               .from = heard_at + bounds::vote_timeout(lease_)};
}

Duration StandbyFailover::silence(TimePoint now) const {
  return vote_ ? now - (vote_->from - bounds::vote_timeout(lease_)) : Duration{};
}

bool StandbyFailover::transferred(const Endpoint& to, bool can_lead) {
  vote_.reset();
  if (is_here() && to == place() && can_lead) return true;
  standby_.reset();
  return false;
}

void StandbyFailover::dial(TimePoint now, const Endpoint& master, CoordinatorLink& link,
                           Actions& actions) {
  const bool asks_both = vote_ && !is_here();
  const bool may_vote = asks_both && vote_->from <= now;
  is_at_standby_ =
      (has_stepped_down_ && standby_) || (may_vote && (vote_->is_given || !is_at_standby_));
  if (is_at_standby_) dialled_ = place();
  actions.emplace_back(agent::Dial{is_at_standby_ ? dialled_ : master});
  // An attempt that gets no reply must not delay the next one.
  if (asks_both && !may_vote) link.dial_by(vote_->from);
  if (may_vote) link.dial_by(now + (is_at_standby_ ? standby_turn : master_turn));
}

RoundNumber StandbyFailover::vote_on_this_link(Actions& actions) {
  if (is_at_standby_) {
    if (!vote_) return {};
    vote_->is_given = vote_->round != RoundNumber{};
    return vote_->round;
  }
  if (std::exchange(stands_, false)) actions.emplace_back(agent::Stand{});
  if (vote_) standby_.reset();
  vote_.reset();
  return {};
}

void StandbyFailover::not_leading() {
  if (vote_) vote_->is_given = false;
}

void StandbyFailover::link_down(TimePoint now, CoordinatorLink& link) const {
  if (has_stepped_down_ || (vote_ && vote_->is_given)) link.dial_at(now + standby_pause);
  if (vote_ && vote_->from <= now) link.dial_by(now + master_turn);
}

void StandbyFailover::ask_standby(TimePoint now, CoordinatorLink& link) const {
  if (vote_ && !is_here()) link.dial_by(std::max(now, vote_->from));
}

std::optional<TimePoint> StandbyFailover::stands_at() const {
  if (!vote_ || vote_->round == RoundNumber{} || stands_ || !is_here()) return std::nullopt;
  return vote_->from;
}

RoundNumber StandbyFailover::stand() {
  stands_ = true;
  return vote_->round;
}

void StandbyFailover::lead() {
  vote_.reset();
  stands_ = false;
  is_at_standby_ = false;
}

void StandbyFailover::lead_again() {
  standby_.reset();
  vote_.reset();
  is_at_standby_ = false;
  has_stepped_down_ = false;
}

void StandbyFailover::step_down(TimePoint now, CoordinatorLink& link) {
  has_stepped_down_ = true;
  link.dial_by(now + standby_pause);
}

// --- former masters ------------------------------------------------------------------------------

void FormerMasters::moved(const Endpoint& from, const Endpoint& to) {
  std::erase(masters_, to);
  if (std::ranges::find(masters_, from) == masters_.end()) masters_.push_back(from);
  if (masters_.size() > bounds::masters_looked_for_max) {
    masters_.erase(masters_.begin() + 1);  // keep the first: all nodes were started with it
  }
}

void FormerMasters::search(TimePoint now) {
  due_ = now;
  next_ = masters_.empty() ? 0 : masters_.size() - 1;
}

std::optional<Endpoint> FormerMasters::take_due(TimePoint now) {
  if (masters_.empty() || now < due_) return std::nullopt;
  due_ = now + bounds::master_look_pause;
  return masters_[next_++ % masters_.size()];
}

std::optional<agent::AskWhoHosts> FormerMasters::ask(TimePoint now, const Config& config,
                                                     const AgentFacts& facts) {
  const auto master = take_due(now);
  if (!master) return std::nullopt;
  return agent::AskWhoHosts{{master->host},
                            master->port,
                            {.job = config.job,
                             .host = facts.host,
                             .pid = facts.pid,
                             .agent = facts.agent,
                             .leads_address = config.endpoint.host,
                             .leads_port = config.endpoint.port}};
}

}  // namespace cpprun
