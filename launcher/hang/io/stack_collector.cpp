// SPDX-License-Identifier: BSD-3-Clause
#include "launcher/hang/io/stack_collector.h"

#include <dirent.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <optional>
#include <string_view>
#include <thread>
#include <utility>

#include "launcher/hang/io/native_stack.h"
#include "launcher/hang/io/process_memory.h"
#include "launcher/hang/io/py_spy.h"
#include "launcher/hang/io/worker_requests.h"
#include "launcher/workers/io/process_tree.h"
#include "proto/text.h"

namespace cpprun::io {

namespace {

using Clock = std::chrono::steady_clock;
using Kind = hang::Answer::Kind;

constexpr std::size_t proc_bytes_max = 4096;
// The threads of a child that are read. A data-loading process has few.
constexpr std::size_t child_threads_max = 4;
// Of a traceback that is sampled several times.
constexpr std::size_t sample_bytes_max = 256 * 1024;
// Of one worker. A deep stack takes some milliseconds.
constexpr Duration memory_timeout = std::chrono::milliseconds(300);

std::string task_path(int pid, int tid, std::string_view file) {
  return fmt::format("/proc/{}/task/{}/{}", pid, tid, file);
}

// The first `count_max` threads, by age. Does not list the rest: there may be thousands.
std::vector<int> first_threads(int pid, std::size_t count_max) {
  std::vector<int> tids;
  DIR* const open = ::opendir(fmt::format("/proc/{}/task", pid).c_str());
  if (open == nullptr) return tids;
  while (const dirent* entry = ::readdir(open)) {
    if (const auto tid = exact_number<int>(entry->d_name)) tids.push_back(*tid);
    if (tids.size() >= count_max) break;
  }
  ::closedir(open);
  return tids;
}

// Time on a CPU, in nanoseconds, which the kernel keeps for each thread.
Duration cpu_of(int pid, int tid) {
  const auto text = read_proc(task_path(pid, tid, "schedstat"), proc_bytes_max);
  const auto spent = text ? leading_number<std::int64_t>(*text) : std::nullopt;
  return std::chrono::nanoseconds(spent.value_or(0));
}

// Text in /proc as "1234 (name) S 1 …"; the name may contain anything.
struct StatText {
  std::string name;
  char state = '?';
  std::vector<std::string_view> fields;  // after the state
};

std::optional<StatText> parse_stat(const std::optional<std::string>& text) {
  if (!text) return std::nullopt;
  const auto begin = text->find('(');
  const auto end = text->rfind(')');
  if (begin >= end || end == std::string::npos || end + 2 >= text->size()) return std::nullopt;
  StatText stat{.name = text->substr(begin + 1, end - begin - 1), .fields = {}};
  stat.state = (*text)[end + 2];
  if (end + 4 < text->size()) stat.fields = split(std::string_view(*text).substr(end + 4), ' ');
  return stat;
}

std::optional<hang::ThreadObservation> read_thread(int pid, int tid) {
  const auto stat = parse_stat(read_proc(task_path(pid, tid, "stat"), proc_bytes_max));
  if (!stat) return std::nullopt;  // it has ended
  hang::ThreadObservation thread{.tid = tid, .name = stat->name, .state = stat->state};
  const auto channel = read_proc(task_path(pid, tid, "wchan"), proc_bytes_max);
  if (channel && *channel != "0") thread.wait_channel = trimmed(*channel);
  // "running", "-1 …" outside of a call, or its number and arguments.
  const auto call = read_proc(task_path(pid, tid, "syscall"), proc_bytes_max);
  if (call) thread.system_call = leading_number<int>(*call);
  if (thread.system_call && *thread.system_call < 0) thread.system_call.reset();
  thread.cpu = cpu_of(pid, tid);
  return thread;
}

hang::ProcessObservation read_process(int pid, std::size_t threads_max) {
  hang::ProcessObservation process{.pid = pid};
  const auto text = read_proc(fmt::format("/proc/{}/stat", pid), proc_bytes_max);
  const auto stat = parse_stat(text);
  if (!stat) return process;
  constexpr std::size_t parent_field = 0;  // after the state
  constexpr std::size_t threads_field = 16;
  process.name = stat->name;
  process.state = stat->state;
  const auto field = [&](std::size_t index) {
    return index < stat->fields.size() ? exact_number<int>(stat->fields[index]).value_or(0) : 0;
  };
  process.parent = field(parent_field);
  process.thread_count = field(threads_field);
  for (const int tid : first_threads(pid, threads_max)) {
    if (auto thread = read_thread(pid, tid)) process.threads.push_back(*std::move(thread));
  }
  // The kernel lists the main thread first; do not depend on it.
  std::stable_partition(process.threads.begin(), process.threads.end(),
                        [pid](const auto& thread) { return thread.tid == pid; });
  return process;
}

bool has_ended(char state) {
  return state == '?' || state == 'Z' || state == 'X';
}

hang::Observation begin_observation(const ObservedWorker& worker) {
  hang::Observation seen{.local_rank = worker.local_rank,
                         .rank = worker.rank,
                         .pid = worker.pid,
                         .has_exited = worker.has_exited};
  if (worker.has_exited) return seen;
  seen.process = read_process(worker.pid, hang::threads_max);
  seen.has_exited = has_ended(seen.process.state);
  if (seen.has_exited) return seen;
  for (const Descendant& each : family_of(worker.pid)) {
    if (seen.children.size() == hang::children_max) break;
    seen.children.push_back(read_process(each.pid, child_threads_max));
    seen.children.back().parent = each.parent;
  }
  return seen;
}

void read_cpu_again(hang::ProcessObservation& process) {
  for (hang::ThreadObservation& thread : process.threads) {
    thread.cpu_meanwhile = std::max(cpu_of(process.pid, thread.tid) - thread.cpu, Duration{});
  }
}

// A thread that has ended since the first read has no time to compare.
void end_observation(hang::Observation& seen, Duration interval) {
  if (seen.has_exited) return;
  read_cpu_again(seen.process);
  for (hang::ProcessObservation& child : seen.children) read_cpu_again(child);
  seen.interval = interval;
}

// The server is in the worker, or in a descendant if the worker is a script that starts Python.
bool is_of_worker(const hang::Observation& seen, int pid) {
  return pid == 0 || pid == seen.pid ||
         std::ranges::any_of(seen.children, [pid](const auto& child) { return child.pid == pid; });
}

// The order of the requests to one server. The first shows that it lives, whatever follows.
struct Handler {
  std::string_view target;
  hang::Answer hang::Observation::*answer;
};
constexpr Handler handlers[] = {
    {"/handler/ping", &hang::Observation::ping},
    {"/handler/fr_trace_json", &hang::Observation::flight_record},
    {"/handler/dump_nccl_trace_json", &hang::Observation::nccl_record},
    {"/handler/dump_traceback", &hang::Observation::traceback},
};

// Empty: it can be asked.
std::string silence_of(const ObservedWorker& worker, const hang::Observation& seen,
                       const Handler& handler) {
  if (seen.process.state == 'T' || seen.process.state == 't') return "the process is stopped";
  if (handler.answer == &hang::Observation::traceback && worker.is_ending) {
    return "it is about to exit";
  }
  if (handler.answer != &hang::Observation::ping && !worker.asks_all) {
    return "earlier requests are still pending";
  }
  return "";
}

void ask_all(const std::vector<ObservedWorker>& workers, std::vector<hang::Observation>& all,
             TimePoint deadline) {
  std::vector<WorkerRequest> requests;
  std::vector<std::pair<hang::Observation*, const Handler*>> meant;
  for (std::size_t index = 0; index < all.size(); ++index) {
    if (all[index].has_exited || workers[index].socket.empty()) continue;
    for (const Handler& handler : handlers) {
      if (auto reason = silence_of(workers[index], all[index], handler); !reason.empty()) {
        all[index].*
            handler.answer = {.kind = Kind::silent, .body = {}, .reason = std::move(reason)};
        continue;
      }
      requests.push_back({.socket = workers[index].socket, .target = std::string(handler.target)});
      meant.emplace_back(&all[index], &handler);
    }
  }
  ask_workers(requests, deadline);
  for (std::size_t at = 0; at < requests.size(); ++at) {
    auto& [seen, handler] = meant[at];
    hang::Answer& answer = seen->*(handler->answer);
    answer = std::move(requests[at].answer);
    if (is_of_worker(*seen, requests[at].answered_by)) continue;
    answer = {.kind = Kind::failed,
              .body = {},
              .reason = fmt::format("its socket belongs to another process ({})",
                                    requests[at].answered_by)};
  }
}

// Asks the workers that have answered for their tracebacks again.
void sample_again(const std::vector<ObservedWorker>& workers, std::vector<hang::Observation>& all,
                  TimePoint deadline) {
  std::vector<WorkerRequest> requests;
  std::vector<hang::Observation*> meant;
  for (std::size_t index = 0; index < all.size(); ++index) {
    const hang::Answer& first = all[index].traceback;
    // Stacks in C++ decide nothing.
    const bool is_useful = first.kind == Kind::answered && !first.body.starts_with("native") &&
                           first.body.size() <= sample_bytes_max;
    if (!is_useful) continue;
    requests.push_back({.socket = workers[index].socket, .target = "/handler/dump_traceback"});
    meant.push_back(&all[index]);
  }
  ask_workers(requests, deadline);
  for (std::size_t at = 0; at < requests.size(); ++at) {
    hang::Answer& answer = requests[at].answer;
    if (answer.kind != Kind::answered) continue;
    meant[at]->later_tracebacks.push_back(std::move(answer.body));
  }
}

void read_native(hang::Observation& seen, TimePoint deadline) {
  const char state = seen.process.state;
  // It would stop only after the disk has answered.
  if (state == 'D') {
    seen.native_reason = "the process is in uninterruptible sleep";
    return;
  }
  if (Clock::now() >= deadline) {
    seen.native_reason = "no time was left";
    return;
  }
  const auto stack = native_stack_of(seen.pid, deadline);
  if (stack) {
    seen.native = *stack;
  } else {
    seen.native_reason = stack.error().reason;
  }
}

void read_python_memory(hang::Observation& seen, TimePoint deadline) {
  // A reader of its list of mappings may have to wait for the disk as well.
  if (seen.process.state == 'D') return;
  deadline = std::min(deadline, Clock::now() + memory_timeout);
  PythonStacks stacks = python_stacks_of(seen.pid, deadline);
  seen.memory = std::move(stacks.traceback);
  seen.main_holds_gil = stacks.main_holds_gil;
}

// From outside, where the server in the worker has not answered.
void read_from_outside(std::vector<hang::Observation>& all, const ObservationOptions& options,
                       TimePoint deadline) {
  PySpyRuns runs;
  std::vector<hang::Observation*> spied;
  // The other half is for the frames of C.
  const TimePoint memory_deadline = Clock::now() + (deadline - Clock::now()) / 2;
  for (hang::Observation& seen : all) {
    if (seen.has_exited) continue;
    if (seen.traceback.kind == Kind::answered) {
      // With more than a hundred threads, the main one is not in it.
      if (seen.traceback.body.find("\n...\n") != std::string::npos)
        read_python_memory(seen, memory_deadline);
      continue;
    }
    read_python_memory(seen, memory_deadline);
    if (seen.memory.kind == Kind::answered || options.py_spy.empty()) continue;
    runs.start(options.py_spy, seen.pid);
    spied.push_back(&seen);
  }
  for (hang::Observation& seen : all) {
    if (seen.has_exited) continue;
    seen.shows_native = options.native;
    if (options.native || seen.traceback.kind != Kind::answered) read_native(seen, deadline);
  }
  auto answers = runs.finish(deadline);
  for (std::size_t index = 0; index < spied.size(); ++index) {
    spied[index]->py_spy = std::move(answers[index]);
  }
}

}  // namespace

std::vector<hang::Observation> observe_workers(const std::vector<ObservedWorker>& workers,
                                               const ObservationOptions& options) {
  const TimePoint begin = Clock::now();
  std::vector<hang::Observation> all;
  for (const ObservedWorker& worker : workers) all.push_back(begin_observation(worker));
  const TimePoint read = Clock::now();
  const TimePoint deadline = begin + options.timeout;
  const TimePoint answers_end = std::min(read + options.answer_timeout, deadline);
  ask_all(workers, all, answers_end);
  for (int sample = 1; sample < options.samples; ++sample) {
    std::this_thread::sleep_until(read + options.interval * sample / options.samples);
    sample_again(workers, all, answers_end);
  }
  std::this_thread::sleep_until(read + options.interval);
  for (hang::Observation& seen : all) end_observation(seen, Clock::now() - read);
  if (options.from_outside) read_from_outside(all, options, deadline);
  for (hang::Observation& seen : all) {
    const auto stat = seen.has_exited ? std::nullopt : read_stat(seen.pid);
    seen.has_exited = !stat || !stat->alive();
  }
  return all;
}

}  // namespace cpprun::io
