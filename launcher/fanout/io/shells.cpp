// SPDX-License-Identifier: BSD-3-Clause
#include "launcher/fanout/io/shells.h"

#include <fmt/format.h>
#include <sys/resource.h>
#include <unistd.h>

#include <asio/post.hpp>
#include <asio/steady_timer.hpp>
#include <fstream>
#include <iterator>
#include <optional>
#include <utility>

#include "launcher/fanout/bootstrap.h"
#include "launcher/fanout/io/piped_program.h"
#include "launcher/fanout/message.h"
#include "launcher/plan/io/host.h"
#include "proto/state_machine.h"
#include "proto/text.h"
#include "proto/version.h"

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
  const auto hash =
      output_of({"sha256sum", fmt::format("/proc/{}/exe", ::getpid())}, {}, hash_digits);
  return hash && hash->size() == hash_digits ? *hash : std::string();
}

TimePoint now() {
  return std::chrono::steady_clock::now();
}

}  // namespace

Shells::Shells(asio::io_context& context, Environment environment, std::vector<std::string> shell,
               JobTerms job, OwnBinary own, std::function<void(const Said&)> pass)
    : context_(context),
      environment_(std::move(environment)),
      open_files_(raise_open_files()),
      timer_(context),
      words_(std::move(shell)),
      machine_(std::move(job), own.sha256.empty() ? dials_max : shipping_dials_max),
      own_(std::move(own)),
      pass_(std::move(pass)) {}

void Shells::handle(const HostShells::Event& event) {
  const bool was_empty = machine_.empty();
  perform(machine_.handle(now(), event));
  // Output makes no deadline earlier than the armed one, and many hosts send much of it.
  const bool is_output =
      std::holds_alternative<Said>(event) || std::holds_alternative<Alive>(event);
  if (!is_output || !armed_) arm();
  if (idle_ && !was_empty && machine_.empty()) asio::post(context_, idle_);
}

void Shells::perform(const HostShells::Actions& actions) {
  for (const auto& action : actions) {
    std::visit(Overloaded{
                   [&](const Start& a) { open(a.host); },
                   [&](const SendTo& a) { send(a.host, encode(a.message)); },
                   [&](const Kill& a) { kill(a.host); },
                   [&](const Said& a) { pass_soon(a); },
               },
               action);
  }
}

void Shells::pass_soon(Said said) {
  asio::post(context_, [this, said = std::move(said)] { pass_(said); });
}

void Shells::open(const Member& host) {
  const int number = host.number;
  Shell& shell = shells_[number];
  const auto calling = [this, number](auto method) {
    return [this, number, method](auto value) { (this->*method)(number, value); };
  };
  auto child = PipedProgram::start(context_,
                                   {.words = shell_words(words_, host.name),
                                    .environment = environment_,
                                    .open_files = open_files_},
                                   {.output = calling(&Shells::hear),
                                    .error = calling(&Shells::hear_error),
                                    .over = calling(&Shells::end)});
  if (!child) {
    shell.refusal = child.error().reason;
    return asio::post(context_, [end = calling(&Shells::end)] { end(0); });
  }
  shell.child.emplace(std::move(*child));
  shell.child->write(bootstrap_script(own_));
}

void Shells::send(int number, std::string bytes) {
  const auto at = shells_.find(number);
  if (at != shells_.end() && at->second.child) at->second.child->write(std::move(bytes));
}

void Shells::kill(int number) {
  const auto at = shells_.find(number);
  if (at != shells_.end() && at->second.child) at->second.child->kill_group();
}

void Shells::hear(int number, std::string_view bytes) {
  const auto at = shells_.find(number);
  if (at == shells_.end()) return;
  Shell& shell = at->second;
  shell.heard += bytes;
  if (!shell.is_ready) {
    handle(Alive{number});
    read_lines(number, shell);
  }
  if (shell.is_ready) read_messages(number, shell);
}

// Skips banners and output of profiles before our first line.
void Shells::read_lines(int number, Shell& shell) {
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
    if (const auto* refusal = std::get_if<ShellRefuses>(&*answer)) shell.refusal = refusal->reason;
    if (std::holds_alternative<BinaryWanted>(*answer)) send(number, own_program());
    if (!std::holds_alternative<ShellIsReady>(*answer)) continue;
    shell.is_ready = true;
    handle(Ready{number});
  }
}

void Shells::read_messages(int number, Shell& shell) {
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
void Shells::hear_error(int number, std::string_view bytes) {
  const auto at = shells_.find(number);
  if (at == shells_.end()) return;
  Shell& shell = at->second;
  for (const auto line : split(bytes, '\n')) {
    if (const auto text = trimmed(line); !text.empty()) {
      shell.last_error = plain_line(text, reason_bytes_max);
    }
  }
  if (shell.is_ready) pass_soon({number, Words{true, std::string(bytes)}});
}

void Shells::end(int number, int status) {
  const auto at = shells_.find(number);
  if (at == shells_.end()) return;
  const Shell& shell = at->second;
  std::string reason = shell.refusal;
  if (reason.empty()) reason = shell.is_ready ? "" : shell.last_error;
  if (reason.empty()) reason = "the remote shell " + end_text(status);
  shells_.erase(at);
  handle(ShellEnded{number, std::move(reason)});
}

void Shells::arm() {
  const auto due = machine_.next_deadline();
  if (!due) timer_.cancel();
  if (armed_ == due) return;
  armed_ = due;
  if (!due) return;
  timer_.expires_at(std::chrono::time_point_cast<asio::steady_timer::duration>(*due));
  timer_.async_wait([this, due](const asio::error_code& error) {
    if (!error) look(due);
  });
}

void Shells::look(std::optional<TimePoint> due) {
  armed_.reset();
  if (!due || now() - *due <= late) {
    perform(machine_.advance(now()));
    return arm();
  }
  timer_.expires_after(late);
  timer_.async_wait([this](const asio::error_code& error) {
    if (!error) look({});
  });
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
  const std::string path = link_target("/proc/self/exe");
  OwnBinary own{.version = std::string(version_text()),
                .path = path.empty() ? program : path,
                .program = program};
  if (!ship) return own;
  own.sha256 = own_hash();
  own.bytes = own_program().size();
  return own;
}

}  // namespace cpprun::io
