// SPDX-License-Identifier: BSD-3-Clause
#include "launcher/agent/io/preemption_watch.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <sys/inotify.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <asio/buffer.hpp>
#include <cerrno>
#include <chrono>
#include <ctime>
#include <filesystem>
#include <thread>
#include <tuple>
#include <utility>

#include "launcher/plan/io/host.h"
#include "launcher/plan/program.h"
#include "proto/text.h"
#include "rendezvous/io/file_descriptor.h"

namespace cpprun::io {

namespace {

namespace fs = std::filesystem;

constexpr int slurm_lead_default = 120;
constexpr int slurm_lead_max = 24 * 3600;
constexpr int cannot_execute = 126;  // exit codes of a shell
constexpr int not_found = 127;
constexpr char notice_mark = '+';
constexpr char failure_mark = '-';

// --- in the process that waits -------------------------------------------------------------------

void send_line(int pipe, char mark, const std::string& text) {
  const std::string line = mark + text + "\n";
  // If there is no reader, cpprun is gone, and this process exits with it.
  static_cast<void>(::write(pipe, line.data(), line.size()));
}

// A change counts as a notice if the file appears, or becomes non-empty.
struct NoticeFile {
  bool is_there = false;
  bool has_content = false;
  timespec changed{};
};

NoticeFile look_at_notice_file(const std::string& path) {
  struct stat found {};
  if (::stat(path.c_str(), &found) != 0) return {};
  return {.is_there = true, .has_content = found.st_size > 0, .changed = found.st_ctim};
}

bool is_notice(const NoticeFile& now, const NoticeFile& before) {
  return (now.is_there && !before.is_there) || (now.has_content && !before.has_content);
}

// inotify reports changes made on this machine, but not those made by other machines.
bool is_network_disk(const std::string& directory) {
  constexpr std::array<long, 6> network = {0x6969,     0xFF534D42, 0x65735546,
                                           0x0BD00BD0, 0x47504653, 0x01021997};
  struct statfs disk {};
  if (::statfs(directory.c_str(), &disk) != 0) return true;
  return std::ranges::find(network, static_cast<long>(disk.f_type)) != network.end();
}

void wait_for_file(const std::string& path, const timespec& began, int pipe) {
  constexpr int shared_interval_ms = 5'000;
  const auto parent = fs::path(path).parent_path().string();
  const auto directory = parent.empty() ? std::string(".") : parent;
  const FileDescriptor changes{::inotify_init1(IN_CLOEXEC)};
  const auto watch_directory = [&] {
    constexpr auto what = IN_CREATE | IN_MOVED_TO | IN_CLOSE_WRITE | IN_MODIFY | IN_DELETE |
                          IN_MOVED_FROM | IN_DELETE_SELF | IN_MOVE_SELF | IN_ATTRIB;
    return changes && ::inotify_add_watch(changes.get(), directory.c_str(), what) >= 0;
  };
  bool is_watched = watch_directory();
  // An existing file is not a notice: it may be from an earlier job. But if it changed after
  // `began`, it appeared while this process was starting. File servers have clocks of their own.
  NoticeFile before = look_at_notice_file(path);
  if (before.is_there && !is_network_disk(directory) &&
      std::tie(before.changed.tv_sec, before.changed.tv_nsec) >
          std::tie(began.tv_sec, began.tv_nsec)) {
    send_line(pipe, notice_mark, "file " + path);
  }
  while (true) {
    const bool is_told = is_watched && !is_network_disk(directory);
    pollfd news{changes.get(), POLLIN, 0};
    if (::poll(&news, 1, is_told ? -1 : shared_interval_ms) < 0 && errno != EINTR) {
      return send_line(pipe, failure_mark,
                       fmt::format("cannot watch {}: {}", path, errno_text(errno)));
    }
    std::array<char, 4096> events{};
    if (news.revents != 0) static_cast<void>(::read(changes.get(), events.data(), events.size()));
    // A directory that was recreated needs a new watch.
    is_watched = watch_directory();
    const NoticeFile now = look_at_notice_file(path);
    if (is_notice(now, before)) send_line(pipe, notice_mark, "file " + path);
    before = now;
  }
}

// Returns the exit code, or 128 plus the signal's number.
int run_notice_command(const std::string& command) {
  const auto pid = ::fork();
  if (pid < 0) return 127;
  if (pid == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    sigset_t none;
    ::sigemptyset(&none);
    ::sigprocmask(SIG_SETMASK, &none, nullptr);
    for (const int signal :
         {SIGTERM, SIGINT, SIGHUP, SIGQUIT, SIGPIPE, SIGUSR1, SIGUSR2, SIGCHLD}) {
      ::signal(signal, SIG_DFL);
    }
    ::execl("/bin/sh", "sh", "-c", command.c_str(), nullptr);
    ::_exit(127);
  }
  int status = 0;
  while (::waitpid(pid, &status, 0) < 0 && errno == EINTR) {
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

// A failing command is retried with growing pauses, and a limited number of times.
void wait_for_command(const std::string& command, int pipe) {
  constexpr int tries_max = 10;
  constexpr auto longest_pause = std::chrono::seconds(60);
  constexpr auto long_run = std::chrono::seconds(60);
  std::chrono::seconds pause{1};
  for (int failures = 0; failures < tries_max;) {
    const auto began = std::chrono::steady_clock::now();
    const int code = run_notice_command(command);
    if (code == 0) return send_line(pipe, notice_mark, "command " + command);
    if (code == cannot_execute || code == not_found) {
      return send_line(
          pipe, failure_mark,
          fmt::format("\"{}\" cannot be run (exit code {}); preemption notices are not detected",
                      command, code));
    }
    // A command that ran for long had worked until then.
    if (std::chrono::steady_clock::now() - began > long_run) {
      failures = 0;
      pause = std::chrono::seconds(1);
    }
    if (++failures == tries_max) {
      return send_line(pipe, failure_mark,
                       fmt::format("\"{}\" failed {} times, the last time with exit code {}; "
                                   "preemption notices are not detected",
                                   command, tries_max, code));
    }
    std::this_thread::sleep_for(pause);
    pause = std::min(2 * pause, longest_pause);
  }
}

void wait_for_end(const PreemptionNotice& notice, int pipe) {
  using SystemClock = std::chrono::system_clock;
  const auto end = SystemClock::time_point(std::chrono::seconds(notice.slurm_end));
  const auto left = end - SystemClock::now();
  // A job with less time left than the lead reports after half of it.
  const auto lead =
      std::min<SystemClock::duration>(std::chrono::seconds(notice.lead_seconds), left / 2);
  std::this_thread::sleep_until(end - lead);
  send_line(pipe, notice_mark,
            fmt::format("Slurm's time limit in {} s",
                        std::chrono::duration_cast<std::chrono::seconds>(lead).count()));
}

void wait_for_notice(const PreemptionNotice& notice, const timespec& began, int pipe) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  switch (notice.kind) {
    case PreemptionNotice::Kind::file:
      return wait_for_file(notice.text, began, pipe);
    case PreemptionNotice::Kind::command:
      return wait_for_command(notice.text, pipe);
    case PreemptionNotice::Kind::slurm:
      return wait_for_end(notice, pipe);
  }
}

Result<PreemptionNotice> slurm_notice(std::string_view lead, const Environment& environment) {
  PreemptionNotice notice{.kind = PreemptionNotice::Kind::slurm, .text = "", .lead_seconds = 0};
  const auto seconds = lead.empty() ? std::optional(slurm_lead_default) : exact_number<int>(lead);
  if (!seconds || *seconds < 1 || *seconds > slurm_lead_max) {
    return failure(
        fmt::format("error: --preemption-notice=slurm:{}: not a number of seconds from 1 to {}",
                    lead, slurm_lead_max));
  }
  notice.lead_seconds = *seconds;
  const auto* end = find_variable(environment, "SLURM_JOB_END_TIME");
  const auto at = end == nullptr ? std::nullopt : exact_number<long long>(*end);
  if (!at) {
    return failure(
        "error: --preemption-notice=slurm: SLURM_JOB_END_TIME is not set, so the end of the job is "
        "not known\n  hint: use Slurm 22.05 or later, or remove the flag and add #SBATCH "
        "--signal=USR1@120");
  }
  notice.slurm_end = *at;
  return notice;
}

}  // namespace

Result<PreemptionNotice> preemption_notice(const std::string& text,
                                           const Environment& environment) {
  constexpr std::string_view slurm = "slurm";
  if (text == slurm) return slurm_notice("", environment);
  if (text.starts_with("slurm:")) {
    return slurm_notice(std::string_view(text).substr(slurm.size() + 1), environment);
  }
  const bool is_command =
      text.find(' ') != std::string::npos || probe_file(text) == FileKind::executable;
  if (is_command) return PreemptionNotice{.kind = PreemptionNotice::Kind::command, .text = text};
  const auto parent = fs::path(text).parent_path();
  if (!parent.empty() && probe_file(parent) != FileKind::directory) {
    return failure(fmt::format("error: --preemption-notice={}: directory {} does not exist", text,
                               parent.string()));
  }
  std::error_code unknown;
  const auto found = fs::status(text, unknown);
  if (fs::exists(found) && !fs::is_regular_file(found)) {
    return failure(fmt::format(
        "error: --preemption-notice={}: this is {}, not a file that could appear or be written\n  "
        "hint: name a file that does not exist yet, or a command with its arguments",
        text, fs::is_directory(found) ? "a directory" : "a device or a pipe"));
  }
  return PreemptionNotice{.kind = PreemptionNotice::Kind::file, .text = text};
}

PreemptionWatch::PreemptionWatch(asio::io_context& context, HelperProcesses& side,
                                 const PreemptionNotice& notice, Callbacks callbacks)
    : side_(side), callbacks_(std::move(callbacks)), news_(context) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) {
    callbacks_.failed(fmt::format("cannot make a pipe: {}", errno_text(errno)));
    return;
  }
  FileDescriptor ours{ends[0]};
  const FileDescriptor theirs{ends[1]};
  // The clock that stamps files, which is a few milliseconds behind the exact one.
  timespec began{};
  ::clock_gettime(CLOCK_REALTIME_COARSE, &began);
  const auto pid =
      side_.start({theirs.get()}, [&] { wait_for_notice(notice, began, theirs.get()); });
  if (!pid) {
    callbacks_.failed(pid.error().reason);
    return;
  }
  pid_ = *pid;
  news_.assign(ours.release());
  listen();
}

PreemptionWatch::~PreemptionWatch() {
  const auto& pids = side_.pids();
  const bool is_there = std::ranges::find(pids, pid_) != pids.end();
  if (pid_ != 0 && is_there) ::kill(-pid_, SIGKILL);  // kills the command too
  if (pid_ != 0) side_.end(pid_);
}

void PreemptionWatch::listen() {
  news_.async_wait(asio::posix::stream_descriptor::wait_read,
                   [this](const asio::error_code& error) {
                     if (error) return;
                     std::array<char, 4096> bytes{};
                     const auto got = ::read(news_.native_handle(), bytes.data(), bytes.size());
                     if (got <= 0) return;  // end of output
                     unread_.append(bytes.data(), static_cast<std::size_t>(got));
                     listen();
                     while (true) {
                       const auto end = unread_.find('\n');
                       if (end == std::string::npos) return;
                       auto line = unread_.substr(0, end);
                       unread_.erase(0, end + 1);
                       take(std::move(line));
                     }
                   });
}

void PreemptionWatch::take(std::string line) {
  if (line.empty()) return;
  const char mark = line.front();
  line.erase(0, 1);
  mark == notice_mark ? callbacks_.noticed(line) : callbacks_.failed(line);
}

}  // namespace cpprun::io
