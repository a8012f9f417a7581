// SPDX-License-Identifier: BSD-3-Clause
#include "launcher/workers/io/ending_tree.h"

#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <asio/error.hpp>
#include <asio/post.hpp>
#include <chrono>
#include <cstdlib>
#include <optional>
#include <set>
#include <string>
#include <string_view>

#include "launcher/workers/io/process_tree.h"
#include "proto/text.h"

namespace cpprun::io {

namespace {

// A look after one process exited waits for more exits.
constexpr auto look_pause = std::chrono::milliseconds(5);
// Between two looks at what processes wait for, which nothing tells of.
constexpr auto beat_pause = std::chrono::milliseconds(500);
// So many exits are noticed at once, those beyond when one of their ancestors exits.
constexpr std::size_t awaited_max = 1024;

// The number of the pipe that a descriptor of a process is; 0: it is none, or cannot be read.
std::uint64_t pipe_of(int pid, int descriptor) {
  const auto path = "/proc/" + std::to_string(pid) + "/fd/" + std::to_string(descriptor);
  std::array<char, 64> link{};
  const auto got = ::readlink(path.c_str(), link.data(), link.size());
  std::string_view text(link.data(), got > 0 ? static_cast<std::size_t>(got) : 0);
  constexpr std::string_view begin = "pipe:[";
  if (!text.starts_with(begin) || !text.ends_with(']')) return 0;
  text = text.substr(begin.size(), text.size() - begin.size() - 1);
  return exact_number<std::uint64_t>(text).value_or(0);
}

// Whether `parent` is blocked until `child`, or any child of its own, has exited. What it calls may
// be readable by its tracers alone; the name of where the kernel has put it to sleep says less.
bool waits_for(int parent, int child) {
  const std::string folder = "/proc/" + std::to_string(parent);
  const auto call = read_proc(folder + "/syscall", 256);
  if (!call) return read_proc(folder + "/wchan", 64).value_or("") == "do_wait";
  const auto words = split(*call, ' ');  // the number, then arguments like 0xffffffffffffffff
  const auto argument = [&words](std::size_t at) {
    const std::string text(words.size() > at ? words[at] : "");
    return static_cast<std::int32_t>(std::strtoull(text.c_str(), nullptr, 16));
  };
  const auto number = exact_number<int>(words.front());
  if (number == SYS_wait4) return argument(1) <= 0 || argument(1) == child;
  return number == SYS_waitid && (argument(1) != P_PID || argument(2) == child);
}

std::optional<TreeProcess> running(int pid) {
  const auto stat = read_stat(pid);
  if (!stat || !stat->alive()) return std::nullopt;
  return TreeProcess{.pid = pid,
                     .started = stat->started,
                     .parent = stat->parent,
                     .group = stat->group,
                     .session = stat->session,
                     .command = stat->name,
                     .in_pipe = pipe_of(pid, STDIN_FILENO),
                     .out_pipe = pipe_of(pid, STDOUT_FILENO),
                     .err_pipe = pipe_of(pid, STDERR_FILENO),
                     .is_waited_for = waits_for(stat->parent, pid)};
}

}  // namespace

EndingTree::EndingTree(asio::io_context& context, std::function<std::vector<int>()> below,
                       std::function<void(std::vector<TreeProcess>)> seen)
    : context_(context),
      below_(std::move(below)),
      seen_(std::move(seen)),
      timer_(context),
      beat_(context) {}

void EndingTree::watch() {
  watches_ = true;
  look(/*is_asked=*/true);
  beat();
}

void EndingTree::beat() {
  beat_.expires_after(beat_pause);
  beat_.async_wait([this](const asio::error_code& error) {
    if (error || !watches_) return;
    look(/*is_asked=*/true);
    beat();
  });
}

// Many of them exit in one moment: they are one look.
void EndingTree::look_soon() {
  if (!watches_ || std::exchange(look_is_due_, true)) return;
  timer_.expires_after(look_pause);
  timer_.async_wait([this](const asio::error_code& error) {
    if (!error && std::exchange(look_is_due_, false) && watches_) look(/*is_asked=*/false);
  });
}

void EndingTree::forget() {
  watches_ = look_is_due_ = false;
  timer_.cancel();
  beat_.cancel();
  last_.clear();
  awaited_.clear();
}

void EndingTree::look(bool is_asked) {
  auto now = list();
  if (!is_asked && now == last_) return;
  last_ = now;
  await_exits();
  asio::post(context_, [this, now = std::move(now)]() mutable {
    if (watches_) seen_(std::move(now));
  });
}

// While its parent exits, a process is listed nowhere for a moment: processes that were seen before
// are looked up by pid.
std::vector<TreeProcess> EndingTree::list() const {
  std::vector<TreeProcess> now;
  std::set<int> listed;
  for (const int pid : below_()) {
    if (const auto process = running(pid)) {
      now.push_back(*process);
      listed.insert(pid);
    }
  }
  for (const TreeProcess& before : last_) {
    if (listed.contains(before.pid)) continue;
    const auto process = running(before.pid);
    if (process && process->started == before.started) now.push_back(*process);
  }
  return now;
}

void EndingTree::await_exits() {
  std::set<Identity> there;
  for (const TreeProcess& each : last_) there.emplace(each.pid, each.started);
  std::erase_if(awaited_, [&there](const auto& each) { return !there.contains(each.first); });
  for (const Identity& each : there) {
    if (awaited_.contains(each) || awaited_.size() >= awaited_max) continue;
    const auto held = static_cast<int>(::syscall(SYS_pidfd_open, each.first, 0));
    if (held < 0) continue;
    auto end = std::make_unique<asio::posix::stream_descriptor>(context_, held);
    end->async_wait(asio::posix::stream_descriptor::wait_read,
                    [this](const asio::error_code& error) {
                      if (!error) look_soon();
                    });
    awaited_.emplace(each, std::move(end));
  }
}

}  // namespace cpprun::io
