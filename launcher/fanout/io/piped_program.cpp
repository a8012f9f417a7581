// SPDX-License-Identifier: BSD-3-Clause
#include "launcher/fanout/io/piped_program.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <asio/posix/stream_descriptor.hpp>
#include <asio/post.hpp>
#include <asio/signal_set.hpp>
#include <asio/steady_timer.hpp>
#include <asio/write.hpp>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <deque>
#include <utility>

#include "proto/signal_names.h"
#include "proto/text.h"
#include "rendezvous/io/file_descriptor.h"

namespace cpprun::io {
namespace {

// Processes it started may keep its pipes open, as ssh's ControlPersist does.
constexpr auto pipes_timeout = std::chrono::seconds(1);
constexpr std::size_t pipe_piece_bytes = 64 * 1024;
constexpr int not_run_code = 127;

struct Pipe {
  FileDescriptor reading, writing;
};

bool open_pipe(Pipe& pipe) {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) return false;
  pipe.reading = FileDescriptor(ends[0]);
  pipe.writing = FileDescriptor(ends[1]);
  return true;
}

// Runs in the forked process: executes the program, or reports why it cannot.
struct Becoming {
  char* const* words = nullptr;
  char* const* environment = nullptr;
  int input = -1, output = -1, error = -1;
  bool ends_with_us = false;
  const rlimit* open_files = nullptr;
  pid_t parent = 0;
};

[[noreturn]] void become(const Becoming& order) {
  ::setpgid(0, 0);
  if (order.ends_with_us) {
    ::prctl(PR_SET_PDEATHSIG, SIGTERM);
    if (::getppid() != order.parent) ::_exit(not_run_code);
  }
  sigset_t none;
  ::sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  for (const int signal : {SIGPIPE, SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGCHLD}) {
    ::signal(signal, SIG_DFL);
  }
  if (order.open_files != nullptr) ::setrlimit(RLIMIT_NOFILE, order.open_files);
  ::dup2(order.input, STDIN_FILENO);
  ::dup2(order.output, STDOUT_FILENO);
  ::dup2(order.error, STDERR_FILENO);
  ::execvpe(order.words[0], order.words, order.environment);
  const char* const why = std::strerror(errno);
  for (const char* text :
       {"cannot run ", static_cast<const char*>(order.words[0]), ": ", why, "\n"}) {
    if (::write(STDERR_FILENO, text, std::strlen(text)) < 0) break;
  }
  ::_exit(not_run_code);
}

}  // namespace

class PipedProgram::Impl : public std::enable_shared_from_this<Impl> {
 public:
  Impl(asio::io_context& context, PipedEvents events)
      : ends_(context, SIGCHLD),
        timeout_(context),
        input_(context),
        output_(context),
        error_(context),
        events_(std::move(events)) {}

  Result<void> start(const PipedCommand& order) {
    Pipe input, output, error;
    FileDescriptor nothing;
    if (!open_pipe(output) || !open_pipe(error) || (order.has_input && !open_pipe(input))) {
      return failure("cannot create a pipe: " + errno_text(errno));
    }
    if (!order.has_input) nothing = FileDescriptor(::open("/dev/null", O_RDONLY | O_CLOEXEC));
    const ExecArray words(order.words);
    const ExecArray variables(order.environment);
    const Becoming becoming{.words = words.get(),
                            .environment = variables.get(),
                            .input = order.has_input ? input.reading.get() : nothing.get(),
                            .output = output.writing.get(),
                            .error = error.writing.get(),
                            .ends_with_us = order.ends_with_us,
                            .open_files = order.open_files ? &*order.open_files : nullptr,
                            .parent = ::getpid()};
    pid_ = ::fork();
    if (pid_ < 0) return failure("cannot create a process: " + errno_text(errno));
    if (pid_ == 0) become(becoming);
    ::setpgid(pid_, pid_);
    if (order.has_input) attach(input_, input.writing);
    attach(output_.pipe, output.reading);
    attach(error_.pipe, error.reading);
    return {};
  }

  void begin() {
    read(output_, events_.output);
    read(error_, events_.error);
    wait_for_end();
  }

  void write(std::string bytes) {
    if (!input_.is_open() || closing_ || bytes.empty()) return;
    waiting_.push_back(std::move(bytes));
    if (waiting_.size() == 1) send();
  }

  void close_input() {
    closing_ = true;
    if (waiting_.empty()) shut_input();
  }

  void hold(bool held) {
    if (std::exchange(held_, held) == held || held) return;
    read(output_, events_.output);
    read(error_, events_.error);
  }

  void signal(int number) {
    if (!status_) ::kill(pid_, number);
  }
  void kill_group() {
    if (!status_) ::kill(-pid_, SIGKILL);
  }

  void forget() {
    is_forgotten_ = true;  // an event may be pending
    asio::error_code ignored;
    ends_.cancel(ignored);
    timeout_.cancel();
    shut_input();
    output_.pipe.close(ignored);
    error_.pipe.close(ignored);
  }

 private:
  struct Source {
    explicit Source(asio::io_context& context) : pipe(context) {}

    asio::posix::stream_descriptor pipe;
    // Not initialized: a console has thousands of them, and most stay almost empty.
    std::array<char, pipe_piece_bytes> bytes;
    bool is_reading = false;
    bool is_over = false;
  };

  static void attach(asio::posix::stream_descriptor& to, FileDescriptor& from) {
    to.assign(from.release());
    to.non_blocking(true);
  }

  void read(Source& source, const std::function<void(std::string_view)>& tell) {
    if (held_ || source.is_reading || source.is_over) return;
    source.is_reading = true;
    source.pipe.async_read_some(asio::buffer(source.bytes),
                                [self = shared_from_this(), &source, &tell](
                                    const asio::error_code& error, std::size_t count) {
                                  source.is_reading = false;
                                  if (error == asio::error::operation_aborted) return;
                                  if (error) {
                                    source.is_over = true;
                                    return self->end_if_over();
                                  }
                                  if (self->is_forgotten_) return;
                                  tell({source.bytes.data(), count});
                                  if (!self->is_forgotten_) self->read(source, tell);
                                });
  }

  void send() {
    asio::async_write(input_, asio::buffer(waiting_.front()),
                      [self = shared_from_this()](const asio::error_code& error, std::size_t) {
                        if (error) return self->shut_input();
                        self->waiting_.pop_front();
                        if (!self->waiting_.empty()) return self->send();
                        if (self->closing_) self->shut_input();
                      });
  }

  void shut_input() {
    asio::error_code ignored;
    input_.close(ignored);
  }

  void wait_for_end() {
    ends_.async_wait([self = shared_from_this()](const asio::error_code& error, int) {
      if (error) return;
      if (!self->look()) self->wait_for_end();
    });
    look();  // it may have ended before the wait began
  }

  bool look() {
    int status = 0;
    if (status_ || ::waitpid(pid_, &status, WNOHANG) != pid_) return status_.has_value();
    status_ = status;
    asio::error_code ignored;
    ends_.cancel(ignored);
    timeout_.expires_after(pipes_timeout);
    timeout_.async_wait([self = shared_from_this()](const asio::error_code& error) {
      if (error) return;
      self->output_.is_over = self->error_.is_over = true;
      self->end_if_over();
    });
    end_if_over();
    return true;
  }

  void end_if_over() {
    if (!status_ || !output_.is_over || !error_.is_over || is_told_) return;
    is_told_ = true;
    timeout_.cancel();
    asio::post(timeout_.get_executor(), [self = shared_from_this()] {
      if (!self->is_forgotten_) self->events_.over(*self->status_);
    });
  }

  asio::signal_set ends_;
  asio::steady_timer timeout_;
  asio::posix::stream_descriptor input_;
  Source output_, error_;
  PipedEvents events_;
  std::deque<std::string> waiting_;
  pid_t pid_ = -1;
  std::optional<int> status_;
  bool closing_ = false;
  bool held_ = false;
  bool is_told_ = false;
  bool is_forgotten_ = false;
};

Result<PipedProgram> PipedProgram::start(asio::io_context& context, const PipedCommand& order,
                                         PipedEvents events) {
  auto impl = std::make_shared<Impl>(context, std::move(events));
  if (const auto started = impl->start(order); !started) return failure(started.error().reason);
  impl->begin();
  return PipedProgram(std::move(impl));
}

PipedProgram::PipedProgram(std::shared_ptr<Impl> impl) : impl_(std::move(impl)) {}
PipedProgram::PipedProgram(PipedProgram&&) noexcept = default;
PipedProgram& PipedProgram::operator=(PipedProgram&&) noexcept = default;
PipedProgram::~PipedProgram() {
  if (impl_) impl_->forget();
}

void PipedProgram::write(std::string bytes) {
  impl_->write(std::move(bytes));
}
void PipedProgram::close_input() {
  impl_->close_input();
}
void PipedProgram::hold(bool held) {
  impl_->hold(held);
}
void PipedProgram::signal(int signal) {
  impl_->signal(signal);
}
void PipedProgram::kill_group() {
  impl_->kill_group();
}

std::optional<std::string> output_of(const std::vector<std::string>& words,
                                     const Environment& environment, std::size_t bytes_max) {
  Pipe output;
  const FileDescriptor nothing(::open("/dev/null", O_RDWR | O_CLOEXEC));
  if (!nothing || !open_pipe(output)) return std::nullopt;
  const ExecArray all_words(words);
  const ExecArray variables(environment);
  const Becoming becoming{.words = all_words.get(),
                          .environment = variables.get(),
                          .input = nothing.get(),
                          .output = output.writing.get(),
                          .error = nothing.get()};
  const pid_t pid = ::fork();
  if (pid < 0) return std::nullopt;
  if (pid == 0) become(becoming);
  output.writing.reset();
  std::string text(bytes_max, '\0');
  std::size_t size = 0;
  while (size < text.size()) {
    const ssize_t got = ::read(output.reading.get(), text.data() + size, text.size() - size);
    if (got <= 0) break;
    size += static_cast<std::size_t>(got);
  }
  text.resize(size);
  int status = 0;
  ::waitpid(pid, &status, 0);
  return status == 0 ? std::optional(std::move(text)) : std::nullopt;
}

std::string end_text(int status) {
  if (WIFSIGNALED(status)) return "was killed by " + signal_name(WTERMSIG(status));
  return fmt::format("exited with code {}", WEXITSTATUS(status));
}

}  // namespace cpprun::io
