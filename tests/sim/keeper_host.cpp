#include "tests/sim/keeper_host.h"

#include <fmt/format.h>

#include <utility>

#include "proto/bounds.h"
#include "proto/link/codec.h"

namespace cpprun::sim {

using namespace std::chrono_literals;

std::string job_id(int job) {
  return fmt::format("job{}", job);
}

std::optional<int> job_number(const std::string& id) {
  const std::string prefix = "job";
  if (!id.starts_with(prefix)) return std::nullopt;
  return std::stoi(id.substr(prefix.size()));
}

KeeperHost::KeeperHost(Universe& universe, Program& program, const MachineClock& clock, Hooks hooks)
    : universe_(universe), program_(program), clock_(clock), hooks_(std::move(hooks)) {}

void KeeperHost::begin() {
  const Scenario& scenario = universe_.scenario;
  KeeperOptions options{.options = {.lease = scenario.lease(),
                                    .status_interval = bounds::status_interval,
                                    .last_call = scenario.last_call,
                                    .store_port = 29500}};
  if (!scenario.daemon) {
    const JobShape& shape = scenario.jobs.front();
    options.only = JobTerms{.id = job_id(0),
                            .nodes_min = shape.nodes_min,
                            .nodes_max = shape.nodes_max,
                            .restarts_max = shape.restarts_max};
  }
  keeper_.emplace(std::move(options));
  ++incarnation_;
  told_done_ = false;
  local_link_.reset();
  nodes_.clear();
  strangers_.clear();
  armed_.reset();
  universe_.judge.keeper_begins();
}

void KeeperHost::end() {
  keeper_.reset();
  events_.clear();
  ++incarnation_;
}

int KeeperHost::node_of(LinkId link) const {
  const auto found = nodes_.find(link);
  return found == nodes_.end() ? -1 : found->second;
}

// --- links ---------------------------------------------------------------------------------------

void KeeperHost::accepted(const ConnectionRef& connection) {
  connection->link = LinkId{++last_link_.value};
  nodes_[connection->link] = connection->node;
  universe_.judge.link_opened(connection->node);
  tell(Keeper::Opened{
      {.link = connection->link, .peer = address_of(connection->node), .local = false}});
}

void KeeperHost::heard(const ConnectionRef& connection, const Packet& packet) {
  universe_.judge.keeper_heard(connection->node);
  if (packet.kind == Packet::Kind::heartbeat) {
    tell(Keeper::Said{connection->link, packet.heartbeat});
    return;
  }
  const auto decoded = link::decode(packet.bytes);
  universe_.judge.must(decoded && *decoded, "an agent's frame cannot be decoded");
  if (!decoded || !*decoded) return;
  universe_.trace.line(universe_.time.now(), "keeper hears node {}: {}", connection->node,
                       packet.bytes.substr(4));
  if (std::holds_alternative<link::Join>((*decoded)->message)) {
    universe_.judge.keeper_hears_join(connection->node);
  }
  tell(Keeper::Said{connection->link, (*decoded)->message});
}

void KeeperHost::closed(LinkId link, const std::string& reason, bool broken) {
  if (link == LinkId{}) return;
  universe_.trace.line(universe_.time.now(), "keeper: link {} is closed: {}", link.value, reason);
  tell(Keeper::Closed{link, reason, broken});
  nodes_.erase(link);
}

// --- strangers -----------------------------------------------------------------------------------

LinkId KeeperHost::stranger_comes(const std::string& address) {
  const LinkId link{++last_link_.value};
  strangers_.insert(link);
  program_.receive([this, link, address] {
    tell(Keeper::Opened{{.link = link, .peer = address, .local = false}});
  });
  return link;
}

// What cannot be read ends the link, as LinkChannel does it.
void KeeperHost::stranger_says(LinkId link, const std::string& bytes) {
  if (!strangers_.contains(link)) return;
  program_.receive([this, link, bytes] {
    if (!strangers_.contains(link)) return;
    const auto decoded = link::decode(bytes);
    if (decoded && *decoded) {
      tell(Keeper::Said{link, (*decoded)->message});
    } else {
      stranger_leaves(link, false);
    }
  });
}

void KeeperHost::stranger_leaves(LinkId link, bool broken) {
  if (strangers_.erase(link) == 0) return;
  program_.receive([this, link, broken] { tell(Keeper::Closed{link, "it went", broken}); });
}

void KeeperHost::hear_local_agent(const link::Message& message) {
  if (!keeper_) return;
  if (!local_link_) {
    local_link_ = LinkId{++last_link_.value};
    nodes_[*local_link_] = 0;
    tell(Keeper::Opened{{.link = *local_link_, .peer = "127.0.0.1", .local = true}});
  }
  universe_.judge.keeper_heard(0);
  tell(Keeper::Said{*local_link_, message});
}

void KeeperHost::local_agent_left() {
  if (local_link_) tell(Keeper::Closed{*std::exchange(local_link_, std::nullopt), "it ends"});
}

// --- the machine ---------------------------------------------------------------------------------

// As in KeeperServer: what an action leads to waits until the actions before it are performed.
void KeeperHost::tell(Keeper::Event event) {
  if (!keeper_) return;
  events_.push_back(std::move(event));
  if (!working_off_) work_off();
}

void KeeperHost::work_off() {
  working_off_ = true;
  while (!events_.empty() && keeper_) {
    const Keeper::Event event = std::move(events_.front());
    events_.pop_front();
    perform(keeper_->handle(now(), event));
  }
  working_off_ = false;
  arm();
}

void KeeperHost::perform(const Keeper::Actions& actions) {
  judge_seals(actions);
  judge_admission(actions);
  for (const keeper::Action& action : actions) {
    if (!keeper_) return;  // The word just said ended this very process.
    if (const auto* say = std::get_if<keeper::Say>(&action)) {
      perform(*say);
    } else if (const auto* hang_up = std::get_if<keeper::HangUp>(&action)) {
      if (strangers_.contains(hang_up->link)) {
        universe_.time.later(0ns, [this, link = hang_up->link] { stranger_leaves(link, false); });
        continue;
      }
      const ConnectionRef connection = network_->find(hang_up->link);
      if (!connection) continue;
      if (hang_up->reason.starts_with("silent for ")) {
        universe_.judge.keeper_gives_up(connection->node, connection->arrived);
      }
      network_->close(connection, Side::keeper);
      universe_.time.later(0ns, [this, link = hang_up->link, which = incarnation_] {
        if (which != incarnation_) return;
        program_.receive([this, link] { closed(link, "hung up", false); });
      });
    } else if (const auto* open = std::get_if<keeper::OpenStore>(&action)) {
      open_store(open->job);
    } else if (const auto* close = std::get_if<keeper::CloseStore>(&action)) {
      if (const auto job = job_number(close->job)) universe_.judge.keeper_forgets(*job);
    } else if (const auto* note = std::get_if<keeper::Note>(&action)) {
      universe_.trace.line(universe_.time.now(), "keeper: {}", note->line);
    }
  }
}

void KeeperHost::open_store(const std::string& job) {
  const int port = 30000 + stores_opened_++;
  universe_.time.later(0ns, [this, job, port, which = incarnation_] {
    if (which != incarnation_) return;
    program_.receive([this, job, port] { tell(Keeper::StoreReady{job, port}); });
  });
}

void KeeperHost::perform(const keeper::Say& say) {
  const int node = node_of(say.link);
  if (node < 0) return;
  universe_.judge.node_is_told(node, say.message);
  if (const auto* finish = std::get_if<link::Finish>(&say.message)) {
    universe_.judge.keeper_finishes(universe_.scenario.job_of(node), *finish);
  }
  if (std::holds_alternative<link::Refused>(say.message)) universe_.judge.keeper_refuses(node);
  if (say.link == local_link_) {
    hooks_.to_local_agent(say.message);
    return;
  }
  const ConnectionRef connection = network_->find(say.link);
  if (!connection) return;
  if (const auto* beat = std::get_if<link::Heartbeat>(&say.message)) {
    network_->send(connection, Side::agent, {.kind = Packet::Kind::heartbeat, .heartbeat = *beat});
    return;
  }
  std::string bytes = link::encode(say.message);
  universe_.judge.counted(node, 0, say.message, bytes.size());
  network_->send(connection, Side::agent, {.kind = Packet::Kind::frame, .bytes = std::move(bytes)});
}

// A store is for the machines of the round and for no other, whatever anybody claimed.
void KeeperHost::judge_admission(const Keeper::Actions& actions) {
  for (const keeper::Action& action : actions) {
    const auto* reset = std::get_if<keeper::ResetStore>(&action);
    if (reset == nullptr) continue;
    const auto job = job_number(reset->job);
    for (int node = 0; node < universe_.scenario.nodes(); ++node) {
      const bool is_admitted = keeper_->admit(reset->job, address_of(node)).has_value();
      const bool hosts = node == 0 && !universe_.scenario.daemon;
      const bool is_seated = job && universe_.judge.is_seated(*job, node);
      universe_.judge.must(is_admitted == is_seated || hosts,
                           fmt::format("the store of {} admits node {}: {}, and its seat: {}",
                                       reset->job, node, is_admitted, is_seated));
    }
  }
}

void KeeperHost::judge_seals(const Keeper::Actions& actions) {
  // Two rounds of one job may be sealed in one breath, when two nodes are given up together.
  std::map<std::pair<int, RoundNumber>, Judge::Seats> by_round;
  for (const keeper::Action& action : actions) {
    const auto* say = std::get_if<keeper::Say>(&action);
    const auto* sealed = say == nullptr ? nullptr : std::get_if<link::Sealed>(&say->message);
    if (sealed == nullptr) continue;
    const int node = node_of(say->link);
    if (node < 0) continue;
    by_round[{universe_.scenario.job_of(node), sealed->round}].emplace_back(node, *sealed);
  }
  for (const auto& [which, seats] : by_round) {
    const int job = which.first;
    universe_.trace.line(universe_.time.now(), "keeper seals round {} of job {} for {} nodes",
                         seats.front().second.round.value, job, seats.size());
    universe_.judge.keeper_seals(job, seats);
  }
}

// A timer that is due later than it was needs no new entry: it looks again when it rings.
void KeeperHost::arm() {
  if (!keeper_) return;
  if (keeper_->done() && !told_done_) {
    told_done_ = true;
    universe_.time.later(0ns, [this, which = incarnation_] {
      if (which != incarnation_) return;
      program_.receive([this] {
        told_done_ = keeper_ && keeper_->done();
        if (told_done_) hooks_.done();
      });
    });
  }
  const auto deadline = keeper_->next_deadline();
  if (!deadline) return;
  const TimePoint due = std::max(clock_.truth(*deadline), universe_.time.now());
  if (armed_ && *armed_ <= due) return;
  armed_ = due;
  const std::uint64_t number = ++timer_;
  universe_.time.at(due, [this, number, which = incarnation_] {
    if (number != timer_ || which != incarnation_) return;
    program_.receive(
        [this] {
          armed_.reset();
          if (!keeper_) return;
          const auto when = keeper_->next_deadline();
          working_off_ = true;
          if (when && *when <= now()) perform(keeper_->advance(now()));
          work_off();
        },
        true);
  });
}

}  // namespace cpprun::sim
