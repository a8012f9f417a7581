// SPDX-License-Identifier: BSD-3-Clause
#include "tests/sim/coordinator_host.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "proto/link/codec.h"
#include "rendezvous/coordinator/bounds.h"
#include "rendezvous/daemon/bounds.h"
#include "rendezvous/job/job_record_json.h"

namespace cpprun::sim {

using namespace std::chrono_literals;

std::string job_id(int job) {
  return fmt::format("job{}", job);
}

std::optional<int> CoordinatorHost::job_number(const std::string& id) const {
  for (int job = 0; job < static_cast<int>(universe_.scenario.jobs.size()); ++job) {
    if (id == job_id(job)) return job;
  }
  return std::nullopt;
}

CoordinatorHost::CoordinatorHost(Universe& universe, Program& program, const MachineClock& clock,
                                 int place, Hooks hooks)
    : universe_(universe),
      program_(program),
      clock_(clock),
      place_(place),
      hooks_(std::move(hooks)),
      coordinator_({.now = [this] { return now(); },
                    .perform = [this](const coordinator::Action& action) { perform(action); },
                    .arm = [this](std::optional<TimePoint> deadline) { arm(deadline); },
                    .decided =
                        [this](const Coordinator::Actions& actions) {
                          judge_notes(actions);
                          judge_seals(actions);
                          judge_admission(actions);
                          if (universe_.looks_inside()) judge_time();
                        }}),
      stores_(universe, program,
              {.coordinator = [this] { return this->coordinator(); },
               .has_room =
                   [this](LinkId link) {
                     const ConnectionRef connection = network_->find(link);
                     return connection && network_->has_room(connection, Side::agent) &&
                            held_.bytes_for(link) < bounds::held_link_bytes_max;
                   },
               .send = [this](LinkId link, std::string_view frame) { send_streams(link, frame); },
               .asked = [this](const std::string& job) { tell(Coordinator::StoreAsked{job}); },
               .round_of = [this](const std::string& id) -> std::optional<std::pair<int, RoundId>> {
                 const auto job = job_number(id);
                 if (!job) return std::nullopt;
                 return std::pair{*job, own_round(*job, id)};
               },
               .is_in_force = [this] { return is_in_force(); },
               .now = [this] { return now(); },
               .truth = [this](TimePoint local) { return clock_.truth(local); }}) {
  logs_.on_long([this](const std::string& job) { stores_.logs().shorten(logs_, job); });
}

CoordinatorOptions CoordinatorHost::options() const {
  const Scenario& scenario = universe_.scenario;
  // Unique: the judge distinguishes the rounds of two masters by it.
  const int store_port = 29000 + 100 * (place_ + 1) + static_cast<int>(incarnation_);
  CoordinatorOptions options{.options = {.lease = scenario.lease(),
                                         .status_interval = bounds::status_interval,
                                         .last_call = scenario.last_call,
                                         .store_port = store_port,
                                         .standby = scenario.standby},
                             .keeps_records = true};
  // If the leader is lost and nothing else fails, no node may be lost (Judge::expect_turn).
  const auto skews = std::ranges::count(scenario.faults, FaultKind::daemon_skew, &Fault::kind);
  if (is_of_set() && std::ssize(scenario.faults) - skews > 1) {
    options.own_agent = first_agent_of(-1 - place_);
  }
  if (scenario.daemon) return options;
  const JobShape& shape = scenario.jobs.front();
  options.only = JobTerms{.id = job_id(0),
                          .nodes_min = shape.nodes_min,
                          .nodes_max = shape.nodes_max,
                          .restarts = shape.restarts,
                          .store_is_local = scenario.stores.has_value()};
  return options;
}

void CoordinatorHost::begin(const Records& before, bool stands_by) {
  const Scenario& scenario = universe_.scenario;
  ++incarnation_;
  CoordinatorOptions how = options();
  how.stands_by = stands_by;
  how.follows = is_of_set();
  coordinator_.begin(Coordinator{std::move(how)});
  // A log is useless without a record.
  if (before.empty()) logs_.clear();
  const bool keeps = scenario.daemon && !is_of_set();
  stores_.begin(scenario.daemon ? std::nullopt : std::optional(job_id(0)),
                keeps ? &logs_ : nullptr);
  nodes_seen_.clear(), nodes_.clear(), unidentified_connections_.clear();
  reported_done_ = false;
  local_link_.reset(), armed_.reset(), leads_until_.reset();
  records_ = before;
  if (stands_by || is_of_set()) return;
  const bool is_led = hooks_.is_led && hooks_.is_led();
  universe_.judge.coordinator_begins(
      [&before, is_led](int job) { return is_led || before.contains(job_id(job)); });
  recover(before);
}

void CoordinatorHost::recover(const Records& records) {
  for (const auto& [job, bytes] : records) {
    if (job == hosts_record_name) {
      recover_hosts(read_hosts_record(bytes, moment()).value());
      continue;
    }
    auto record = read_job_record(bytes, moment());
    universe_.judge.must(record.has_value(), "a record cannot be read");
    if (!record) continue;
    const auto log = universe_.scenario.stores ? logs_.find(job, record->round) : std::nullopt;
    if (log) replay(job, record->round, *log);
    recover_with_replica(*std::move(record));
  }
}

void CoordinatorHost::replay(const std::string& job, RoundNumber round, std::string_view log) {
  (void)stores_.begin_replica(job, round);
  (void)stores_.add_to_replica(job, log);
  stores_.replica_is_whole(job);
  universe_.judge.must(stores_.has_whole_replica(job, round),
                       fmt::format("the log of {} ends in the middle", job));
}

// Each node has a link number until it returns. Links of nodes that may have come before have
// larger numbers.
LinkId CoordinatorHost::links_before(const JobRecord& record) {
  LinkId& last = is_of_set() ? universe_.last_link_before : universe_.last_link;
  const LinkId first{last.value + 1};
  const auto number = job_number(record.job());
  for (const cpprun::JobRecord::Node& node : record.nodes) {
    nodes_[LinkId{++last.value}] = number ? std::stoi(node.join.host.substr(4)) : -1;
  }
  if (number) nodes_seen_[static_cast<std::size_t>(*number)].is_of_another = true;
  recovered_.insert(record.job());
  return first;
}

void CoordinatorHost::end() {
  held_ = {};
  judge_commands_behind(said_count_ = held_count_, false);
  forgotten_.clear();
  speaks_until_.reset();
  has_kept_quiet_ = false;
  links_with_gaps_.clear();
  job_ports_.clear(), recovered_.clear();
  stores_.end();
  coordinator_.end();
  ++incarnation_;
}

int CoordinatorHost::node_of(LinkId link) const {
  const auto found = nodes_.find(link);
  return found == nodes_.end() ? -1 : found->second;
}

// --- links ---------------------------------------------------------------------------------------

void CoordinatorHost::accepted(const ConnectionRef& connection) {
  connection->link = LinkId{++universe_.last_link.value};
  nodes_[connection->link] = connection->node;
  universe_.judge.link_opened(connection->node);
  tell(Coordinator::Opened{
      {.link = connection->link, .peer = address_of(connection->node), .local = false}});
}

void CoordinatorHost::heard(const ConnectionRef& connection, const Packet& packet) {
  if (packet.kind == Packet::Kind::streams) {
    (void)stores_.hear(connection->link, address_of(connection->node),
                       std::string_view(packet.bytes).substr(4));  // judged there
    return;
  }
  // Messages to a former leader do not count.
  const bool counts = is_in_force();
  if (counts) universe_.judge.coordinator_heard(connection->node);
  if (packet.kind == Packet::Kind::heartbeat) {
    tell(Coordinator::Said{connection->link, packet.heartbeat});
    // By then its workers have used their store.
    tell(Coordinator::StoreAsked{job_id(universe_.scenario.job_of(connection->node))});
    return;
  }
  const auto decoded = link::decode(packet.bytes);
  universe_.judge.must(decoded && *decoded, "an agent's frame cannot be decoded");
  if (!decoded || !*decoded) return;
  universe_.trace.line(universe_.time.now(), "coordinator receives from node {}: {}",
                       connection->node, packet.bytes.substr(4));
  if (std::holds_alternative<link::Join>((*decoded)->message)) {
    universe_.judge.coordinator_hears_join(connection->node);
  }
  const auto* done = std::get_if<link::Succeeded>(&(*decoded)->message);
  if (done != nullptr && counts) {
    universe_.judge.coordinator_hears_success(connection->node, done->round);
  }
  tell(Coordinator::Said{connection->link, (*decoded)->message});
}

void CoordinatorHost::closed(LinkId link, const std::string& reason, bool broken) {
  if (link == LinkId{}) return;
  universe_.trace.line(universe_.time.now(), "coordinator: link {} is closed: {}", link.value,
                       reason);
  stores_.forget(link);
  tell(Coordinator::Closed{link, reason, broken || held_.holds_end_for(link)});
  nodes_.erase(link);
}

// --- the agent in this process ------------------------------------------------------------------

void CoordinatorHost::hear_local_agent(const link::Message& message) {
  if (!coordinator_.running()) return;
  if (!local_link_) {
    local_link_ = LinkId{++universe_.last_link.value};
    nodes_[*local_link_] = host_node();
    tell(Coordinator::Opened{{.link = *local_link_, .peer = "127.0.0.1", .local = true}});
  }
  universe_.judge.coordinator_heard(host_node());
  if (const auto* done = std::get_if<link::Succeeded>(&message)) {
    universe_.judge.coordinator_hears_success(host_node(), done->round);
  }
  tell(Coordinator::Said{*local_link_, message});
}

void CoordinatorHost::local_agent_left() {
  if (local_link_) tell(Coordinator::Closed{*std::exchange(local_link_, std::nullopt), "it ends"});
}

// --- workers -------------------------------------------------------------------------------------

void CoordinatorHost::accept_worker(const std::shared_ptr<Loopback>& worker) {
  stores_.accept(job_id(0), worker);
}

void CoordinatorHost::has_room(LinkId link) {
  stores_.go_on(link);
}

bool CoordinatorHost::is_calm(std::optional<LinkId> link, RoundId round) const {
  if (!program_.alive() || program_.stopped() || !coordinator_.running()) return false;
  if (!stores_.is_quiet() || held_.holds() || !is_in_force()) return false;
  if (speaks_until_ && *speaks_until_ <= now()) return false;
  if (!link) return true;
  const auto seat = coordinator_.machine().seat_of(*link);
  return seat && seat->round == round.number;
}

// --- the machine ---------------------------------------------------------------------------------

void CoordinatorHost::perform(const coordinator::Action& action) {
  if (std::holds_alternative<coordinator::Say>(action) ||
      std::holds_alternative<coordinator::HangUp>(action)) {
    hold_or_say(action);
  } else if (const auto* open = std::get_if<coordinator::OpenStore>(&action)) {
    if (!stores_.has_replica(open->job)) stores_.open(open->job);
    open_store(open->job);
  } else if (const auto* reset = std::get_if<coordinator::ResetStore>(&action)) {
    stores_.reset(reset->job, reset->reason);
  } else if (const auto* close = std::get_if<coordinator::CloseStore>(&action)) {
    forget(*close);
  } else if (const auto* kept = std::get_if<coordinator::KeepRecord>(&action)) {
    keep(kept->job);
  } else if (const auto* restore = std::get_if<coordinator::RestoreStore>(&action)) {
    stores_.restore_replica(restore->job);
  } else if (const auto* show = std::get_if<coordinator::ShowRecord>(&action)) {
    show_record(*show);
  } else if (const auto* lead = std::get_if<coordinator::Lead>(&action); lead && lead->again) {
    universe_.trace.line(universe_.time.now(), "node {} leads again", host_node());
    hooks_.leads_again();
  } else if (lead != nullptr) {
    universe_.trace.line(universe_.time.now(), "node {} leads", host_node());
    universe_.judge.another_leads(0, false);
    hooks_.leads();
  } else if (const auto* answered = std::get_if<coordinator::Answered>(&action)) {
    judge_command(*answered);
  } else if (const auto* note = std::get_if<coordinator::Note>(&action)) {
    universe_.trace.line(universe_.time.now(), "coordinator: {}", note->line);
  }
}

void CoordinatorHost::forget(const coordinator::CloseStore& close) {
  if (stores_.has_replica(close.job)) return;
  stores_.close(close.job, close.reason);
  if (close.goes_on) return;
  records_.erase(close.job);
  if (hooks_.forget_record) hooks_.forget_record(close.job);
  const auto job = job_number(close.job);
  if (!job || !is_in_force()) return;
  // One of several cpprunds has forgotten the job when no other one would resume it.
  forgotten_.insert(*job);
  forget_for_good();
}

void CoordinatorHost::say(const coordinator::HangUp& hang_up) {
  if (unidentified_connections_.contains(hang_up.link)) {
    universe_.time.later(0ns, [this, link = hang_up.link] { unidentified_leaves(link, false); });
    return;
  }
  const ConnectionRef connection = network_->find(hang_up.link);
  if (!connection) return;
  if (!is_of_set() && hang_up.reason.starts_with("no response for ")) {
    universe_.judge.coordinator_gives_up(connection->node, connection->arrived);
  }
  network_->close(connection, Side::coordinator);
  universe_.time.later(0ns, [this, link = hang_up.link, which = incarnation_] {
    if (which != incarnation_) return;
    program_.receive([this, link] { closed(link, "hung up", links_with_gaps_.erase(link) > 0); });
  });
}

void CoordinatorHost::open_store(const std::string& job) {
  const bool begins = recovered_.erase(job) == 0;
  const auto number = job_number(job);
  const bool stays = number && (is_of_set() || universe_.scenario.stores);
  const int port = job_ports_[job] =
      stays ? universe_.port_of(*number, begins) : 30000 + stores_opened_++;
  universe_.time.later(0ns, [this, job, port, which = incarnation_] {
    if (which != incarnation_) return;
    program_.receive([this, job, port] { tell(Coordinator::StoreReady{job, port}); });
  });
}

void CoordinatorHost::say(const coordinator::Say& say) {
  const int node = node_of(say.link);
  if (const auto* sealed = std::get_if<link::Sealed>(&say.message)) {
    universe_.judge.must(sealed->round != RoundNumber{}, "a round has the number 0");
  }
  if (node < 0) return;
  // NotLeading may be sent at any time.
  if (!may_speak() && !std::holds_alternative<link::NotLeading>(say.message)) return;
  judge_say(node, say);
  if (say.link == local_link_) {
    hooks_.to_local_agent(say.message);
    return;
  }
  const ConnectionRef connection = network_->find(say.link);
  if (!connection) return;
  if (const auto* heartbeat = std::get_if<link::Heartbeat>(&say.message)) {
    network_->send(connection, Side::agent,
                   {.kind = Packet::Kind::heartbeat, .heartbeat = *heartbeat});
    return;
  }
  std::string bytes = link::encode(say.message);
  universe_.judge.counted(node, 0, say.message, bytes.size());
  network_->send(connection, Side::agent, {.kind = Packet::Kind::frame, .bytes = std::move(bytes)});
}

void CoordinatorHost::wake() {
  program_.receive([this] { coordinator_.advance(); }, true);
}

// A timer that moves to a later time needs no new entry: it checks again when it fires.
void CoordinatorHost::arm(std::optional<TimePoint> deadline) {
  const Coordinator& machine = coordinator_.machine();
  if (const auto broken = universe_.looks_inside() ? machine.check() : std::nullopt) {
    universe_.judge.must(false, "the coordinator: " + *broken);
  }
  const Job* const hosted = hooks_.leads_until ? machine.find(job_id(0)) : nullptr;
  const auto until = hosted == nullptr ? std::nullopt : hosted->leadership().leads_until();
  if (std::exchange(leads_until_, until) != until) hooks_.leads_until(until);
  if (machine.done() && !reported_done_) {
    reported_done_ = true;
    universe_.time.later(0ns, [this, which = incarnation_] {
      if (which != incarnation_) return;
      program_.receive([this] {
        reported_done_ = coordinator_.running() && coordinator_.machine().done();
        if (reported_done_) hooks_.done();
      });
    });
  }
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
          coordinator_.advance();
        },
        true);
  });
}

}  // namespace cpprun::sim
