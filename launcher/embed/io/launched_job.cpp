// SPDX-License-Identifier: BSD-3-Clause
#include "launcher/embed/io/launched_job.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <climits>
#include <condition_variable>
#include <cstddef>
#include <deque>
#include <exception>
#include <future>
#include <memory>
#include <mutex>
#include <string_view>
#include <utility>

#include "proto/text.h"
#include "rendezvous/io/bare_child.h"
#include "rendezvous/io/file_descriptor.h"
#include "rendezvous/io/owner_process.h"
#include "rendezvous/io/quiet_thread.h"

namespace cpprun::io {

namespace {

// Where cpprun finds the pipe for its events.
constexpr int events_descriptor = 3;
constexpr const char* events_flag = "--events=/proc/self/fd/3";
constexpr int pipe_bytes = 1 << 20;  // what an unprivileged process may ask for
// Longer lines are skipped. A line with the stacks of a hung job is a few hundred kilobytes.
constexpr std::size_t line_bytes_max = std::size_t{16} << 20;
// The JSON of events that wait for a slow callback. Beyond that, the pipe is not read: cpprun keeps
// up to a megabyte more, and then counts what it drops (event events_lost).
constexpr std::size_t waiting_bytes_max = std::size_t{16} << 20;
// Between two checks of a child that an old kernel gives no pidfd for, or of a full queue.
constexpr int poll_ms = 20;
// The exit code if it is not known: the child was reaped elsewhere, and no event told it.
constexpr int unknown_exit_code = 255;

bool is_program(const std::string& file) {
  struct stat status {};
  return ::stat(file.c_str(), &status) == 0 && S_ISREG(status.st_mode) &&
         ::access(file.c_str(), X_OK) == 0;
}

// The same path, valid in every working directory.
std::string absolute(const std::string& file) {
  std::array<char, PATH_MAX> here{};
  if (file.starts_with('/') || ::getcwd(here.data(), here.size()) == nullptr) return file;
  return std::string(here.data()) + "/" + file;
}

// The program's file: looked up on PATH if its name has no slash. Empty: not found.
std::string file_of(const std::string& program, const Environment& environment) {
  if (program.find('/') != program.npos) return absolute(program);
  const auto found = look_up_on_path(program, environment, is_program);
  return found ? absolute(*found) : std::string();
}

bool is_open(int descriptor) {
  return ::fcntl(descriptor, F_GETFD) >= 0;
}

// Takes the descriptor, and returns a number that no standard stream and no pipe of ours uses, even
// if this process has closed its own.
FileDescriptor above_streams(int descriptor) {
  FileDescriptor given(descriptor);
  if (descriptor < 0 || descriptor > events_descriptor) return given;
  return FileDescriptor(::fcntl(descriptor, F_DUPFD_CLOEXEC, events_descriptor + 1));
}

// All that the child needs. It allocates nothing.
struct ChildPlan {
  const char* file = nullptr;
  char* const* arguments = nullptr;
  char* const* variables = nullptr;
  const char* directory = nullptr;          // null: unchanged
  int input = -1, output = -1, error = -1;  // -1: closed
  int events = -1;                          // above events_descriptor
  pid_t parent = 0;
  // Written by the child.
  const char* failed_to = "execute";
  int error_number = 0;
};

// Replaces a standard stream by the copy, or closes it.
CPPRUN_BARE bool place(int copy, int standard) {
  if (copy >= 0) return ::dup2(copy, standard) >= 0;
  (void)::close(standard);
  return true;
}

// A copy above the numbers that the streams get. The descriptor may be one of them.
CPPRUN_BARE int copy_of(int descriptor) {
  return descriptor < 0 ? -1 : ::fcntl(descriptor, F_DUPFD_CLOEXEC, events_descriptor + 1);
}

CPPRUN_BARE bool place_streams(const ChildPlan& plan) {
  const int input = copy_of(plan.input);
  const int output = copy_of(plan.output);
  const int error = copy_of(plan.error);
  if ((plan.input >= 0 && input < 0) || (plan.output >= 0 && output < 0) ||
      (plan.error >= 0 && error < 0)) {
    return false;
  }
  return place(input, STDIN_FILENO) && place(output, STDOUT_FILENO) &&
         place(error, STDERR_FILENO) && ::dup2(plan.events, events_descriptor) >= 0;
}

// Signals that the caller ignores stay ignored, as under nohup, except those that would disturb
// cpprun: Python, for instance, ignores SIGPIPE.
CPPRUN_BARE void reset_signals() {
  for (int signal = 1; signal < NSIG; ++signal) {
    struct sigaction action {};
    if (::sigaction(signal, nullptr, &action) != 0) continue;
    const bool is_needed =
        signal == SIGPIPE || signal == SIGCHLD || signal == SIGXFSZ || signal == SIGTERM;
    if (action.sa_handler == SIG_IGN && !is_needed) continue;
    struct sigaction usual {};
    usual.sa_handler = SIG_DFL;
    ::sigaction(signal, &usual, nullptr);
  }
  sigset_t none;
  ::sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
}

CPPRUN_BARE int child_main(void* argument) {
  auto& plan = *static_cast<ChildPlan*>(argument);
  ::prctl(PR_SET_PDEATHSIG, SIGTERM, 0, 0, 0);
  if (::getppid() != plan.parent) ::_exit(127);
  if (plan.directory != nullptr && ::chdir(plan.directory) != 0) {
    plan.failed_to = "enter";
  } else if (!place_streams(plan)) {
    plan.failed_to = "pass the standard streams to";
  } else {
    // What this process has open without O_CLOEXEC is not for cpprun. Older kernels lack this call,
    // and cpprun's workers get nothing in any case.
    (void)::syscall(SYS_close_range, events_descriptor + 1, ~0U, 4U /* CLOSE_RANGE_CLOEXEC */);
    reset_signals();
    ::execve(plan.file, plan.arguments, plan.variables);
  }
  plan.error_number = errno;
  ::_exit(127);
}

}  // namespace

// Two threads: one has started cpprun, reads its events at once and waits for its end; the other
// makes the callbacks, which may be slow.
class LaunchedJob::Impl {
 public:
  explicit Impl(Options options) : options_(std::move(options)) {}

  Result<void> start(const std::shared_ptr<Impl>& self) {
    const auto started = std::make_shared<std::promise<Result<void>>>();
    auto result = started->get_future();
    int error = start_quiet_thread([self] { self->deliver(); }, &deliverer_);
    if (error != 0) return failure("cannot create a thread: " + errno_text(error));
    // The kernel sends SIGTERM to cpprun when the thread ends that has started it.
    error = start_quiet_thread([self, started] { self->run(*started); }, &reader_);
    if (error != 0) {
      finish(0);
      ::pthread_join(deliverer_, nullptr);
      return failure("cannot create a thread: " + errno_text(error));
    }
    auto outcome = result.get();
    if (!outcome) join();
    return outcome;
  }

  void close() {
    // The second signal would kill the workers at once.
    if (!is_asked_to_stop_) (void)signal(SIGTERM);
    if (!is_in_callback()) return join();
    const std::lock_guard lock(mutex_);
    is_closed_ = true;
    ::pthread_detach(reader_);
    ::pthread_detach(deliverer_);
  }

  bool is_own() const { return owner_.is_this(); }
  pid_t pid() const { return pid_; }
  bool is_in_callback() const { return ::pthread_equal(deliverer_, ::pthread_self()) != 0; }

  std::optional<int> wait(std::optional<Duration> timeout) {
    std::unique_lock lock(mutex_);
    const auto is_over = [this] { return exit_code_.has_value(); };
    if (timeout) {
      changed_.wait_for(lock, *timeout, is_over);
    } else {
      changed_.wait(lock, is_over);
    }
    return exit_code_;
  }

  int signal(int signal) {
    const std::lock_guard lock(mutex_);
    if (is_reaped_) return ESRCH;
    for (const int stop : {SIGTERM, SIGINT, SIGQUIT, SIGHUP}) {
      if (signal == stop) is_asked_to_stop_ = true;
    }
    const long sent = pidfd_ ? ::syscall(SYS_pidfd_send_signal, pidfd_.get(), signal, nullptr, 0)
                             : ::kill(pid_, signal);
    return sent == 0 ? 0 : errno;
  }

 private:
  void join() {
    ::pthread_join(reader_, nullptr);
    ::pthread_join(deliverer_, nullptr);
  }

  // --- the thread that has started cpprun --------------------------------------------------------

  void run(std::promise<Result<void>>& started) {
    Result<void> executed = failure("out of memory");
    try {
      executed = execute();
    } catch (const std::exception&) {
    }
    const bool runs = executed.has_value();
    started.set_value(std::move(executed));
    if (!runs) return finish(0);
    try {
      read_until_exit();
    } catch (const std::exception&) {  // out of memory
      (void)signal(SIGTERM);
    }
    finish(reap());
  }

  Result<void> execute() {
    // Looked at before this process gets further descriptors.
    const auto own = [](int given, int standard) {
      return given >= 0 ? given : is_open(standard) ? standard : -1;
    };
    ChildPlan plan{.output = own(options_.output, STDOUT_FILENO),
                   .error = own(options_.error, STDERR_FILENO)};
    const std::string file = file_of(options_.program, options_.environment);
    if (file.empty()) return failure(fmt::format("\"{}\" is not on PATH", options_.program));
    std::array<int, 2> ends{};
    if (::pipe2(ends.data(), O_CLOEXEC) != 0) {
      return failure("cannot create a pipe: " + errno_text(errno));
    }
    events_ = above_streams(ends[0]);
    FileDescriptor writing = above_streams(ends[1]);
    const FileDescriptor nothing = above_streams(::open("/dev/null", O_RDONLY | O_CLOEXEC));
    if (!events_ || !writing || !nothing) {
      return failure("cannot open /dev/null or a pipe: " + errno_text(errno));
    }
    (void)::fcntl(events_.get(), F_SETPIPE_SZ, pipe_bytes);
    std::vector<std::string> arguments = {options_.program, events_flag};
    arguments.insert(arguments.end(), options_.arguments.begin(), options_.arguments.end());
    const ExecArray argument_array(std::move(arguments));
    const ExecArray variables(options_.environment);
    plan.file = file.c_str();
    plan.arguments = argument_array.get();
    plan.variables = variables.get();
    if (!options_.directory.empty()) plan.directory = options_.directory.c_str();
    plan.input = options_.input >= 0 ? options_.input : nothing.get();
    plan.events = writing.get();
    plan.parent = ::getpid();
    return become(plan);
  }

  Result<void> become(ChildPlan& plan) {
    const BareChild child = start_bare_child(child_main, &plan);
    if (child.pid < 0) return failure("cannot create a process: " + errno_text(child.error));
    pid_ = child.pid;
    pidfd_ = above_streams(child.pidfd);
    if (plan.error_number == 0) return {};
    (void)reap();
    return failure(
        fmt::format("cannot {} \"{}\": {}", plan.failed_to,
                    plan.failed_to == std::string_view("enter") ? plan.directory : plan.file,
                    errno_text(plan.error_number)));
  }

  // A process that cpprun has left may hold the other end of the pipe, so its end is not awaited.
  void read_until_exit() {
    (void)::fcntl(events_.get(), F_SETFL, O_NONBLOCK);
    while (!has_exited()) {
      const bool reads = !is_at_end_ && !is_queue_full();
      std::array<pollfd, 2> waits{
          {{reads ? events_.get() : -1, POLLIN, 0}, {pidfd_.get(), POLLIN, 0}}};
      const bool is_told = pidfd_ && (reads || is_at_end_);
      (void)::poll(waits.data(), waits.size(), is_told ? -1 : poll_ms);
      if (reads) (void)read_events();
    }
    while (read_events()) {
    }
  }

  // Whether the child can be reaped, or was reaped elsewhere in this process.
  bool has_exited() const {
    siginfo_t found{};
    const int result =
        ::waitid(P_PID, static_cast<id_t>(pid_), &found, WEXITED | WNOHANG | WNOWAIT);
    return result != 0 ? errno == ECHILD : found.si_pid == pid_;
  }

  // Waits for the child. The exit code; -1 if it was reaped elsewhere.
  int reap() {
    int status = 0;
    pid_t reaped = 0;
    siginfo_t found{};
    // The pid stays the child's while the lock is free.
    while (::waitid(P_PID, static_cast<id_t>(pid_), &found, WEXITED | WNOWAIT) != 0) {
      if (errno != EINTR) break;
    }
    const std::lock_guard lock(mutex_);
    do {
      reaped = ::waitpid(pid_, &status, 0);
    } while (reaped < 0 && errno == EINTR);
    is_reaped_ = true;
    if (reaped < 0) return -1;
    return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
  }

  // False: there is nothing to read now, or the pipe is closed.
  bool read_events() {
    std::array<char, 65536> bytes{};
    ssize_t got = 0;
    do {
      got = ::read(events_.get(), bytes.data(), bytes.size());
    } while (got < 0 && errno == EINTR);
    if (got <= 0) {
      is_at_end_ = got == 0 || errno != EAGAIN;
      return false;
    }
    take({bytes.data(), static_cast<std::size_t>(got)});
    return true;
  }

  bool is_queue_full() {
    const std::lock_guard lock(mutex_);
    return waiting_bytes_ > waiting_bytes_max;
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
      if (std::exchange(is_too_long_, false)) continue;
      if (auto event = read_job_event(line)) queue(std::move(*event));
    }
  }

  void queue(JobEvent event) {
    if (event.name == "job_ended" && event.exit_code) {
      last_code_ = static_cast<int>(*event.exit_code);
    }
    if (!options_.event) return;
    const std::lock_guard lock(mutex_);
    waiting_bytes_ += event.json.size();
    events_to_deliver_.push_back(std::move(event));
    changed_.notify_all();
  }

  // No further events come. `code`: -1 if it is not known.
  void finish(int code) {
    const std::lock_guard lock(mutex_);
    final_code_ = code >= 0 ? code : last_code_.value_or(unknown_exit_code);
    changed_.notify_all();
  }

  // --- the thread of the callbacks ---------------------------------------------------------------

  void deliver() {
    std::unique_lock lock(mutex_);
    while (true) {
      changed_.wait(lock, [this] { return !events_to_deliver_.empty() || final_code_; });
      if (events_to_deliver_.empty()) break;
      const JobEvent event = std::move(events_to_deliver_.front());
      events_to_deliver_.pop_front();
      waiting_bytes_ -= event.json.size();
      if (is_closed_) continue;
      lock.unlock();
      options_.event(event);
      lock.lock();
    }
    exit_code_ = final_code_;
    changed_.notify_all();
  }

  const Options options_;
  const OwnerProcess owner_;
  pid_t pid_ = 0;
  FileDescriptor pidfd_;  // empty: the kernel provides none
  pthread_t deliverer_{};
  pthread_t reader_{};
  // Of the thread that reads.
  FileDescriptor events_;
  std::string line_;
  bool is_too_long_ = false;
  bool is_at_end_ = false;
  std::optional<int> last_code_;  // of the event job_ended

  std::atomic<bool> is_asked_to_stop_{false};
  std::mutex mutex_;  // guards what follows
  std::condition_variable changed_;
  std::deque<JobEvent> events_to_deliver_;
  std::size_t waiting_bytes_ = 0;
  bool is_closed_ = false;  // in a callback: no further one comes
  bool is_reaped_ = false;
  std::optional<int> final_code_;  // cpprun has exited, and all of its events were read
  std::optional<int> exit_code_;   // the same, and they were delivered
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
    // Its threads do not exist in the child, and the job is not its own.
    static_cast<void>(new std::shared_ptr<Impl>(std::move(impl_)));
  }
}

bool LaunchedJob::is_own() const {
  return impl_->is_own();
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
int LaunchedJob::signal(int signal) {
  return impl_->signal(signal);
}

}  // namespace cpprun::io
