// SPDX-License-Identifier: BSD-3-Clause
#include "launcher/agent/io/runtime.h"

#include <fmt/format.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <algorithm>
#include <asio/post.hpp>
#include <new>
#include <system_error>
#include <utility>

#include "launcher/agent/agent_text.h"
#include "launcher/agent/bounds.h"
#include "launcher/output/bounds.h"
#include "launcher/output/io/log_dir.h"
#include "launcher/output/io/output_streams.h"
#include "launcher/plan/io/host.h"
#include "launcher/plan/meeting_place.h"
#include "launcher/plan/program.h"
#include "proto/signal_names.h"
#include "proto/text.h"
#include "proto/worker_contract.h"
#include "rendezvous/io/event_loop.h"

namespace cpprun::io {

namespace {

// How long to wait for the consoles after a stop signal. Its sender may send KILL after 30 s, of
// which the workers' grace period takes up to 25 s.
constexpr auto timeout_when_asked = std::chrono::seconds(3);

}  // namespace

Runtime::Runtime(RunInputs inputs, Watchdog watchdog, std::optional<UpgradeState> before)
    : inputs_(std::move(inputs)),
      before_(std::move(before)),
      watchdog_(std::move(watchdog)),
      timer_(context_,
             [this] {
               notice_watchdog();
               agent_.advance();
             }),
      result_delivery_(context_),
      parent_check_(context_),
      messages_(inputs_.style),
      pump_(context_, *inputs_.side, 1, 2, inputs_.style.timed,
            before_ ? &before_->workers.output : nullptr),
      unidentified_timer_(context_, [this] { tell_held_back(boot_now()); }),
      workers_(context_, inputs_, watchdog_, pump_, callbacks_of_workers()),
      security_(std::move(inputs_.secrets)),
      hosted_(context_, inputs_, security_, callbacks_of_hosted()),
      client_(context_, security_,
              {.job = inputs_.config.job,
               .host = inputs_.host,
               .pid = ::getpid(),
               .agent = inputs_.agent_number,
               .joins = true},
              {.post = [this](Agent::Event event) { post(std::move(event)); },
               .refused =
                   [this](const PeerAddress& peer, const std::string& why) {
                     hear_coordinator({.ordinary = false, .peer = peer, .text = "refused: " + why});
                   }}),
      error_file_(context_, *inputs_.side, bounds::disk_timeout_at_end),
      upgrade_(context_, *inputs_.side),
      agent_(effects()) {}

WorkerRuntime::Callbacks Runtime::callbacks_of_workers() {
  return {.post = [this](Agent::Event event) { post(std::move(event)); },
          .publish = [this](const events::Event& event) { publish(event); },
          .spared_ended =
              [this](int pid) {
                if (pid == watchdog_.pid()) replace_watchdog();
                if (pid == inputs_.rendezvous_pid) rendezvous_ended();
              }};
}

HostedCoordinator::Callbacks Runtime::callbacks_of_hosted() {
  const auto publish = [this](const events::Event& event) { this->publish(event); };
  return {
      .server = {.to_local_agent = {},
                 .note = [this](const Note& note) { hear_coordinator(note); },
                 .done =
                     [this] {
                       if (exit_code_) leave_when_everything_is_said();
                     },
                 .node_changed = publish,
                 .round_over = [publish](const auto& root) { publish(events::RoundJudged{root}); },
                 .ordered = publish,
                 .events_wanted = [this] { tell_kept(); },
                 .door_opened = [this](const std::string& path) { watchdog_.set_door(path); }},
      .post = [this](Agent::Event event) { post(std::move(event)); },
      .leads =
          [this] {
            client_.close();
            describe_job();
            reopen_local_store();
          },
      .note = publish};
}

// The watchdog kills processes that are still there after a job that had to give some up.
Runtime::~Runtime() {
  // They have handlers in the event loop, which is destroyed before inputs_.
  inputs_.output_files = {};
  // The watchdog removes our private directory in either case. This process must not block on that
  // disk.
  const bool is_told = !workers_.none_is_left() || watchdog_.release(bounds::disk_timeout_at_end);
  if (hosted_.leader() != nullptr && is_told) hosted_.leader()->hand_over_door();
  workers_.end_logs(is_told);
}

int Runtime::run() {
  report_ = {.job = inputs_.config.job,
             .entrypoint = inputs_.program.entrypoint,
             .program = inputs_.program.argv,
             .interpreter = inputs_.program.interpreter,
             .host = inputs_.host,
             .pid = ::getpid(),
             .started = wall_now(),
             .utc_offset_seconds = inputs_.utc_offset_seconds,
             .colour = inputs_.style.colour};
  const auto& arguments = inputs_.config.program.arguments;
  report_.program.insert(report_.program.end(), arguments.begin(), arguments.end());
  inputs_.output_files.serve(context_, [this](const std::string& sentence) { warn(sentence); });
  if (const auto opened = before_ ? resume() : open(); !opened) {
    fail(opened.error().reason);
    leave_when_everything_is_said();
    context_.run();
    return 1;
  }
  try {
    begin();
    serve();
  } catch (const std::system_error& refused) {
    return break_off(refused_text(refused.code()));
  } catch (const std::bad_alloc&) {
    return break_off("out of memory");
  }
  return exit_code_.value_or(1);
}

// The job starts, or continues after another program in this process.
void Runtime::begin() {
  inputs_.output_files.begin({inputs_.config.job, inputs_.host, inputs_.program.argv.front()});
  if (before_) {
    const UpgradeState before = *std::exchange(before_, std::nullopt);
    const Duration took = boot_now() - before.begun;
    upgraded_number_ = before.request;
    inputs_.output_files.resume_round(before.agent.sealed);
    watch_for_notice();
    publish(
        events::AgentUpgraded{.from = before.version, .to = inputs_.origin.version, .took = took});
    post(agent::UpgradeEnded{
        {.number = before.request, .version = inputs_.origin.version, .took = took}});
    return agent_.advance();
  }
  for (const std::string& each : inputs_.config.notes) note(each);
  if (!status_page().empty()) note("status page: " + status_page(), LogLevel::debug);
  if (hosted_.leader() != nullptr && !security_.has_secret()) {
    const auto open = open_port_note(inputs_.config, inputs_.config.endpoint.host);
    if (open) note(*open);
  }
  for (const std::string& name : signals_->not_handled()) {
    warn(fmt::format("--signals-to-handle: ignoring {}, which cannot be handled", name));
  }
  watch_for_notice();
  publish(events::JobStarted{.program = inputs_.program.argv,
                             .nodes_min = inputs_.config.nodes_min,
                             .nodes_max = inputs_.config.nodes_max,
                             .workers = inputs_.config.local_world_size});
  agent_.start([](Agent& agent, TimePoint begin) { return agent.start(begin); });
}

void Runtime::serve() {
  context_.run();
  while (std::exchange(upgrade_is_due_, false)) {
    context_.restart();
    execute_upgrade();
    context_.run();
  }
}

// It ends without a decision of the agent, and not because of a worker.
void Runtime::fail(const std::string& reason) {
  note(reason, LogLevel::error);
  report_.hear(wall_now(), events::JobEnded{.exit_code = 1, .reason = reason});
  leave_report();
}

// The system denied a resource to cpprun itself in the middle of a job. The agent can no longer
// run; the workers are killed together with their owner.
int Runtime::break_off(const std::string& why) {
  fail("cpprun itself cannot continue: " + why);
  context_.restart();
  leave_within(bounds::console_timeout_pressed);
  agent_.end();
  context_.run();
  return 1;
}

void Runtime::take_signals() {
  std::vector<int> taken = inputs_.config.signals;
  const auto& notices = inputs_.config.notices;
  taken.insert(taken.end(), notices.begin(), notices.end());
  signals_.emplace(context_, taken, [this](int signal, const SignalSender& sender) {
    heard_signal(signal, sender);
  });
}

// The second signal kills the workers at once. But a parent that ends sends its parent-death signal
// once for each of its threads, and a Ctrl-C that ended it has reached cpprun too.
void Runtime::heard_signal(int signal, const SignalSender& sender) {
  const bool is_of_parent = parent_ > 1 && sender.pid == parent_;
  if (!is_asked_to_end_ || !is_of_parent || !asks_to_end(signal)) return signalled(signal, sender);
  parent_check_.expires_after(bounds::parent_end_max);
  parent_check_.async_wait([this, signal, sender](const asio::error_code& error) {
    if (!error && ::getppid() == parent_) signalled(signal, sender);
  });
}

void Runtime::signalled(int signal, const SignalSender& sender) {
  const auto by = ended_by(signal, sender, inputs_.environment, wall_now());
  const auto from = to_text(sender);
  if (!from.empty() || !by.who.empty()) {
    note(fmt::format("{}{}{}{}", signal_name(signal), from.empty() ? "" : " came from " + from,
                     by.who.empty() ? "" : ": " + by.who,
                     by.hint.empty() ? "" : "\n  hint: " + by.hint));
  }
  // Only output is left to write, so a second signal need not wait for its reader.
  if (exit_code_ && asks_to_end(signal)) return leave_within(bounds::console_timeout_pressed);
  is_asked_to_end_ = is_asked_to_end_ || asks_to_end(signal);
  post(agent::Signalled{signal, by.who});
}

void Runtime::watch_for_notice() {
  if (!inputs_.notice) return;
  notices_.emplace(
      context_, *inputs_.side, *inputs_.notice,
      PreemptionWatch::Callbacks{
          .noticed = [this](const std::string& what) { post(agent::Noticed{what}); },
          .failed =
              [this](const std::string& why) { warn("warning: --preemption-notice: " + why); }});
}

Result<void> Runtime::open() {
  // OpenSSL keeps, for each link, data from which the link key could be derived. So disable core
  // dumps. If that is refused, core dumps stay as they were.
  if (security_.has_secret()) (void)::prctl(PR_SET_DUMPABLE, 0);
  if (const auto opened = open_coordinator(); !opened) return opened;
  if (const auto opened = open_local_store(); !opened) return opened;
  if (!inputs_.error_directories.empty()) {
    const auto made = watchdog_.await_directory(bounds::disk_timeout_at_start);
    if (made != 0 && needs_private_directory(inputs_.config)) {
      return failure(no_directory_text(watchdog_.directory(), made));
    }
    if (const int refusal = watchdog_.first_refusal(); refusal != 0 && made == 0) {
      inputs_.config.notes.push_back(other_directory_text(inputs_.environment, refusal));
    }
  }
  std::vector<int> spared = {watchdog_.pid()};
  if (inputs_.rendezvous_pid > 0) spared.push_back(inputs_.rendezvous_pid);
  if (const auto opened = workers_.open(std::move(spared)); !opened) return opened;
  report_.logs = workers_.run_directory();
  take_signals();
  describe_job();
  auto facts = facts_of(inputs_, workers_.run_directory(), workers_.error_directory());
  facts.hosts_coordinator = hosted_.leader() != nullptr;
  facts.node.local_store_port = local_store_port_;
  agent_.begin(Agent{inputs_.config, std::move(facts)});
  return {};
}

// The other half of open(), after another program in this process.
Result<void> Runtime::resume() {
  if (security_.has_secret()) (void)::prctl(PR_SET_DUMPABLE, 0);
  UpgradeState& before = *before_;
  if (before.coordinator) {
    const auto port = hosted_.resume(*before.coordinator, before.agent.up);
    if (!port) return tl::unexpected<Error>(port.error());
    local_store_port_ = *port;
  } else if (const auto opened = client_.open(inputs_.config.endpoint); !opened) {
    return opened;
  } else if (before.local_store) {
    const auto port = client_.resume_store(*before.local_store);
    if (!port) return tl::unexpected<Error>(port.error());
    local_store_port_ = *port;
  }
  take_signals();
  auto facts =
      facts_of(inputs_, before.workers.logs.run_directory, before.workers.logs.error_directory);
  facts.hosts_coordinator = before.coordinator.has_value();
  facts.node.local_store_port = local_store_port_;
  Agent agent{inputs_.config, std::move(facts)};
  auto specs = AgentSuccession::resume(agent, boot_now(), before.agent);
  if (!specs) return tl::unexpected<Error>(specs.error());
  workers_.adopt(before.workers, *std::move(specs));
  report_.logs = workers_.run_directory();
  report_.started = before.started;
  report_.restarts = before.restarts;
  report_.attempts.resume(before.attempts, before.attempts_left_out);
  watchdogs_started_ = before.watchdogs_started;
  fence_ = before.watchdog.fence;
  describe_job();
  agent_.begin(std::move(agent));
  return {};
}

// --- another program in this process -------------------------------------------------------------

// What it needs to continue, or why it cannot.
Result<UpgradeState> Runtime::state_now() {
  if (exit_code_) return failure("the job is over");
  if (inputs_.rendezvous_pid > 0) {
    return failure("a cpprund of this node belongs to the job (--rdzv-backend=etcd)");
  }
  auto past = AgentSuccession::past_of(agent_.machine());
  if (!past) return tl::unexpected<Error>(past.error());
  if (auto why = hosted_.objection_to_upgrade()) return failure(*std::move(why));
  auto* const leader = hosted_.leader();
  if (!inputs_.output_files.is_idle()) return failure("the report is being written");
  auto workers = workers_.carried();
  if (!workers) return tl::unexpected<Error>(workers.error());
  for (AgentPast::Worker& each : past->workers) {
    const auto& left = workers->processes.workers;
    each.is_swept = std::ranges::find(left, each.local_rank,
                                      &WorkerProcesses::Carried::Worker::local_rank) == left.end();
  }
  UpgradeState state{.version = inputs_.origin.version,
                     .begun = boot_now(),
                     .request = upgrade_number_.value_or(0),
                     .job = inputs_.config.job,
                     .agent_number = inputs_.agent_number,
                     .node_token = inputs_.node_token,
                     .mark = inputs_.job_processes.mark,
                     .started = report_.started,
                     .local_world_size = inputs_.config.local_world_size,
                     .config_files = inputs_.origin.config_files,
                     .open_files = inputs_.open_files,
                     .niceness = inputs_.niceness,
                     .agent = *std::move(past),
                     .helpers = inputs_.side->pids(),
                     .watchdogs_started = watchdogs_started_,
                     .watchdog = watchdog_.carried(),
                     .workers = *std::move(workers),
                     .output_files = inputs_.output_files.carried(),
                     .restarts = report_.restarts,
                     .attempts = report_.attempts.kept(),
                     .attempts_left_out = report_.attempts.left_out()};
  for (const Secret& secret : security_.secrets()) state.secrets += secret_line(secret) + "\n";
  if (leader != nullptr) {
    state.coordinator = leader->carried();
    if (!state.coordinator) return failure("a request to the workers' store is half done");
  } else {
    state.local_store = client_.carried_store();
  }
  return state;
}

void Runtime::upgrade(std::uint64_t number) {
  // A command that is repeated while its reply is on the way has the same result.
  if (number == upgraded_number_ || std::exchange(upgrade_number_, number)) return;
  upgrade_asked_ = boot_now();
  try {
    const auto state = state_now();
    if (!state) return refuse_upgrade(number, state.error().reason);
    upgrade_.check(own_program(), inputs_.origin, upgrade_state_bytes(*state),
                   [this](const Result<std::string>& version) { checked(version); });
  } catch (const std::bad_alloc&) {
    refuse_upgrade(number, "out of memory");
  }
}

void Runtime::checked(const Result<std::string>& version) {
  if (!version) return refuse_upgrade(*upgrade_number_, version.error().reason);
  // While the new program starts again, this node sends and answers no heartbeat.
  const Duration took = boot_now() - upgrade_asked_;
  const Duration lease = inputs_.config.lease();
  if (inputs_.config.nodes_max > 1 && took >= lease) {
    return refuse_upgrade(
        *upgrade_number_,
        fmt::format("starting the new version took {:.1f} s, and nodes are lost after {:.1f} s "
                    "without a response",
                    in_seconds(took), in_seconds(lease)));
  }
  upgrade_is_due_ = true;
  context_.stop();
}

// Outside of all handlers. Those that are ready come first: the other program would not know what
// they were about. Returns if it cannot be done.
void Runtime::execute_upgrade() {
  constexpr Duration timeout = std::chrono::seconds(2);
  constexpr auto pause = std::chrono::milliseconds(5);
  constexpr int handlers_max = 1000;  // more come all the time while workers print
  std::string why;
  for (const TimePoint end = boot_now() + timeout; boot_now() < end;) {
    int handled = 0;
    while (handled < handlers_max && context_.poll_one() > 0) ++handled;
    tell_kept();
    bool is_tried = false;
    try {
      const auto state = state_now();
      why = state ? "" : state.error().reason;
      is_tried = state.has_value();
      if (is_tried) {
        notices_.reset();  // its process would outlive this program
        why = AgentUpgrade::execute(own_program(), inputs_.origin, *state);
      }
    } catch (const std::bad_alloc&) {
      why = "out of memory";
      is_tried = true;
    }
    if (is_tried) watch_for_notice();
    if (is_tried || exit_code_ || context_.stopped()) break;
    context_.run_for(pause);
  }
  refuse_upgrade(*upgrade_number_, why);
}

void Runtime::refuse_upgrade(std::uint64_t number, const std::string& why) {
  if (number == upgrade_number_) upgrade_number_.reset();
  warn(fmt::format("the agent was not upgraded: {}", why));
  post(agent::UpgradeEnded{{.number = number, .version = inputs_.origin.version, .error = why}});
}

// To clients of the coordinator in this process.
void Runtime::describe_job() {
  if (hosted_.leader() == nullptr) return;
  // Not from the user database, which may be on a server that does not respond.
  const auto* const user = find_variable(inputs_.environment, "USER");
  hosted_.leader()->set_hosted_job(
      {.command = public_command_text(report_.program),
       .user = user == nullptr ? fmt::format("uid {}", ::geteuid()) : plain_line(*user),
       .log_directory = workers_.run_directory()});
}

// Creates the coordinator itself, or a client for it.
Result<void> Runtime::open_coordinator() {
  const auto hosting = decide_hosting(
      inputs_.config,
      {.host_name = inputs_.host, .interfaces = inputs_.interfaces, .addresses_of = addresses_of});
  if (!hosting) return tl::unexpected<Error>(hosting.error());
  if (*hosting != Hosting::never) {
    const auto hosted = hosted_.open();
    if (hosted || *hosting == Hosting::must) return hosted;
  }
  return client_.open(inputs_.config.endpoint);
}

Result<void> Runtime::open_local_store() {
  if (inputs_.config.store != StoreWay::local) return {};
  auto* const leader = hosted_.leader();
  const auto port = leader != nullptr ? leader->open_local_store() : client_.open_store();
  if (!port) return tl::unexpected<Error>(port.error());
  local_store_port_ = *port;
  return {};
}

void Runtime::reopen_local_store() {
  if (const auto opened = open_local_store(); !opened) {
    note("the workers of this node cannot reach their store: " + opened.error().reason,
         LogLevel::error);
  }
}

// Messages about the job are always shown. Of those about unidentified connections to our port,
// only the first few of a kind are shown, and then their count.
void Runtime::hear_coordinator(const Note& said) {
  const std::string text =
      said.peer ? fmt::format("{} {}: {}", said.peer_is, said.peer->text(), said.text) : said.text;
  // A client that simply disconnects is normal; workers do it all the time.
  if (said.ordinary) return note(text, LogLevel::debug);
  if (!said.of_job && !unidentified_connections_.pass(boot_now(), said.text, pump_.is_behind())) {
    unidentified_timer_.arm(unidentified_connections_.next_deadline());
    return;
  }
  publish(events::CoordinatorNoted{text, std::max(said.level, LogLevel::warning)});
}

void Runtime::tell_held_back(TimePoint until) {
  for (const std::string& line : unidentified_connections_.advance(until)) {
    publish(events::CoordinatorNoted{line});
  }
  unidentified_timer_.arm(unidentified_connections_.next_deadline());
}

// --- the loop ------------------------------------------------------------------------------------

void Runtime::post(Agent::Event event) {
  if (auto* const up = std::get_if<agent::LinkUp>(&event)) up->local_store_port = local_store_port_;
  notice_watchdog();
  agent_.post(std::move(event));
}

void Runtime::notice_watchdog() {
  if (watchdog_.has_fired()) agent_.post(agent::Fenced{});
}

// The agent enforces the fence itself. The watchdog does it if cpprun is stopped or hangs, even
// between two of these actions. So the fence is set before any worker is started under it, and
// removed only after all workers were sent the signal that ends them.
Driver<Agent>::Effects Runtime::effects() {
  return {.now = boot_now,
          .perform = [this](const agent::Action& action) { perform(action); },
          .arm = [this](std::optional<TimePoint> deadline) { timer_.arm(deadline); },
          .decided =
              [this](const auto&) {
                const auto fence = agent_.machine().overdue_at();
                if (fence) tell_fence(fence);
              },
          .performed = [this] { tell_fence(agent_.machine().overdue_at()); }};
}

void Runtime::tell_fence(std::optional<TimePoint> fence) {
  if (fence == fence_) return;
  fence_ = fence;
  watchdog_.set_deadline(fence);
}

// There is a watchdog at all times: without it, the workers of a killed cpprun would keep running.
void Runtime::replace_watchdog() {
  const auto posted = ++watchdogs_started_ > bounds::watchdogs_posted_max
                          ? failure("too many were killed")
                          : watchdog_.start_again();
  if (posted) {
    workers_.spare(watchdog_.pid());
    note("the watchdog of this cpprun was killed; another one has taken over");
    return;
  }
  warn(fmt::format(
      "the watchdog of this cpprun was killed and could not be replaced ({}): if cpprun is killed "
      "too, processes that its workers started keep running; if it is suspended for longer than "
      "its "
      "lease, its workers keep running as well",
      posted.error().reason));
}

// The supervisor restarts a cpprund that exits. Here the supervisor itself has exited.
void Runtime::rendezvous_ended() {
  if (exit_code_) return;
  publish(events::CoordinatorNoted{
      .text = fmt::format(
          "this node can no longer host the job: the supervisor of its rendezvous process (pid {}) "
          "exited; the job continues while another node can host it",
          inputs_.rendezvous_pid),
      .level = LogLevel::warning,
      .hint = "\n  hint: restart cpprun on this node when the job allows it"});
}

// To all listeners. The event file has an event before the console.
void Runtime::publish(const events::Event& event) {
  const WallTime now = wall_now();
  report_.hear(now, event);
  if (is_logged(event)) log(now, event);
  pump_.say(messages_.text(event));
}

// Formatting a line costs as much as a few system calls, so skip it if nothing consumes the line.
void Runtime::log(WallTime now, const events::Event& event) {
  const bool on_console = inputs_.config.logs.events_on_console;
  auto* const leader = hosted_.leader();
  const bool is_shown = leader != nullptr && leader->shows_events();
  const bool is_wanted = on_console || inputs_.output_files.keeps_events();
  if (!is_wanted && !is_shown) return;
  if (!is_wanted && !leader->is_watched()) {
    kept_.emplace_back(now, event);
    // The evidence of a failure may be large; its line is not.
    const bool is_large = std::holds_alternative<events::WorkerFailed>(event);
    if (is_large || kept_.size() > bounds::events_unsaid_max) tell_kept();
    return;
  }
  tell_kept();
  const auto line = inputs_.output_files.line(now, event);
  if (is_shown) leader->tell_event(line);
  if (on_console) pump_.say(line);
  inputs_.output_files.append(line);
}

void Runtime::tell_kept() {
  if (hosted_.leader() == nullptr) return;
  for (const auto& [time, event] : std::exchange(kept_, {})) {
    hosted_.leader()->tell_event(inputs_.output_files.line(time, event));
  }
}

// --- actions of the agent ------------------------------------------------------------------------

void Runtime::perform(const agent::Action& action) {
  auto* const leader = hosted_.leader();
  std::visit(Overloaded{
                 [&](const agent::Dial& m) {
                   inputs_.config.endpoint = m.at;
                   leader != nullptr ? hosted_.dial() : client_.dial(m);
                 },
                 [&](const agent::HangUp& m) {
                   leader != nullptr ? leader->local_agent_left() : client_.hang_up(m);
                 },
                 [&](const agent::Say& m) {
                   leader != nullptr ? leader->hear_local_agent(m.message) : client_.say(m.message);
                 },
                 [&](const agent::SpeakForWorkers&) { client_.speak_for_workers(); },
                 [&](const agent::AskWhoHosts& m) { client_.ask_who_hosts(m); },
                 [&](const agent::StandBy& m) { stand_by(m); },
                 [&](const agent::Stand& m) { hosted_.stand(m.own, /*is_transfer=*/false); },
                 [&](const agent::TakeOver& m) { hosted_.stand(m.own, /*is_transfer=*/true); },
                 [&](const agent::StepDown&) { step_down(); },
                 [&](const agent::Prepare& m) {
                   if (!m.is_restart) report_.ends.clear();  // those of the attempt before
                   workers_.prepare(m);
                 },
                 [&](const agent::Work& m) { workers_.work(m); },
                 [&](const agent::Examine& m) { workers_.examine(m); },
                 [&](const agent::ProbeWorld&) {
                   workers_.probe_world(leader == nullptr || leader->store_was_asked());
                 },
                 [&](const agent::SampleWorkers& m) { workers_.sample_workers(m); },
                 [&](const agent::ReadProgress&) { workers_.read_progress(); },
                 [&](const agent::ReadLastLines& m) { workers_.read_last_lines(m); },
                 [&](const agent::ObserveWorkers& m) { workers_.observe_workers(m); },
                 [&](const agent::Upgrade& m) { upgrade(m.number); },
                 [&](const supervisor::Failed& m) { seen(m); },
                 [&](const supervisor::Draining& m) { seen(m); },
                 [&](const supervisor::Killing& m) { seen(m); },
                 [&](const events::RoundSealed& m) { begin_round(m); },
                 [&](const events::JobEnded& m) { exit(m); },
                 [&](const auto& event) { publish(event); },
             },
             action);
}

void Runtime::stand_by(const agent::StandBy& action) {
  const auto port = hosted_.stand_by(action.record);
  if (port) return post(agent::StandsBy{action.round, *port});
  warn(fmt::format(
      "this node cannot be the standby: {}; if the master is lost in this round, the job ends",
      port.error().reason));
}

void Runtime::step_down() {
  tell_kept();
  hosted_.step_down();
  reopen_local_store();
}

void Runtime::begin_round(const events::RoundSealed& event) {
  const link::Sealed& sealed = event.sealed;
  if (sealed.restart_count > report_.restarts) announce_report("");
  client_.begin_round(sealed.round);
  publish(event);
  pump_.say(messages_.started(inputs_.config, sealed, inputs_.program, event.sockets,
                              inputs_.config.endpoint.host, status_page()));
  if (sealed.round != RoundNumber{1} || sealed.group_rank != GroupRank{}) return;
  // Once in a job.
  if (const auto threads = threads_note(inputs_.config, inputs_.environment)) note(*threads);
}

// Its address; empty if this process does not serve it.
std::string Runtime::status_page() const {
  return hosted_.leader() == nullptr ? std::string() : hosted_.leader()->status_page();
}

// The workers' state is inspected before any signal is sent: it shows where they hang, and how long
// nothing was saved.
void Runtime::seen(const supervisor::Failed& action) {
  const LocalRank rank = action.outcome.local_rank;
  const bool has_stacks = !action.outcome.verdict.empty();
  if (action.outcome.hung_for && !has_stacks) workers_.look_before_kill(rank);
  publish(events::FirstFailure{action.outcome, workers_.spec(rank).argv.front()});
}

void Runtime::seen(const supervisor::Draining& action) {
  publish(action);
  workers_.look_at_beats();
  // The sender of the stop request may wait less time than the workers are given, so write the
  // report now. Post it, because the workers must be signalled first and a disk may hang.
  asio::post(context_, [this, reason = action.reason] {
    if (!exit_code_) announce_report(reason);
  });
}

void Runtime::seen(const supervisor::Killing& action) {
  const std::string seen = workers_.look_before_kill(action.local_rank);
  const auto grace = action.at_once ? std::nullopt : std::optional(inputs_.config.grace);
  publish(events::WorkerKilled{action.local_rank, seen, grace});
}

// --- the end -------------------------------------------------------------------------------------

void Runtime::exit(const events::JobEnded& event) {
  exit_code_ = event.exit_code;
  tell_held_back(TimePoint::max());
  auto last = event;
  if (last.root) {
    publish(events::RoundJudged{*last.root});
    if (last.root->time == WallTime{}) last.root->time = wall_now();
  }
  publish(last);
  report_.master = hosted_.leader() != nullptr || last.group_rank == GroupRank{};
  // Stopped on request, rejected, or the master is lost: no worker of this job is to blame.
  pump_.say(last.exit_code == 0 ? messages_.finished(report_.ended - report_.started)
            : last.root         ? report(report_)
                                : messages_.message(LogLevel::error, last.reason));
  leave_report();
  ++files_to_leave_;
  inputs_.output_files.finish_events([this] { file_is_left(); });
  ++files_to_leave_;
  const bool goes_on = last.exit_code != 0;
  if (!hosted_.finish_restart_state(goes_on, [this] { file_is_left(); })) file_is_left();
  if (last.root) leave_error_file(*last.root);
  // Its content has been read by now. If a worker had to be given up, the directory stays until the
  // end.
  if (workers_.none_is_left()) watchdog_.give_up_directory();
  if (hosted_.leader() == nullptr) {
    leave_when_everything_is_said();
    return;
  }
  // The other nodes still have to receive the result. The coordinator reports when they have, or
  // the timeout expires.
  result_delivery_.expires_after(bounds::result_delivery_max);
  result_delivery_.async_wait([this](const asio::error_code& cancelled) {
    if (!cancelled) leave_when_everything_is_said();
  });
}

void Runtime::leave_report() {
  if (!inputs_.output_files.keeps_report()) return;
  const auto beside = fmt::format(".node{}", report_.group_rank.value);
  ++files_to_leave_;
  inputs_.output_files.leave_report_later(
      report_json(report_), beside, [this](const Result<std::string>& left) {
        const auto& wanted = inputs_.config.logs.report_file;
        if (!left) {
          note(left.error().reason, LogLevel::error);
        } else if (*left != wanted) {
          warn(fmt::format("--report: another node writes to \"{}\"; this node's report is \"{}\"",
                           wanted, *left));
        }
        file_is_left();
      });
}

// Writes that the job runs, or why its workers are being stopped.
void Runtime::announce_report(const std::string& reason) {
  if (!inputs_.output_files.keeps_report()) return;
  auto facts = report_;
  facts.running = true;
  facts.reason = reason;
  facts.ended = wall_now();
  inputs_.output_files.announce_report_later(report_json(facts));
}

// Writes the root cause where torchrun would have written it, for the process that started cpprun.
void Runtime::leave_error_file(const link::Failure& root) {
  const std::string* path = find_variable(inputs_.environment, contract::error_file);
  if (path == nullptr || path->empty()) return;
  for (const DiagnosedEnd& end : report_.ends) {
    const Evidence& each = end.evidence();
    if (each.outcome.rank != root.rank || each.error_text.empty()) continue;
    const auto text = with_exit_code(each.error_text, link::exit_code_of(root.status));
    if (!text) {
      warn(text.error().reason);
      continue;
    }
    ++files_to_leave_;
    error_file_.ask(
        [path = *path, text = *text] {
          const auto written = write_whole_file(path, text);
          return written ? std::string() : written.error().reason;
        },
        [this, path = *path](const std::optional<std::string>& wrong) {
          const auto why =
              wrong.value_or(fmt::format("cannot write \"{}\": its disk does not respond", path));
          if (!why.empty()) warn(why);
          file_is_left();
        });
  }
}

void Runtime::file_is_left() {
  --files_to_leave_;
  if (files_to_leave_ == 0 && flush_after_) leave_within(*flush_after_);
}

void Runtime::leave_when_everything_is_said() {
  if (leaving_) return;
  leave_within(is_asked_to_end_ ? timeout_when_asked : bounds::console_timeout);
}

void Runtime::leave_within(Duration timeout) {
  leaving_ = true;
  result_delivery_.cancel();
  flush_after_ = std::min(flush_after_.value_or(timeout), timeout);
  // Writing the files may produce more output, on success or failure.
  if (files_to_leave_ == 0) pump_.flush(*flush_after_, [this] { context_.stop(); });
}

}  // namespace cpprun::io
