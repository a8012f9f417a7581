// SPDX-License-Identifier: BSD-3-Clause
#include "launcher/hang/observation.h"

#include <fmt/format.h>
#include <syscall.h>

#include <algorithm>
#include <array>
#include <span>
#include <utility>

#include "proto/text.h"

namespace cpprun::hang {

namespace {

// What a traceback may have: faulthandler itself stops at 100 of each.
constexpr std::size_t stacks_max = 256;
constexpr std::size_t frames_of_stack_max = 256;
// A thread that used more of its time than this between two reads is busy.
constexpr int busy_percent = 50;

// --- text ----------------------------------------------------------------------------------------

std::string name_text(std::string_view text) {
  return plain_line(text, name_bytes_max);
}

// `  File "x.py", line 3 in f`, or `  File ???, line ??? in ???`. Printed tracebacks have a comma
// after the number.
std::optional<Frame> parse_frame(std::string_view line) {
  constexpr std::string_view start = "  File ";
  constexpr std::string_view between = ", line ";
  if (!line.starts_with(start)) return std::nullopt;
  line.remove_prefix(start.size());
  const std::size_t comma = line.rfind(between);
  if (comma == std::string_view::npos) return std::nullopt;
  std::string_view file = line.substr(0, comma);
  line.remove_prefix(comma + between.size());
  const std::size_t in = line.find(" in ");
  if (in == std::string_view::npos) return std::nullopt;
  if (file.size() >= 2 && file.starts_with('"') && file.ends_with('"')) {
    file = file.substr(1, file.size() - 2);
  } else {
    file = {};
  }
  return Frame{.function = name_text(line.substr(in + 4)),
               .file = plain_line(file, text_bytes_max),
               .line = std::max(leading_number<int>(line.substr(0, in)).value_or(0), 0)};
}

// "Thread 0x00007f [name] (most recent call first):", also with "Current thread".
std::optional<ThreadStack> parse_head(std::string_view line) {
  const bool is_head = line.starts_with("Thread 0x") || line.starts_with("Current thread 0x");
  if (!is_head || line.find("(most recent call first)") == std::string_view::npos) {
    return std::nullopt;
  }
  ThreadStack stack;
  const std::size_t open = line.find('[');
  const std::size_t close = line.rfind(']');
  if (open != std::string_view::npos && close != std::string_view::npos && open < close) {
    stack.name = name_text(line.substr(open + 1, close - open - 1));
  }
  return stack;
}

// Lines "function file:line" by libdw.
std::vector<Frame> native_frames(std::string_view text) {
  std::vector<Frame> frames;
  for (std::string_view line : split(text, '\n')) {
    line = trimmed(line);
    if (line.empty() || frames.size() == frames_of_stack_max) continue;
    Frame frame{.function = std::string(line)};
    const std::size_t space = line.rfind(' ');
    const std::size_t colon = line.rfind(':');
    if (space != std::string_view::npos && colon != std::string_view::npos && space < colon) {
      if (const auto number = exact_number<int>(line.substr(colon + 1)); number && *number >= 0) {
        frame = {.function = std::string(line.substr(0, space)),
                 .file = std::string(line.substr(space + 1, colon - space - 1)),
                 .line = *number};
      }
    }
    frames.push_back({.function = name_text(frame.function),
                      .file = plain_line(frame.file, text_bytes_max),
                      .line = frame.line});
  }
  return frames;
}

// --- what a thread does --------------------------------------------------------------------------

constexpr std::array child_calls = {SYS_wait4, SYS_waitid};
constexpr std::array sleep_calls = {
    SYS_nanosleep,
    SYS_clock_nanosleep,
#ifdef SYS_select
    // Python before 3.11 sleeps in it. Its selectors use other calls.
    SYS_select,
#endif
};
constexpr std::array read_calls = {
    SYS_read,       SYS_readv,   SYS_pread64,     SYS_preadv, SYS_recvfrom, SYS_recvmsg,
    SYS_accept,     SYS_accept4, SYS_epoll_pwait, SYS_ppoll,  SYS_pselect6,
#ifdef SYS_poll
    SYS_poll,
#endif
#ifdef SYS_epoll_wait
    SYS_epoll_wait,
#endif
};

template <class Calls>
bool is_one_of(const Calls& calls, int number) {
  return std::find(calls.begin(), calls.end(), number) != calls.end();
}

// By the system call, or where that may not be read by the kernel function.
Activity activity_of_call(const ThreadObservation& thread) {
  if (thread.system_call) {
    const int number = *thread.system_call;
    if (number == SYS_futex) return Activity::lock;
    if (is_one_of(child_calls, number)) return Activity::child;
    if (is_one_of(sleep_calls, number)) return Activity::sleeping;
    if (is_one_of(read_calls, number)) return Activity::reading;
    return Activity::blocked;
  }
  const std::string_view channel = thread.wait_channel;
  const auto has = [&](std::string_view part) {
    return channel.find(part) != std::string_view::npos;
  };
  if (channel.starts_with("futex")) return Activity::lock;
  if (channel == "do_wait" || channel == "do_wait4") return Activity::child;
  if (has("nanosleep")) return Activity::sleeping;
  if (has("pipe_read") || has("stream_read") || has("recv") || has("sk_wait_data") ||
      has("epoll") || has("ep_poll") || has("poll_schedule") || has("wait_woken") ||
      has("tty_read") || has("skb_wait") || has("accept")) {
    return Activity::reading;
  }
  return Activity::blocked;
}

// vfork and posix_spawn wait in uninterruptible sleep until the child has called exec.
bool waits_for_vfork(const ThreadObservation& thread) {
  const std::string_view channel = thread.wait_channel;
  return channel == "kernel_clone" || channel == "_do_fork" || channel == "wait_for_vfork_done";
}

// Of a thread whose stack is not known.
Activity activity_of_thread(const ThreadObservation& thread, Duration interval) {
  if (thread.state == 'T' || thread.state == 't') return Activity::stopped;
  // A thread that used its CPU meanwhile waits for its disk only now and then.
  if (thread.state == 'D' && thread.cpu_meanwhile == Duration{}) {
    return waits_for_vfork(thread) ? Activity::child : Activity::disk;
  }
  const bool used_cpu =
      interval > Duration{} && thread.cpu_meanwhile * 100 > interval * busy_percent;
  if (thread.state == 'R' || used_cpu) return Activity::busy;
  if (thread.state == '?') return Activity::unknown;
  return activity_of_call(thread);
}

Activity activity_of_process(const ProcessObservation& process, Duration interval) {
  if (!process.threads.empty()) return activity_of_thread(process.threads.front(), interval);
  return activity_of_thread({.state = process.state}, interval);
}

bool is_alive(const ProcessObservation& process) {
  return process.state != 'Z' && process.state != 'X';
}

// --- stacks --------------------------------------------------------------------------------------

bool is_in(const Frame& frame, std::string_view file) {
  return std::string_view(frame.file).ends_with(file);
}

// Functions of Python in which a process waits for its children.
bool waits_for_child(std::span<const Frame> stack) {
  return std::any_of(stack.begin(), stack.end(), [](const Frame& frame) {
    if (is_in(frame, "/subprocess.py")) {
      return frame.function.find("wait") != std::string::npos ||
             frame.function.find("communicate") != std::string::npos;
    }
    if (is_in(frame, "/torch/utils/data/dataloader.py")) {
      return frame.function == "_try_get_data" || frame.function == "_get_data";
    }
    return is_in(frame, "/multiprocessing/popen_fork.py") ||
           (is_in(frame, "/multiprocessing/process.py") && frame.function == "join") ||
           is_in(frame, "/multiprocessing/pool.py") ||
           is_in(frame, "/concurrent/futures/process.py");
  });
}

// c10d's decorator is around each of its functions.
bool is_wrapper(const Frame& frame) {
  return is_in(frame, "/torch/distributed/c10d_logger.py");
}

bool waits_in_library_for_ranks(const std::vector<Frame>& stack, bool is_native) {
  if (stack.empty()) return false;
  if (!is_native) {
    const auto first = std::find_if_not(stack.begin(), stack.end(), is_wrapper);
    return first != stack.end() && is_communication(*first);
  }
  return std::any_of(stack.begin(), stack.end(), is_communication);
}

// Whether the main thread waits for other ranks.
bool is_in_collective(const WorkerEvidence& worker, const ThreadObservation& main) {
  if (waits_in_library_for_ranks(worker.stack, worker.is_native)) return true;
  const bool is_pending = std::any_of(worker.positions.begin(), worker.positions.end(),
                                      [](const Position& at) { return at.is_pending; });
  if (!is_pending || worker.stack.empty()) return false;
  const Frame& innermost = worker.stack.front();
  // Autograd waits for DDP's collectives, and `synchronize` for the GPU.
  if (innermost.file.find("-packages/torch/") != std::string::npos) return main.state != 'D';
  // Work.wait() is in C and has no frame: the caller waits in a futex. Locks of Python that have a
  // frame of their own are no collective.
  return activity_of_call(main) == Activity::lock && main.state == 'S' &&
         !is_in(innermost, "/threading.py") && !is_in(innermost, "/queue.py") && !worker.is_native;
}

struct Stacks {
  std::vector<Frame> main;
  bool is_native = false;
  std::vector<std::string> unread;
};

std::vector<Frame> main_of(const std::vector<ThreadStack>& stacks) {
  for (const auto& stack : stacks) {
    if (stack.is_main) return stack.frames;
  }
  return {};
}

// Why there is no answer. Empty: there is one, or no request was made.
std::string reason_of(const char* what, const Answer& answer) {
  switch (answer.kind) {
    case Answer::Kind::not_asked:
    case Answer::Kind::answered:
      return {};
    case Answer::Kind::silent:
      if (answer.reason.empty()) return fmt::format("{}: no response", what);
      [[fallthrough]];
    case Answer::Kind::failed:
      return fmt::format("{}: {}", what, plain_line(answer.reason, text_bytes_max));
  }
  return {};
}

Stacks stacks_of(const Observation& observation) {
  Stacks stacks;
  // It has left what it waited in, and its output tells more than its stack does now.
  if (!observation.last_lines.empty()) {
    stacks.main = parse_printed_traceback(observation.last_lines);
    return stacks;
  }
  const auto take = [&](const char* what, const Answer& answer, auto parse) {
    if (!stacks.main.empty()) return;
    if (answer.kind != Answer::Kind::answered) {
      if (auto reason = reason_of(what, answer); !reason.empty()) stacks.unread.push_back(reason);
      return;
    }
    const auto parsed = parse(answer.body);
    if (!parsed) {
      stacks.unread.push_back(fmt::format("{}: {}", what, parsed.error().reason));
      return;
    }
    stacks.main = main_of(*parsed);
    stacks.is_native = !parsed->empty() && parsed->front().is_native;
    if (stacks.main.empty()) {
      stacks.unread.push_back(fmt::format("{}: the main thread is not in it", what));
    }
  };
  take("stack", observation.traceback, parse_traceback);
  take("stack", observation.memory, parse_traceback);
  take("stack", observation.py_spy, parse_py_spy);
  if (stacks.main.empty()) {
    stacks.main = native_frames(observation.native);
    stacks.is_native = !stacks.main.empty();
  }
  const bool was_asked = observation.traceback.kind != Answer::Kind::not_asked ||
                         observation.py_spy.kind != Answer::Kind::not_asked;
  if (!stacks.main.empty()) {
    stacks.unread.clear();
  } else if (!was_asked) {
    stacks.unread.push_back(fmt::format("stack: {}", no_debug_server));
  }
  return stacks;
}

// --- children ------------------------------------------------------------------------------------

// "sleeping", for a child.
std::string_view child_text(Activity activity) {
  switch (activity) {
    case Activity::stopped:
      return "stopped";
    case Activity::disk:
      return "in uninterruptible sleep";
    case Activity::busy:
      return "busy";
    case Activity::sleeping:
      return "sleeping";
    case Activity::child:
      return "waiting for a child of its own";
    case Activity::lock:
      return "waiting for a lock";
    case Activity::reading:
      return "waiting for input";
    case Activity::gil:
    case Activity::blocked:
    case Activity::collective:
    case Activity::exited:
    case Activity::unknown:
      return "blocked";
  }
  return "";
}

// The child that most probably holds its parent up. Idle ones wait for input or a lock.
const ProcessObservation* suspect_of(const Observation& observation) {
  constexpr std::array idle_last = {Activity::stopped, Activity::disk,     Activity::busy,
                                    Activity::child,   Activity::sleeping, Activity::blocked,
                                    Activity::lock,    Activity::reading};
  const auto order = [&](const ProcessObservation& child) {
    const Activity activity = activity_of_process(child, observation.interval);
    return std::pair(child.parent != observation.pid,
                     std::find(idle_last.begin(), idle_last.end(), activity) - idle_last.begin());
  };
  const ProcessObservation* suspect = nullptr;
  for (const auto& child : observation.children) {
    if (!is_alive(child)) continue;
    if (suspect == nullptr || order(child) < order(*suspect)) suspect = &child;
  }
  return suspect;
}

std::string kernel_function(const ThreadObservation& thread) {
  const std::string_view channel = thread.wait_channel;
  if (channel.empty() || channel == "0") return {};
  return fmt::format("in the kernel function {}", name_text(channel));
}

void judge_activity(const Observation& observation, WorkerEvidence& worker) {
  const auto& threads = observation.process.threads;
  const ThreadObservation main =
      threads.empty() ? ThreadObservation{.state = observation.process.state} : threads.front();
  const bool holds_gil = observation.ping.kind == Answer::Kind::answered &&
                         observation.traceback.kind == Answer::Kind::silent;
  const Activity seen = activity_of_thread(main, observation.interval);
  const bool has_exited = observation.has_exited || !is_alive(observation.process);
  worker.activity = has_exited ? Activity::exited : seen;
  if (!observation.last_lines.empty() && seen != Activity::stopped && seen != Activity::disk) {
    worker.activity = Activity::collective;
    return;
  }
  if (has_exited) return;
  if (seen == Activity::stopped) {
    worker.detail = main.state == 't' ? "by a debugger" : "by a signal";
  } else if (seen == Activity::disk) {
    worker.detail = kernel_function(main);
  } else if (holds_gil && seen != Activity::child) {
    worker.activity = Activity::gil;
  } else if (observation.main_holds_gil && seen != Activity::busy && seen != Activity::unknown) {
    // A thread that waits has released it, unless it is in C code that does not.
    worker.activity = Activity::gil;
  } else if (is_in_collective(worker, main)) {
    worker.activity = Activity::collective;
  } else if (seen == Activity::busy || seen == Activity::unknown) {
    return;
  } else if (const auto* child = suspect_of(observation);
             seen == Activity::child || (child != nullptr && waits_for_child(worker.stack))) {
    worker.activity = Activity::child;
    if (child == nullptr) return;
    worker.detail = fmt::format("{} ({}, {})", child->pid, plain_line(child->name, 40),
                                child_text(activity_of_process(*child, observation.interval)));
  } else if (seen == Activity::blocked) {
    worker.detail = kernel_function(main);
  }
}

// --- the file with all stacks --------------------------------------------------------------------

std::string process_text(const ProcessObservation& process, const char* what) {
  std::string text = fmt::format("{} {} ({}), state {}, {} {}\n", what, process.pid,
                                 plain_line(process.name, 40), process.state, process.thread_count,
                                 process.thread_count == 1 ? "thread" : "threads");
  for (const auto& thread : process.threads) {
    text += fmt::format(
        "  thread {} ({}): state {}, CPU {:.2f} s (+{:.3f} s){}{}\n", thread.tid,
        plain_line(thread.name, 40), thread.state, in_seconds(thread.cpu),
        in_seconds(thread.cpu_meanwhile),
        thread.system_call ? fmt::format(", system call {}", *thread.system_call) : std::string(),
        thread.wait_channel.empty() ? std::string() : ", " + kernel_function(thread));
  }
  return text;
}

std::string answer_text(const char* title, const Answer& answer) {
  if (answer.kind == Answer::Kind::not_asked) return {};
  if (answer.kind != Answer::Kind::answered) return reason_of(title, answer) + "\n";
  return fmt::format("{}:\n{}\n", title, trimmed(plain_lines(answer.body)));
}

std::string position_text(const Position& at) {
  std::string text = fmt::format("  {}: {}", at.group, at.operation.empty() ? "?" : at.operation);
  if (at.sequence > 0) text += fmt::format(" number {}", at.sequence);
  if (!at.shape.empty()) text += fmt::format(", {}", at.shape);
  text += at.is_pending ? ", pending" : ", completed";
  if (at.queued > 0) text += fmt::format(", {} more enqueued", at.queued);
  return text + "\n";
}

}  // namespace

std::vector<Frame> parse_printed_traceback(const std::vector<std::string>& lines) {
  std::vector<Frame> frames;
  for (std::string_view line : lines) {
    if (const auto end = line.find("]: "); line.starts_with("[rank") && end != line.npos) {
      line.remove_prefix(end + 3);
    }
    if (line.starts_with("Traceback (most recent call last)")) frames.clear();
    if (auto frame = parse_frame(line); frame && frames.size() < frames_of_stack_max) {
      frames.push_back(*std::move(frame));
    }
  }
  std::ranges::reverse(frames);
  return frames;
}

Result<std::vector<ThreadStack>> parse_traceback(std::string_view text) {
  std::vector<ThreadStack> stacks;
  bool is_native = false;
  bool is_cut = false;
  bool is_first = true;
  for (std::string_view line : split(text, '\n')) {
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (std::exchange(is_first, false) && line == "native") is_native = true;
    // faulthandler stops here: the other threads, among them the main one, are missing.
    if (line == "...") is_cut = true;
    if (auto head = parse_head(line)) {
      if (stacks.size() == stacks_max) {
        is_cut = true;
        break;
      }
      head->is_native = is_native;
      stacks.push_back(*std::move(head));
    } else if (auto frame = parse_frame(line); frame && !stacks.empty()) {
      auto& frames = stacks.back().frames;
      if (frames.size() < frames_of_stack_max) frames.push_back(*std::move(frame));
    }
  }
  if (stacks.empty()) return failure("the answer is not a traceback");
  stacks.back().is_main = !is_cut;
  return stacks;
}

namespace {

// Those of process groups that are not known yet.
void add_positions(std::vector<Position> more, std::vector<Position>& positions) {
  const auto known = static_cast<std::ptrdiff_t>(positions.size());
  for (Position& each : more) {
    const auto end = positions.begin() + known;
    if (std::find_if(positions.begin(), end,
                     [&](const Position& other) { return other.group == each.group; }) == end) {
      positions.push_back(std::move(each));
    }
  }
}

// gloo records an operation that timed out as completed. The traceback has its name, and if that is
// the last operation of a single group, this was it.
void mark_timed_out(WorkerEvidence& worker) {
  Position* found = nullptr;
  for (Position& each : worker.positions) {
    if (each.is_pending) return;
    if (worker.stack.empty() || each.operation != worker.stack.front().function) continue;
    if (found != nullptr) return;
    found = &each;
  }
  if (found != nullptr) found->is_pending = true;
}

}  // namespace

WorkerEvidence evidence_of(const Observation& observation) {
  WorkerEvidence worker{.rank = observation.rank, .pid = observation.pid};
  Stacks stacks = stacks_of(observation);
  worker.stack = std::move(stacks.main);
  worker.is_native = stacks.is_native;
  std::vector<std::string> unread = std::move(stacks.unread);
  for (const Answer* const record : {&observation.nccl_record, &observation.flight_record}) {
    if (record->kind == Answer::Kind::answered) {
      auto positions = parse_flight_record(record->body);
      if (positions) {
        add_positions(*std::move(positions), worker.positions);
      } else {
        unread.push_back(fmt::format("flight record: {}", positions.error().reason));
      }
    } else if (record == &observation.flight_record) {
      // A PyTorch without NCCL has no other.
      if (auto reason = reason_of("flight record", *record); !reason.empty()) {
        unread.push_back(std::move(reason));
      }
    }
  }
  if (!observation.last_lines.empty()) mark_timed_out(worker);
  judge_activity(observation, worker);
  if (observation.shows_native && !worker.is_native) {
    worker.native_stack = native_frames(observation.native);
    if (worker.native_stack.empty() && !observation.native_reason.empty()) {
      unread.push_back(fmt::format("native stack: {}", observation.native_reason));
    }
  }
  if (worker.activity != Activity::exited && observation.last_lines.empty()) {
    worker.unread = plain_line(fmt::format("{}", fmt::join(unread, "; ")), text_bytes_max);
  }
  return worker;
}

std::string full_text(const Observation& observation) {
  const WorkerEvidence worker = evidence_of(observation);
  const Cluster cluster{.ranks = RankSet(worker.rank),
                        .activity = worker.activity,
                        .detail = worker.detail,
                        .stack = worker.stack,
                        .is_native = worker.is_native};
  std::string text = fmt::format("=== {}\n", text_of(cluster));
  if (!worker.unread.empty()) text += fmt::format("not read: {}\n", worker.unread);
  text += process_text(observation.process, "process");
  for (const auto& child : observation.children) text += process_text(child, "child");
  if (!worker.positions.empty()) text += "positions in process groups:\n";
  for (const auto& at : worker.positions) text += position_text(at);
  text += answer_text("traceback", observation.traceback);
  text += answer_text("traceback from its memory", observation.memory);
  if (!observation.last_lines.empty()) {
    text += fmt::format(
        "last lines of its output:\n{}\n",
        trimmed(plain_lines(fmt::format("{}", fmt::join(observation.last_lines, "\n")))));
  }
  if (!observation.native.empty()) {
    text += fmt::format("native stack of the main thread:\n{}\n",
                        trimmed(plain_lines(observation.native)));
  } else if (!observation.native_reason.empty()) {
    text += fmt::format("native stack of the main thread: {}\n",
                        plain_line(observation.native_reason, text_bytes_max));
  }
  return text;
}

}  // namespace cpprun::hang
