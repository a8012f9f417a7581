// SPDX-License-Identifier: BSD-3-Clause
#include "tests/sim/world.h"

#include <fmt/format.h>

#include <algorithm>
#include <csignal>
#include <utility>

#include "proto/link/codec.h"
#include "tests/sim/random.h"

namespace cpprun::sim {

using namespace std::chrono_literals;

namespace {

constexpr Duration starts_within = 50ms;        // the start of nodes that are not late
constexpr Duration aftermath = 120s;            // for watchdogs to clean up and daemons to forget
constexpr Duration unidentified_leave = 10min;  // until their jobs are forgotten

bool is_late(const Scenario& scenario, int node) {
  return std::any_of(scenario.faults.begin(), scenario.faults.end(), [node](const Fault& fault) {
    return fault.kind == FaultKind::node_is_late && fault.nodes.front() == node;
  });
}

}  // namespace

World::World(Scenario scenario, bool traced) : universe_(std::move(scenario), traced) {
  universe_.judge.call(
      {.any_alive = [this](int n) { return node(n).workers().any_alive(); },
       .any_in_round = [this](int n) { return node(n).workers().any_in_round(); },
       .any_alive_but_stuck = [this](int n) { return node(n).workers().any_alive_but_stuck(); },
       .computing = [this](int n) { return node(n).workers().computing(); },
       .stopped = [this](int n) { return node(n).program().stopped(); },
       .hosted = [this] { return is_hosted(); }});
  build_nodes();
  const bool daemon = universe_.scenario.daemon;
  Program& program = daemon ? daemon_ : node(0).program();
  coordinator_.emplace(
      universe_, program, daemon ? coordinator_clock_ : node(0).clock(), master_place,
      CoordinatorHost::Hooks{
          .to_local_agent =
              [this](link::Message message) { node(0).post(agent::Heard{std::move(message)}); },
          .done = [this] { host_is_done(master_place); },
          .leads_until = [this](auto until) { node(0).post(agent::LeadsUntil{until}); },
          .leads_again = [this] { node(0).lead_again(*coordinator_); },
          .is_led = [this] { return is_led(); }});
  network_.emplace(universe_.time, universe_.scenario, ends());
  coordinator_->serve(*network_);
  if (universe_.scenario.set) members_.emplace(universe_, *network_);
  unidentified_connections_.emplace(universe_, *coordinator_);
  for (auto& each : nodes_) each->use(*network_);
  if (!daemon) node(0).host(&*coordinator_);
  plan();
}

World::~World() = default;

NetworkEnds World::ends() {
  return {
      .agent = [this](int number) -> Program& { return node(number).program(); },
      .coordinator = [this](int place) -> Program& { return coordinators_program(place); },
      .serves = [this](int place) { return coordinator_at(place) != nullptr; },
      .up = [this](const ConnectionRef& c) { node(c->node).up(c); },
      .to_agent = [this](const ConnectionRef& c,
                         const Packet& packet) { node(c->node).heard(c, packet); },
      .down = [this](const ConnectionRef& c,
                     const std::string& reason) { node(c->node).down(c, reason); },
      .accepted = [this](const ConnectionRef& c) { coordinator_at(c->place)->accepted(c); },
      .to_coordinator =
          [this](const ConnectionRef& c, const Packet& packet) {
            coordinator_at(c->place)->heard(c, packet);
            if (!resets_.contains(c->node) || packet.kind != Packet::Kind::frame) return;
            const auto decoded = link::decode(packet.bytes);
            if (!decoded || !*decoded) return;
            const auto* drained = std::get_if<link::Drained>(&(*decoded)->message);
            const int job = universe_.scenario.job_of(c->node);
            // If this was the last expected Drained, the next round is already sealed.
            if (drained == nullptr || !universe_.judge.is_sealed(job, drained->round)) return;
            resets_.erase(c->node);
            universe_.time.later(0ns, [this, c] { network_->sever(c, true, true); });
          },
      .closed = [this](const ConnectionRef& c, const std::string& reason,
                       bool broken) { coordinator_at(c->place)->closed(c->link, reason, broken); },
      .has_room =
          [this](const ConnectionRef& c, Side to) {
            if (to == Side::coordinator) return node(c->node).has_room(c);
            coordinator_at(c->place)->has_room(c->link);
          },
      .fails =
          [this](const ConnectionRef& c, const std::string& reason) {
            universe_.trace.line(universe_.time.now(), "node {}: its link fails: {}", c->node,
                                 reason);
            universe_.judge.must(
                c->is_damaged, fmt::format("the link of node {} fails, and no byte was changed: {}",
                                           c->node, reason));
          },
      .lies =
          [this](const ConnectionRef& c) {
            universe_.judge.must(
                false, fmt::format("the link of node {} has delivered a forged frame", c->node));
          }};
}

void World::build_nodes() {
  for (int number = 0; number < universe_.scenario.nodes(); ++number) {
    auto each = std::make_unique<Node>(
        universe_, number,
        Node::Hooks{.died = [this](const WorkerEnd& end) { worker_died(end); },
                    .ended = [this, number] { node_ended(node(number)); },
                    .coordinator_at = [this](int place) { return coordinator_at(place); },
                    .stand_by = [this, number]() -> CoordinatorHost& { return stand_by(number); },
                    .ask = [this, number](int place,
                                          const auto& question) { ask(number, place, question); }});
    // The monotonic clocks of different machines are unrelated.
    Random random{universe_.scenario.seed, 31, number};
    each->clock().offset = random.up_to(1000h);
    nodes_.push_back(std::move(each));
  }
}

void World::plan() {
  const Scenario& scenario = universe_.scenario;
  coordinator_clock_.offset = Random{scenario.seed, 32}.up_to(1000h);
  if (members_) {
    members_->begin();
  } else if (scenario.daemon) {
    daemon_.begin();
    coordinator_->begin();
  }
  for (auto& each : nodes_) {
    if (is_late(scenario, each->number())) continue;
    // The coordinator's host usually starts first.
    Random random{scenario.seed, 33, each->number()};
    const bool first = each->number() == 0 && !random.chance(0.1);
    ++planned_;
    universe_.time.later(first ? 0ns : random.up_to(starts_within), [this, &each = *each] {
      --planned_;
      begin(each);
    });
  }
  for (const Fault& fault : scenario.faults) {
    if (fault.kind == FaultKind::clock_skew) {
      commit(fault);
      continue;
    }
    const bool starts_a_node =
        fault.kind == FaultKind::node_is_late || fault.kind == FaultKind::node_returns;
    if (starts_a_node) ++planned_;
    universe_.time.later(fault.at, [this, &fault, starts_a_node] {
      if (starts_a_node) --planned_;
      commit(fault);
    });
  }
}

// Ten thousand nodes may each have a hundred events at the same time.
constexpr std::size_t steps_in_instant_max = 1'000'000;

std::optional<std::string> World::run() {
  const TimePoint last{universe_.scenario.time_max()};
  Timeline& time = universe_.time;
  TimePoint instant{};
  std::size_t steps_in_instant = 0;
  while (any_node_runs() && !time.empty() && !universe_.judge.verdict()) {
    if (time.next() > last) return "the job did not end in time";
    steps_in_instant = time.next() == instant ? steps_in_instant + 1 : 0;
    instant = time.next();
    // A machine whose deadline stays in the past spins forever.
    if (steps_in_instant > steps_in_instant_max) return "time stood still: a deadline is never met";
    time.step();
  }
  const TimePoint rest =
      time.now() + aftermath + (scenario().has_unidentified ? unidentified_leave : 0s);
  while (!time.empty() && time.next() <= rest && !universe_.judge.verdict()) time.step();
  if (members_) members_->judge_the_end();
  if (!universe_.judge.verdict()) universe_.judge.all_is_over();
  // With several cpprunds, so many requests may be pending that not all orders can be tried.
  if (const auto objection = universe_.stores.objection();
      objection && !(members_ && objection->ends_with("to try them all"))) {
    universe_.judge.must(false, *objection);
  }
  const bool slept = std::any_of(scenario().faults.begin(), scenario().faults.end(),
                                 [](auto& f) { return f.kind == FaultKind::coordinator_stopped; });
  if (Coordinator* coordinator = leading()->coordinator();
      coordinator != nullptr && scenario().daemon && !slept) {
    universe_.judge.must(coordinator->job_count() == 0, "a job that is over was not forgotten");
  }
  return universe_.judge.verdict();
}

void World::begin(Node& each) {
  if (each.program().alive()) return;
  if (!network_->path(each.number()).host_up) {
    universe_.judge.agent_is_gone(each.number());  // nothing starts on a host that is down
    return;
  }
  ++running_;
  each.host(each.number() == 0 && !universe_.scenario.daemon ? &*coordinator_ : nullptr);
  each.begin();
}

void World::node_ended(const Node& each) {
  --running_;
  end_standby(each.number());
  const bool hosts = each.number() == 0 && !universe_.scenario.daemon;
  if (!hosts) return;
  coordinator_->end();
  network_->coordinator_ended(master_place);
}

// Its neighbours in the ring notice first and fail; then theirs.
void World::worker_died(const WorkerEnd& end) {
  const int job = universe_.scenario.job_of(end.node);
  for (const int step : {-1, 1}) {
    const Rank neighbour{end.rank.value + step};
    const auto holder = universe_.judge.holder_of(job, end.round, neighbour);
    if (holder) node(*holder).workers().fail_of_neighbour(neighbour, end.round);
  }
}

// --- faults --------------------------------------------------------------------------------------

void World::commit(const Fault& fault) {
  universe_.trace.line(universe_.time.now(), "FAULT {}", to_text(fault));
  if (fault.nodes.empty()) {
    commit_to_coordinator(fault);
    return;
  }
  for (const int number : fault.nodes) {
    commit_to_worker(fault, node(number));
    commit_to_agent(fault, node(number));
    commit_to_network(fault, node(number));
    commit_order(fault, number);
    if (fault.kind == FaultKind::job_freezes) {
      TimePoint& until = universe_.frozen_until[universe_.scenario.job_of(number)];
      until = std::max(until, universe_.time.now() + fault.lasts);
    }
  }
}

// A command of an operator at the coordinator's machine.
void World::commit_order(const Fault& fault, int node) {
  constexpr std::pair<FaultKind, OperatorCommand::Kind> kinds[] = {
      {FaultKind::order_stop, OperatorCommand::Kind::stop},
      {FaultKind::order_restart, OperatorCommand::Kind::restart},
      {FaultKind::order_save, OperatorCommand::Kind::save},
      {FaultKind::order_capture, OperatorCommand::Kind::capture},
      {FaultKind::order_drain, OperatorCommand::Kind::drain},
      {FaultKind::order_exclude, OperatorCommand::Kind::exclude},
      {FaultKind::order_include, OperatorCommand::Kind::include},
      {FaultKind::order_forget, OperatorCommand::Kind::forget}};
  for (const auto& [of_fault, kind] : kinds) {
    if (of_fault != fault.kind) continue;
    OperatorCommand command{.kind = kind, .signal = SIGUSR1, .by = "uid 0 (root)"};
    if (!command.is_about_a_host()) command.job = job_id(universe_.scenario.job_of(node));
    const bool by_name = fault.value % 2 == 0;
    command.whom = by_name ? fmt::format("host{}", node) : address_of(node);
    if (fault.value % 4 != 0) command.length = fault.lasts;
    leading()->take(std::move(command));
  }
}

void World::commit_to_worker(const Fault& fault, Node& victim) {
  Workers& workers = victim.workers();
  const bool by_signal = fault.value > 128;
  switch (fault.kind) {
    case FaultKind::worker_exits:
      workers.fail(fault.local_rank, {by_signal, by_signal ? fault.value - 128 : fault.value},
                   true);
      break;
    case FaultKind::worker_crashes:
      workers.crash_next(fault.local_rank, fault.value);
      break;
    case FaultKind::spawn_fails:
      workers.refuse_next(fault.local_rank);
      break;
    case FaultKind::worker_hangs:
      workers.hang(fault.local_rank);
      break;
    case FaultKind::worker_stuck:
      workers.stick(fault.local_rank, fault.value % 2 == 0 ? universe_.time.now() + fault.lasts
                                                           : TimePoint{24h * 365});
      break;
    case FaultKind::worker_leaves:
      workers.leave_members(fault.local_rank, fault.value % 2 == 0);
      break;
    default:
      break;
  }
}

void World::commit_to_agent(const Fault& fault, Node& victim) {
  switch (fault.kind) {
    case FaultKind::agent_killed:
      victim.killed();
      break;
    case FaultKind::agent_stopped:
      stop(victim, fault);
      break;
    case FaultKind::agent_signalled:
      if (victim.number() == 0 && fault.value == SIGTERM && will_take_over()) {
        universe_.judge.expect_takeover();
      }
      victim.signalled(fault.value % 100);
      if (fault.value < 100) break;
      universe_.time.later(fault.lasts, [&victim, &fault] { victim.signalled(fault.value % 100); });
      break;
    case FaultKind::agent_upgraded:
      victim.upgrade();
      break;
    case FaultKind::host_dies:
      if (victim.number() == 0 && !universe_.scenario.daemon) {
        end_coordinator(true);
      } else {
        victim.machine_died();
      }
      break;
    case FaultKind::node_returns:
      // A worker that is stuck in the kernel blocks its machine.
      if (victim.program().alive() || victim.workers().any_alive()) break;
      if (victim.number() == 0 && may_miss_its_leader()) break;
      master_restarted_ = master_restarted_ || (victim.number() == 0 && is_led());
      network_->path(victim.number()).host_up = true;
      if (victim.number() == 0 && !universe_.scenario.daemon) network_->coordinator_host_up = true;
      begin(victim);
      break;
    case FaultKind::node_is_late:
      // An earlier process may have started there and been killed a moment ago.
      if (!victim.workers().any_alive()) begin(victim);
      break;
    case FaultKind::clock_skew:
      victim.clock().parts_per_million = fault.value;
      victim.clock().wall_offset = fault.lasts * (fault.value > 0 ? 1 : -1);
      break;
    case FaultKind::clock_jump:
      victim.clock().wall_offset += fault.lasts * (fault.value % 2 == 0 ? 60 : -60);
      break;
    default:
      break;
  }
}

void World::commit_to_network(const Fault& fault, Node& victim) {
  Path& path = network_->path(victim.number());
  const TimePoint until = universe_.time.now() + fault.lasts;
  const bool cuts_out = fault.kind == FaultKind::partition || fault.kind == FaultKind::one_way_out;
  const bool cuts_in = fault.kind == FaultKind::partition || fault.kind == FaultKind::one_way_in;
  if (cuts_in) path.cut_until[0] = std::max(path.cut_until[0], until);
  if (cuts_out) path.cut_until[1] = std::max(path.cut_until[1], until);
  if (fault.kind == FaultKind::loss) path.lossy_until = std::max(path.lossy_until, until);
  if (fault.kind == FaultKind::slow_network) path.slow_until = std::max(path.slow_until, until);
  if (fault.kind == FaultKind::bytes_damaged) path.damage = fault.value;
  if (fault.kind == FaultKind::drained_reset) resets_.insert(victim.number());
  if (fault.kind == FaultKind::link_breaks) network_->sever(victim.connection(), true, true);
  if (fault.kind == FaultKind::half_open) {
    network_->sever(victim.connection(), fault.value == 2, fault.value == 1);
  }
}

void World::stop(Node& victim, const Fault& fault) {
  victim.program().stop();
  universe_.time.later(fault.lasts, [this, &victim, &fault] {
    universe_.trace.line(universe_.time.now(), "node {} goes on", victim.number());
    victim.go_on(fault.value % 2 == 0);
  });
}

// Nothing happens meanwhile, on any machine or in the network: only the clocks advance.
void World::suspend_all(const Fault& fault) {
  coordinator_clock_.pass(fault.lasts);
  for (const auto& each : nodes_) each->clock().pass(fault.lasts);
  // The order in which they resume is random.
  Random random{universe_.scenario.seed, 71, static_cast<std::uint64_t>(fault.value)};
  const auto later = [&](std::function<void()> what) {
    universe_.time.later(random.up_to(5ms), std::move(what));
  };
  later([this] {
    coordinator_->wake();
    for (const auto& [number, standby] : standbys_) standby->wake();
  });
  for (const auto& each : nodes_) later([&node = *each] { node.wake(); });
}

void World::commit_to_coordinator(const Fault& fault) {
  if (fault.kind == FaultKind::all_suspended) return suspend_all(fault);
  if (fault.kind == FaultKind::unidentified || fault.kind == FaultKind::liar) {
    unidentified_connections_->come(fault);
    return;
  }
  if (members_) return members_->commit(fault);
  if (fault.kind == FaultKind::coordinator_stopped) {
    if (!universe_.scenario.daemon) {
      stop(node(0), fault);
      return;
    }
    daemon_.stop();
    universe_.time.later(fault.lasts, [this, &fault] { daemon_.go_on(fault.value % 2 == 0); });
    return;
  }
  if (fault.kind == FaultKind::coordinator_restarted) return restart_coordinator(fault);
  end_coordinator(fault.kind == FaultKind::coordinator_host_dies);
  // A new one starts without records.
  if (universe_.scenario.daemon && fault.value % 2 != 0) begin_coordinator_in(fault.lasts, false);
}

void World::begin_coordinator_in(Duration while_away, bool with_records) {
  universe_.time.later(while_away, [this, with_records] {
    if (daemon_.alive()) return;
    network_->coordinator_host_up = true;
    daemon_.begin();
    with_records ? coordinator_->begin_with_records() : coordinator_->begin();
  });
}

void World::end_coordinator(bool machine_too) {
  if (machine_too) network_->coordinator_host_up = false;
  if (!universe_.scenario.daemon) {
    if (will_take_over()) universe_.judge.expect_takeover();
    if (machine_too) {
      node(0).machine_died();
    } else {
      node(0).killed();
    }
    return;
  }
  daemon_.end();
  coordinator_->end();
  network_->coordinator_ended(master_place);
}

}  // namespace cpprun::sim
