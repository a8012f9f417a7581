// SPDX-License-Identifier: BSD-3-Clause
#include "launcher/failure/cause_rules.h"

#include <algorithm>
#include <cctype>
#include <csignal>

namespace cpprun {

namespace {

constexpr int shell_signal_base = 128;  // a shell exits with 128 + signal for what it ran

bool has(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

template <std::size_t N>
bool has_one(std::string_view text, const std::array<std::string_view, N>& parts) {
  return std::any_of(parts.begin(), parts.end(),
                     [&](std::string_view part) { return !part.empty() && has(text, part); });
}

bool holds(Fact fact, const HostFacts& around) {
  const auto shm = [](const std::string& disk) { return disk == "/dev/shm"; };
  switch (fact) {
    case Fact::none:
      return true;
    case Fact::oom_kill:
      return around.oom_kills > 0;
    case Fact::oom_kill_nearby:
      return around.oom_kills_on_machine > 0;
    case Fact::shm_full:
      return std::any_of(around.full_disks.begin(), around.full_disks.end(), shm);
    case Fact::shm_small:
      return !around.small_shm.empty();
    case Fact::disk_full:
      return !around.full_disks.empty();
  }
  return false;
}

bool kernel_said(const EndRule& rule, const HostFacts& around) {
  if (rule.kernel.front().empty()) return true;
  return std::any_of(around.kernel_lines.begin(), around.kernel_lines.end(),
                     [&](const std::string& line) { return has_one(line, rule.kernel); });
}

std::string_view by_start(const SpawnError& error, const HostFacts& around) {
  const bool exec = error.stage == SpawnStage::exec;
  const bool logs = error.stage == SpawnStage::log_folder ||
                    error.stage == SpawnStage::stdout_target ||
                    error.stage == SpawnStage::stderr_target;
  for (const EndRule& rule : end_rules()) {
    if (rule.exec_fault != ExecFault::none && exec && rule.exec_fault == around.exec_fault) {
      return rule.cause;
    }
    // What is said of a program does not hold for its log file.
    const bool meant = rule.error_number != 0 && (exec || rule.any_stage);
    if (meant && rule.error_number == error.error_number) return rule.cause;
  }
  return logs ? "log_folder_unwritable" : "not_started";
}

std::string_view by_signal(int signal, const HostFacts& around) {
  for (const EndRule& rule : end_rules()) {
    const bool same = rule.signal != 0 && rule.signal == signal;
    if (same && holds(rule.fact, around) && kernel_said(rule, around)) return rule.cause;
  }
  return "";
}

std::string_view by_code(int code) {
  for (const EndRule& rule : end_rules()) {
    if (rule.code != 0 && rule.code == code) return rule.cause;
  }
  return "";
}

// "[rank3]: RuntimeError: …" without the mark that torch sets before each line of a traceback.
std::string_view without_rank(std::string_view line) {
  if (!line.starts_with("[rank")) return line;
  const auto end = line.find("]:");
  if (end == std::string_view::npos) return line;
  line.remove_prefix(end + 2);
  if (line.starts_with(' ')) line.remove_prefix(1);
  return line;
}

// "[W1121 08:05:42.1 socket.cpp:1] …": background threads complain of lost connections long after
// the main one has come to its end for another reason.
bool is_remark(std::string_view line) {
  line = without_rank(line);
  return line.size() > 2 && line[0] == '[' && (line[1] == 'W' || line[1] == 'I') &&
         std::isdigit(static_cast<unsigned char>(line[2])) != 0;
}

using Lines = std::vector<std::string>;

// Where the exception of the last traceback stands; the end where there is no traceback. Chained
// exceptions print several: what was raised last is what ended the worker.
std::size_t exception_at(const Lines& lines) {
  std::size_t found = lines.size();
  bool inside = false;
  for (std::size_t i = 0; i < lines.size(); ++i) {
    const auto line = without_rank(lines[i]);
    if (has(line, "Traceback (most recent call last)")) {
      inside = true;
    } else if (inside && !line.empty() && line.front() != ' ') {
      found = i;
      inside = false;
    }
  }
  return found;
}

std::size_t line_with(const Lines& lines, std::string_view words) {
  std::size_t i = 0;
  while (i < lines.size() && !has(lines[i], words)) ++i;
  return i;
}

// Where the worker begins to speak of its end: a traceback's exception, what the C++ library says
// when it terminates; else everything that is known may be about it.
std::size_t last_words_begin(const Lines& lines) {
  if (const auto at = exception_at(lines); at < lines.size()) return at;
  const auto at = line_with(lines, "terminate called");
  return at < lines.size() ? at : 0;
}

// What was said last is asked first.
Verdict by_words(const Lines& lines) {
  const auto begin = last_words_begin(lines);
  for (std::size_t i = lines.size(); i > begin; --i) {
    if (is_remark(lines[i - 1])) continue;
    const auto line = without_rank(lines[i - 1]);
    if (const auto cause = cause_of_words(line); !cause.empty()) return {cause, std::string(line)};
  }
  return {};
}

Verdict by_kind_of_end(const Evidence& evidence, const WorkerOutput& worker_output) {
  const auto& lines = worker_output.lines;
  if (auto exception = python_exception(lines); !exception.empty()) {
    return {"python_exception", std::move(exception)};
  }
  if (const auto at = line_with(lines, "terminate called"); at < lines.size()) {
    const bool told = at + 1 < lines.size() && has(lines[at + 1], "what():");
    return {"cpp_exception", lines[told ? at + 1 : at]};
  }
  if (!worker_output.recorded.empty()) {
    switch (worker_output.recorder) {
      case Recorder::python:
        return {"python_exception", ""};
      case Recorder::cpp:
        return {"cpp_exception", ""};
      case Recorder::unknown:
        return {"recorded_error", ""};
    }
  }
  const auto& status = evidence.outcome.status;
  if (status.signalled) return {status.value == SIGABRT ? "aborted" : "signalled", ""};
  const auto cause = by_code(status.value);
  return {cause.empty() ? "silent_exit" : cause, ""};
}

// What it said of its end, in its error file or else on its stderr.
Verdict by_own_words(const WorkerOutput& worker_output) {
  if (worker_output.recorded.empty()) return by_words(worker_output.lines);
  const auto cause = cause_of_words(worker_output.recorded);
  return cause.empty() ? Verdict{} : Verdict{cause, worker_output.recorded};
}

// A worker that we had sent a signal: it either obeyed, or was on its way to its own end already.
Verdict after_our_signal(const Evidence& evidence, const WorkerOutput& worker_output) {
  const auto& outcome = evidence.outcome;
  const auto& status = outcome.status;
  if (outcome.obeyed() || outcome.our_signal == SIGKILL) return {"told_to_end", ""};
  // A signal that asks for an end makes nobody crash, and a KILL that is not ours struck before: a
  // large process takes longer to die of it than its peers to notice.
  const bool crashed = status.signalled && status.value != SIGABRT;
  if (crashed) return {by_signal(status.value, evidence.host_facts), ""};
  auto verdict = by_own_words(worker_output);
  if (verdict.cause.empty()) {
    auto exception = python_exception(worker_output.lines);
    if (!exception.empty()) verdict = {"python_exception", std::move(exception)};
  }
  const bool said_why = !verdict.cause.empty() && verdict.cause != "interrupted";
  return said_why ? verdict : Verdict{"told_to_end", ""};
}

}  // namespace

std::string_view cause_of_words(std::string_view line) {
  for (const WordRule& rule : word_rules()) {
    const bool wants_more = !rule.also.front().empty();
    if (has_one(line, rule.said) && (!wants_more || has_one(line, rule.also))) return rule.cause;
  }
  return "";
}

std::string python_exception(const std::vector<std::string>& lines) {
  const auto at = exception_at(lines);
  return at < lines.size() ? std::string(without_rank(lines[at])) : std::string();
}

namespace {

// What workers come to that look for each other where nobody is.
bool comes_of_stray_interface(const Verdict& verdict, const link::ExitStatus& status) {
  constexpr std::array<std::string_view, 7> usual = {
      "peer_gone",           "peer_silent",       "peer_missing", "connection_refused",
      "network_unreachable", "network_interface", "nccl_setup"};
  if (std::find(usual.begin(), usual.end(), verdict.cause) != usual.end()) return true;
  // Its words went by unread; one that ended of a mistake of Python's has the code of any other.
  if (verdict.cause == "silent_exit") return !status.signalled && status.value == 1;
  const bool uncaught = verdict.cause == "python_exception" || verdict.cause == "cpp_exception";
  constexpr std::array<std::string_view, 4> of_groups = {"gloo", "Gloo", "NCCL", "connectFullMesh"};
  return uncaught && has_one(verdict.line, of_groups);
}

Verdict judge_end(const Evidence& evidence, const WorkerOutput& worker_output) {
  const auto& outcome = evidence.outcome;
  const auto& around = evidence.host_facts;
  if (outcome.hung_for) return {"hung", ""};
  if (outcome.good()) return {};
  if (outcome.given_up) return {"stuck_in_kernel", ""};
  if (outcome.spawn_error) return {by_start(*outcome.spawn_error, around), ""};
  if (outcome.our_signal != 0) return after_our_signal(evidence, worker_output);
  // abort() is how programs end themselves after they have said why.
  const auto& status = outcome.status;
  const bool spoke = !status.signalled || status.value == SIGABRT;
  const int signal = status.signalled                   ? status.value
                     : status.value > shell_signal_base ? status.value - shell_signal_base
                                                        : 0;
  if (!spoke) {
    const auto cause = by_signal(signal, around);
    return {cause.empty() ? "signalled" : cause, ""};
  }
  if (auto verdict = by_own_words(worker_output); !verdict.cause.empty()) {
    // The kernel picks the largest process, often one of a worker's own.
    const bool child = verdict.cause == "dataloader_worker" && around.oom_kills > 0;
    return child ? Verdict{"out_of_memory", verdict.line} : verdict;
  }
  // A shell that ran the program tells its signal by its code.
  if (const auto cause = by_signal(signal, around); !cause.empty() && !status.signalled) {
    return {cause, ""};
  }
  return by_kind_of_end(evidence, worker_output);
}

}  // namespace

Verdict judge_cause(const Evidence& evidence, const WorkerOutput& worker_output) {
  auto verdict = judge_end(evidence, worker_output);
  const bool strayed = !evidence.host_facts.stray_interface.empty();
  if (strayed && comes_of_stray_interface(verdict, evidence.outcome.status)) {
    verdict.cause = "stray_interface";
  }
  return verdict;
}

}  // namespace cpprun
