// SPDX-License-Identifier: BSD-3-Clause
#include "tests/sim/node.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "launcher/agent/bounds.h"
#include "proto/link/codec.h"
#include "rendezvous/client/bounds.h"
#include "tests/sim/member.h"

namespace cpprun::sim {

using namespace std::chrono_literals;

namespace {

constexpr int standby_port = 29401;
constexpr int agent_pids_from = 100;
// the agents' secret numbers, which unidentified clients guess
constexpr int agent_numbers_from = 7'000'000;

RoundVotes::Agent agent_of(int node, std::uint64_t life) {
  return {fmt::format("host{}", node), agent_pids_from + node + 20'000 * static_cast<int>(life - 1),
          static_cast<std::uint32_t>(agent_numbers_from + node)};
}

int place_of(const std::string& host, int nodes) {
  for (int daemon = 0; daemon < daemons_max; ++daemon) {
    if (host_of_daemon(daemon) == host) return daemon_place(daemon);
  }
  int node = 0;
  while (node < nodes && address_of(node) != host) ++node;
  return node < nodes ? node : master_place;
}

// Names all cpprunds, or only one, which refers to the others.
void name_places(const Scenario& scenario, int node, Config& config) {
  const int first = scenario.first_place(node);
  config.endpoint = {host_of_daemon(first), 29400};
  if (scenario.knows_one_place(node)) return;
  for (int each = 0; each < scenario.set->daemons; ++each) {
    config.places.push_back({host_of_daemon((first + each) % scenario.set->daemons), 29400});
  }
}

Config config_of(const Scenario& scenario, int node) {
  const int job = scenario.job_of(node);
  const JobShape& shape = scenario.jobs[static_cast<std::size_t>(job)];
  Config config;
  config.rendezvous = scenario.daemon ? RendezvousMode::endpoint : RendezvousMode::fixed_master;
  config.endpoint = {host_of_daemon(0), 29400};
  if (scenario.set) name_places(scenario, node, config);
  config.standby = scenario.standby;
  config.job = job_id(job);
  config.nodes_min = shape.nodes_min;
  config.nodes_max = shape.nodes_max;
  if (shape.ranked) {
    int first = 0;
    for (int before = 0; before < job; ++before) {
      first += scenario.jobs[static_cast<std::size_t>(before)].nodes();
    }
    config.node_rank = node - first;
  }
  config.local_world_size = scenario.workers_of(node);
  config.restarts = shape.restarts;
  config.grace = scenario.grace;
  config.join_timeout = scenario.join_timeout;
  config.last_call = scenario.last_call;
  config.keep_alive_interval = scenario.lease_interval;
  config.keep_alive_attempts_max = scenario.lease_attempts;
  if (scenario.stores) config.store = StoreWay::local;
  if (scenario.watches_hangs) config.hang_timeout = std::chrono::seconds(5);
  return config;
}

// Some workers fail because PyTorch's timeout has struck, and say so first.
bool shows_timeout(const supervisor::ProcessEvent& event) {
  const auto* const exited = std::get_if<supervisor::Exited>(&event);
  const bool failed = exited != nullptr && !exited->status.signalled && exited->status.value != 0;
  return failed && (exited->status.value + exited->local_rank.value) % 3 == 0;
}

}  // namespace

Node::Node(Universe& universe, int number, Hooks hooks)
    : universe_(universe),
      number_(number),
      hooks_(std::move(hooks)),
      port_(universe, number, program_,
            {.has_room =
                 [this] {
                   return !link_is_new_ && connection_ && connection_->up &&
                          connection_->agent_open &&
                          network_->has_room(connection_, Side::coordinator);
                 },
             .send =
                 [this](std::string_view frame) {
                   network_->send(connection_, Side::coordinator,
                                  {.kind = Packet::Kind::streams, .bytes = std::string(frame)});
                 }}),
      workers_(universe, clock_, number,
               {.tell =
                    [this](supervisor::ProcessEvent event) {
                      program_.receive([this, event = std::move(event)] {
                        if (shows_timeout(event)) post(agent::TimeoutSeen{});
                        post(agent::FromWorker{event});
                      });
                    },
                .died = [this](const WorkerEnd& end) { hooks_.died(end); },
                .connect = [this] { return connect_worker(); },
                .is_calm = [this](RoundId round) { return is_calm(round); }}),
      agent_({.now = [this] { return now(); },
              .perform = [this](const agent::Action& action) { perform(action); },
              .arm = [this](std::optional<TimePoint> deadline) { rest(deadline); }}) {}

void Node::begin() {
  program_.begin();
  exit_.reset();
  ++life_;
  armed_.reset();
  fence_.reset();
  watchdog_fired_ = false;
  standby_ = nullptr;
  if (coordinator_ == nullptr) port_.begin();
  universe_.judge.agent_begins(number_);
  universe_.trace.line(universe_.time.now(), "node {} begins", number_);
  agent_.begin(make_agent());
  if (coordinator_ != nullptr) coordinator_->begin();
  agent_.start([](Agent& agent, TimePoint begin) { return agent.start(begin); });
}

Agent Node::make_agent() const {
  const RoundVotes::Agent own = agent_of(number_, life_);
  return Agent{
      config_of(universe_.scenario, number_),
      AgentFacts{.host = own.host,
                 .pid = own.pid,
                 .agent = own.number,
                 .hosts_coordinator = coordinator_ != nullptr,
                 .program = {.argv = {"/bin/worker"}, .entrypoint = "worker"},
                 .interfaces = {{.name = "eth0", .up = true, .addresses = {address_of(number_)}}}}};
}

// The workers, their store and the watchdog stay; the link breaks. That of a coordinator in this
// process is carried as well, which tests/integration/upgrade_test.cpp shows.
void Node::upgrade() {
  if (!program_.alive() || program_.stopped() || exit_) return;
  if (coordinator_ != nullptr || standby_ != nullptr) return;
  const auto past = AgentSuccession::past_of(agent_.machine());
  if (!past) return;
  universe_.trace.line(universe_.time.now(), "node {} is upgraded", number_);
  hang_up(/*breaks=*/true);
  link_is_new_ = true;
  Agent next = make_agent();
  universe_.judge.must(AgentSuccession::resume(next, now(), *past).has_value(),
                       "an upgraded agent cannot continue");
  agent_.begin(std::move(next));
  agent_.advance();
}

// --- the loop ------------------------------------------------------------------------------------

void Node::post(Agent::Event event) {
  if (!program_.alive() || exit_) return;
  notice_watchdog();
  agent_.post(std::move(event));
}

void Node::notice_watchdog() {
  if (std::exchange(watchdog_fired_, false)) agent_.post(agent::Fenced{});
}

void Node::rest(std::optional<TimePoint> deadline) {
  if (const auto broken = universe_.looks_inside() ? agent_.machine().check() : std::nullopt) {
    universe_.judge.must(false, fmt::format("the agent of node {}: {}", number_, *broken));
  }
  tell_watchdog();
  if (!exit_) arm(deadline);
}

void Node::arm(std::optional<TimePoint> deadline) {
  universe_.judge.must(deadline || coordinator_ != nullptr,
                       fmt::format("node {} waits without a bound", number_));
  if (!deadline) return;
  const TimePoint due = std::max(clock_.truth(*deadline), universe_.time.now());
  if (armed_ && *armed_ <= due) return;
  armed_ = due;
  const std::uint64_t number = ++timer_;
  universe_.time.at(due, [this, number, life = life_] {
    if (number != timer_ || life != life_) return;
    program_.receive(
        [this] {
          armed_.reset();
          if (exit_) return;
          notice_watchdog();
          agent_.advance();
        },
        true);
  });
}

void Node::wake() {
  if (!program_.alive() || exit_) return;
  fence_.reset();
  tell_watchdog();
  program_.receive(
      [this, life = life_] {
        if (life != life_ || exit_) return;
        notice_watchdog();
        agent_.advance();
      },
      true);
}

// The watchdog acts for a stopped agent.
void Node::tell_watchdog() {
  const auto fence = agent_.machine().overdue_at();
  if (fence == fence_) return;
  fence_ = fence;
  if (!fence) return;
  universe_.time.at(std::max(clock_.truth(*fence), universe_.time.now()),
                    [this, fence, life = life_] {
                      if (life != life_ || fence != fence_ || !program_.stopped()) return;
                      universe_.trace.line(universe_.time.now(), "node {} is overdue", number_);
                      watchdog_fired_ = true;
                      workers_.orphaned();
                    });
}

void Node::perform(const agent::Action& action) {
  if (!program_.alive()) return;
  if (const auto* dial = std::get_if<agent::Dial>(&action)) {
    universe_.judge.agent_asks(number_);
    if (coordinator_ != nullptr) {
      post(agent::LinkUp{address_of(number_)});
    } else {
      hang_up();
      // Name resolution takes no time here; connecting and greeting do.
      const Duration timeout =
          universe_.scenario.set ? 2 * dial->step : Duration{bounds::dial_attempt_max};
      connection_ =
          network_->dial(number_, place_of(dial->at.host, universe_.scenario.nodes()), timeout);
    }
  } else if (const auto* record = std::get_if<agent::StandBy>(&action)) {
    standby_ = &hooks_.stand_by();
    standby_->stand_by(record->record);
    post(agent::StandsBy{record->round, standby_port});
  } else if (const auto* stands = std::get_if<agent::Stand>(&action)) {
    standby_->stand(stands->own, /*is_transfer=*/false);
  } else if (const auto* takes = std::get_if<agent::TakeOver>(&action)) {
    standby_->stand(takes->own, /*is_transfer=*/true);
  } else if (const auto* ask = std::get_if<agent::AskWhoHosts>(&action)) {
    const int place = place_of(ask->addresses.front(), universe_.scenario.nodes());
    if (ask->question.leads_port != 0) hooks_.ask(place, ask->question);
  } else if (std::holds_alternative<agent::StepDown>(action)) {
    coordinator_->local_agent_left();
    coordinator_ = nullptr;
    port_.begin();
  } else if (std::holds_alternative<agent::SpeakForWorkers>(action)) {
    link_is_new_ = false;
    if (coordinator_ == nullptr) port_.begin_link();
  } else if (const auto* said = std::get_if<agent::Say>(&action)) {
    say(said->message);
  } else if (const auto* end = std::get_if<agent::HangUp>(&action)) {
    universe_.trace.line(universe_.time.now(), "node {} hangs up: {}", number_, end->reason);
    if (coordinator_ != nullptr) coordinator_->local_agent_left();
    hang_up(end->breaks);
  } else if (const auto* started = std::get_if<events::RoundSealed>(&action)) {
    port_.begin_round(started->sealed.round);
    workers_.begin_round(round_of(started->sealed));
  } else if (const auto* work = std::get_if<agent::Work>(&action)) {
    workers_.perform(work->action);
  } else if (std::holds_alternative<agent::ProbeWorld>(action)) {
    post(agent::WorldSeen{{.store_asked = true}});
  } else if (std::holds_alternative<agent::SampleWorkers>(action)) {
    post(agent::WorkersSeen{});
  } else if (std::holds_alternative<agent::ReadProgress>(action)) {
    read_progress();
  } else if (const auto* observe = std::get_if<agent::ObserveWorkers>(&action)) {
    observe_workers(*observe);
  } else if (const auto* failed = std::get_if<supervisor::Failed>(&action)) {
    if (!failed->outcome.verdict.empty()) {
      universe_.judge.worker_hung(number_, failed->outcome.rank, failed->outcome.status);
    }
  } else if (const auto* hang = std::get_if<events::HangFound>(&action)) {
    if (!hang->verdict.is_timeout) universe_.judge.hang_found(number_, is_frozen());
  } else if (const auto* look = std::get_if<agent::Examine>(&action)) {
    examine(look->outcome);
  } else if (std::holds_alternative<supervisor::Draining>(action)) {
    universe_.judge.agent_drains(number_);
  } else if (const auto* last = std::get_if<events::JobEnded>(&action)) {
    exit(*last);
  }
}

bool Node::is_frozen() const {
  const auto found = universe_.frozen_until.find(universe_.scenario.job_of(number_));
  // The verdict may arrive a little later.
  return found != universe_.frozen_until.end() && universe_.time.now() < found->second + 10s;
}

void Node::read_progress() {
  const auto found = universe_.frozen_until.find(universe_.scenario.job_of(number_));
  const bool is_frozen =
      found != universe_.frozen_until.end() && universe_.time.now() < found->second;
  if (!is_frozen) ++beats_;
  std::vector<ProgressSigns> signs;
  for (int local = 0; local < universe_.scenario.workers_of(number_); ++local) {
    signs.push_back({.local_rank = LocalRank{local}, .beats = beats_});
  }
  post(agent::ProgressSeen{std::move(signs)});
}

// After up to 4 s; the helper process of every seventh request hangs.
void Node::observe_workers(const agent::ObserveWorkers& action) {
  const std::uint64_t draw =
      (action.number * 31 + action.round.value * 17 + static_cast<std::uint64_t>(number_) * 7) % 29;
  if (draw % 7 == 6) return;
  std::vector<hang::Observation> seen;
  for (int local = 0; local < universe_.scenario.workers_of(number_); ++local) {
    seen.push_back({.local_rank = LocalRank{local},
                    .rank = Rank{local},
                    .pid = 1,
                    .process = {.pid = 1, .state = 'S', .thread_count = 1}});
  }
  universe_.time.later(draw * 140ms, [this, number = action.number, seen, life = life_] {
    if (life != life_) return;
    program_.receive([this, number, seen] { post(agent::WorkersObserved{number, seen}); });
  });
}

void Node::lead() {
  hang_up();
  port_.end();
  coordinator_ = std::exchange(standby_, nullptr);
  post(agent::Leads{});
}

void Node::lead_again(CoordinatorHost& coordinator) {
  if (coordinator_ == nullptr) {
    hang_up();
    port_.end();
    coordinator_ = &coordinator;
  }
  post(agent::Leads{.again = true});
}

void Node::examine(const Outcome& outcome) {
  Evidence evidence;
  evidence.outcome = outcome;
  evidence.executable = "/bin/worker";
  post(agent::Examined{std::move(evidence)});
}

// --- the link ------------------------------------------------------------------------------------

void Node::say(const link::Message& message) {
  if (std::holds_alternative<link::Drained>(message)) universe_.judge.agent_drained(number_);
  if (const auto* join = std::get_if<link::Join>(&message)) {
    universe_.judge.agent_asks(number_);
    if (join->after == RoundNumber{}) port_.end_round();
  }
  if (coordinator_ != nullptr) {
    coordinator_->hear_local_agent(message);
    return;
  }
  if (!connection_ || !connection_->agent_open) return;
  if (const auto* heartbeat = std::get_if<link::Heartbeat>(&message)) {
    network_->send(connection_, Side::coordinator,
                   {.kind = Packet::Kind::heartbeat, .heartbeat = *heartbeat});
    return;
  }
  std::string bytes = link::encode(message);
  universe_.judge.counted(number_, 1, message, bytes.size());
  network_->send(connection_, Side::coordinator,
                 {.kind = Packet::Kind::frame, .bytes = std::move(bytes)});
}

void Node::hang_up(bool breaks) {
  if (connection_) network_->close(std::exchange(connection_, nullptr), Side::agent, breaks);
}

void Node::up(const ConnectionRef& connection) {
  if (connection != connection_) return;
  link_is_new_ = true;
  post(agent::LinkUp{address_of(number_)});
}

void Node::has_room(const ConnectionRef& connection) {
  if (connection == connection_) port_.go_on();
}

void Node::heard(const ConnectionRef& connection, const Packet& packet) {
  if (connection != connection_) return;
  if (packet.kind == Packet::Kind::heartbeat) {
    post(agent::Heard{packet.heartbeat});
    return;
  }
  if (packet.kind == Packet::Kind::streams) {
    (void)port_.hear(std::string_view(packet.bytes).substr(4));  // judged there
    return;
  }
  auto decoded = link::decode(packet.bytes);
  universe_.judge.must(decoded && *decoded, "a coordinator's frame cannot be decoded");
  universe_.trace.line(universe_.time.now(), "node {} receives: {}", number_,
                       packet.bytes.substr(4));
  if (decoded && *decoded) post(agent::Heard{std::move((*decoded)->message)});
}

void Node::down(const ConnectionRef& connection, const std::string& reason) {
  if (connection != connection_) return;
  connection_.reset();
  universe_.trace.line(universe_.time.now(), "node {}: no link: {}", number_, reason);
  post(agent::LinkDown{reason});
}

// --- the workers' store --------------------------------------------------------------------------

std::shared_ptr<Loopback> Node::connect_worker() {
  if (!program_.alive()) return nullptr;
  const auto worker = std::make_shared<Loopback>(
      universe_.time, program_, Random{universe_.scenario.seed, 41, number_, ++workers_connected_},
      universe_.scenario.stores->worker_room);
  program_.receive([this, worker] {
    if (coordinator_ == nullptr) {
      port_.accept(worker);
    } else {
      coordinator_->accept_worker(worker);
    }
  });
  return worker;
}

bool Node::is_calm(RoundId round) const {
  if (!program_.alive() || program_.stopped() || exit_) return false;
  const int job = universe_.scenario.job_of(number_);
  if (universe_.judge.sealed_round(job) != round) return false;
  if (coordinator_ != nullptr) return coordinator_->is_calm(std::nullopt, round);
  if (!connection_ || link_is_new_ || !port_.is_calm()) return false;
  const CoordinatorHost* const there = hooks_.coordinator_at(connection_->place);
  return Network::is_calm(*connection_) && there != nullptr &&
         there->is_calm(connection_->link, round);
}

// --- faults --------------------------------------------------------------------------------------

void Node::signalled(int signal) {
  program_.receive([this, signal] { post(agent::Signalled{signal}); });
}

void Node::go_on(bool timers_first) {
  universe_.judge.agent_went_on(number_);
  program_.go_on(timers_first);
}

void Node::killed() {
  if (!program_.alive()) return;
  universe_.judge.agent_is_gone(number_);
  hang_up();
  end_process();
  workers_.orphaned();
}

void Node::machine_died() {
  if (network_ != nullptr) {
    network_->path(number_).host_up = false;
    network_->machine_died(connection_, Side::agent);
  }
  connection_.reset();
  workers_.vanish();
  if (!program_.alive()) return;
  universe_.judge.agent_is_gone(number_);
  end_process();
}

void Node::exit(const events::JobEnded& last) {
  exit_ = last;
  universe_.trace.line(universe_.time.now(), "node {} ends with {}: {}", number_, last.exit_code,
                       last.reason);
  universe_.judge.agent_exits(number_, last);
  if (coordinator_ == nullptr) {
    hang_up();
    end_process();
    return;
  }
  // The other nodes still have to receive the result.
  universe_.time.later(bounds::result_delivery_max, [this, life = life_] {
    if (life == life_) program_.receive([this] { leave(); }, true);
  });
}

void Node::leave() {
  if (program_.alive() && exit_) end_process();
}

void Node::end_process() {
  program_.end();
  port_.end();
  agent_.end();
  ++life_;
  hooks_.ended();
}

RoundVotes::Agent first_agent_of(int node) {
  return agent_of(node, 1);
}

}  // namespace cpprun::sim
