// SPDX-License-Identifier: BSD-3-Clause
#include "launcher/failure/io/process_snapshot.h"

#include <algorithm>
#include <optional>
#include <string_view>

#include "launcher/failure/process_snapshot.h"
#include "launcher/workers/io/process_tree.h"
#include "proto/text.h"

namespace cpprun::io {

namespace {

constexpr std::size_t status_bytes_max = 16 * 1024;
// A shell and what it runs; a worker with hundreds of children is told by the first.
constexpr std::size_t children_told_max = 2;

std::string proc(int pid, const char* name) {
  return read_proc("/proc/" + std::to_string(pid) + "/" + name, status_bytes_max).value_or("");
}

std::string first_line(const std::string& text) {
  return text.substr(0, text.find('\n'));
}

// "202 0x7f…": its number; "running" or "-1 …": in none.
std::optional<int> system_call_in(const std::string& text) {
  const auto number = leading_number<int>(text);
  return number && *number >= 0 ? number : std::nullopt;
}

// "[<0>] futex_wait_queue+0x60/0x90" a line.
std::vector<std::string> frames_in(std::string_view text) {
  std::vector<std::string> frames;
  while (!text.empty()) {
    auto line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(line.size() + 1, text.size()));
    if (const auto end = line.find("] "); end != std::string_view::npos)
      line.remove_prefix(end + 2);
    line = line.substr(0, line.find('+'));
    if (!line.empty()) frames.emplace_back(line);
  }
  return frames;
}

int threads_in(const std::string& status) {
  constexpr std::string_view name = "Threads:\t";
  const auto at = status.find(name);
  if (at == std::string::npos) return 1;
  return leading_number<int>(std::string_view(status).substr(at + name.size())).value_or(1);
}

std::optional<ProcessSnapshot> look_at(int pid) {
  const auto stat = read_stat(pid);
  if (!stat) return std::nullopt;
  ProcessSnapshot look{.pid = pid, .name = first_line(proc(pid, "comm")), .state = stat->state};
  look.wait_channel = proc(pid, "wchan");
  if (look.wait_channel == "0") look.wait_channel.clear();
  look.system_call = system_call_in(proc(pid, "syscall"));
  look.threads = threads_in(proc(pid, "status"));
  look.kernel_stack = frames_in(proc(pid, "stack"));
  return look;
}

}  // namespace

std::string process_snapshot(int pid) {
  const auto leader = look_at(pid);
  if (!leader) return "";
  auto text = to_text(*leader);
  const auto below = descendants_of(pid);
  for (std::size_t i = 0; i < std::min(below.size(), children_told_max); ++i) {
    if (const auto look = look_at(below[i])) text += "; below it " + to_text(*look);
  }
  if (below.size() > children_told_max) {
    text += "; and " + std::to_string(below.size() - children_told_max) + " more";
  }
  return text;
}

}  // namespace cpprun::io
