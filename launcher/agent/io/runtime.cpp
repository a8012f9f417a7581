// SPDX-License-Identifier: BSD-3-Clause
#include "launcher/agent/io/runtime.h"

#include <fmt/format.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <new>
#include <system_error>
#include <utility>

#include "launcher/agent/agent_text.h"
#include "launcher/io/wall_clock.h"
#include "launcher/plan/meeting_place.h"
#include "launcher/report/io/terminal.h"
#include "proto/bounds.h"
#include "rendezvous/io/event_loop.h"
#include "rendezvous/io/random_bytes.h"

namespace cpprun::io {

void Introduction::begin(std::vector<std::string> addresses, int port, const link::WhoHosts& who,
                         std::function<void()> done) {
  end();
  links_.clear();
  if (addresses.size() > bounds::node_addresses_max) addresses.resize(bounds::node_addresses_max);
  if (addresses.empty()) return done();
  done_ = std::move(done);
  left_ = addresses.size();
  answered_.assign(addresses.size(), 0);
  for (std::size_t at = 0; at < addresses.size(); ++at) {
    const auto ended = [this, at] {
      if (std::exchange(answered_[at], 1) == 0) one_is_done();
    };
    links_.push_back(std::make_unique<LinkClient>(
        context_, addresses[at], port,
        LinkClient::Callbacks{.up = [this, at, who](const std::string&) { links_[at]->send(who); },
                              .message = [ended](const link::Message&) { ended(); },
                              .down = [ended](const std::string&) { ended(); }},
        secure_));
  }
  patience_.expires_after(bounds::introduction_patience);
  patience_.async_wait([this](const asio::error_code& cancelled) {
    if (cancelled || left_ == 0) return;
    left_ = 1;
    one_is_done();
  });
  for (const auto& link : links_) link->dial();
}

void Introduction::end() {
  done_ = nullptr;
  left_ = 0;
  patience_.cancel();
}

void Introduction::one_is_done() {
  if (left_ == 0 || --left_ > 0) return;
  patience_.cancel();
  if (auto done = std::exchange(done_, nullptr)) done();
}

namespace {

TimePoint now() {
  return boot_now();
}

}  // namespace

Runtime::Runtime(RunInputs inputs, Watchdog watchdog)
    : inputs_(std::move(inputs)),
      watchdog_(std::move(watchdog)),
      timer_(context_,
             [this] {
               notice_watchdog();
               agent_.advance();
             }),
      farewell_(context_),
      agent_number_(std::max(1U, static_cast<std::uint32_t>(random_word()))),
      messages_(inputs_.style),
      pump_(context_, *inputs_.side, 1, 2, inputs_.style.timed),
      strangers_timer_(context_, [this] { tell_held_back(now()); }),
      introduction_(context_),
      security_(std::move(inputs_.secrets)),
      error_file_(context_, *inputs_.side, bounds::disk_patience_at_end),
      agent_(effects()) {}

// The watchdog kills processes that are still there after a job that had to give some up.
Runtime::~Runtime() {
  // They have handlers in the event loop, which is destroyed before inputs_.
  inputs_.output_files = {};
  // The watchdog removes our private directory in either case. This process must not block on that
  // disk.
  const bool nobody_is_left = !processes_ || processes_->nobody_is_left();
  const bool is_told = !nobody_is_left || watchdog_.release(bounds::disk_patience_at_end);
  if (logs_ && is_told) logs_->hand_over_folder();
  if (coordinator_ && is_told) coordinator_->hand_over_door();
  logs_.reset();
}

int Runtime::run() {
  started_ = wall_now();
  inputs_.output_files.serve(
      context_, [this](const std::string& sentence) { pump_.say(messages_.warning(sentence)); });
  if (const auto opened = open(); !opened) {
    const agent::Exit last{.code = 1, .reason = opened.error().reason};
    pump_.say(messages_.error(last.reason));
    leave_report(report_facts(last));
    leave_when_everything_is_said();
    context_.run();
    return 1;
  }
  for (const std::string& note : inputs_.config.notes) pump_.say(messages_.note(note));
  if (const auto note = threads_note(inputs_.config, inputs_.environment)) {
    pump_.say(messages_.note(*note));
  }
  if (coordinator_ && inputs_.config.status_access != StatusAccess::none) {
    pump_.say(messages_.detail(
        fmt::format("status page: http://127.0.0.1:{}/", inputs_.config.endpoint.port)));
  }
  if (coordinator_ && !security_.has_secret()) {
    if (const auto open = open_port_note(inputs_.config, inputs_.config.endpoint.host)) {
      pump_.say(messages_.note(*open));
    }
  }
  for (const std::string& name : signals_->not_handled()) {
    pump_.say(messages_.warning(fmt::format("the signal {} cannot be handled", name)));
  }
  inputs_.output_files.begin({inputs_.config.job, inputs_.host, inputs_.program.argv.front()});
  watch_for_notice();
  note(event_log::JobStarted{.program = inputs_.program.argv,
                             .nodes_min = inputs_.config.nodes_min,
                             .nodes_max = inputs_.config.nodes_max,
                             .workers = inputs_.config.local_world_size});
  try {
    agent_.start([](Agent& agent, TimePoint begin) { return agent.start(begin); });
    context_.run();
  } catch (const std::system_error& refused) {
    return break_off(refused_text(refused.code()));
  } catch (const std::bad_alloc&) {
    return break_off("out of memory");
  }
  return exit_ ? exit_->code : 1;
}

// The system denied a resource to cpprun itself in the middle of a job. The agent can no longer
// run; the workers are killed together with their owner.
int Runtime::break_off(const std::string& why) {
  const agent::Exit last{.code = 1, .reason = "cpprun itself cannot continue: " + why};
  pump_.say(messages_.error(last.reason));
  leave_report(report_facts(last));
  context_.restart();
  leave_within(bounds::console_patience_pressed);
  agent_.end();
  context_.run();
  return 1;
}

void Runtime::take_signals() {
  std::vector<int> taken = inputs_.config.signals;
  const auto& notices = inputs_.config.notices;
  taken.insert(taken.end(), notices.begin(), notices.end());
  signals_.emplace(context_, taken,
                   [this](int signal, const SignalSender& sender) { signalled(signal, sender); });
}

void Runtime::signalled(int signal, const SignalSender& sender) {
  const auto by = ended_by(signal, sender, inputs_.environment, wall_now());
  const auto from = to_text(sender);
  if (!from.empty() || !by.who.empty()) {
    pump_.say(messages_.note(fmt::format(
        "{}{}{}{}", signal_name(signal), from.empty() ? "" : " came from " + from,
        by.who.empty() ? "" : ": " + by.who, by.hint.empty() ? "" : "\n  hint: " + by.hint)));
  }
  // Only output is left to write, so a second signal need not wait for its reader.
  if (exit_ && asks_to_end(signal)) return leave_within(bounds::console_patience_pressed);
  is_asked_to_end_ = is_asked_to_end_ || asks_to_end(signal);
  post(agent::Signalled{signal, by.who});
}

void Runtime::watch_for_notice() {
  if (!inputs_.notice) return;
  notices_.emplace(context_, *inputs_.side, *inputs_.notice,
                   PreemptionWatch::Callbacks{
                       .noticed = [this](const std::string& what) { post(agent::Noticed{what}); },
                       .failed =
                           [this](const std::string& why) {
                             pump_.say(messages_.warning("warning: --preemption-notice: " + why));
                           }});
}

Result<void> Runtime::open() {
  // OpenSSL keeps, for each link, data from which the link key could be derived. So disable core
  // dumps. If that is refused, core dumps stay as they were.
  if (security_.has_secret()) (void)::prctl(PR_SET_DUMPABLE, 0);
  if (const auto opened = open_coordinator(); !opened) return opened;
  if (const auto opened = open_local_store(); !opened) return opened;
  if (!inputs_.error_folders.empty()) {
    const auto made = watchdog_.await_folder(bounds::disk_patience_at_start);
    if (made != 0) return failure(no_folder_text(watchdog_.folder(), made));
    if (const int refusal = watchdog_.first_refusal(); refusal != 0) {
      inputs_.config.notes.push_back(other_folder_text(inputs_.environment, refusal));
    }
  }
  auto logs = LogDir::make(inputs_.config, inputs_.environment, watchdog_.folder(), *inputs_.side);
  if (!logs) return tl::unexpected<Error>(logs.error());
  logs_.emplace(std::move(*logs));
  if (!logs_->note().empty()) inputs_.config.notes.push_back(logs_->note());
  collector_.emplace(context_, *inputs_.side, pump_, inputs_.environment, logs_->run_folder());

  processes_.emplace(
      context_,
      WorkerProcesses::Callbacks{
          .exited =
              [this](LocalRank rank, link::ExitStatus status) {
                const auto index = static_cast<std::size_t>(rank.value);
                note(event_log::WorkerExited{specs_[index].rank, rank, pids_[index], status});
                post(agent::FromWorker{supervisor::Exited{rank, status, wall_now()}});
              },
          .group_gone =
              [this](LocalRank rank) {
                watchdog_.remove_group(pids_[static_cast<std::size_t>(rank.value)]);
                pump_.close(rank);
                post(agent::FromWorker{supervisor::GroupGone{rank}});
              },
          .tree_seen =
              [this](std::vector<TreeProcess> seen) {
                post(agent::FromWorker{supervisor::TreeSeen{std::move(seen)}});
              },
          .spared_ended =
              [this](int pid) {
                if (pid == watchdog_.pid()) replace_watchdog();
                if (pid == inputs_.rendezvous_pid) rendezvous_ended();
              }},
      spared_children(),
      WorkerProcesses::Terms{.open_files = inputs_.open_files,
                             .job_processes = inputs_.job_processes,
                             .niceness = inputs_.niceness,
                             .side = inputs_.side.get(),
                             .environment = inputs_.environment});
  take_signals();
  agent_.begin(
      Agent{inputs_.config, AgentFacts{.host = inputs_.host,
                                       .pid = ::getpid(),
                                       .agent = agent_number_,
                                       .hosts_coordinator = coordinator_ != nullptr,
                                       .program = inputs_.program,
                                       .node = {.environment = inputs_.environment,
                                                .host = inputs_.host,
                                                .node_token = inputs_.node_token,
                                                .master_host = inputs_.config.endpoint.host,
                                                .local_store_port = local_store_port_,
                                                .sockets = {},
                                                .cpus = inputs_.cpus,
                                                .run_folder = logs_->run_folder(),
                                                .error_folder = logs_->error_folder(),
                                                .console = console_facts()},
                                       .interfaces = inputs_.interfaces}});
  return {};
}

// Messages about the job are always shown. Of those about unidentified connections to our port,
// only the first few of a kind are shown, and then their count.
void Runtime::hear_coordinator(const Note& said) {
  const std::string text =
      said.peer ? fmt::format("{} {}: {}", said.peer_is, said.peer->text(), said.text) : said.text;
  // A client that simply disconnects is normal; workers do it all the time.
  if (said.ordinary) return pump_.say(messages_.detail(text));
  if (!said.of_job && !unidentified_connections_.pass(now(), said.text, pump_.is_behind())) {
    strangers_timer_.arm(unidentified_connections_.next_deadline());
    return;
  }
  note(event_log::CoordinatorNoted{text});
  const bool is_warning = said.level <= LogLevel::warning;
  pump_.say(is_warning ? messages_.warning(text) : messages_.note(text));
}

void Runtime::tell_held_back(TimePoint until) {
  for (const std::string& line : unidentified_connections_.advance(until)) {
    note(event_log::CoordinatorNoted{line});
    pump_.say(messages_.note(line));
  }
  strangers_timer_.arm(unidentified_connections_.next_deadline());
}

// --- the loop ------------------------------------------------------------------------------------

// The agent enforces the fence itself. The watchdog does it if cpprun is stopped or hangs, even
// between two of these actions. So the fence is set before any worker is started under it, and
// removed only after all workers were sent the signal that ends them.
Driver<Agent>::Effects Runtime::effects() {
  return {.now = now,
          .perform =
              [this](const agent::Action& action) {
                std::visit([this](const auto& what) { on(what); }, action);
              },
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
    processes_->spare(watchdog_.pid());
    pump_.say(messages_.note("the watchdog of this cpprun was killed; another one has taken over"));
    return;
  }
  pump_.say(messages_.warning(fmt::format(
      "the watchdog of this cpprun was killed and could not be replaced ({}): if cpprun is killed "
      "or stopped as well, processes that its workers started keep running",
      posted.error().reason)));
}

std::vector<int> Runtime::spared_children() const {
  std::vector<int> spared = {watchdog_.pid()};
  if (inputs_.rendezvous_pid > 0) spared.push_back(inputs_.rendezvous_pid);
  return spared;
}

// The supervisor restarts a cpprund that exits. Here the supervisor itself has exited.
void Runtime::rendezvous_ended() {
  if (exit_) return;
  const std::string text = fmt::format(
      "the supervisor of this node's rendezvous process (pid {}) exited; this node can no longer "
      "host the job",
      inputs_.rendezvous_pid);
  note(event_log::CoordinatorNoted{text});
  pump_.say(messages_.warning(
      text + "\n  hint: the job runs as long as another node hosts it; start this node again"));
}

// Formatting a line costs as much as a few system calls, so skip it if nothing consumes the line.
void Runtime::note(const event_log::Event& event) {
  const bool on_console = inputs_.config.logs.events_on_console;
  const bool is_shown = coordinator_ && coordinator_->shows_events();
  const bool is_wanted = on_console || inputs_.output_files.keeps_events();
  if (!is_wanted && !is_shown) return;
  if (!is_wanted && !coordinator_->is_watched()) {
    kept_.emplace_back(wall_now(), event);
    if (kept_.size() > bounds::events_unsaid_max) tell_kept();
    return;
  }
  tell_kept();
  const auto line = inputs_.output_files.line(event);
  if (is_shown) coordinator_->tell_event(line);
  if (on_console) pump_.say(line);
  inputs_.output_files.append(line);
}

void Runtime::tell_kept() {
  if (!coordinator_) return;
  for (const auto& [time, event] : std::exchange(kept_, {})) {
    coordinator_->tell_event(inputs_.output_files.line(time, event));
  }
}

}  // namespace cpprun::io
