// SPDX-License-Identifier: BSD-3-Clause
#include "launcher/fanout/io/shells.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <spawn.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <asio/post.hpp>
#include <asio/steady_timer.hpp>
#include <climits>
#include <fstream>
#include <iterator>
#include <map>
#include <optional>
#include <utility>

#include "launcher/fanout/bootstrap.h"
#include "launcher/fanout/io/piped_program.h"
#include "launcher/fanout/message.h"
#include "launcher/plan/io/host.h"
#include "proto/state_machine.h"
#include "proto/text.h"
#include "proto/version.h"
#include "rendezvous/io/file_descriptor.h"

namespace cpprun::io {

using namespace fanout;

namespace {

// If a timer fires later than this, this process was suspended or blocked on its console. Read what
// arrived meanwhile before treating the deadline as expired.
constexpr auto late = std::chrono::seconds(1);
constexpr std::size_t reason_bytes_max = 300;
constexpr std::size_t line_bytes_max = 64 * 1024;

// Each shell has three pipes. What else is open: standard streams, the event loop, and the pipes of
// a shell that is being started.
constexpr std::size_t shell_files = 3;
constexpr std::size_t other_files = 32;

constexpr std::size_t hash_digits = 64;

// The bytes of this program's file.
std::string own_program() {
  std::ifstream file("/proc/self/exe", std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

// Computed with the same program that the other side uses; empty if it is not found.
std::string own_hash() {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) return {};
  const FileDescriptor reading(ends[0]);
  FileDescriptor writing(ends[1]);
  std::string program = "sha256sum", path = fmt::format("/proc/{}/exe", ::getpid());
  std::array<char*, 3> words = {program.data(), path.data(), nullptr};
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_adddup2(&actions, writing.get(), STDOUT_FILENO);
  pid_t pid = 0;
  const int refused = ::posix_spawnp(&pid, words[0], &actions, nullptr, words.data(), nullptr);
  ::posix_spawn_file_actions_destroy(&actions);
  if (refused != 0) return {};
  writing.reset();
  std::string hash(hash_digits, '\0');
  std::size_t size = 0;
  while (size < hash.size()) {
    const ssize_t got = ::read(reading.get(), hash.data() + size, hash.size() - size);
    if (got <= 0) break;
    size += static_cast<std::size_t>(got);
  }
  int status = 0;
  ::waitpid(pid, &status, 0);
  return status == 0 && size == hash.size() ? hash : std::string();
}

TimePoint now() {
  return std::chrono::steady_clock::now();
}

}  // namespace

class Shells::Impl : public std::enable_shared_from_this<Impl> {
 public:
  Impl(asio::io_context& context, Environment environment, std::vector<std::string> shell,
       JobTerms job, OwnBinary own, std::function<void(const Said&)> pass)
      : context_(context),
        environment_(std::move(environment)),
        open_files_(raise_open_files()),
        timer_(context),
        words_(std::move(shell)),
        machine_(std::move(job), own.sha256.empty() ? dials_max : shipping_dials_max),
        own_(std::move(own)),
        pass_(std::move(pass)) {}

  void handle(const HostShells::Event& event) {
    if (is_over_) return;
    const bool was_empty = machine_.empty();
    perform(machine_.handle(now(), event));
    // Output makes no deadline earlier than the armed one, and many hosts send much of it.
    const bool is_output =
        std::holds_alternative<Said>(event) || std::holds_alternative<Alive>(event);
    if (!is_output || !armed_) arm();
    if (idle_ && !was_empty && machine_.empty()) asio::post(context_, idle_);
  }
  void when_idle(std::function<void()> idle) { idle_ = std::move(idle); }
  bool empty() const { return machine_.empty(); }
  void stop() {
    is_over_ = true;
    timer_.cancel();
    shells_.clear();
  }

 private:
  struct Shell {
    std::optional<PipedProgram> child;
    std::string heard;  // incomplete line or message
    std::string last_error;
    std::string refusal;
    bool is_ready = false;
  };

  void perform(const HostShells::Actions& actions) {
    for (const auto& action : actions) {
      std::visit(Overloaded{
                     [&](const Start& a) { open(a.host); },
                     [&](const SendTo& a) { give(a.host, encode(a.message)); },
                     [&](const Kill& a) { kill(a.host); },
                     [&](const Said& a) { pass_soon(a); },
                 },
                 action);
    }
  }

  void pass_soon(Said said) {
    asio::post(context_, [self = shared_from_this(), said = std::move(said)] {
      if (!self->is_over_) self->pass_(said);
    });
  }

  void open(const Member& host) {
    const int number = host.number;
    Shell& shell = shells_[number];
    const auto calling = [weak = weak_from_this(), number](auto method) {
      return [weak, number, method](auto value) {
        if (const auto self = weak.lock()) (self.get()->*method)(number, value);
      };
    };
    auto child = PipedProgram::start(context_,
                                     {.words = shell_words(words_, host.name),
                                      .environment = environment_,
                                      .open_files = open_files_},
                                     {.output = calling(&Impl::hear),
                                      .error = calling(&Impl::hear_error),
                                      .over = calling(&Impl::end)});
    if (!child) {
      shell.refusal = child.error().reason;
      return asio::post(context_, [end = calling(&Impl::end)] { end(0); });
    }
    shell.child.emplace(std::move(*child));
    shell.child->write(bootstrap_script(own_));
  }

  void give(int number, std::string bytes) {
    const auto at = shells_.find(number);
    if (at != shells_.end() && at->second.child) at->second.child->write(std::move(bytes));
  }

  void kill(int number) {
    const auto at = shells_.find(number);
    if (at != shells_.end() && at->second.child) at->second.child->kill_group();
  }

  void hear(int number, std::string_view bytes) {
    const auto at = shells_.find(number);
    if (is_over_ || at == shells_.end()) return;
    Shell& shell = at->second;
    shell.heard += bytes;
    if (!shell.is_ready) {
      handle(Alive{number});
      read_lines(number, shell);
    }
    if (shell.is_ready) read_messages(number, shell);
  }

  // Skips banners and output of profiles before our first line.
  void read_lines(int number, Shell& shell) {
    while (!shell.is_ready) {
      const auto end = shell.heard.find('\n');
      if (end == shell.heard.npos) {
        if (shell.heard.size() > line_bytes_max) shell.heard.clear();
        return;
      }
      const std::string line(trimmed(std::string_view(shell.heard).substr(0, end)));
      shell.heard.erase(0, end + 1);
      const auto answer = read_bootstrap_answer(line, own_);
      if (!answer) continue;
      if (const auto* refusal = std::get_if<ShellRefuses>(&*answer))
        shell.refusal = refusal->reason;
      if (std::holds_alternative<BinaryWanted>(*answer)) give(number, own_program());
      if (!std::holds_alternative<ShellIsReady>(*answer)) continue;
      shell.is_ready = true;
      handle(Ready{number});
    }
  }

  void read_messages(int number, Shell& shell) {
    while (true) {
      auto message = take_up(shell.heard);
      if (!message) {
        shell.refusal = "unexpected output of the remote shell: " + message.error().reason;
        shell.heard.clear();
        return kill(number);
      }
      if (!*message) return;
      handle(Said{number, std::move(**message)});
    }
  }

  // stderr of the shell: why it fails, or an error of the program behind it.
  void hear_error(int number, std::string_view bytes) {
    const auto at = shells_.find(number);
    if (is_over_ || at == shells_.end()) return;
    Shell& shell = at->second;
    for (const auto line : split(bytes, '\n')) {
      if (const auto text = trimmed(line); !text.empty()) {
        shell.last_error = plain_line(text, reason_bytes_max);
      }
    }
    if (shell.is_ready) pass_soon({number, Words{true, std::string(bytes)}});
  }

  void end(int number, int status) {
    const auto at = shells_.find(number);
    if (is_over_ || at == shells_.end()) return;
    const Shell& shell = at->second;
    std::string reason = shell.refusal;
    if (reason.empty()) reason = shell.is_ready ? "" : shell.last_error;
    if (reason.empty()) reason = "the remote shell " + end_text(status);
    shells_.erase(at);
    handle(ShellEnded{number, std::move(reason)});
  }

  void arm() {
    const auto due = machine_.next_deadline();
    if (!due) {
      timer_.cancel();
      armed_.reset();
      return;
    }
    if (armed_ == due) return;
    armed_ = due;
    timer_.expires_at(std::chrono::time_point_cast<asio::steady_timer::duration>(*due));
    timer_.async_wait([weak = weak_from_this(), when = *due](const asio::error_code& error) {
      const auto self = weak.lock();
      if (error || !self || self->is_over_) return;
      self->armed_.reset();
      if (now() - when > late) return self->look_later();
      self->perform(self->machine_.advance(now()));
      self->arm();
    });
  }

  void look_later() {
    timer_.expires_after(late);
    timer_.async_wait([weak = weak_from_this()](const asio::error_code& error) {
      const auto self = weak.lock();
      if (error || !self || self->is_over_) return;
      self->perform(self->machine_.advance(now()));
      self->arm();
    });
  }

  asio::io_context& context_;
  const Environment environment_;
  const std::optional<rlimit> open_files_;  // as this process was started; the shells get it back
  asio::steady_timer timer_;
  std::vector<std::string> words_;
  HostShells machine_;
  OwnBinary own_;
  std::function<void(const Said&)> pass_;
  std::function<void()> idle_;
  std::map<int, Shell> shells_;
  std::optional<TimePoint> armed_;
  bool is_over_ = false;
};

Shells::Shells(asio::io_context& context, Environment environment, std::vector<std::string> shell,
               JobTerms job, OwnBinary own, std::function<void(const Said&)> pass)
    : impl_(std::make_shared<Impl>(context, std::move(environment), std::move(shell),
                                   std::move(job), std::move(own), std::move(pass))) {}

Shells::~Shells() {
  impl_->stop();
}

void Shells::dial(const Dial& dial) {
  impl_->handle(dial);
}
void Shells::tell(const Tell& tell) {
  impl_->handle(tell);
}
void Shells::when_idle(std::function<void()> idle) {
  impl_->when_idle(std::move(idle));
}
bool Shells::empty() const {
  return impl_->empty();
}

std::optional<std::string> lacks_open_files(std::size_t hosts) {
  rlimit files{};
  const std::size_t needed = hosts * shell_files + other_files;
  if (::getrlimit(RLIMIT_NOFILE, &files) != 0 || files.rlim_max >= needed) return std::nullopt;
  return fmt::format(
      "{} hosts need {} open files, but the hard limit is {}\n  hint: raise it (nofile in "
      "/etc/security/limits.conf, `ulimit -Hn {}` as root), or use fewer hosts",
      hosts, needed, files.rlim_max, needed);
}

OwnBinary own_binary(bool ship, const std::string& program) {
  std::array<char, PATH_MAX> path{};
  const ssize_t size = ::readlink("/proc/self/exe", path.data(), path.size());
  OwnBinary own{
      .version = std::string(version_text()),
      .path = size > 0 ? std::string(path.data(), static_cast<std::size_t>(size)) : program,
      .program = program};
  if (!ship) return own;
  own.sha256 = own_hash();
  own.bytes = own_program().size();
  return own;
}

}  // namespace cpprun::io
