#include "tests/sim/world.h"

#include <fmt/format.h>

#include <algorithm>
#include <csignal>
#include <utility>

namespace cpprun::sim {

using namespace std::chrono_literals;

struct World::Process {
  int rank = 0;
  bool alive = false;
  bool ignores_term = false;
  std::uint64_t life = 0;  // an ending planned for an older life is void
};

struct World::Node {
  int number = 0;
  bool local = false;
  bool running = true;  // its cpprun is there
  std::optional<Agent> agent;
  std::uint64_t timer = 0;
  std::optional<LinkId> link;
  TimePoint last_delivery{};  // messages of one direction stay in order
  TimePoint last_answer{};
  std::vector<Process> processes;
  std::optional<agent::Exit> exit;
};

World::World(Scenario scenario, std::uint64_t seed) : scenario_(scenario), random_(seed) {
  const bool elastic = scenario.nodes_min > 0 || scenario.surplus > 0;
  const int nodes_min = scenario.nodes_min > 0 ? scenario.nodes_min : scenario.nodes;
  keeper_.emplace(KeeperOptions{
      .only = JobTerms{.id = "sim",
                       .nodes_min = nodes_min,
                       .nodes_max = scenario.nodes,
                       .restarts_max = scenario.restarts_max},
      .options = {.lease = 3s, .status_interval = 5s, .last_call = 30s, .store_port = 1}});
  for (int number = 0; number < scenario.nodes + scenario.surplus; ++number) {
    auto node = std::make_unique<Node>();
    node->number = number;
    node->local = number == 0;
    Config config;
    config.rendezvous = RendezvousMode::fixed_master;
    config.endpoint = {"10.0.0.1", 1};
    config.job = "sim";
    config.nodes_min = nodes_min;
    config.nodes_max = scenario.nodes;
    if (!elastic) config.node_rank = number;
    config.local_world_size = scenario.workers_per_node;
    config.restarts_max = scenario.restarts_max;
    config.grace = scenario.grace;
    node->agent.emplace(
        config,
        AgentFacts{.host = fmt::format("host{}", number),
                   .pid = 1000 + number,
                   .hosts_keeper = node->local,
                   .program = {.argv = {"/bin/worker"}, .entrypoint = "worker"},
                   .interfaces = {{.name = "eth0", .up = true, .addresses = {"10.0.0.1"}}}});
    node->processes.resize(static_cast<std::size_t>(scenario.workers_per_node));
    nodes_.push_back(std::move(node));
  }
  for (auto& node : nodes_) {
    // The host of the keeper is there first: before it, nobody could be reached.
    const Duration arrival = node->local ? 0ns : up_to(scenario.arrival_max);
    later(arrival, [this, &node = *node] {
      plan_weather(node);
      perform(node, node.agent->start(now_));
    });
  }
}

World::~World() = default;

// --- chance and time -----------------------------------------------------------------------------

void World::later(Duration delay, std::function<void()> what) {
  entries_.push({now_ + delay, order_++, std::move(what)});
}

bool World::chance(double probability) {
  return std::uniform_real_distribution<>{0.0, 1.0}(random_) < probability;
}

Duration World::up_to(Duration most) {
  return Duration{std::uniform_int_distribution<std::int64_t>{0, most.count()}(random_)};
}

std::optional<std::string> World::run() {
  while (!entries_.empty()) {
    Entry entry = entries_.top();
    entries_.pop();
    now_ = entry.at;
    if (now_.time_since_epoch() > scenario_.time_max) return "the job did not end in time";
    entry.what();
    ++steps_;
    if (broken_) return broken_;
  }
  for (const auto& node : nodes_) {
    if (node->running && !node->exit) return fmt::format("node {} never ended", node->number);
    for (const Process& process : node->processes) {
      if (process.alive) return fmt::format("node {} left a worker behind", node->number);
    }
  }
  return std::nullopt;
}

// --- what goes wrong -----------------------------------------------------------------------------

void World::plan_weather(Node& node) {
  const Weather& weather = scenario_.weather;
  if (!node.local && chance(weather.link_breaks)) {
    later(up_to(weather.worker_life_max), [this, &node] { break_link(node, chance(0.5)); });
  }
  if (!node.local && chance(weather.agent_dies)) {
    later(up_to(weather.worker_life_max), [this, &node] { kill_agent(node); });
  }
  if (chance(weather.node_is_stopped)) {
    later(up_to(weather.worker_life_max), [this, &node] { tell(node, agent::Signalled{SIGTERM}); });
  }
}

void World::break_link(Node& node, bool keeper_notices) {
  if (!node.link || !node.running) return;
  const LinkId link = *std::exchange(node.link, std::nullopt);
  links_.erase(link);
  if (keeper_notices) {
    later(up_to(1s), [this, link] { tell_keeper(Keeper::Closed{link, "broke"}); });
  }
  tell(node, agent::LinkDown{"broke"});
}

// The warden ends what the agent leaves behind; the kernel closes its link.
void World::kill_agent(Node& node) {
  if (!node.running || node.exit) return;
  node.running = false;
  for (Process& process : node.processes) {
    if (!process.alive) continue;
    agent_was_killed_ = true;  // in the middle of its work, that is
    process.alive = false;
    ++process.life;
    --alive_by_rank_[process.rank];
  }
  if (!node.link) return;
  const LinkId link = *std::exchange(node.link, std::nullopt);
  links_.erase(link);
  later(up_to(scenario_.weather.delay_max), [this, link] {
    tell_keeper(Keeper::Closed{link, "reset"});
  });
}

// --- the keeper ----------------------------------------------------------------------------------

void World::tell_keeper(const Keeper::Event& event) {
  perform_keeper(keeper_->handle(now_, event));
  arm_keeper();
}

void World::perform_keeper(const Keeper::Actions& actions) {
  for (const auto& action : actions) {
    if (const auto* say = std::get_if<keeper::Say>(&action)) {
      const auto found = links_.find(say->link);
      if (found == links_.end()) continue;
      Node& node = *found->second;
      const Duration delay = node.local ? 0ns : up_to(scenario_.weather.delay_max);
      node.last_answer = std::max(node.last_answer, now_ + delay);
      later(node.last_answer - now_, [this, &node, link = say->link, message = say->message] {
        if (node.link == link) tell(node, agent::Heard{message});
      });
    } else if (const auto* hang_up = std::get_if<keeper::HangUp>(&action)) {
      later(up_to(scenario_.weather.delay_max), [this, link = hang_up->link] {
        const auto found = links_.find(link);
        if (found == links_.end()) return;
        Node& node = *found->second;
        links_.erase(found);
        tell_keeper(Keeper::Closed{link, "hung up"});
        if (node.link != link) return;
        node.link.reset();
        tell(node, agent::LinkDown{"the master hung up"});
      });
    }
  }
}

void World::arm_keeper() {
  const auto deadline = keeper_->next_deadline();
  const std::uint64_t number = ++keeper_timer_;
  const bool anybody = std::any_of(nodes_.begin(), nodes_.end(),
                                   [](const auto& node) { return node->running && !node->exit; });
  if (!deadline || !anybody || master_is_gone_) return;
  later(std::max(*deadline - now_, Duration{}), [this, number] {
    if (number != keeper_timer_) return;
    perform_keeper(keeper_->advance(now_));
    arm_keeper();
  });
}

// --- an agent ------------------------------------------------------------------------------------

void World::tell(Node& node, const Agent::Event& event) {
  if (!node.running || node.exit) return;
  perform(node, node.agent->handle(now_, event));
}

void World::arm(Node& node) {
  const std::uint64_t number = ++node.timer;
  const auto deadline = node.agent->next_deadline();
  if (!deadline) return;
  later(std::max(*deadline - now_, Duration{}), [this, &node, number] {
    if (number != node.timer || !node.running || node.exit) return;
    perform(node, node.agent->advance(now_));
  });
}

// The host of the keeper stays a while for the others to hear the end; then its port is closed.
void World::end_master() {
  master_is_gone_ = true;
  links_.clear();
  for (const auto& node : nodes_) {
    if (std::exchange(node->link, std::nullopt)) tell(*node, agent::LinkDown{"reset"});
  }
}

void World::dial(Node& node) {
  later(node.local ? 0ns : up_to(scenario_.weather.delay_max), [this, &node] {
    if (!node.running || node.exit) return;
    if (master_is_gone_) {
      tell(node, agent::LinkDown{"connection refused"});
      return;
    }
    const LinkId link{++last_link_};
    node.link = link;
    links_[link] = &node;
    tell_keeper(Keeper::Opened{
        {.link = link, .peer = fmt::format("10.0.0.{}", node.number), .local = node.local}});
    tell(node, agent::LinkUp{"10.0.0.1"});
  });
}

void World::perform(Node& node, const Agent::Actions& actions) {
  for (const auto& action : actions) {
    if (std::holds_alternative<agent::Dial>(action)) {
      dial(node);
    } else if (const auto* say = std::get_if<agent::Say>(&action)) {
      if (!node.link) continue;
      const Duration delay = node.local ? 0ns : up_to(scenario_.weather.delay_max);
      node.last_delivery = std::max(node.last_delivery, now_ + delay);
      later(node.last_delivery - now_, [this, link = *node.link, message = say->message] {
        if (links_.contains(link)) tell_keeper(Keeper::Said{link, message});
      });
    } else if (std::holds_alternative<agent::HangUp>(action)) {
      if (!node.link) continue;
      // What was said before still arrives.
      later(node.last_delivery - now_ + 1ns, [this, link = *node.link] {
        if (links_.erase(link) > 0) tell_keeper(Keeper::Closed{link, "hung up"});
      });
      node.link.reset();
    } else if (const auto* what = std::get_if<agent::Work>(&action)) {
      work(node, what->action);
    } else if (const auto* examine = std::get_if<agent::Examine>(&action)) {
      later(0ns, [this, &node, outcome = examine->outcome] {
        tell(node, agent::Examined{{.outcome = outcome}});
      });
    } else if (const auto* started = std::get_if<agent::TellStarted>(&action)) {
      restarts_seen_ = std::max(restarts_seen_, started->sealed.restart_count);
      must(restarts_seen_ <= scenario_.restarts_max, "the restart budget was overdrawn");
    } else if (const auto* exit = std::get_if<agent::Exit>(&action)) {
      node.exit = *exit;
      must(std::none_of(node.processes.begin(), node.processes.end(),
                        [](const Process& process) { return process.alive; }),
           fmt::format("node {} ended before its workers", node.number));
      if (node.local) later(5s, [this] { end_master(); });
    }
  }
  arm(node);
}

// --- processes -----------------------------------------------------------------------------------

void World::work(Node& node, const supervisor::Action& action) {
  if (const auto* start = std::get_if<supervisor::Spawn>(&action)) {
    spawn(node, start->spec);
  } else if (const auto* signal = std::get_if<supervisor::SignalGroup>(&action)) {
    Process& process = node.processes[static_cast<std::size_t>(signal->local_rank.value)];
    if (!process.alive || (signal->signal != SIGKILL && process.ignores_term)) return;
    const auto life = process.life;
    later(up_to(1s),
          [this, &node, &process, life, rank = signal->local_rank.value, number = signal->signal] {
            if (process.alive && process.life == life) end_process(node, rank, {true, number});
          });
  } else if (const auto* sweep = std::get_if<supervisor::Sweep>(&action)) {
    later(up_to(5ms), [this, &node, rank = sweep->local_rank] {
      tell(node, agent::FromWorker{supervisor::GroupGone{rank}});
    });
  } else if (std::holds_alternative<supervisor::SweepNode>(action)) {
    later(up_to(5ms), [this, &node] { tell(node, agent::FromWorker{supervisor::NodeSwept{}}); });
  }
}

void World::spawn(Node& node, const WorkerSpec& spec) {
  const Weather& weather = scenario_.weather;
  const LocalRank rank = spec.local_rank;
  if (chance(weather.spawn_fails)) {
    later(0ns, [this, &node, rank] {
      tell(node, agent::FromWorker{supervisor::SpawnFailed{rank, {SpawnStage::exec, 2}, {}}});
    });
    return;
  }
  Process& process = node.processes[static_cast<std::size_t>(rank.value)];
  process = {.rank = spec.rank.value,
             .alive = true,
             .ignores_term = chance(weather.worker_hangs),
             .life = process.life + 1};
  must(++alive_by_rank_[process.rank] == 1,
       fmt::format("two workers had rank {} at once", process.rank));
  later(0ns, [this, &node, rank] { tell(node, agent::FromWorker{supervisor::Started{rank, 1}}); });
  const bool fails = chance(weather.worker_fails);
  const link::ExitStatus status = !fails        ? link::ExitStatus{}
                                  : chance(0.5) ? link::ExitStatus{false, 3}
                                                : link::ExitStatus{true, 11};
  later(1ms + up_to(weather.worker_life_max),
        [this, &node, &process, life = process.life, rank, status] {
          if (process.alive && process.life == life) end_process(node, rank.value, status);
        });
}

void World::end_process(Node& node, int local_rank, link::ExitStatus status) {
  Process& process = node.processes[static_cast<std::size_t>(local_rank)];
  process.alive = false;
  --alive_by_rank_[process.rank];
  tell(node, agent::FromWorker{supervisor::Exited{LocalRank{local_rank}, status, {}}});
}

// --- what must hold ------------------------------------------------------------------------------

void World::must(bool holds, const std::string& sentence) {
  if (!holds && !broken_) broken_ = sentence;
}

std::optional<int> World::exit_code_of(int node) const {
  const auto& exit = nodes_.at(static_cast<std::size_t>(node))->exit;
  return exit ? std::optional<int>{exit->code} : std::nullopt;
}

}  // namespace cpprun::sim
