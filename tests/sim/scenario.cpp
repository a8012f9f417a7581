// SPDX-License-Identifier: BSD-3-Clause
#include "tests/sim/scenario.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <csignal>

#include "launcher/workers/bounds.h"
#include "launcher/workers/supervisor.h"
#include "tests/sim/random.h"

namespace cpprun::sim {

using namespace std::chrono_literals;

namespace {

constexpr int crowd_from = 64;  // from here on, the requested number of agents is used as it is

JobShape draw_job(Random& random, int agents_max) {
  JobShape job;
  job.nodes_max = agents_max > crowd_from ? agents_max : random.between(1, agents_max);
  job.nodes_min = job.nodes_max;
  const bool elastic = random.chance(0.5);
  if (elastic) job.nodes_min = random.between(1, job.nodes_max);
  if (random.chance(0.3)) job.surplus = random.between(1, 2);
  job.ranked = !elastic && job.surplus == 0 && random.chance(0.5);
  job.workers_per_node = agents_max > crowd_from ? 1 : random.between(1, 2);
  job.uneven = agents_max <= crowd_from && random.chance(0.2);
  job.restarts.max = random.between(0, 4);
  constexpr std::array work = {Duration{2s}, Duration{20s}, Duration{60s}};
  job.work_max = work[random.next() % work.size()];
  return job;
}

// From `least` to `most`, on a logarithmic scale.
Duration log_uniform(Random& random, Duration least, Duration most) {
  int doublings = 0;
  for (Duration each = least; each < most; each *= 2) ++doublings;
  const Duration base = least * (std::int64_t{1} << random.between(0, doublings));
  return std::min(most, random.between(base / 2, base));
}

// Kinds that no worker may notice if they are short.
bool is_gentle(FaultKind kind) {
  constexpr std::array gentle = {
      FaultKind::worker_hangs,  FaultKind::worker_leaves, FaultKind::node_is_late,
      FaultKind::link_breaks,   FaultKind::half_open,     FaultKind::partition,
      FaultKind::one_way_out,   FaultKind::one_way_in,    FaultKind::clock_skew,
      FaultKind::clock_jump,    FaultKind::agent_stopped, FaultKind::coordinator_stopped,
      FaultKind::order_save,    FaultKind::order_capture, FaultKind::daemon_cut,
      FaultKind::daemon_skew,   FaultKind::hand_over,     FaultKind::all_suspended,
      FaultKind::agent_upgraded};
  return std::find(gentle.begin(), gentle.end(), kind) != gentle.end();
}

bool is_no_fault(FaultKind kind) {
  return kind == FaultKind::restart_rules || kind == FaultKind::local_stores ||
         kind == FaultKind::restart_scope || kind == FaultKind::secure_wire ||
         kind == FaultKind::standby || kind == FaultKind::replica_controller ||
         kind == FaultKind::hang_watch || kind == FaultKind::reconfigure;
}

bool is_sets(FaultKind kind) {
  return kind == FaultKind::daemon_cut || kind == FaultKind::daemon_skew ||
         kind == FaultKind::hand_over || kind == FaultKind::etcd_trouble;
}

bool is_coordinators(FaultKind kind) {
  return kind == FaultKind::coordinator_killed || kind == FaultKind::coordinator_stopped ||
         kind == FaultKind::coordinator_host_dies || kind == FaultKind::coordinator_restarted ||
         is_sets(kind);
}

bool is_unidentified_kind(FaultKind kind) {
  return kind == FaultKind::unidentified || kind == FaultKind::liar;
}

int draw_value(Random& random, const Fault& fault, bool gentle) {
  switch (fault.kind) {
    case FaultKind::half_open:
      return gentle ? 2 : random.between(0, 2);
    case FaultKind::worker_exits:
      return random.chance(0.5) ? random.between(1, 99) : 128 + SIGSEGV;
    case FaultKind::worker_crashes:
      return random.between(1, 5);
    case FaultKind::agent_signalled:
      return (random.chance(0.5) ? SIGTERM : SIGINT) + (random.chance(0.3) ? 100 : 0);
    case FaultKind::clock_skew:
    case FaultKind::daemon_skew:
      return random.between(-400, 400);
    default:
      return random.between(0, 99);
  }
}

Fault draw_fault(Random& random, const Scenario& scenario, const std::vector<FaultKind>& kinds,
                 TimePoint around) {
  Fault fault;
  fault.kind = kinds[random.next() % kinds.size()];
  const JobShape& job = scenario.jobs.front();
  const Duration horizon = job.work_max * 2 + 10s;
  const Duration moment = around.time_since_epoch() + log_uniform(random, 1ms, 8s);
  fault.at = random.chance(0.6) ? moment : random.up_to(horizon);
  const bool is_for_all = fault.kind == FaultKind::all_suspended;
  const bool short_one = scenario.gentle && !is_for_all;
  fault.lasts = log_uniform(random, 10ms, short_one ? scenario.lease() / 8 : Duration{60s});
  if (short_one && fault.kind == FaultKind::node_is_late) {
    fault.at = random.up_to(scenario.join_timeout / 2);
  }
  const int nodes = scenario.nodes();
  if (!is_coordinators(fault.kind) && !is_unidentified_kind(fault.kind) && !is_for_all)
    fault.nodes.push_back(random.between(0, nodes - 1));
  const bool many = fault.kind == FaultKind::partition || fault.kind == FaultKind::one_way_out ||
                    fault.kind == FaultKind::one_way_in || fault.kind == FaultKind::loss ||
                    fault.kind == FaultKind::slow_network || fault.kind == FaultKind::link_breaks;
  while (many && random.chance(0.5) && static_cast<int>(fault.nodes.size()) < nodes) {
    const int another = random.between(0, nodes - 1);
    const auto found = std::find(fault.nodes.begin(), fault.nodes.end(), another);
    if (found == fault.nodes.end()) fault.nodes.push_back(another);
  }
  std::sort(fault.nodes.begin(), fault.nodes.end());
  fault.local_rank = random.between(0, job.workers_per_node - 1);
  fault.value = draw_value(random, fault, scenario.gentle);
  return fault;
}

void draw_faults(Random& random, Scenario& scenario, const FaultKinds& wanted) {
  const bool spare_the_coordinator = random.chance(scenario.standby || scenario.set ? 0.2 : 0.7);
  std::vector<FaultKind> kinds;
  for (const FaultKind kind : wanted) {
    if (is_no_fault(kind)) continue;
    if (scenario.gentle && !is_gentle(kind) && !is_unidentified_kind(kind)) continue;
    // The coordinator of one job has no room for a liar's job.
    if (kind == FaultKind::liar && !scenario.daemon) continue;
    if (is_unidentified_kind(kind) && scenario.set) continue;
    if (is_sets(kind) && !scenario.set) continue;
    if (kind == FaultKind::all_suspended && scenario.set) continue;
    if (kind == FaultKind::coordinator_restarted && !scenario.daemon) continue;
    if (spare_the_coordinator && is_coordinators(kind) && !scenario.gentle) continue;
    kinds.push_back(kind);
  }
  if (kinds.empty()) return;
  // Faults come in clusters: their order is interesting then.
  const TimePoint around{random.up_to(scenario.jobs.front().work_max)};
  const int nodes = scenario.nodes();
  const int most = scenario.gentle ? 2 : 4 + (nodes > crowd_from ? nodes / 100 : 0);
  const int count = random.between(nodes > crowd_from ? most / 2 : 0, most);
  for (int i = 0; i < count; ++i) {
    scenario.faults.push_back(draw_fault(random, scenario, kinds, around));
    // Once: a coordinator that is suspended again before it has read its messages gives up the
    // rest.
    if (scenario.faults.back().kind == FaultKind::all_suspended) {
      std::erase(kinds, FaultKind::all_suspended);
    }
    if (kinds.empty()) break;
  }
}

// From separate random numbers, so that a seed has the same faults with and without rules.
void draw_rules(std::uint64_t seed, Scenario& scenario) {
  Random random{~seed};
  for (JobShape& job : scenario.jobs) {
    constexpr std::array causes = {"node", "preempt", "segfault", "silent_exit"};
    for (const char* const cause : causes) {
      if (!random.chance(0.3)) continue;
      const bool has_bottom = random.chance(0.6);
      job.restarts.budgets.push_back(
          {cause, has_bottom ? std::optional(random.between(0, 2)) : std::nullopt});
    }
    if (random.chance(0.3)) job.restarts.free_codes = {3, 4};
    if (random.chance(0.3)) job.restarts.fruitless_max = random.between(1, 3);
    if (random.chance(0.3)) job.restarts.backoff = 1ms * random.between(100, 5000);
    if (random.chance(0.3)) job.restarts.window = 1s * random.between(1, 60);
    if (random.chance(0.5)) {
      job.restarts.host_limit = {.failures = random.between(1, 3), .window = 60s};
    }
  }
}

// From separate random numbers, too: the faults are the same with and without stores.
StorePlan draw_stores(std::uint64_t seed) {
  Random random{~seed, 59};
  const auto any_of = [&random](std::initializer_list<std::size_t> sizes) {
    return sizes.begin()[random.next() % sizes.size()];
  };
  return {.window = any_of({64, 300, 4096, 256 * 1024}),
          .link_room = any_of({1, 500, 64 * 1024}),
          .worker_room = any_of({16, 200, 64 * 1024}),
          .value_bytes_max = any_of({10, 700, 5000}),
          .requests_max = random.between(4, 20)};
}

// A job whose nodes continue without the coordinator's node.
void draw_standby(std::uint64_t seed, int agents_max, Scenario& scenario) {
  Random random{~seed, 61};
  scenario.standby = true;
  scenario.daemon = false;
  scenario.jobs.resize(1);
  JobShape& job = scenario.jobs.front();
  job.ranked = false;
  job.nodes_max = std::max(3, std::min(job.nodes_max + 2, agents_max));
  job.nodes_min = random.between(1, job.nodes_max - 1);
}

// Several cpprunds instead of one.
void draw_set(std::uint64_t seed, Scenario& scenario) {
  Random random{~seed, 67};
  scenario.daemon = true;
  scenario.standby = false;
  scenario.set = {.daemons = random.between(2, daemons_max),
                  .etcd_members = random.chance(0.2) ? 1 : 3};
}

// With long delays, a small room would be slower than any link; and a message takes four such
// delays to reach a node, which does not fit into a lease of a second.
void fit_to_the_way(std::uint64_t seed, Scenario& scenario) {
  Random random{~seed, 68};
  constexpr std::array<std::size_t, 3> rooms = {1, 500, 64 * 1024};
  const std::size_t drawn = rooms[random.next() % rooms.size()];
  if (scenario.delay_max <= 2ms) scenario.set->link_room = drawn;
  while (scenario.delay_max > 20ms && scenario.lease() < 3s) ++scenario.lease_attempts;
}

}  // namespace

int Scenario::nodes() const {
  int sum = 0;
  for (const JobShape& job : jobs) sum += job.nodes();
  return sum;
}

int Scenario::job_of(int node) const {
  int job = 0;
  while (node >= jobs[static_cast<std::size_t>(job)].nodes()) {
    node -= jobs[static_cast<std::size_t>(job)].nodes();
    ++job;
  }
  return job;
}

int Scenario::first_place(int node) const {
  return Random{seed, 77, node}.between(0, set->daemons - 1);
}

bool Scenario::knows_one_place(int node) const {
  if (!set) return false;
  Random random{seed, 77, node};
  random.between(0, set->daemons - 1);  // first_place()
  return random.chance(0.2);
}

int Scenario::workers_of(int node) const {
  const JobShape& job = jobs[static_cast<std::size_t>(job_of(node))];
  return job.workers_per_node + (job.uneven ? node % 2 : 0);
}

// Every fault may cost a round, and every round its work, its drain and its gathering.
Duration Scenario::time_max() const {
  Duration longest{};
  for (const JobShape& job : jobs) {
    const Duration stragglers = grace + stragglers_end_within;
    const Duration round = job.work_max * 2 + grace + stragglers + 2 * bounds::kill_timeout +
                           2 * lease() + last_call + join_timeout;
    const auto rounds = static_cast<int>(faults.size()) * 2 + job.restarts.max + 2;
    longest = std::max(longest, round * rounds);
  }
  for (const Fault& fault : faults)
    longest += fault.kind == FaultKind::worker_exits ? Duration{} : fault.at + fault.lasts * 2;
  return longest + 300s;
}

Scenario draw(std::uint64_t seed, int agents_max, const FaultKinds& kinds) {
  Random random{seed};
  Scenario scenario;
  scenario.seed = seed;
  scenario.daemon = random.chance(0.4);
  const int jobs = scenario.daemon && agents_max <= crowd_from ? random.between(1, 3) : 1;
  for (int job = 0; job < jobs; ++job) scenario.jobs.push_back(draw_job(random, agents_max));
  if (kinds.contains(FaultKind::standby)) draw_standby(seed, agents_max, scenario);
  if (kinds.contains(FaultKind::replica_controller)) draw_set(seed, scenario);
  if (random.chance(0.2)) {
    scenario.lease_interval = 500ms;
    scenario.lease_attempts = random.between(2, 10);
  }
  scenario.grace = random.between(500ms, 10s);
  scenario.join_timeout = random.between(20s, 120s);
  scenario.last_call = random.between(500ms, 15s);
  constexpr std::array delays = {Duration{100us}, Duration{2ms}, Duration{20ms}, Duration{150ms}};
  scenario.delay_max = delays[random.next() % delays.size()];
  constexpr std::array victims = {0.0, 0.5, 1.0};
  scenario.victims = victims[random.next() % victims.size()];
  if (scenario.set) fit_to_the_way(seed, scenario);
  scenario.gentle = scenario.delay_max <= 20ms && random.chance(0.3);
  draw_faults(random, scenario, kinds);
  if (kinds.contains(FaultKind::restart_rules)) draw_rules(seed, scenario);
  if (kinds.contains(FaultKind::restart_scope)) {
    // Workers that are independent of each other.
    for (JobShape& job : scenario.jobs) job.restarts.scope = RestartScope::worker;
    scenario.victims = 0;
  }
  if (kinds.contains(FaultKind::reconfigure)) {
    for (JobShape& job : scenario.jobs) job.restarts.reconfigures = true;
  }
  scenario.watches_hangs = kinds.contains(FaultKind::hang_watch);
  scenario.secure_wire = kinds.contains(FaultKind::secure_wire);
  if (kinds.contains(FaultKind::local_stores) || scenario.set) scenario.stores = draw_stores(seed);
  scenario.has_unidentified =
      std::any_of(scenario.faults.begin(), scenario.faults.end(),
                  [](auto& each) { return is_unidentified_kind(each.kind); });
  return scenario;
}

std::string to_text(const Scenario& scenario) {
  const auto seconds = [](Duration each) { return std::chrono::duration<double>(each).count(); };
  std::string text = fmt::format(
      "{}; lease {:.1f} s, grace {:.1f} s, join {:.0f} s, last call {:.1f} s, delays up to {:.4f} "
      "s, victims {}{}",
      scenario.daemon ? "a cpprund" : "node 0 hosts the coordinator", seconds(scenario.lease()),
      seconds(scenario.grace), seconds(scenario.join_timeout), seconds(scenario.last_call),
      seconds(scenario.delay_max), scenario.victims, scenario.gentle ? ", gentle" : "");
  for (const JobShape& job : scenario.jobs) {
    text +=
        fmt::format("\n  job of {}:{} nodes and {} spares{}, {} workers each{}, {}, work {:.0f} s",
                    job.nodes_min, job.nodes_max, job.surplus, job.ranked ? ", ranked" : "",
                    job.workers_per_node, job.uneven ? " or one more" : "", to_text(job.restarts),
                    seconds(job.work_max));
  }
  if (scenario.standby) text += "\n  another node is the standby";
  if (scenario.set) {
    text += fmt::format("\n  {} cpprunds, room for {} between them; {} of etcd",
                        scenario.set->daemons, scenario.set->link_room, scenario.set->etcd_members);
  }
  if (scenario.secure_wire) text += "\n  links are TLS";
  if (scenario.stores) {
    text += fmt::format(
        "\n  local stores: windows of {} bytes, room for {} in a link and {} at a worker, values "
        "up "
        "to {}, {} requests",
        scenario.stores->window, scenario.stores->link_room, scenario.stores->worker_room,
        scenario.stores->value_bytes_max, scenario.stores->requests_max);
  }
  return text;
}

}  // namespace cpprun::sim
