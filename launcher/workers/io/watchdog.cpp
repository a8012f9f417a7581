// SPDX-License-Identifier: BSD-3-Clause
#include "launcher/workers/io/watchdog.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <limits>
#include <map>
#include <memory>
#include <new>
#include <optional>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "launcher/workers/bounds.h"
#include "launcher/workers/io/process_tree.h"
#include "proto/text.h"
#include "rendezvous/io/event_loop.h"
#include "rendezvous/io/file_descriptor.h"
#include "rendezvous/io/program.h"
#include "rendezvous/status/io/door.h"

namespace cpprun::io {

namespace {

// A message from cpprun: a kind and a number. For `fence` the number is a time on the clock of
// boot_now(), or 0. For `door` it is the count of the bytes that follow. Short enough that a pipe
// takes it in one piece.
enum class Kind : std::int64_t { started, gone, door, fence, directory_is_given_up, none_is_left };
struct Word {
  Kind kind = Kind::started;
  std::int64_t number = 0;
};

constexpr std::size_t door_bytes_max = 4096 - sizeof(Word);  // PIPE_BUF: writes are atomic
constexpr std::int64_t poll_max = std::numeric_limits<int>::max();
// A wakeup later than this means that this process did not run either, as on a suspended machine.
// Then cpprun, which did not run either, gets `once_more` to move the fence.
constexpr Duration late_after = std::chrono::milliseconds(500);
constexpr Duration once_more = std::chrono::milliseconds(500);

// A command that kills cpprun by name must not kill the watchdog too, so ps shows another name.
void take_name() {
  constexpr const char* name = "job-watchdog";
  ::prctl(PR_SET_NAME, name, 0, 0, 0);
  std::FILE* file = std::fopen("/proc/self/stat", "re");
  if (file == nullptr) return;
  char text[4096] = {};
  const auto got = std::fread(text, 1, sizeof text - 1, file);
  std::fclose(file);
  const char* at = got > 0 ? std::strrchr(text, ')') : nullptr;
  // Fields 48 and 49 are the start and the end of the command line. The parenthesis closes field 2.
  for (int field = 2; at != nullptr && field < 48; ++field) at = std::strchr(at + 1, ' ');
  unsigned long begin = 0;
  unsigned long end = 0;
  if (at == nullptr || std::sscanf(at, " %lu %lu", &begin, &end) != 2) return;
  if (begin == 0 || end - begin < sizeof "job-watchdog") return;
  auto* line = reinterpret_cast<char*>(begin);
  std::memset(line, 0, end - begin);
  std::memcpy(line, name, std::strlen(name));
}

// The child process. It shares only the pipe and the `fired` flag with cpprun.
class Watch {
 public:
  Watch(const JobProcesses& job_processes, int owner, int pipe, std::string directory,
        std::atomic<bool>* fired)
      : pipe_(pipe),
        fired_(fired),
        search_(job_processes, owner, job_processes.mark ? std::vector<int>{} : line_of(owner)),
        directory_(std::move(directory)) {}

  void stand() {
    Word word;
    while (keep_fence(), hear(&word, sizeof word)) {
      const auto number = static_cast<std::size_t>(word.number);
      const auto leader = static_cast<int>(word.number);
      if (word.kind == Kind::started && leaders_.size() < bounds::watchdog_groups_max) {
        leaders_[leader] = hold(leader);
      } else if (word.kind == Kind::gone) {
        forget(leader);
      } else if (word.kind == Kind::fence) {
        // A fence that has passed when it is read is outdated: this process was stopped, and newer
        // ones may have found the pipe full.
        const TimePoint fence{std::chrono::nanoseconds(word.number)};
        if (!std::exchange(steady_, true)) lock_memory_and_priority();
        fence_.reset();
        if (fence > boot_now()) fence_ = fence;
        has_waited_ = false;
      } else if (word.kind == Kind::door && number <= door_bytes_max) {
        if (!hear_path(door_, number)) break;
      } else if (word.kind == Kind::directory_is_given_up) {
        remove_directory();
      } else if (word.kind == Kind::none_is_left) {
        return tidy_up();
      }
    }
    // The pipe is closed, so there is nothing to wait for except our own work.
    kill_all(-1);
    tidy_up();
  }

 private:
  struct Leader {
    int held = -1;                   // a pidfd, if the kernel has them
    unsigned long long started = 0;  // identifies the process if there is no pidfd
  };

  static Leader hold(int pid) {
    const auto stat = read_stat(pid);
    return {.held = static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)),
            .started = stat ? stat->started : 0};
  }

  // Whether that very process exists, alive or not. Then the group id cannot have been reused.
  static bool is_there(int pid, const Leader& leader) {
    if (leader.held >= 0 && ::syscall(SYS_pidfd_send_signal, leader.held, 0, nullptr, 0) == 0) {
      return true;
    }
    if (leader.held >= 0 && errno == ESRCH) return false;
    const auto stat = read_stat(pid);
    return stat && leader.started != 0 && stat->started == leader.started;
  }

  // Returns when the pipe is readable. If the fence passes first, kills the workers: cpprun is
  // there but cannot do it.
  void keep_fence() {
    while (fence_) {
      if (message_comes_before(*fence_)) return;
      const TimePoint now = boot_now();
      if (now < *fence_) continue;
      if (now - *fence_ > late_after && !std::exchange(has_waited_, true)) {
        fence_ = now + once_more;
        continue;
      }
      fence_.reset();
      if (fired_ != nullptr) fired_->store(true);
      // Stop once cpprun sends again: it may start new workers, which match the search too.
      kill_all(pipe_);
    }
  }

  bool message_comes_before(TimePoint end) {
    if (timer_ < 0) timer_ = make_boot_timer();
    if (timer_ >= 0) set_boot_timer(timer_, end);
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(end - boot_now()).count();
    const auto timeout = timer_ >= 0 ? -1 : std::clamp<std::int64_t>(left, 0, poll_max);
    pollfd either[2] = {{pipe_, POLLIN, 0}, {timer_, POLLIN, 0}};
    return ::poll(either, 2, static_cast<int>(timeout)) > 0 && either[0].revents != 0;
  }

  // False at the end of the pipe, which means that cpprun is gone.
  bool hear(void* bytes, std::size_t count) {
    auto* at = static_cast<char*>(bytes);
    while (count > 0) {
      const auto got = ::read(pipe_, at, count);
      if (got < 0 && errno == EINTR) continue;
      if (got <= 0) return false;
      at += got;
      count -= static_cast<std::size_t>(got);
    }
    return true;
  }

  bool hear_path(std::string& path, std::size_t bytes) {
    path.assign(bytes, '\0');
    return hear(path.data(), bytes);
  }

  void forget(int leader) {
    const auto found = leaders_.find(leader);
    if (found == leaders_.end()) return;
    if (found->second.held >= 0) ::close(found->second.held);
    leaders_.erase(found);
  }

  void tidy_up() {
    remove_directory();
    if (!door_.empty()) remove_door(door_);
  }

  void remove_directory() {
    const auto directory = std::exchange(directory_, {});
    // Usually no worker has left anything in it.
    if (directory.empty() || ::rmdir(directory.c_str()) == 0) return;
    std::error_code ignored;  // no process is left to report it to
    std::filesystem::remove_all(directory, ignored);
  }

  // The groups first, because that needs no search.
  void kill_all(int word) {
    std::set<int> groups;
    for (const auto& [pid, leader] : leaders_) {
      groups.insert(pid);
      if (is_there(pid, leader)) ::kill(-pid, SIGKILL);
    }
    search_.kill_all(groups, word);
  }

  int pipe_;
  std::atomic<bool>* fired_;
  bool has_waited_ = false;  // waited once more for this fence
  int timer_ = -1;           // created when there is a fence
  bool steady_ = false;
  Search search_;
  std::map<int, Leader> leaders_;  // by process group id
  std::optional<TimePoint> fence_;
  std::string directory_;
  std::string door_;
};

// The parameters of the watchdog process. The descriptors are its ends of the two pipes.
struct Birth {
  const JobProcesses& job_processes;
  int owner = 0;
  int pipe = -1;
  int answer = -1;  // -1: the parent does not wait for the directory
  const std::vector<std::string>&
      directories;  // in the order to try; if `answer` < 0, the first one exists
  std::atomic<bool>* fired = nullptr;
};

// The result of creating one of the directories.
struct Made {
  int error = 0;          // if none could be created
  int index = 0;          // of the directory created
  int first_refusal = 0;  // error of the first, if another one was created
};

Made make_one_of(const std::vector<std::string>& directories) {
  Made made;
  for (std::size_t at = 0; at < directories.size(); ++at) {
    made.index = static_cast<int>(at);
    made.error = ::mkdir(directories[at].c_str(), 0700) == 0 ? 0 : errno;
    if (made.error == 0) return made;
    if (at == 0) made.first_refusal = made.error;
  }
  // If none can be created, report the error of the first one: the user named it.
  made.error = made.first_refusal;
  return made;
}

[[noreturn]] void live_as_watchdog(const Birth& birth) {
  ::setsid();
  for (const int signal : {SIGTERM, SIGINT, SIGHUP, SIGQUIT, SIGPIPE, SIGUSR1, SIGUSR2}) {
    ::signal(signal, SIG_IGN);
  }
  // It keeps nothing open: a reader of cpprun's output must not have to wait for it.
  ::dup2(birth.pipe, STDIN_FILENO);
  if (birth.answer >= 0) ::dup2(birth.answer, STDOUT_FILENO);
  close_from(birth.answer >= 0 ? STDERR_FILENO : STDOUT_FILENO);
  std::string directory = birth.directories.empty() ? "" : birth.directories.front();
  if (birth.answer >= 0) {
    const Made made = make_one_of(birth.directories);
    directory = birth.directories[static_cast<std::size_t>(made.index)];
    static_cast<void>(::write(STDOUT_FILENO, &made, sizeof made));
    ::close(STDOUT_FILENO);
  }
  static_cast<void>(::chdir("/"));
  take_name();
  Watch(birth.job_processes, birth.owner, STDIN_FILENO, std::move(directory), birth.fired).stand();
  // The parent waits only for this. What the kernel still does for this process may take its time.
  ::close(STDIN_FILENO);
  ::_exit(0);
}

bool tell(const FileDescriptor& pipe, Kind kind, std::int64_t number, std::string_view text = {}) {
  const Word word{kind, number};
  std::string bytes(reinterpret_cast<const char*>(&word), sizeof word);
  bytes += text;
  // Never blocks. A message lost because the watchdog hangs costs little: it finds the processes by
  // itself.
  return ::write(pipe.get(), bytes.data(), bytes.size()) == static_cast<ssize_t>(bytes.size());
}

// False on timeout.
bool await(const FileDescriptor& pipe, short events, Duration timeout) {
  const auto deadline = std::chrono::steady_clock::now() + timeout;
  pollfd news{pipe.get(), events, 0};
  while (news.revents == 0) {
    const auto left =
        std::chrono::ceil<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now());
    if (left.count() <= 0 || ::poll(&news, 1, static_cast<int>(left.count())) == 0) return false;
  }
  return true;
}

// A file in memory, which outlives the program that has created it. Empty if there is no memory.
FileDescriptor make_flag_file() {
  FileDescriptor file(::memfd_create("cpprun-fence", MFD_CLOEXEC));
  if (file && ::ftruncate(file.get(), sizeof(std::atomic<bool>)) != 0) file.reset();
  return file;
}

// Null if it cannot be mapped. A new file is all zeros, which is the flag's initial value.
std::shared_ptr<std::atomic<bool>> flag_in(const FileDescriptor& file) {
  if (!file) return nullptr;
  void* const page =
      ::mmap(nullptr, sizeof(std::atomic<bool>), PROT_READ | PROT_WRITE, MAP_SHARED, file.get(), 0);
  if (page == MAP_FAILED) return nullptr;
  return {static_cast<std::atomic<bool>*>(page),
          [](std::atomic<bool>* flag) { ::munmap(flag, sizeof *flag); }};
}

}  // namespace

Result<Watchdog> Watchdog::start(const JobProcesses& job_processes,
                                 std::vector<std::string> directories) {
  const auto what = directories.empty() ? Directories::known : Directories::to_be_made;
  Watchdog watchdog(job_processes, std::move(directories));
  watchdog.fired_file_ = make_flag_file();
  watchdog.fired_ = flag_in(watchdog.fired_file_);
  const auto begun = watchdog.begin(what);
  if (!begun) return tl::unexpected<Error>(begun.error());
  return watchdog;
}

Watchdog Watchdog::adopt(const JobProcesses& job_processes, Carried carried) {
  Watchdog watchdog(job_processes, std::move(carried.directories));
  watchdog.pid_ = carried.pid;
  watchdog.pipe_.reset(carried.pipe);
  watchdog.fired_file_.reset(carried.fired);
  watchdog.fired_ = flag_in(watchdog.fired_file_);
  watchdog.hangs_ = carried.hangs;
  watchdog.groups_ = std::move(carried.groups);
  watchdog.fence_ = carried.fence;
  watchdog.door_ = std::move(carried.door);
  return watchdog;
}

Result<void> Watchdog::begin(Directories what) {
  int ends[2];
  int answers[2] = {-1, -1};
  const auto no_pipe = [] {
    return failure(std::string("cannot create pipes for the watchdog: ") + errno_text(errno) +
                   "; raise the limit of open files (ulimit -n)");
  };
  if (::pipe2(ends, O_CLOEXEC) != 0) return no_pipe();
  const FileDescriptor theirs{ends[0]};
  FileDescriptor ours{ends[1]};
  if (what == Directories::to_be_made && ::pipe2(answers, O_CLOEXEC) != 0) return no_pipe();
  FileDescriptor answer{answers[0]};
  const FileDescriptor answering{answers[1]};
  const auto owner = ::getpid();
  const auto pid = ::fork();
  if (pid < 0) {
    return failure(
        std::string("cannot fork the watchdog: ") + errno_text(errno) +
        "; raise the limit of processes (ulimit -u, or the container's), or end some of them");
  }
  if (pid == 0) {
    live_as_watchdog(
        {job_processes_, owner, theirs.get(), answering.get(), directories_, fired_.get()});
  }
  pid_ = pid;
  pipe_ = std::move(ours);
  answer_ = std::move(answer);
  ::fcntl(pipe_.get(), F_SETFL, O_NONBLOCK);
  return {};
}

std::optional<int> Watchdog::await_directory(Duration timeout) {
  hangs_ = !await(answer_, POLLIN, timeout);
  if (hangs_) return ETIMEDOUT;
  Made made;
  const bool said = ::read(answer_.get(), &made, sizeof made) == sizeof made;
  answer_.reset();
  if (!said) return std::nullopt;
  if (made.error != 0) return made.error;
  if (made.index > 0) first_refusal_ = made.first_refusal;
  directories_ = {std::move(directories_[static_cast<std::size_t>(made.index)])};
  return 0;
}

Result<void> Watchdog::start_again() {
  if (const auto begun = begin(Directories::known); !begun) return begun;
  for (const int group : groups_) tell(pipe_, Kind::started, group);
  if (!door_.empty()) set_door(door_);
  if (fence_) set_deadline(fence_);
  return {};
}

void Watchdog::add_group(int pid) {
  groups_.insert(pid);
  tell(pipe_, Kind::started, pid);
}

void Watchdog::remove_group(int pid) {
  groups_.erase(pid);
  tell(pipe_, Kind::gone, pid);
}

void Watchdog::set_deadline(std::optional<TimePoint> fence) {
  fence_ = fence;
  const auto at = fence ? fence->time_since_epoch() : Duration{};
  tell(pipe_, Kind::fence, std::chrono::nanoseconds(at).count());
}

void Watchdog::set_door(const std::string& door) {
  door_ = door;
  if (door.size() <= door_bytes_max) {
    tell(pipe_, Kind::door, static_cast<std::int64_t>(door.size()), door);
  }
}

void Watchdog::give_up_directory() {
  if (!directories_.empty()) tell(pipe_, Kind::directory_is_given_up, 0);
}

bool Watchdog::release(Duration timeout) {
  if (!tell(pipe_, Kind::none_is_left, 0)) return false;
  if (!hangs_) timeout_ = timeout;
  return true;
}

Watchdog::~Watchdog() {
  // poll() reports an error on the pipe once its only reader has exited.
  if (pipe_ && timeout_) await(pipe_, 0, *timeout_);
}

}  // namespace cpprun::io
