#include "launcher/io/warden.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
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
#include <optional>
#include <system_error>
#include <utility>

#include "launcher/io/process_tree.h"
#include "proto/bounds.h"

namespace cpprun::io {

namespace {

// What cpprun tells: a kind and a number. With `folder` the number counts the bytes that follow,
// with `fence` it is a time on the monotonic clock, or 0. Short enough for the pipe to take it in
// one piece.
enum class Kind : std::int64_t { started, gone, folder, fence };
struct Word {
  Kind kind = Kind::started;
  std::int64_t number = 0;
};

constexpr std::size_t folder_bytes_max = 4096 - sizeof(Word);  // PIPE_BUF: never torn
constexpr std::int64_t poll_max = std::numeric_limits<int>::max();

// Whoever ends cpprun by its name must not end the warden with it, so ps shows another one.
void take_name() {
  constexpr const char* name = "job-warden";
  ::prctl(PR_SET_NAME, name, 0, 0, 0);
  std::FILE* file = std::fopen("/proc/self/stat", "re");
  if (file == nullptr) return;
  char text[4096] = {};
  const auto got = std::fread(text, 1, sizeof text - 1, file);
  std::fclose(file);
  const char* at = got > 0 ? std::strrchr(text, ')') : nullptr;
  // Fields 48 and 49 are where the command line begins and ends; the bracket closes field 2.
  for (int field = 2; at != nullptr && field < 48; ++field) at = std::strchr(at + 1, ' ');
  unsigned long begin = 0;
  unsigned long end = 0;
  if (at == nullptr || std::sscanf(at, " %lu %lu", &begin, &end) != 2) return;
  if (begin == 0 || end - begin < sizeof "job-warden") return;
  auto* line = reinterpret_cast<char*>(begin);
  std::memset(line, 0, end - begin);
  std::memcpy(line, name, std::strlen(name));
}

// The child's life. It shares nothing with cpprun but the pipe.
class Watch {
 public:
  Watch(std::string token, int pipe) : token_(std::move(token)), pipe_(pipe) {}

  void stand() {
    Word word;
    while (keep_fence(), hear(&word, sizeof word)) {
      const auto number = static_cast<std::size_t>(word.number);
      const auto leader = static_cast<int>(word.number);
      if (word.kind == Kind::started && leaders_.size() < bounds::warden_groups_max) {
        leaders_[leader] = static_cast<int>(::syscall(SYS_pidfd_open, leader, 0));
      } else if (word.kind == Kind::gone) {
        forget(leader);
      } else if (word.kind == Kind::fence) {
        // One that was passed before it is heard is old: then we were stopped, and newer ones may
        // have found the pipe full.
        const TimePoint fence{std::chrono::nanoseconds(word.number)};
        fence_.reset();
        if (fence > std::chrono::steady_clock::now()) fence_ = fence;
      } else if (word.kind == Kind::folder && number <= folder_bytes_max) {
        folder_.assign(number, '\0');
        if (!hear(folder_.data(), number)) break;
      }
    }
    end_everybody();
    std::error_code ignored;  // there is nobody left to tell
    if (!folder_.empty()) std::filesystem::remove_all(folder_, ignored);
  }

 private:
  // Comes back when there is something to hear. A fence that is passed in silence ends the
  // workers: their cpprun is there, but cannot do it.
  void keep_fence() {
    while (fence_) {
      const auto end = *fence_;
      const Duration left = end - std::chrono::steady_clock::now();
      if (somebody_speaks(std::max(left, Duration{}))) return;
      if (std::chrono::steady_clock::now() < end) continue;
      fence_.reset();
      // As soon as it speaks again it may start others, with the same token.
      for (int look = 0; look < bounds::warden_looks_max; ++look) {
        if (!kill_everybody() || somebody_speaks(bounds::warden_pause)) break;
      }
    }
  }

  bool somebody_speaks(Duration patience) const {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(patience).count();
    pollfd pipe{pipe_, POLLIN, 0};
    return ::poll(&pipe, 1, static_cast<int>(std::min<std::int64_t>(left, poll_max))) > 0;
  }

  // False at the end of the pipe, which is the end of cpprun.
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

  void forget(int leader) {
    const auto found = leaders_.find(leader);
    if (found == leaders_.end()) return;
    if (found->second >= 0) ::close(found->second);
    leaders_.erase(found);
  }

  void end_everybody() {
    for (int look = 0; look < bounds::warden_looks_max && kill_everybody(); ++look) {
      const std::timespec pause{0, std::chrono::nanoseconds(bounds::warden_pause).count()};
      ::nanosleep(&pause, nullptr);
    }
  }

  // True when there was somebody to kill: then another look is due.
  bool kill_everybody() {
    bool found = false;
    for (const auto& [leader, held] : leaders_) {
      // The pidfd still holds that very process, so the group's number cannot be another's.
      if (held >= 0 && ::syscall(SYS_pidfd_send_signal, held, 0, nullptr, 0) == 0) {
        ::kill(-leader, SIGKILL);
      }
    }
    for (const int pid : all_processes()) {
      if (pid == ::getpid()) continue;
      found |= kill_checked(pid, SIGKILL, [this](int held) { return belongs(held); });
    }
    return found;
  }

  // By the token; or, for one that cleared its environment, by a group we were told of whose
  // leader is no more: as long as it has a member its number is given to nobody else.
  bool belongs(int pid) const {
    const auto stat = read_stat(pid);
    if (!stat || !stat->alive()) return false;
    if (carries_token(pid, token_)) return true;
    return leaders_.contains(stat->group) && !read_stat(stat->group);
  }

  std::string token_;
  int pipe_;
  std::map<int, int> leaders_;  // group → pidfd of its leader
  std::optional<TimePoint> fence_;
  std::string folder_;
};

[[noreturn]] void live_as_warden(const std::string& token, int pipe) {
  ::setsid();
  for (const int signal : {SIGTERM, SIGINT, SIGHUP, SIGQUIT, SIGPIPE, SIGUSR1, SIGUSR2}) {
    ::signal(signal, SIG_IGN);
  }
  // It holds nothing open: whoever reads cpprun's output to its end must not wait for it.
  ::dup2(pipe, STDIN_FILENO);
  ::syscall(SYS_close_range, 1U, ~0U, 0U);
  static_cast<void>(::chdir("/"));
  take_name();
  Watch(token, STDIN_FILENO).stand();
  ::_exit(0);
}

void tell(int pipe, Kind kind, std::int64_t number, const std::string& text = {}) {
  const Word word{kind, number};
  std::string bytes(sizeof word, '\0');
  std::memcpy(bytes.data(), &word, sizeof word);
  bytes += text;
  // Never blocks. A word lost because the warden hangs costs little: it has the token as well.
  static_cast<void>(::write(pipe, bytes.data(), bytes.size()) == 0);
}

}  // namespace

Result<Warden> Warden::post(const std::string& token) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) {
    return failure(std::string("cannot make the warden's pipe: ") + std::strerror(errno));
  }
  const auto pid = ::fork();
  if (pid < 0) {
    const int fork_error = errno;
    ::close(ends[0]);
    ::close(ends[1]);
    return failure(
        std::string("cannot fork the warden: ") + std::strerror(fork_error) +
        "; raise the limit of processes (ulimit -u, or the container's), or end some of them");
  }
  if (pid == 0) live_as_warden(token, ends[0]);
  ::close(ends[0]);
  ::fcntl(ends[1], F_SETFL, O_NONBLOCK);
  return Warden(pid, ends[1]);
}

Warden::Warden(Warden&& other) noexcept : pid_(other.pid_), pipe_(std::exchange(other.pipe_, -1)) {}

Warden::~Warden() {
  if (pipe_ >= 0) ::close(pipe_);
}

void Warden::told_started(int pid) {
  tell(pipe_, Kind::started, pid);
}

void Warden::told_gone(int pid) {
  tell(pipe_, Kind::gone, pid);
}

void Warden::told_fence(std::optional<TimePoint> fence) {
  const auto at = fence ? fence->time_since_epoch() : Duration{};
  tell(pipe_, Kind::fence, std::chrono::nanoseconds(at).count());
}

void Warden::told_folder(const std::string& folder) {
  if (folder.size() <= folder_bytes_max) {
    tell(pipe_, Kind::folder, static_cast<std::int64_t>(folder.size()), folder);
  }
}

}  // namespace cpprun::io
