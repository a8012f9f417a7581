#include "launcher/io/runtime.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "launcher/io/addresses.h"
#include "launcher/io/host.h"
#include "launcher/report.h"
#include "proto/bounds.h"
#include "proto/worker_contract.h"

namespace cpprun::io {

namespace {

TimePoint now() {
  return std::chrono::steady_clock::now();
}

WallTime wall_now() {
  return std::chrono::time_point_cast<std::chrono::microseconds>(std::chrono::system_clock::now());
}

}  // namespace

Runtime::Runtime(RunInputs inputs, Warden warden)
    : inputs_(std::move(inputs)),
      warden_(std::move(warden)),
      timer_(context_, [this] { advance(); }),
      farewell_(context_),
      narrator_(inputs_.style),
      pump_(context_, 1, 2) {}

Runtime::~Runtime() = default;

int Runtime::run() {
  if (const auto opened = open(); !opened) {
    pump_.say(narrator_.error(opened.error().reason));
    leave_when_everything_is_said();
    context_.run();
    return 1;
  }
  for (const std::string& note : inputs_.config.notes) pump_.say(narrator_.note(note));
  if (const auto note = threads_note(inputs_.config, inputs_.environment)) {
    pump_.say(narrator_.note(*note));
  }
  for (const std::string& name : signals_->not_handled()) {
    pump_.say(narrator_.warning(fmt::format("the signal {} cannot be handled", name)));
  }
  working_off_ = true;
  for (agent::Action& action : agent_->start(now())) perform(action);
  working_off_ = false;
  work_off();
  context_.run();
  return exit_ ? exit_->code : 1;
}

Result<void> Runtime::open() {
  if (const auto opened = open_keeper(); !opened) return opened;
  auto logs = LogDir::make(inputs_.config, inputs_.environment,
                           [this](const std::string& folder) { warden_.told_folder(folder); });
  if (!logs) return tl::unexpected<Error>(logs.error());
  logs_.emplace(std::move(*logs));

  processes_.emplace(
      context_,
      WorkerProcesses::Callbacks{
          .exited =
              [this](LocalRank rank, link::ExitStatus status) {
                post(agent::FromWorker{supervisor::Exited{rank, status, wall_now()}});
              },
          .group_gone =
              [this](LocalRank rank) {
                warden_.told_gone(pids_[static_cast<std::size_t>(rank.value)]);
                pump_.close(rank);
                post(agent::FromWorker{supervisor::GroupGone{rank}});
              }},
      std::vector<int>{warden_.pid()}, inputs_.open_files);
  signals_.emplace(context_, inputs_.config.signals,
                   [this](int signal) { post(agent::Signalled{signal}); });
  agent_.emplace(inputs_.config, AgentFacts{.host = inputs_.host,
                                            .pid = ::getpid(),
                                            .hosts_keeper = keeper_ != nullptr,
                                            .program = inputs_.program,
                                            .node = {.environment = inputs_.environment,
                                                     .node_token = inputs_.node_token,
                                                     .master_host = inputs_.config.endpoint.host,
                                                     .sockets = {},
                                                     .run_folder = logs_->run_folder(),
                                                     .error_folder = logs_->error_folder()},
                                            .interfaces = inputs_.interfaces});
  return {};
}

// Node rank 0 hosts the keeper. Where ranks do not say, whoever runs on the master's machine does,
// and the second one there, which finds the port taken, joins the first.
Result<void> Runtime::open_keeper() {
  Config& config = inputs_.config;
  const bool by_rank =
      config.rendezvous != RendezvousMode::endpoint && config.node_rank.has_value();
  // A node alone has nobody to join; only an endpoint may be somebody else's, a daemon's.
  const bool alone = config.nodes_max == 1 && config.rendezvous != RendezvousMode::endpoint;
  const bool must_host = config.is_host.value_or(alone || (by_rank && config.node_rank == 0));
  const bool may_host = !config.is_host && !by_rank && !must_host &&
                        means_this_machine(config.endpoint.host, inputs_.host, inputs_.interfaces);
  if (must_host || may_host) {
    keeper_ = std::make_unique<KeeperServer>(
        context_,
        KeeperServer::Callbacks{
            .to_local_agent = [this](link::Message m) { post(agent::Heard{std::move(m)}); },
            .note =
                [this](const Note& note) {
                  // A client that simply left is an ordinary thing, workers do it all the time.
                  if (note.ordinary) return;
                  const std::string whom =
                      note.peer ? fmt::format("store client {}: ", note.peer->text()) : "";
                  pump_.say(narrator_.note(whom + note.text));
                },
            .done =
                [this] {
                  if (exit_) leave_when_everything_is_said();
                }});
    // A literal loopback address is served there and nowhere else.
    const bool only_loopback =
        config.endpoint.host != "localhost" && is_loopback(config.endpoint.host);
    const auto listening = keeper_->open({.host = only_loopback ? config.endpoint.host : "",
                                          .port = static_cast<std::uint16_t>(config.endpoint.port)},
                                         {.only = JobTerms{.id = config.job,
                                                           .nodes_min = config.nodes_min,
                                                           .nodes_max = config.nodes_max,
                                                           .restarts_max = config.restarts_max},
                                          .options = {.lease = config.lease(),
                                                      .status_interval = bounds::status_interval,
                                                      .last_call = config.last_call}});
    if (listening) {
      config.endpoint.port = listening->port;
      return {};
    }
    keeper_.reset();
    if (must_host) return tl::unexpected<Error>(listening.error());
  }
  client_ = std::make_unique<LinkClient>(
      context_, config.endpoint.host, config.endpoint.port,
      LinkClient::Callbacks{
          .up = [this](std::string local) { post(agent::LinkUp{std::move(local)}); },
          .message = [this](link::Message m) { post(agent::Heard{std::move(m)}); },
          .down = [this](std::string reason) { post(agent::LinkDown{std::move(reason)}); }});
  return {};
}

// From where this machine, which is the master, is seen by the others.
std::string Runtime::local_address_of_master() const {
  const Config& config = inputs_.config;
  if (config.nodes_max == 1) return "127.0.0.1";
  const std::vector<std::string> addresses = addresses_of(config.endpoint.host);
  if (addresses.empty()) return {};
  return local_address_towards(addresses.front(), config.endpoint.port).value_or(std::string{});
}

// --- the loop ------------------------------------------------------------------------------------

void Runtime::post(Agent::Event event) {
  events_.push_back(std::move(event));
  if (!working_off_) work_off();
}

void Runtime::work_off() {
  working_off_ = true;
  while (!events_.empty()) {
    const Agent::Event event = std::move(events_.front());
    events_.pop_front();
    for (agent::Action& action : agent_->handle(now(), event)) perform(action);
  }
  working_off_ = false;
  timer_.arm(agent_->next_deadline());
}

void Runtime::advance() {
  working_off_ = true;
  for (agent::Action& action : agent_->advance(now())) perform(action);
  work_off();
}

void Runtime::perform(agent::Action& action) {
  std::visit([this](const auto& what) { on(what); }, action);
}

// --- the link ------------------------------------------------------------------------------------

void Runtime::on(const agent::Dial&) {
  if (keeper_) {
    post(agent::LinkUp{local_address_of_master()});
  } else {
    client_->dial();
  }
}

void Runtime::on(const agent::Say& action) {
  if (keeper_) {
    keeper_->hear_local_agent(action.message);
  } else {
    client_->send(action.message);
  }
}

void Runtime::on(const agent::HangUp&) {
  if (keeper_) {
    keeper_->local_agent_left();
  } else {
    client_->hang_up();
  }
}

// --- the workers ---------------------------------------------------------------------------------

void Runtime::on(const agent::Prepare& action) {
  specs_ = action.specs;
  pids_.assign(specs_.size(), 0);
  evidence_.clear();
  no_room_.reset();
  if (const auto made = logs_->prepare(specs_); !made) {
    pump_.say(narrator_.error(made.error().reason));
    no_room_ = SpawnError{SpawnStage::log_folder, made.error().error_number};
  }
}

void Runtime::on(const agent::Work& action) {
  std::visit(
      Overloaded{
          [this](const supervisor::Spawn& m) { spawn(m.spec); },
          [this](const supervisor::SignalGroup& m) {
            processes_->signal_group(m.local_rank, m.signal);
          },
          [this](const supervisor::Sweep& m) { processes_->sweep(m.local_rank); },
          [this](const supervisor::SweepNode&) {
            processes_->sweep_node([this] { post(agent::FromWorker{supervisor::NodeSwept{}}); });
          },
          [](const auto&) {
            // The others are the agent's to hear; it does not pass them on.
          },
      },
      action.action);
}

void Runtime::spawn(const WorkerSpec& spec) {
  const LocalRank rank = spec.local_rank;
  const auto failed = [&](const SpawnError& error) {
    post(agent::FromWorker{supervisor::SpawnFailed{rank, error, wall_now()}});
  };
  if (no_room_) {
    failed(*no_room_);
    return;
  }
  auto streams = pump_.attach(spec);
  if (!streams) {
    failed(streams.error());
    return;
  }
  const auto pid = processes_->spawn(spec, *streams);
  pump_.release(*streams);
  if (!pid) {
    pump_.close(rank);
    failed(pid.error());
    return;
  }
  warden_.told_started(*pid);
  pids_[static_cast<std::size_t>(rank.value)] = *pid;
  post(agent::FromWorker{supervisor::Started{rank, *pid}});
}

void Runtime::on(const agent::Examine& action) {
  const WorkerSpec& spec = specs_[static_cast<std::size_t>(action.outcome.local_rank.value)];
  Evidence evidence{.outcome = action.outcome, .executable = spec.argv.front()};
  if (!spec.error_file.empty()) {
    if (auto text = read_small_file(spec.error_file)) {
      evidence.error_text = std::move(*text);
      if (!logs_->run_folder().empty()) evidence.error_file = spec.error_file;
    }
  }
  if (spec.err.target == StreamTarget::file) {
    evidence.last_lines = read_last_lines(spec.err.file);
  } else if (spec.err.target == StreamTarget::tee) {
    pump_.drain(spec.local_rank);
    evidence.last_lines = pump_.last_lines(spec.local_rank);
  }
  evidence.stdout_file = spec.out.file;
  evidence.stderr_file = spec.err.file;
  evidence_.push_back(evidence);
  post(agent::Examined{std::move(evidence)});
}

// --- words ---------------------------------------------------------------------------------------

void Runtime::on(const agent::TellStarted& action) {
  pump_.say(narrator_.started(inputs_.config, action.sealed, inputs_.program, action.sockets,
                              inputs_.config.endpoint.host, inputs_.python_version));
}

void Runtime::on(const agent::TellWaiting& action) {
  pump_.say(narrator_.waiting(action.reason));
}

void Runtime::on(const agent::TellDraining& action) {
  pump_.say(narrator_.draining(action.draining));
}

void Runtime::on(const agent::TellKilling& action) {
  pump_.say(narrator_.killing(action.killing, inputs_.config.grace));
}

void Runtime::on(const agent::TellFailed& action) {
  const auto rank = static_cast<std::size_t>(action.failed.outcome.local_rank.value);
  pump_.say(narrator_.failed(action.failed, specs_[rank].argv.front()));
}

void Runtime::on(const agent::TellNote& action) {
  pump_.say(narrator_.note(action.sentence));
}

// --- the end -------------------------------------------------------------------------------------

void Runtime::on(const agent::Exit& action) {
  exit_ = action;
  signals_->cancel();
  if (exit_->code != 0) say_report(*exit_);
  if (exit_->root) leave_error_file(*exit_->root);
  if (!keeper_) {
    leave_when_everything_is_said();
    return;
  }
  // The others still have to hear it. The keeper says when they have; nobody is waited for longer.
  farewell_.expires_after(bounds::farewell_max);
  farewell_.async_wait([this](const asio::error_code& cancelled) {
    if (!cancelled) leave_when_everything_is_said();
  });
}

void Runtime::say_report(const agent::Exit& last) {
  if (!last.root) {
    // Asked to stop, refused, or the master is gone: no worker of this job is to blame.
    pump_.say(narrator_.error(last.reason));
    return;
  }
  ReportFacts facts{.job = inputs_.config.job,
                    .entrypoint = inputs_.program.entrypoint,
                    .host = inputs_.host,
                    .group_rank = last.group_rank,
                    .root = last.root,
                    .evidence = evidence_,
                    .reason = last.reason,
                    .logs = logs_->run_folder(),
                    .utc_offset_seconds = inputs_.utc_offset_seconds,
                    .colour = inputs_.style.colour};
  if (facts.root && facts.root->time == WallTime{}) facts.root->time = wall_now();
  for (const WorkerSpec& spec : specs_) {
    facts.console_inherited = facts.console_inherited || spec.err.target == StreamTarget::console;
  }
  pump_.say(report(facts));
}

// Whatever started cpprun finds the root cause where torchrun would have left it.
void Runtime::leave_error_file(const link::Failure& root) {
  const std::string* path = find_variable(inputs_.environment, contract::error_file);
  if (path == nullptr || path->empty()) return;
  for (const Evidence& each : evidence_) {
    if (each.outcome.rank != root.rank || each.error_text.empty()) continue;
    const auto text = with_exit_code(each.error_text, link::exit_code_of(root.status));
    const auto written = text ? write_whole_file(*path, *text) : tl::unexpected(text.error());
    if (!written) pump_.say(narrator_.warning(written.error().reason));
  }
}

void Runtime::leave_when_everything_is_said() {
  if (leaving_) return;
  leaving_ = true;
  farewell_.cancel();
  pump_.flush(bounds::console_patience, [this] { context_.stop(); });
}

}  // namespace cpprun::io
