// SPDX-License-Identifier: BSD-3-Clause
#include "launcher/embed/io/launched_job.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <future>
#include <mutex>
#include <string_view>
#include <thread>
#include <utility>

#include "proto/text.h"
#include "rendezvous/io/file_descriptor.h"

namespace cpprun::io {

namespace {

// Where cpprun finds the pipe for its events.
constexpr int events_descriptor = 3;
constexpr const char* events_flag = "--events=/dev/fd/3";
// Longer lines are skipped. A line with the stacks of a hung job is a few hundred kilobytes.
constexpr std::size_t line_bytes_max = std::size_t{16} << 20;
// Between two looks at a child that an old kernel gives no descriptor for.
constexpr int look_ms = 20;

// The program's file: looked up on PATH if its name has no slash.
std::string file_of(const std::string& program, const Environment& environment) {
  if (program.find('/') != program.npos) return program;
  const auto path = environment.find("PATH");
  std::string_view rest = "/usr/local/bin:/usr/bin:/bin";
  if (path != environment.end()) rest = path->second;
  while (!rest.empty()) {
    const auto end = std::min(rest.find(':'), rest.size());
    const std::string file = std::string(rest.substr(0, end)) + "/" + program;
    if (end > 0 && ::access(file.c_str(), X_OK) == 0) return file;
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  return {};
}

std::vector<char*> pointers(std::vector<std::string>& words) {
  std::vector<char*> result;
  for (std::string& word : words) result.push_back(word.data());
  result.push_back(nullptr);
  return result;
}

struct Pipe {
  FileDescriptor reading, writing;
  bool open() {
    std::array<int, 2> ends{};
    if (::pipe2(ends.data(), O_CLOEXEC) != 0) return false;
    reading = FileDescriptor(ends[0]);
    writing = FileDescriptor(ends[1]);
    return true;
  }
};

// All that the forked process needs; it allocates nothing.
struct Child {
  const char* file;
  char* const* words;
  char* const* variables;
  const char* directory;
  std::array<int, 3> streams;
  int events;
  int failed;  // for errno
  pid_t parent;
};

// A copy above the numbers that the streams get.
int above(int descriptor) {
  return ::fcntl(descriptor, F_DUPFD_CLOEXEC, events_descriptor + 1);
}

// Returns only if it fails, with errno.
void become(const Child& child) {
  ::prctl(PR_SET_PDEATHSIG, SIGTERM);
  if (::getppid() != child.parent) ::_exit(127);
  if (child.directory != nullptr && ::chdir(child.directory) != 0) return;
  const int failed = above(child.failed);
  const int events = above(child.events);
  std::array<int, 3> streams{};
  for (std::size_t at = 0; at < streams.size(); ++at) streams[at] = above(child.streams[at]);
  if (failed < 0 || events < 0) return;
  for (int at = 0; at < 3; ++at) {
    // A stream that is closed in this process stays closed.
    const int stream = streams[static_cast<std::size_t>(at)];
    if (stream >= 0 && ::dup2(stream, at) < 0) return;
  }
  if (::dup2(events, events_descriptor) < 0) return;
  // What this program has open without O_CLOEXEC is not for cpprun. Older kernels lack this call,
  // and cpprun's workers get nothing in any case.
  (void)::syscall(SYS_close_range, events_descriptor + 1, ~0U, 4U /* CLOSE_RANGE_CLOEXEC */);
  struct sigaction usual {};
  usual.sa_handler = SIG_DFL;
  for (int signal = 1; signal < NSIG; ++signal) ::sigaction(signal, &usual, nullptr);
  sigset_t none;
  ::sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  ::execve(child.file, child.words, child.variables);
  const int error = errno;
  if (::write(failed, &error, sizeof error) < 0) ::_exit(127);
  ::_exit(127);
}

}  // namespace

class LaunchedJob::Impl {
 public:
  explicit Impl(Options options) : options_(std::move(options)) {}

  // The program is started in the job's thread: the kernel sends it SIGTERM when that thread ends.
  Result<void> start(const std::shared_ptr<Impl>& self) {
    std::promise<Result<void>> started;
    auto result = started.get_future();
    sigset_t all;
    sigset_t before;
    ::sigfillset(&all);
    ::pthread_sigmask(SIG_SETMASK, &all, &before);
    thread_ = std::thread([self, &started] {
      auto executed = self->execute();
      const bool runs = executed.has_value();
      started.set_value(std::move(executed));
      if (runs) self->serve();
    });
    ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
    auto outcome = result.get();
    if (!outcome) thread_.join();
    return outcome;
  }

  void close() {
    if (::getpid() != owner_) return;
    (void)signal(SIGTERM);
    if (is_in_callback()) return thread_.detach();
    if (thread_.joinable()) thread_.join();
  }

  bool is_own() const { return ::getpid() == owner_; }
  pid_t pid() const { return pid_; }
  bool is_in_callback() const { return thread_.get_id() == std::this_thread::get_id(); }

  std::optional<int> wait(std::optional<Duration> timeout) {
    std::unique_lock lock(mutex_);
    const auto is_over = [this] { return exit_code_.has_value(); };
    if (!timeout) {
      over_.wait(lock, is_over);
    } else {
      over_.wait_for(lock, *timeout, is_over);
    }
    return exit_code_;
  }

  bool signal(int signal) {
    const std::lock_guard lock(mutex_);
    return !is_reaped_ && ::kill(pid_, signal) == 0;
  }

 private:
  Result<void> execute() {
    const std::string file = file_of(options_.program, options_.environment);
    if (file.empty()) return failure(fmt::format("\"{}\" is not on PATH", options_.program));
    Pipe events;
    Pipe failed;
    const FileDescriptor nothing(::open("/dev/null", O_RDONLY | O_CLOEXEC));
    if (!events.open() || !failed.open() || !nothing) {
      return failure("cannot create a pipe: " + errno_text(errno));
    }
    std::vector<std::string> words = {options_.program, events_flag};
    words.insert(words.end(), options_.arguments.begin(), options_.arguments.end());
    std::vector<std::string> settings;
    for (const auto& [name, value] : options_.environment) settings.push_back(name + "=" + value);
    const auto word_pointers = pointers(words);
    const auto variables = pointers(settings);
    const auto stream = [](int given, int own) { return given < 0 ? own : given; };
    const Child child{
        .file = file.c_str(),
        .words = word_pointers.data(),
        .variables = variables.data(),
        .directory = options_.directory.empty() ? nullptr : options_.directory.c_str(),
        .streams = {stream(options_.input, nothing.get()), stream(options_.output, STDOUT_FILENO),
                    stream(options_.error, STDERR_FILENO)},
        .events = events.writing.get(),
        .failed = failed.writing.get(),
        .parent = ::getpid()};
    pid_ = ::fork();
    if (pid_ < 0) return failure("cannot create a process: " + errno_text(errno));
    if (pid_ == 0) {
      become(child);
      const int error = errno;
      if (::write(child.failed, &error, sizeof error) < 0) ::_exit(127);
      ::_exit(127);
    }
    failed.writing.reset();
    int error = 0;
    ssize_t got = 0;
    do {
      got = ::read(failed.reading.get(), &error, sizeof error);
    } while (got < 0 && errno == EINTR);
    if (got == sizeof error) {
      (void)reap();
      const bool is_directory = !options_.directory.empty() && error != 0 &&
                                ::access(options_.directory.c_str(), X_OK) != 0;
      return failure(fmt::format("cannot {} \"{}\": {}", is_directory ? "enter" : "execute",
                                 is_directory ? options_.directory : file, errno_text(error)));
    }
    events_ = std::move(events.reading);
    return {};
  }

  // Reads events until cpprun has exited and the pipe is empty. A process that cpprun has left may
  // hold the other end of the pipe, so its end is not awaited.
  void serve() {
    const FileDescriptor exited(static_cast<int>(::syscall(SYS_pidfd_open, pid_, 0)));
    (void)::fcntl(events_.get(), F_SETFL, O_NONBLOCK);
    bool is_closed = false;
    while (!has_exited()) {
      std::array<pollfd, 2> waits{
          {{is_closed ? -1 : events_.get(), POLLIN, 0}, {exited.get(), POLLIN, 0}}};
      (void)::poll(waits.data(), waits.size(), exited ? -1 : look_ms);
      is_closed = is_closed || !read_events();
    }
    const int status = reap();
    (void)read_events();
    const std::lock_guard lock(mutex_);
    exit_code_ = status >= 0 ? status : last_code_.value_or(255);
    over_.notify_all();
  }

  // Whether the child can be reaped, or was by this process's own waitpid(-1).
  bool has_exited() const {
    siginfo_t found{};
    const int result =
        ::waitid(P_PID, static_cast<id_t>(pid_), &found, WEXITED | WNOHANG | WNOWAIT);
    return result != 0 ? errno == ECHILD : found.si_pid == pid_;
  }

  // The exit code; -1 if the child was reaped elsewhere in this process.
  int reap() {
    const std::lock_guard lock(mutex_);
    int status = 0;
    pid_t reaped = 0;
    do {
      reaped = ::waitpid(pid_, &status, 0);
    } while (reaped < 0 && errno == EINTR);
    is_reaped_ = true;
    if (reaped < 0) return -1;
    return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
  }

  // False: the pipe is closed.
  bool read_events() {
    std::array<char, 65536> bytes{};
    while (true) {
      const ssize_t got = ::read(events_.get(), bytes.data(), bytes.size());
      if (got < 0 && errno == EINTR) continue;
      if (got <= 0) return got < 0 && errno == EAGAIN;
      take({bytes.data(), static_cast<std::size_t>(got)});
    }
  }

  void take(std::string_view bytes) {
    while (!bytes.empty()) {
      const auto end = bytes.find('\n');
      const auto part = bytes.substr(0, end);
      is_too_long_ = is_too_long_ || line_.size() + part.size() > line_bytes_max;
      if (!is_too_long_) line_ += part;
      if (end == bytes.npos) return;
      bytes.remove_prefix(end + 1);
      const std::string line = std::exchange(line_, {});
      if (!std::exchange(is_too_long_, false)) tell(line);
    }
  }

  void tell(const std::string& line) {
    const auto event = read_job_event(line);
    if (!event) return;
    if (event->name == "job_ended" && event->exit_code) {
      last_code_ = static_cast<int>(*event->exit_code);
    }
    if (options_.event) options_.event(*event);
  }

  const Options options_;
  const pid_t owner_ = ::getpid();
  pid_t pid_ = 0;
  std::thread thread_;
  // Of the job's thread.
  FileDescriptor events_;
  std::string line_;
  bool is_too_long_ = false;
  std::optional<int> last_code_;  // of the event job_ended

  std::mutex mutex_;  // guards what follows
  std::condition_variable over_;
  bool is_reaped_ = false;
  std::optional<int> exit_code_;
};

Result<std::unique_ptr<LaunchedJob>> LaunchedJob::start(Options options) {
  auto impl = std::make_shared<Impl>(std::move(options));
  if (auto started = impl->start(impl); !started) return tl::unexpected<Error>(started.error());
  return std::unique_ptr<LaunchedJob>(new LaunchedJob(std::move(impl)));
}

LaunchedJob::LaunchedJob(std::shared_ptr<Impl> impl) : impl_(std::move(impl)) {}

LaunchedJob::~LaunchedJob() {
  if (impl_->is_own()) {
    impl_->close();
  } else {
    // There is no such thread in the child, and the job is not its own.
    static_cast<void>(new std::shared_ptr<Impl>(std::move(impl_)));
  }
}

pid_t LaunchedJob::pid() const {
  return impl_->pid();
}
std::optional<int> LaunchedJob::wait(std::optional<Duration> timeout) {
  return impl_->wait(timeout);
}
bool LaunchedJob::is_in_callback() const {
  return impl_->is_in_callback();
}
bool LaunchedJob::signal(int signal) {
  return impl_->signal(signal);
}

}  // namespace cpprun::io
