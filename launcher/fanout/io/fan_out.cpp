// SPDX-License-Identifier: BSD-3-Clause
#include "launcher/fanout/io/fan_out.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>
#include <asio/io_context.hpp>
#include <asio/posix/stream_descriptor.hpp>
#include <asio/steady_timer.hpp>

#include <array>
#include <cerrno>
#include <climits>
#include <csignal>
#include <cstdio>
#include <map>
#include <optional>
#include <utility>

#include "launcher/fanout/bootstrap.h"
#include "launcher/fanout/fan_out.h"
#include "launcher/fanout/io/host_console.h"
#include "launcher/fanout/io/piped_program.h"
#include "launcher/fanout/io/shells.h"
#include "launcher/fanout/message.h"
#include "launcher/output/lines.h"
#include "proto/state_machine.h"
#include "proto/text.h"
#include "rendezvous/io/file_descriptor.h"
#include "rendezvous/io/program.h"
#include "rendezvous/io/stream_writer.h"

namespace cpprun::io {

using namespace fanout;

namespace {

// What the console of a job prints: the output of its hosts, each line with the host's name, and
// messages of its own.
class ConsoleOutput {
 public:
  ConsoleOutput(const std::vector<Member>& members, const SaySentence& say, const TakeOutput& take)
      : say_(say), take_(take) {
    for (const auto& member : members) names_[member.number] = member.name;
  }

  void perform(const FanOut::Action& action) {
    if (const auto* shown = std::get_if<Show>(&action)) show(shown->host, shown->words);
    if (const auto* said = std::get_if<Say>(&action)) say_(said->sentence, said->is_error);
    if (std::holds_alternative<Finish>(action)) finish();
  }

  // Errno of the first failed write to stdout; 0: none failed.
  int error() const { return stdout_error_; }

 private:
  struct Streams {
    LineSplitter out, err;
  };

  void show(int host, const Words& words) {
    if (take_ && !words.is_error) return take_(host, words.text);
    Streams& streams = streams_[host];
    LineSplitter& splitter = words.is_error ? streams.err : streams.out;
    const std::string& name = names_[host];
    std::FILE* const file = words.is_error ? stderr : stdout;
    splitter.take(words.text, [&](const Piece& piece) { print(file, name, piece); });
    flush(file);
  }

  void flush(std::FILE* file) {
    if (std::fflush(file) != 0 && file == stdout && stdout_error_ == 0) stdout_error_ = errno;
  }

  static void print(std::FILE* file, const std::string& name, const Piece& piece) {
    if (piece.begins_line) {
      std::fputc('[', file);
      std::fwrite(name.data(), 1, name.size(), file);
      std::fputs("] ", file);
    }
    std::fwrite(piece.text.data(), 1, piece.text.size(), file);
  }

  void finish() {
    for (auto& [number, streams] : streams_) {
      streams.out.finish([&](const Piece& piece) { print(stdout, names_[number], piece); });
      streams.err.finish([&](const Piece& piece) { print(stderr, names_[number], piece); });
    }
    flush(stdout);
  }

  const SaySentence& say_;
  const TakeOutput& take_;
  std::map<int, std::string> names_;
  std::map<int, Streams> streams_;
  int stdout_error_ = 0;
};

}  // namespace

std::string working_directory() {
  std::array<char, PATH_MAX> path{};
  return ::getcwd(path.data(), path.size()) == nullptr ? "/" : path.data();
}

int run_console(Request request, const Environment& environment, const SaySentence& say,
                const TakeOutput& take) {
  ConsoleOutput output(request.wanted.members, say, take);
  HostConsole<FanOut> console(FanOut(request.wanted), environment, std::move(request.shell),
                              std::move(request.job), own_binary(request.ship),
                              [&](const FanOut::Action& action) { output.perform(action); });
  const int code = console.run();
  // A reader that closed the pipe needs no further output.
  if (code == 0 && output.error() != 0 && output.error() != EPIPE) {
    errno = output.error();
    exit_for_lost_output("cpprun");
  }
  return code;
}

using namespace fanout;

namespace {

constexpr std::size_t piece_bytes = 64 * 1024;
constexpr int usage_code = 2;  // exit code of a cpprun that rejected its flags
constexpr int signal_code = 128;
constexpr int no_matter_which_port = 1;
// In addition to the workers' grace period, before SIGKILL.
constexpr auto agent_timeout = std::chrono::seconds(10);

// A port that is currently free.
int free_port() {
  const FileDescriptor probe(::socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const FileDescriptor plain(probe ? -1 : ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const int fd = probe ? probe.get() : plain.get();
  sockaddr_storage address{};
  address.ss_family = probe ? AF_INET6 : AF_INET;
  socklen_t size = probe ? sizeof(sockaddr_in6) : sizeof(sockaddr_in);
  auto* const place = reinterpret_cast<sockaddr*>(&address);
  if (::bind(fd, place, size) != 0 || ::getsockname(fd, place, &size) != 0) return 0;
  return ntohs(probe ? reinterpret_cast<sockaddr_in6*>(&address)->sin6_port
                     : reinterpret_cast<sockaddr_in*>(&address)->sin_port);
}

// The address under which the console reached this host, as reported by sshd; otherwise its name.
std::string own_address(const Environment& own, const std::string& name) {
  if (const auto* connection = find_variable(own, "SSH_CONNECTION")) {
    const auto words = split(*connection, ' ');
    constexpr std::size_t server_address = 2;
    if (words.size() > server_address) return std::string(words[server_address]);
  }
  const auto at = name.find('@');
  return at == name.npos ? name : name.substr(at + 1);
}

// A program shipped by --ship is in a directory created for it.
void remove_own_file() {
  const std::string path = own_binary(false).path;
  (void)::unlink(path.c_str());
  (void)::rmdir(path.substr(0, path.rfind('/')).c_str());
}

class HostSide {
 public:
  HostSide(Environment environment, const HostSideTerms& terms)
      : environment_(std::move(environment)),
        answerer_(terms.make_answerer ? terms.make_answerer(context_) : Answerer{}),
        input_(context_),
        output_(context_, STDOUT_FILENO,
                {.room = [this] { hold_if_full(); },
                 .empty = [this] { leave_if_done(); },
                 .lost = [this](int) { orphaned(); }}),
        timeout_(context_) {}

  int run() {
    input_.assign(::fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, STDERR_FILENO + 1));
    output_.write(ready_line);
    read();
    context_.run();
    return 0;
  }

 private:
  // --- what comes down
  void read() {
    input_.async_read_some(asio::buffer(piece_),
                           [this](const asio::error_code& error, std::size_t count) {
                             if (error) return orphaned();
                             heard_.append(piece_.data(), count);
                             obey();
                             read();
                           });
  }

  void obey() {
    while (true) {
      auto message = take_down(heard_);
      if (!message) return orphaned();
      if (!*message) return;
      std::visit(Overloaded{
                     [&](const Terms& m) { begin_terms(m); },
                     [&](const Begin& m) { begin_job(m); },
                     [&](const Stop& m) { stop(m.signal); },
                     [&](const Ping&) { say_up(Pong{}); },
                     [&](const Ask& m) { ask(m); },
                 },
                 **message);
    }
  }

  void begin_terms(const Terms& terms) {
    if (job_) return;
    job_ = terms.job;
    self_ = terms.host;
    if (::chdir(job_->directory.c_str()) != 0) {
      is_done_ = true;
      say_up(Gone{
          fmt::format("cannot change to directory {}: {}", job_->directory, errno_text(errno))});
      return leave_if_done();
    }
    const int port = job_->is_rehearsal ? no_matter_which_port : free_port();
    say_up(Here{own_address(environment_, self_.name), port});
  }

  void begin_job(const Begin& begin) {
    if (!job_ || agent_ || is_done_) return;
    std::vector<std::string> words = {"/proc/self/exe"};
    for (auto& word : agent_words(*job_, self_, begin)) words.push_back(std::move(word));
    auto agent =
        PipedProgram::start(context_,
                            {.words = words,
                             .environment = agent_environment(*job_, environment_),
                             .has_input = !job_->secrets.empty(),
                             .ends_with_us = true},
                            {.output = [this](std::string_view text) { show(text, false); },
                             .error = [this](std::string_view text) { show(text, true); },
                             .over = [this](int status) { agent_ended(status); }});
    if (!agent) {
      is_done_ = true;
      say_up(Gone{agent.error().reason});
      return leave_if_done();
    }
    agent_.emplace(std::move(*agent));
    if (job_->secrets.empty()) return;
    agent_->write(job_->secrets);
    agent_->close_input();
  }

  void ask(const Ask& message) {
    if (!job_ || !answerer_ || is_done_) return;
    answerer_(message.text, [this](std::string answer) { say_up(Answer{std::move(answer)}); });
  }

  void stop(int signal) {
    if (!job_) return context_.stop();
    if (agent_) {
      agent_->signal(signal);
    } else if (!is_done_) {
      is_done_ = true;
      say_up(Ended{0, false});
    }
    leave_if_done();
  }

  // The input has ended: there is no console left to report to.
  void orphaned() {
    if (is_orphan_) return;
    is_orphan_ = true;
    stop(SIGTERM);
    if (!agent_) return;
    timeout_.expires_after(std::chrono::milliseconds(job_->grace_milliseconds) + agent_timeout);
    timeout_.async_wait([this](const asio::error_code& error) {
      if (!error && agent_) agent_->signal(SIGKILL);
    });
  }

  // --- what goes up
  void show(std::string_view text, bool is_error) { say_up(Words{is_error, std::string(text)}); }

  void agent_ended(int status) {
    agent_.reset();
    is_done_ = true;
    const int code = WIFSIGNALED(status) ? signal_code + WTERMSIG(status) : WEXITSTATUS(status);
    say_up(Ended{code, code != usage_code});
    leave_if_done();
  }

  void say_up(const Up& message) {
    output_.write(encode(message));
    hold_if_full();
  }

  void hold_if_full() {
    if (agent_) agent_->hold(output_.full());
  }

  void leave_if_done() {
    if (!is_done_ && !(is_orphan_ && !job_)) return;
    if (agent_ || !output_.empty()) return;
    context_.stop();
  }

  asio::io_context context_;
  const Environment environment_;
  const Answerer answerer_;
  asio::posix::stream_descriptor input_;
  NonBlockingWriter output_;
  asio::steady_timer timeout_;
  std::array<char, piece_bytes> piece_{};
  std::string heard_;
  std::optional<JobTerms> job_;
  Member self_;
  std::optional<PipedProgram> agent_;
  bool is_done_ = false;  // no agent of this host runs or will run
  bool is_orphan_ = false;
};

}  // namespace

int run_host_side(Environment environment, const HostSideTerms& terms) {
  // The job's secret passes through this process. Keep it from core files and from other processes
  // of this user.
  (void)::prctl(PR_SET_DUMPABLE, 0);
  if (terms.removes_itself) remove_own_file();
  ::signal(SIGPIPE, SIG_IGN);
  ::signal(SIGHUP, SIG_IGN);  // the end of the input means the same and is handled below
  return HostSide(std::move(environment), terms).run();
}

}  // namespace cpprun::io
