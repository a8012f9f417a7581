// SPDX-License-Identifier: BSD-3-Clause
#include "launcher/workers/io/warm_parent.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <asio/error.hpp>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>
#include <string_view>
#include <utility>

#include "launcher/plan/io/host.h"
#include "launcher/workers/io/process_tree.h"
#include "proto/text.h"
#include "rendezvous/io/event_loop.h"

namespace cpprun::io {

namespace {

constexpr std::size_t message_bytes_max = 4096;
// From a request to the answer, while so many are unanswered. Forking takes some 10 ms, more if the
// machine is busy. On a machine so slow that the imports took long, an executed worker takes longer
// still. With warm_wait_max, less than bounds::kill_timeout: by then a worker has to be started.
Duration fork_timeout(std::size_t requests, Duration imports) {
  constexpr Duration least = std::chrono::seconds(1);
  constexpr Duration most = std::chrono::seconds(4);
  const auto each = std::chrono::milliseconds(100);
  return std::clamp<Duration>(imports / 4 + requests * each, least, most);
}

using Socket = asio::posix::stream_descriptor;

// The next message; empty at the end of the connection; none if there is nothing to read now.
std::optional<std::string> receive(Socket& socket) {
  std::array<char, message_bytes_max> bytes{};
  const auto got = ::recv(socket.native_handle(), bytes.data(), bytes.size(), MSG_DONTWAIT);
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) return std::nullopt;
  return std::string(bytes.data(), got > 0 ? static_cast<std::size_t>(got) : 0);
}

bool make_socket_pair(FileDescriptor& ours, FileDescriptor& theirs) {
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0) return false;
  ours.reset(ends[0]);
  theirs.reset(ends[1]);
  return true;
}

bool send_descriptors(int socket, const std::vector<int>& descriptors) {
  constexpr std::size_t count_max = 4;
  alignas(cmsghdr) std::array<char, CMSG_SPACE(count_max * sizeof(int))> space{};
  char kind[] = "fork";
  iovec data{kind, sizeof kind - 1};
  msghdr message{};
  message.msg_iov = &data;
  message.msg_iovlen = 1;
  message.msg_control = space.data();
  message.msg_controllen = CMSG_SPACE(descriptors.size() * sizeof(int));
  cmsghdr* const header = CMSG_FIRSTHDR(&message);
  header->cmsg_level = SOL_SOCKET;
  header->cmsg_type = SCM_RIGHTS;
  header->cmsg_len = CMSG_LEN(descriptors.size() * sizeof(int));
  std::memcpy(CMSG_DATA(header), descriptors.data(), descriptors.size() * sizeof(int));
  return ::sendmsg(socket, &message, MSG_DONTWAIT | MSG_NOSIGNAL) >= 0;
}

bool opens_file(const StreamPlan& plan, int given) {
  return given < 0 && (plan.target == StreamTarget::nowhere || plan.target == StreamTarget::file);
}

SpawnStage stage_named(std::string_view name) {
  if (name == "processors") return SpawnStage::processors;
  if (name == "stdout") return SpawnStage::stdout_target;
  return name == "stderr" ? SpawnStage::stderr_target : SpawnStage::session;
}

}  // namespace

struct WarmParent::Request {
  Request(asio::io_context& context, Done is_done)
      : line(context), timeout(context), done(std::move(is_done)) {}
  Socket line;  // to the parent, and to the worker
  asio::steady_timer timeout;
  Done done;  // empty once it was called
  int pid = 0;
  bool is_ready = false;
};

WarmParent::WarmParent(asio::io_context& context, const WorkerLimits& limits,
                       std::vector<std::string> modules, Callbacks callbacks)
    : context_(context),
      limits_(limits),
      modules_(std::move(modules)),
      callbacks_(std::move(callbacks)),
      timer_(context, [this] { start_or_wait(); }) {}

WarmParent::~WarmParent() {
  // A child of ours that is not reaped yet, so the pid is its own.
  if (pid_ > 0) ::kill(pid_, SIGKILL);
}

void WarmParent::begin_round(const std::vector<WorkerSpec>& specs) {
  if (specs.empty()) return;
  spec_ = warm_parent_spec(specs.front(), modules_, specs.size() == 1);
  environment_ = warm_parent_environment(specs.front(), limits_.inherited);
  state_.begin_round(boot_now(), specs.size(), own_cpus().size());
  start_or_wait();
}

void WarmParent::start_or_wait() {
  const TimePoint now = boot_now();
  if (state_.due() && *state_.due() <= now) start();
  if (state_.awaited_until().value_or(now) <= now) serve_waiting();
  const auto due = state_.due();
  timer_.arm(due ? due : waiting_.empty() ? std::nullopt : state_.awaited_until());
}

void WarmParent::start() {
  FileDescriptor ours, theirs;
  if (!make_socket_pair(ours, theirs)) return give_up("socketpair: " + errno_text(errno));
  WorkerLimits limits = limits_;
  limits.inherited = environment_;
  const auto child = spawn_process(*spec_, theirs.get(), -1, limits);
  if (!child) {
    return give_up(fmt::format("cannot {}: {}", to_text(child.error().stage),
                               errno_text(child.error().error_number)));
  }
  if (child->pidfd >= 0) ::close(child->pidfd);
  pid_ = child->pid;
  started_ = boot_now();
  control_ = std::make_shared<Socket>(context_, ours.release());
  state_.started();
  callbacks_.started(pid_);
  hear();
}

void WarmParent::hear() {
  control_->async_wait(Socket::wait_read,
                       [this, control = control_](const asio::error_code& error) {
                         if (error || control != control_) return;
                         const auto message = receive(*control);
                         if (message && message->empty()) return gone();
                         if (message) heard(*message);
                         if (control == control_) hear();
                       });
}

void WarmParent::heard(const std::string& message) {
  constexpr std::string_view failed = "failed ";
  if (message == "ready") {
    state_.ready();
    imports_ = boot_now() - started_;
    const auto usage = usage_of(pid_);
    callbacks_.note(
        fmt::format("--warm: the process that forks workers (pid {}) is ready; it imported {} in "
                    "{:.1f} s and uses {} MiB",
                    pid_, fmt::join(modules_, ","), std::chrono::duration<double>(imports_).count(),
                    usage ? usage->resident_kib / 1024 : 0),
        LogLevel::debug);
    serve_waiting();
  } else if (message.starts_with(failed)) {
    give_up(plain_line(message.substr(failed.size())));
  }
  // Anything else was printed while Python started.
}

// It has exited, or closed its socket, which comes to the same.
void WarmParent::gone() {
  control_.reset();
  if (pid_ > 0) ::kill(pid_, SIGKILL);
  state_.ended(boot_now());
  const auto requests = requests_;
  for (const auto& each : requests) {
    // Its answer, which says why it has exited, may be unread.
    const auto answer = each->pid == 0 && each->done ? receive(each->line) : std::nullopt;
    if (answer && !answer->empty()) heard(each, *answer);
    if (each->pid == 0 && each->done) refuse(each, "the parent has exited");
  }
  serve_waiting();
  start_or_wait();
}

void WarmParent::give_up(const std::string& why) {
  state_.give_up();
  callbacks_.note(fmt::format("--warm: workers are started without it: {}", why),
                  LogLevel::warning);
  serve_waiting();
}

void WarmParent::serve_waiting() {
  for (const auto& each : std::exchange(waiting_, {})) each();
}

void WarmParent::reaped(int pid) {
  if (pid == pid_) pid_ = 0;
}

void WarmParent::fork(const WorkerSpec& spec, int out, int err, Done done) {
  if (state_.awaited_until() && *state_.awaited_until() > boot_now()) {
    waiting_.emplace_back([this, spec, out, err, done = std::move(done)]() mutable {
      fork(spec, out, err, std::move(done));
    });
    return start_or_wait();
  }
  std::string why = state_.obstacle();
  const auto stat = why.empty() ? read_stat(pid_) : std::nullopt;
  if (stat && (stat->state == 'T' || stat->state == 't')) why = "the parent is stopped";
  const auto request = std::make_shared<Request>(context_, std::move(done));
  requests_.push_back(request);
  if (why.empty() && !ask(request, spec, out, err)) {
    why = "cannot reach the parent: " + errno_text(errno);
  }
  if (!why.empty()) return refuse(request, why);
  hear(request);
  request->timeout.expires_after(fork_timeout(requests_.size(), imports_));
  request->timeout.async_wait([this, request](const asio::error_code& error) {
    if (error || !request->done) return;
    refuse(request, "the parent did not answer in time");
    if (pid_ > 0) ::kill(pid_, SIGKILL);
  });
}

// The descriptors: the fields of warm_request(), a socket to the worker, and its streams. False:
// errno says why not.
bool WarmParent::ask(const std::shared_ptr<Request>& request, const WorkerSpec& spec, int out,
                     int err) {
  const WarmRequestTerms terms{.opens_out = opens_file(spec.out, out),
                               .opens_err = opens_file(spec.err, err),
                               .agent = ::getpid(),
                               .is_traceable = limits_.is_traceable};
  const std::string fields = warm_request(spec, limits_.inherited, terms);
  const FileDescriptor body{::memfd_create("worker", MFD_CLOEXEC)};
  FileDescriptor ours, theirs;
  if (!body || write_all(body.get(), fields) != fields.size() ||
      ::lseek(body.get(), 0, SEEK_SET) != 0 || !make_socket_pair(ours, theirs)) {
    return false;
  }
  std::vector<int> descriptors{body.get(), theirs.get()};
  if (!terms.opens_out) descriptors.push_back(out >= 0 ? out : STDOUT_FILENO);
  if (!terms.opens_err) descriptors.push_back(err >= 0 ? err : STDERR_FILENO);
  if (!send_descriptors(control_->native_handle(), descriptors)) return false;
  request->line.assign(ours.release());
  return true;
}

void WarmParent::hear(const std::shared_ptr<Request>& request) {
  request->line.async_wait(Socket::wait_read, [this, request](const asio::error_code& error) {
    if (error || !request->done) return;
    if (const auto message = receive(request->line)) heard(request, *message);
    if (request->done) hear(request);
  });
}

void WarmParent::heard(const std::shared_ptr<Request>& request, const std::string& message) {
  const auto words = split(message, ' ');
  const auto number = exact_number<int>(words.back()).value_or(0);
  if (words.front() == "pid" && number > 0) {
    request->pid = number;
  } else if (message == "ready") {
    request->is_ready = true;
  } else if (words.front() == "failed" && words.size() == 3) {
    return finish(request, {.error = SpawnError{stage_named(words[1]), number}});
  } else if (words.front() == "no") {
    return refuse(request, plain_line(message.substr(std::string_view("no ").size())));
  } else {
    return refuse(request, "the forked worker exited before it was ready");
  }
  if (request->is_ready && request->pid != 0) adopt(request);
}

// The parent has said so after the process in between has exited, so the worker is our child.
void WarmParent::adopt(const std::shared_ptr<Request>& request) {
  const auto stat = read_stat(request->pid);
  if (!stat || stat->parent != ::getpid()) {
    return refuse(request, "the forked worker is not a child of cpprun");
  }
  const Child child{.pid = request->pid,
                    .pidfd = static_cast<int>(::syscall(SYS_pidfd_open, request->pid, 0))};
  finish(request, {.child = child});
}

void WarmParent::finish(const std::shared_ptr<Request>& request, const Forked& forked) {
  std::erase(requests_, request);
  request->timeout.cancel();
  std::exchange(request->done, nullptr)(forked);
  // If it cannot be sent, the worker has died, which its owner notices. Without it, a worker that
  // is not wanted exits when the socket is closed.
  if (forked.child) {
    static_cast<void>(::send(request->line.native_handle(), "go", 2, MSG_DONTWAIT | MSG_NOSIGNAL));
  }
  if (request->line.is_open()) request->line.close();
}

void WarmParent::refuse(const std::shared_ptr<Request>& request, const std::string& why) {
  const std::string note = state_.note(why);
  if (!note.empty()) callbacks_.note(note, LogLevel::info);
  // A worker that was forked too late is a child of ours, and must not touch the rank's files.
  const auto stat = request->pid > 0 ? read_stat(request->pid) : std::nullopt;
  if (stat && stat->parent == ::getpid()) ::kill(request->pid, SIGKILL);
  finish(request, {});
}

}  // namespace cpprun::io
