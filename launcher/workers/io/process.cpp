// SPDX-License-Identifier: BSD-3-Clause
#include "launcher/workers/io/process.h"

#include <poll.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
#include <asio/error.hpp>
#include <asio/posix/stream_descriptor.hpp>
#include <asio/post.hpp>
#include <asio/signal_set.hpp>
#include <asio/steady_timer.hpp>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>

#include "launcher/workers/bounds.h"
#include "launcher/workers/io/process_tree.h"
#include "launcher/workers/io/signals.h"
#include "launcher/workers/io/spawn.h"
#include "launcher/workers/io/warm_parent.h"
#include "proto/signal_names.h"
#include "proto/text.h"

namespace cpprun::io {

namespace {

// Reads a child's exit status without reaping it: a zombie keeps its pid and its group id.
std::optional<link::ExitStatus> look_at_end(int pid) {
  siginfo_t info{};
  if (::waitid(P_PID, static_cast<id_t>(pid), &info, WEXITED | WNOHANG | WNOWAIT) != 0 ||
      info.si_pid == 0) {
    return std::nullopt;
  }
  return link::ExitStatus{.signalled = info.si_code != CLD_EXITED, .value = info.si_status};
}

bool reap(int pid) {
  siginfo_t info{};
  return ::waitid(P_PID, static_cast<id_t>(pid), &info, WEXITED | WNOHANG) == 0 && info.si_pid != 0;
}

bool group_has_living(int group) {
  for (const int pid : all_processes()) {
    const auto stat = read_stat(pid);
    if (stat && stat->group == group && stat->alive()) return true;
  }
  return false;
}

}  // namespace

class WorkerProcesses::Impl {
 public:
  Impl(asio::io_context& context, Callbacks callbacks, std::vector<int> spared, Terms terms)
      : context_(context),
        callbacks_(std::move(callbacks)),
        spared_(std::move(spared)),
        limits_{.open_files = terms.open_files,
                .mark = terms.job_processes.mark,
                .niceness = terms.niceness,
                .is_traceable = terms.are_traceable,
                .inherited = std::move(terms.environment),
                .signals = {}},
        job_processes_(std::move(terms.job_processes)),
        side_(terms.side),
        child_signal_(context, SIGCHLD),
        node_timer_(context),
        tree_(
            context, [this] { return others_left(/*may_wait=*/false); },
            [this](std::vector<TreeProcess> seen) { callbacks_.tree_seen(std::move(seen)); }) {
    unrelated_below_ = ::getpid() == 1 || has_descendants();
    ::prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
    if (!terms.warm_modules.empty()) {
      warm_.emplace(context, limits_, std::move(terms.warm_modules),
                    WarmParent::Callbacks{[this](int pid) { spare(pid); }, callbacks_.note});
    }
    await_children();
  }

  ~Impl() {
    // From now on the warm parent is one of those that are killed and reaped below.
    if (warm_ && std::erase(spared_, warm_->pid()) > 0) is_deserted_ = false;
    warm_.reset();
    if (is_deserted_) return;
    for (const auto& [local_rank, worker] : workers_) ::kill(-worker->pid, SIGKILL);
    for (const int pid : others_left()) kill_descendant(pid);
    // A worker stuck in the kernel was given up before and must not delay this.
    const auto end = std::chrono::steady_clock::now() + bounds::last_reap_wait;
    for (const auto& [local_rank, worker] : workers_) {
      if (!worker->ended) wait_for_end(*worker, end);
      reap(worker->pid);
    }
    while (has_descendants() && std::chrono::steady_clock::now() < end) {
      for (const int pid : look_below()) kill_descendant(pid);
      static_cast<void>(::poll(nullptr, 0, 1));
    }
  }

  Result<Carried> carried() const {
    if (sweeps_ > 0 || sweeping_) return failure("the processes of a worker are being ended");
    Carried carried{.spared = spared_, .unrelated_below = unrelated_below_};
    for (const auto& [local_rank, worker] : workers_) {
      carried.workers.push_back({local_rank, worker->pid, worker->ended});
    }
    if (warm_) carried.warm_parent = warm_->pid();
    return carried;
  }

  void adopt(const Carried& carried, const std::vector<WorkerSpec>& specs) {
    spared_ = carried.spared;
    unrelated_below_ = carried.unrelated_below;
    for (const Carried::Worker& each : carried.workers) {
      if (!each.has_exited) {
        // Not reaped yet, so the pid is still its own.
        const auto held = static_cast<int>(::syscall(SYS_pidfd_open, each.pid, 0));
        add_worker(each.local_rank, Child{.pid = each.pid, .pidfd = held});
        continue;
      }
      const auto worker = std::make_shared<Worker>(context_, Child{.pid = each.pid});
      worker->ended = true;
      workers_[each.local_rank] = worker;
    }
    // Its line to the other program is closed.
    if (carried.warm_parent > 0) ::kill(carried.warm_parent, SIGKILL);
    begin_round(specs);
    // Orphans may have died while no handler was set.
    asio::post(context_, [this] { reap_orphans(); });
  }

  void begin_round(const std::vector<WorkerSpec>& specs) {
    // By now our own handlers are among them.
    if (limits_.signals.empty()) limits_.signals = changed_signals();
    if (warm_) warm_->begin_round(specs);
  }

  Spawned spawn(const WorkerSpec& spec, const WorkerStreams& streams) {
    begin_attempt();
    if (limits_.signals.empty()) limits_.signals = changed_signals();
    const auto child = spawn_process(spec, streams.out, streams.err, limits_);
    if (!child) return tl::unexpected(child.error());
    return add_worker(spec.local_rank, *child);
  }

  void start(const WorkerSpec& spec, const WorkerStreams& streams,
             std::function<void(const Spawned&)> done) {
    if (!warm_) return done(spawn(spec, streams));
    begin_attempt();
    warm_->fork(spec, streams.out, streams.err,
                [this, spec, streams, done = std::move(done)](const WarmParent::Forked& forked) {
                  if (forked.error) return done(tl::unexpected(*forked.error));
                  if (!forked.child) return done(spawn(spec, streams));
                  done(add_worker(spec.local_rank, *forked.child));
                });
  }

  void signal_group(LocalRank local_rank, int signal) {
    const auto found = workers_.find(local_rank);
    if (found == workers_.end() || found->second->ended) return;
    ::kill(-found->second->pid, signal);
    // A stopped worker would not act on the signal until it is continued.
    if (signal != SIGKILL && asks_to_end(signal)) ::kill(-found->second->pid, SIGCONT);
  }

  bool signal_worker(LocalRank local_rank, int signal) {
    const auto found = workers_.find(local_rank);
    if (found == workers_.end() || found->second->ended) return true;
    // Not reaped yet, so the pid is still its own.
    if (!takes_signal(found->second->pid, signal)) return false;
    ::kill(found->second->pid, signal);
    return true;
  }

  void signal_main(LocalRank local_rank, int signal) {
    const auto found = workers_.find(local_rank);
    if (found == workers_.end() || found->second->ended) return;
    // Not reaped yet, so the pid is still its own.
    ::kill(found->second->pid, signal);
    if (signal != SIGKILL && asks_to_end(signal)) ::kill(found->second->pid, SIGCONT);
  }

  void signal_process(int pid, std::uint64_t started, int signal) {
    const auto is_meant = [this, started](int held) {
      const auto stat = read_stat(held);
      return stat && stat->started == started && is_ours(held);
    };
    if (kill_checked(pid, signal, is_meant) && asks_to_end(signal)) {
      kill_checked(pid, SIGCONT, is_meant);
    }
  }

  void watch_tree() { tree_.watch(); }

  void release(LocalRank local_rank) {
    const auto found = workers_.find(local_rank);
    if (found == workers_.end() || !found->second->ended) return;
    // They were reparented to us when it exited. Sparing them also spares their descendants.
    for (const int pid : children_of(::getpid())) {
      const bool is_spared = std::ranges::find(spared_, pid) != spared_.end();
      if (!leader(pid) && !is_spared && is_ours(pid)) spared_.push_back(pid);
    }
    const int pid = found->second->pid;
    reap(pid);
    workers_.erase(found);
    asio::post(context_, [this, local_rank, pid] { callbacks_.group_gone(local_rank, pid); });
    reap_orphans();
  }

  void sweep(LocalRank local_rank) {
    const auto found = workers_.find(local_rank);
    if (found == workers_.end() || !found->second->ended) return;
    const auto worker = found->second;
    // One KILL is enough, because the kernel lets no fork in the group escape it. It must come
    // before the reaping, after which the id may be reused.
    ::kill(-worker->pid, SIGKILL);
    reap(worker->pid);
    workers_.erase(found);
    ++sweeps_;
    look_at_group(local_rank, worker, bounds::sweep_look_first);
    reap_orphans();
  }

  void sweep_node(std::function<void()> done) {
    sweeping_ = true;
    tree_.forget();
    look_at_node(std::move(done), Duration{});
  }

  void spare(int pid) { spared_.push_back(pid); }

  bool none_is_left() {
    is_deserted_ = is_deserted_ || (workers_.empty() && others_left().empty());
    return is_deserted_;
  }

 private:
  struct Worker {
    Worker(asio::io_context& context, const Child& child)
        : pid(child.pid), end(context), timer(context) {
      if (child.pidfd >= 0) end.assign(child.pidfd);
    }
    int pid;
    bool ended = false;
    asio::posix::stream_descriptor end;  // a pidfd: readable once the process has exited
    asio::steady_timer timer;
  };

  // From now on our descendants belong to the new attempt, and an earlier sweep must not touch
  // them.
  void begin_attempt() {
    sweeping_ = false;
    is_deserted_ = false;
    tree_.forget();
  }

  int add_worker(LocalRank local_rank, const Child& child) {
    auto worker = std::make_shared<Worker>(context_, child);
    workers_[local_rank] = worker;
    if (worker->end.is_open()) {
      await_end(local_rank, worker);
    } else {
      // SIGCHLD reports the exit, unless it came before this worker was registered.
      asio::post(context_, [this] { look_at_ends(); });
    }
    return worker->pid;
  }

  void await_end(LocalRank local_rank, const std::shared_ptr<Worker>& worker) {
    worker->end.async_wait(asio::posix::stream_descriptor::wait_read,
                           [this, local_rank, worker](const asio::error_code& error) {
                             if (error) return;
                             const auto status = look_at_end(worker->pid);
                             if (!status) return look_later(local_rank, worker);
                             worker->ended = true;
                             worker->end.close();
                             callbacks_.exited(local_rank, *status);
                           });
  }

  // For the workers that have no pidfd.
  void look_at_ends() {
    const auto workers = workers_;
    for (const auto& [local_rank, worker] : workers) {
      if (worker->end.is_open() || worker->ended) continue;
      const auto status = look_at_end(worker->pid);
      if (!status) continue;
      worker->ended = true;
      callbacks_.exited(local_rank, *status);
    }
  }

  static void wait_for_end(Worker& worker, std::chrono::steady_clock::time_point end) {
    using std::chrono::milliseconds;
    while (!look_at_end(worker.pid) && std::chrono::steady_clock::now() < end) {
      const auto left = std::chrono::ceil<milliseconds>(end - std::chrono::steady_clock::now());
      pollfd ended{worker.end.is_open() ? worker.end.native_handle() : -1, POLLIN, 0};
      // Without a pidfd, poll at short intervals.
      const auto timeout = ended.fd < 0 ? milliseconds(1) : std::max(left, milliseconds(0));
      static_cast<void>(::poll(&ended, 1, static_cast<int>(timeout.count())));
    }
  }

  // It has exited, but its tracer has to be notified first. Its pidfd stays readable meanwhile.
  void look_later(LocalRank local_rank, const std::shared_ptr<Worker>& worker) {
    worker->timer.expires_after(bounds::sweep_look_max);
    worker->timer.async_wait([this, local_rank, worker](const asio::error_code& error) {
      if (!error) await_end(local_rank, worker);
    });
  }

  void look_at_group(LocalRank local_rank, const std::shared_ptr<Worker>& worker, Duration pause) {
    siginfo_t info{};
    // Reap orphans of the group that were reparented to us. The leader is reaped already, so this
    // cannot reap it by mistake.
    while (::waitid(P_PGID, static_cast<id_t>(worker->pid), &info, WEXITED | WNOHANG) == 0 &&
           info.si_pid != 0) {
      info = {};
    }
    const bool empty = ::kill(-worker->pid, 0) != 0 && errno == ESRCH;
    // A zombie may stay if its parent left the group and does not reap it: it holds no resources.
    const bool only_zombies =
        !empty && pause >= bounds::sweep_look_max && !group_has_living(worker->pid);
    if (empty || only_zombies) {
      asio::post(context_, [this, local_rank, pid = worker->pid] {
        --sweeps_;
        callbacks_.group_gone(local_rank, pid);
      });
      return;
    }
    worker->timer.expires_after(pause);
    worker->timer.async_wait([this, local_rank, worker, pause](const asio::error_code& error) {
      if (!error)
        look_at_group(local_rank, worker, std::min<Duration>(pause * 2, bounds::sweep_look_max));
    });
  }

  void look_at_node(std::function<void()> done, Duration pause) {
    reap_orphans();
    auto left = others_left();
    std::erase_if(left, [this](int pid) { return is_of_running_worker(pid); });
    if (left.empty()) {
      asio::post(context_, std::move(done));
      return;
    }
    for (const int pid : left) kill_descendant(pid);
    const auto next =
        std::clamp<Duration>(pause * 2, bounds::sweep_look_first, bounds::sweep_look_max);
    node_timer_.expires_after(next);
    node_timer_.async_wait([this, done = std::move(done), next](const asio::error_code& error) {
      if (!error && sweeping_) look_at_node(done, next);
    });
  }

  // Started by a worker that runs, or in its session.
  bool is_of_running_worker(int pid) const {
    const auto runs = [this](int leader) {
      return std::ranges::any_of(workers_, [leader](const auto& each) {
        return !each.second->ended && each.second->pid == leader;
      });
    };
    for (int ancestor = pid; ancestor > 1 && ancestor != ::getpid();) {
      const auto stat = read_stat(ancestor);
      if (!stat) return false;
      if (runs(ancestor) || runs(stat->session)) return true;
      ancestor = stat->parent;
    }
    return false;
  }

  // All our descendants except spared ones, unrelated ones and workers that are not swept yet. When
  // a process dies, its children are reparented to us. A listing in between may miss them, so an
  // empty result is checked once more.
  std::vector<int> others_left(bool may_wait = true) const {
    auto left = look_below(may_wait);
    return left.empty() ? look_below(may_wait) : left;
  }

  // A descendant of a job process belongs to the job. Without a mark, checking a process may block
  // in the kernel on a hung one. If blocking is not allowed, only descendants of a worker are
  // listed then.
  std::vector<int> look_below(bool may_wait = true) const {
    const bool asks = may_wait || job_processes_.mark;
    std::set<int> job_processes;
    std::vector<int> left;
    auto spared = spared_;
    if (side_ != nullptr) spared.insert(spared.end(), side_->pids().begin(), side_->pids().end());
    for (const auto& [pid, parent] : family_of(::getpid(), spared)) {
      if (leader(pid)) {
        job_processes.insert(pid);
      } else if (!unrelated_below_ || job_processes.contains(parent) ||
                 (asks && is_job_process(job_processes_, pid))) {
        job_processes.insert(pid);
        left.push_back(pid);
      }
    }
    return left;
  }

  // A zombie leaves nothing behind. But its children may be being reparented, so an empty result is
  // checked once more here, too.
  bool has_descendants() const {
    const auto lives = [](int pid) {
      const auto stat = read_stat(pid);
      return stat && stat->alive();
    };
    const auto found = [&] { return std::ranges::any_of(look_below(), lives); };
    return found() || found();
  }

  bool leader(int pid) const {
    return std::any_of(workers_.begin(), workers_.end(),
                       [pid](const auto& entry) { return entry.second->pid == pid; });
  }

  // Between the listing and the kill, the pid may have been reused by an unrelated process.
  void kill_descendant(int pid) const {
    kill_checked(pid, SIGKILL, [this](int held) { return is_ours(held); });
  }

  // Whether a worker started it.
  bool is_ours(int pid) const {
    bool job_processes = !unrelated_below_;
    int ancestor = pid;
    while (ancestor > 1 && ancestor != ::getpid()) {
      if (is_side_or_spared(ancestor)) return false;
      job_processes = job_processes || leader(ancestor) || is_job_process(job_processes_, ancestor);
      const auto stat = read_stat(ancestor);
      if (!stat) return false;
      ancestor = stat->parent;
    }
    return job_processes && ancestor == ::getpid();
  }

  bool is_side_or_spared(int pid) const {
    const auto has = [pid](const auto& pids) { return std::ranges::find(pids, pid) != pids.end(); };
    return has(spared_) || (side_ != nullptr && has(side_->pids()));
  }

  void await_children() {
    child_signal_.async_wait([this](const asio::error_code& error, int) {
      if (error) return;
      await_children();
      look_at_ends();
      reap_orphans();
      tree_.look_soon();
    });
  }

  // Reaps the orphans that died. A worker that has exited is reaped by its sweep. Until then the
  // kernel returns it first, and the orphans are looked up one by one.
  void reap_orphans() {
    while (true) {
      siginfo_t info{};
      if (::waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) != 0 || info.si_pid == 0) return;
      if (leader(info.si_pid)) return reap_orphans_one_by_one();
      reap_orphan(info.si_pid);
    }
  }

  void reap_orphans_one_by_one() {
    for (const int pid : children_of(::getpid())) {
      if (!leader(pid) && look_at_end(pid)) reap_orphan(pid);
    }
  }

  void reap_orphan(int pid) {
    reap(pid);
    if (side_ != nullptr) side_->reaped(pid);
    if (warm_) warm_->reaped(pid);
    // The pid may be reused by a process that must not be spared.
    if (std::erase(spared_, pid) > 0 && callbacks_.spared_ended) {
      asio::post(context_, [this, pid] { callbacks_.spared_ended(pid); });
    }
  }

  asio::io_context& context_;
  Callbacks callbacks_;
  std::vector<int> spared_;
  WorkerLimits limits_;
  JobProcesses job_processes_;
  HelperProcesses* side_;
  std::optional<WarmParent> warm_;
  bool unrelated_below_ = false;  // our descendants may include unrelated processes
  std::map<LocalRank, std::shared_ptr<Worker>> workers_;  // until their sweep has begun
  asio::signal_set child_signal_;
  asio::steady_timer node_timer_;
  EndingTree tree_;
  int sweeps_ = 0;         // of workers' groups, under way
  bool sweeping_ = false;  // until a worker is started, even if a process could not be killed
  // No process was found, and only a worker's descendants can start more. So no further search is
  // needed until a worker is started.
  bool is_deserted_ = false;
};

WorkerProcesses::WorkerProcesses(asio::io_context& context, Callbacks callbacks,
                                 std::vector<int> spared, Terms terms)
    : impl_(std::make_unique<Impl>(context, std::move(callbacks), std::move(spared),
                                   std::move(terms))) {}

WorkerProcesses::~WorkerProcesses() = default;

Result<WorkerProcesses::Carried> WorkerProcesses::carried() const {
  return impl_->carried();
}

void WorkerProcesses::adopt(const Carried& carried, const std::vector<WorkerSpec>& specs) {
  impl_->adopt(carried, specs);
}

void WorkerProcesses::begin_round(const std::vector<WorkerSpec>& specs) {
  impl_->begin_round(specs);
}

WorkerProcesses::Spawned WorkerProcesses::spawn(const WorkerSpec& spec,
                                                const WorkerStreams& streams) {
  return impl_->spawn(spec, streams);
}

void WorkerProcesses::start(const WorkerSpec& spec, const WorkerStreams& streams,
                            std::function<void(const Spawned&)> done) {
  impl_->start(spec, streams, std::move(done));
}

void WorkerProcesses::signal_group(LocalRank local_rank, int signal) {
  impl_->signal_group(local_rank, signal);
}

bool WorkerProcesses::signal_worker(LocalRank local_rank, int signal) {
  return impl_->signal_worker(local_rank, signal);
}

void WorkerProcesses::signal_main(LocalRank local_rank, int signal) {
  impl_->signal_main(local_rank, signal);
}

void WorkerProcesses::signal_process(int pid, std::uint64_t started, int signal) {
  impl_->signal_process(pid, started, signal);
}

void WorkerProcesses::watch_tree() {
  impl_->watch_tree();
}

void WorkerProcesses::release(LocalRank local_rank) {
  impl_->release(local_rank);
}

void WorkerProcesses::sweep(LocalRank local_rank) {
  impl_->sweep(local_rank);
}

void WorkerProcesses::sweep_node(std::function<void()> done) {
  impl_->sweep_node(std::move(done));
}

void WorkerProcesses::spare(int pid) {
  impl_->spare(pid);
}

bool WorkerProcesses::none_is_left() const {
  return impl_->none_is_left();
}

namespace {

// After one exit, wait this long for more exits before listing.
constexpr auto look_pause = std::chrono::milliseconds(5);
// The interval at which blocked parents are checked, since no event reports those.
constexpr auto beat_pause = std::chrono::milliseconds(500);
// Exits of at most this many processes are noticed at once, others when an ancestor exits.
constexpr std::size_t awaited_max = 1024;

// The inode of the pipe behind a process's descriptor. 0: not a pipe, or unreadable.
std::uint64_t pipe_of(int pid, int descriptor) {
  const auto path = "/proc/" + std::to_string(pid) + "/fd/" + std::to_string(descriptor);
  std::array<char, 64> link{};
  const auto got = ::readlink(path.c_str(), link.data(), link.size());
  std::string_view text(link.data(), got > 0 ? static_cast<std::size_t>(got) : 0);
  constexpr std::string_view begin = "pipe:[";
  if (!text.starts_with(begin) || !text.ends_with(']')) return 0;
  text = text.substr(begin.size(), text.size() - begin.size() - 1);
  return exact_number<std::uint64_t>(text).value_or(0);
}

// Whether `parent` is blocked until `child`, or any child of its own, has exited. Its system call
// may be readable by tracers only. Then the kernel function in which it sleeps tells less
// precisely.
bool waits_for(int parent, int child) {
  const std::string directory = "/proc/" + std::to_string(parent);
  const auto call = read_proc(directory + "/syscall", 256);
  if (!call) return read_proc(directory + "/wchan", 64).value_or("") == "do_wait";
  const auto words = split(*call, ' ');  // the number, then arguments like 0xffffffffffffffff
  const auto argument = [&words](std::size_t at) {
    const std::string text(words.size() > at ? words[at] : "");
    return static_cast<std::int32_t>(std::strtoull(text.c_str(), nullptr, 16));
  };
  const auto number = exact_number<int>(words.front());
  if (number == SYS_wait4) return argument(1) <= 0 || argument(1) == child;
  return number == SYS_waitid && (argument(1) != P_PID || argument(2) == child);
}

std::optional<TreeProcess> running(int pid) {
  const auto stat = read_stat(pid);
  if (!stat || !stat->alive()) return std::nullopt;
  return TreeProcess{.pid = pid,
                     .started = stat->started,
                     .parent = stat->parent,
                     .group = stat->group,
                     .session = stat->session,
                     .command = stat->name,
                     .in_pipe = pipe_of(pid, STDIN_FILENO),
                     .out_pipe = pipe_of(pid, STDOUT_FILENO),
                     .err_pipe = pipe_of(pid, STDERR_FILENO),
                     .is_waited_for = waits_for(stat->parent, pid)};
}

}  // namespace

EndingTree::EndingTree(asio::io_context& context, std::function<std::vector<int>()> below,
                       std::function<void(std::vector<TreeProcess>)> seen)
    : context_(context),
      below_(std::move(below)),
      seen_(std::move(seen)),
      timer_(context),
      beat_(context) {}

void EndingTree::watch() {
  watches_ = true;
  look(/*is_asked=*/true);
  beat();
}

void EndingTree::beat() {
  beat_.expires_after(beat_pause);
  beat_.async_wait([this](const asio::error_code& error) {
    if (error || !watches_) return;
    look(/*is_asked=*/true);
    beat();
  });
}

// Many exits at once lead to one listing.
void EndingTree::look_soon() {
  if (!watches_ || std::exchange(look_is_due_, true)) return;
  timer_.expires_after(look_pause);
  timer_.async_wait([this](const asio::error_code& error) {
    if (!error && std::exchange(look_is_due_, false) && watches_) look(/*is_asked=*/false);
  });
}

void EndingTree::forget() {
  watches_ = look_is_due_ = false;
  timer_.cancel();
  beat_.cancel();
  last_.clear();
  awaited_.clear();
}

void EndingTree::look(bool is_asked) {
  auto now = list();
  if (!is_asked && now == last_) return;
  last_ = now;
  await_exits();
  asio::post(context_, [this, now = std::move(now)]() mutable {
    if (watches_) seen_(std::move(now));
  });
}

// While its parent exits, a process is briefly in no list. So processes seen before are looked up
// by pid.
std::vector<TreeProcess> EndingTree::list() const {
  std::vector<TreeProcess> now;
  std::set<int> listed;
  for (const int pid : below_()) {
    if (const auto process = running(pid)) {
      now.push_back(*process);
      listed.insert(pid);
    }
  }
  for (const TreeProcess& before : last_) {
    if (listed.contains(before.pid)) continue;
    const auto process = running(before.pid);
    if (process && process->started == before.started) now.push_back(*process);
  }
  return now;
}

void EndingTree::await_exits() {
  std::set<Identity> there;
  for (const TreeProcess& each : last_) there.emplace(each.pid, each.started);
  std::erase_if(awaited_, [&there](const auto& each) { return !there.contains(each.first); });
  for (const Identity& each : there) {
    if (awaited_.contains(each) || awaited_.size() >= awaited_max) continue;
    const auto held = static_cast<int>(::syscall(SYS_pidfd_open, each.first, 0));
    if (held < 0) continue;
    auto end = std::make_unique<asio::posix::stream_descriptor>(context_, held);
    end->async_wait(asio::posix::stream_descriptor::wait_read,
                    [this](const asio::error_code& error) {
                      if (!error) look_soon();
                    });
    awaited_.emplace(each, std::move(end));
  }
}

}  // namespace cpprun::io
