// SPDX-License-Identifier: BSD-3-Clause
#include "launcher/failure/io/evidence_collector.h"

#include <fmt/format.h>
#include <sys/statvfs.h>

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <optional>
#include <utility>

#include "launcher/failure/evidence.h"
#include "launcher/failure/io/evidence_sources.h"
#include "launcher/output/io/log_dir.h"
#include "launcher/plan/io/host.h"
#include "launcher/plan/program.h"
#include "proto/bounds.h"
#include "proto/text.h"

namespace cpprun::io {

namespace {

namespace fs = std::filesystem;

// A disk counts as full below this: writing a page or creating a file fails. f_bavail excludes the
// part that the kernel reserves for root on most disks.
constexpr unsigned long free_bytes_min = 64UL * 1024;

bool is_full(const std::string& folder) {
  struct statvfs disk {};
  if (::statvfs(folder.c_str(), &disk) != 0 || disk.f_blocks == 0) return false;
  const bool no_names = disk.f_files != 0 && disk.f_favail == 0;
  return disk.f_bavail * disk.f_frsize < free_bytes_min || no_names;
}

// The default size of /dev/shm in a container.
constexpr double container_shm_mebibytes = 64;

std::string small_shm() {
  struct statvfs disk {};
  if (::statvfs("/dev/shm", &disk) != 0) return "";
  constexpr double mebibyte = 1024.0 * 1024;
  const auto size = static_cast<double>(disk.f_blocks * disk.f_frsize) / mebibyte;
  return size > container_shm_mebibytes ? "" : fmt::format("it has {:.0f} MiB", size);
}

// What must be read from disks, any of which may hang.
struct Question {
  std::string error_file;
  std::string last_lines_file;
  std::string executable;               // check why it could not be executed
  std::string interpreter;              // may be a Python interpreter
  std::string script_folder;            // where Python looks for the script's modules
  std::vector<std::string> last_words;  // already known
  std::vector<std::string> disks;
};
struct Answer {
  std::string error_text;
  std::vector<std::string> last_lines;
  std::vector<std::string> full_disks;
  std::string small_shm;
  ProgramFile program;
  ModuleSight module;
};

// Where Python looks for a script's own modules: the script's directory, or the current directory
// with -m and -c.
std::string script_folder(const std::vector<std::string>& argv) {
  const bool is_script = argv.size() > 2 && argv[1] == "-u" && !argv[2].starts_with('-');
  const auto parent = is_script ? fs::path(argv[2]).parent_path().string() : std::string();
  return parent.empty() ? "." : parent;
}

// The names of the modules and packages in a directory.
std::vector<std::string> modules_in(const fs::path& folder) {
  constexpr std::size_t modules_max = 4096;
  std::vector<std::string> names;
  std::error_code unreadable;  // treated as empty
  for (const auto& entry : fs::directory_iterator(folder, unreadable)) {
    const auto& path = entry.path();
    std::error_code unknown;
    if (path.extension() == ".py" || entry.is_directory(unknown)) names.push_back(path.stem());
    if (names.size() == modules_max) break;
  }
  return names;
}

// A module with a similar name. For a dotted name, each part is looked up in the package of the
// parts before it.
std::string similar_module(const std::string& wanted, fs::path folder) {
  std::string found;
  for (const auto part : split(wanted, '.')) {
    const auto names = modules_in(folder);
    const bool is_there = std::ranges::find(names, part) != names.end();
    const auto name = is_there ? std::string(part) : similar_name(part, names);
    if (name.empty()) return "";
    found += (found.empty() ? "" : ".") + name;
    folder /= name;
  }
  return found == wanted ? "" : found;
}

ModuleSight look_for_module(const Question& question, const Answer& answer) {
  const auto& lines = question.last_words.empty() ? answer.last_lines : question.last_words;
  auto wanted = missing_module({answer.error_text});
  if (wanted.empty()) wanted = missing_module(lines);
  if (wanted.empty()) return {};
  const auto first = wanted.substr(0, wanted.find('.'));
  const auto beside = modules_in(question.script_folder);
  const bool is_own = std::ranges::find(beside, first) != beside.end() && first != wanted;
  ModuleSight sight{.similar = similar_module(wanted, question.script_folder)};
  if (is_own && wanted == first + ".py") sight.similar = first;  // python -m pkg.py
  if (is_own && sight.similar.empty()) sight.own_package = first;
  const auto here = modules_in(".");
  const bool is_here = std::ranges::find(here, first) != here.end();
  std::error_code unknown;
  const bool is_searched = fs::equivalent(question.script_folder, ".", unknown);
  if (is_here && !is_searched) sight = {.elsewhere = fs::current_path(unknown)};
  sight.in_environment = is_in_environment(question.interpreter, probe_file);
  return sight;
}

Answer look(const Question& question) {
  Answer answer;
  if (!question.error_file.empty()) {
    answer.error_text = read_small_file(question.error_file).value_or("");
  }
  if (!question.last_lines_file.empty()) {
    answer.last_lines = read_last_lines(question.last_lines_file);
  }
  if (!question.executable.empty()) answer.program = look_at_program(question.executable);
  for (const auto& disk : question.disks) {
    if (!is_full(disk)) continue;
    answer.full_disks.push_back(disk == "." ? "the directory cpprun was started in" : disk);
  }
  if (!question.disks.empty()) answer.small_shm = small_shm();
  if (!question.interpreter.empty()) answer.module = look_for_module(question, answer);
  return answer;
}

// Serializes the answer for a process of ours: eight strings, the number of last lines, the lines,
// and the disks.
std::string packed_answer(const Answer& answer) {
  std::vector<std::string> texts = {answer.error_text,
                                    answer.small_shm,
                                    answer.program.detail,
                                    std::to_string(static_cast<int>(answer.program.fault)),
                                    answer.module.similar,
                                    answer.module.own_package,
                                    answer.module.elsewhere,
                                    answer.module.in_environment ? "1" : "",
                                    std::to_string(answer.last_lines.size())};
  texts.insert(texts.end(), answer.last_lines.begin(), answer.last_lines.end());
  texts.insert(texts.end(), answer.full_disks.begin(), answer.full_disks.end());
  return packed(texts);
}

std::optional<Answer> unpacked_answer(const std::optional<std::string>& bytes) {
  constexpr std::ptrdiff_t first_line = 9;
  const auto texts = unpacked(bytes.value_or(""));
  if (std::ssize(texts) < first_line) return std::nullopt;
  const auto line_count = whole_number(texts[first_line - 1]).value_or(0);
  if (std::ssize(texts) < first_line + line_count) return std::nullopt;
  Answer answer{.error_text = texts[0],
                .last_lines = {},
                .full_disks = {},
                .small_shm = texts[1],
                .program = {},
                .module = {.similar = texts[4],
                           .own_package = texts[5],
                           .elsewhere = texts[6],
                           .in_environment = !texts[7].empty()}};
  answer.program.detail = texts[2];
  answer.program.fault = static_cast<ExecFault>(whole_number(texts[3]).value_or(0));
  const auto lines_end = texts.begin() + first_line + line_count;
  answer.last_lines.assign(texts.begin() + first_line, lines_end);
  answer.full_disks.assign(lines_end, texts.end());
  return answer;
}

}  // namespace

EvidenceCollector::EvidenceCollector(asio::io_context& context, HelperProcesses& side,
                                     OutputPump& pump, const Environment& environment,
                                     std::string run_folder)
    : pump_(pump),
      run_folder_(std::move(run_folder)),
      disks_{"/dev/shm"},
      async_task_(context, side, bounds::evidence_patience) {
  const auto* temporary = find_variable(environment, "TMPDIR");
  disks_.push_back(temporary == nullptr || temporary->empty() ? "/tmp" : *temporary);
  if (!run_folder_.empty()) disks_.push_back(run_folder_);
  disks_.emplace_back(".");
}

void EvidenceCollector::begin() {
  oom_before_ = oom_kills();
  last_seen_.clear();
}

void EvidenceCollector::look_before_kill(LocalRank local_rank, int pid) {
  if (pid != 0) last_seen_[local_rank] = process_snapshot(pid);
}

std::string EvidenceCollector::last_seen(LocalRank local_rank) const {
  const auto found = last_seen_.find(local_rank);
  return found == last_seen_.end() ? std::string() : found->second;
}

void EvidenceCollector::examine(const Outcome& outcome, const WorkerSpec& spec, Told told) {
  Evidence evidence{.outcome = outcome, .executable = spec.argv.front()};
  Question question{.error_file = spec.error_file};
  switch (spec.err.target) {
    case StreamTarget::file:
      question.last_lines_file = spec.err.file;
      break;
    case StreamTarget::tee:
    case StreamTarget::kept:
    case StreamTarget::passed:
    case StreamTarget::terminal:
      pump_.drain(spec.local_rank);
      evidence.last_lines = pump_.last_lines(spec.local_rank);
      evidence.on_console = !pump_.hears(spec.local_rank);
      evidence.with_stdout = spec.out.target == StreamTarget::with_err;
      break;
    case StreamTarget::console:
      evidence.on_console = true;
      break;
    case StreamTarget::nowhere:
    case StreamTarget::with_err:
      break;
  }
  evidence.stdout_file = spec.out.file;
  evidence.stderr_file = spec.err.file;
  evidence.host_facts = host_facts_of(outcome);
  // Skip workers that cpprun stopped: there may be hundreds of them.
  if (outcome.spawn_error || !outcome.obeyed()) question.disks = disks_;
  if (outcome.spawn_error && outcome.spawn_error->stage == SpawnStage::exec) {
    question.executable = evidence.executable;
  }
  if (!outcome.spawn_error && !outcome.obeyed() && !outcome.status.signalled) {
    question.interpreter = evidence.executable;
    question.script_folder = script_folder(spec.argv);
    question.last_words = evidence.last_lines;
  }
  async_task_.ask([question] { return packed_answer(look(question)); },
                  [this, evidence, question,
                   told = std::move(told)](const std::optional<std::string>& told_aside) mutable {
                    const auto answer = unpacked_answer(told_aside);
                    if (!answer) return told(std::move(evidence), false);
                    evidence.error_text = answer->error_text;
                    const bool stays = !run_folder_.empty() && !answer->error_text.empty();
                    if (stays) evidence.error_file = question.error_file;
                    if (!question.last_lines_file.empty()) evidence.last_lines = answer->last_lines;
                    evidence.host_facts.full_disks = answer->full_disks;
                    if (!evidence.outcome.spawn_error) {
                      evidence.host_facts.small_shm = answer->small_shm;
                    }
                    evidence.host_facts.exec_fault = answer->program.fault;
                    evidence.host_facts.exec_detail = answer->program.detail;
                    evidence.host_facts.module = answer->module;
                    told(std::move(evidence), true);
                  });
}

// What is known without disk access.
HostFacts EvidenceCollector::host_facts_of(const Outcome& outcome) {
  HostFacts around;
  around.last_seen = last_seen(outcome.local_rank);
  if (outcome.spawn_error || outcome.obeyed()) return around;
  const auto now = oom_kills();
  around.oom_kills = now.in_group - oom_before_.in_group;
  around.oom_kills_on_machine = now.on_machine - oom_before_.on_machine;
  around.memory_limit = memory_limit();
  around.kernel_lines = kernel_log_.about(outcome.pid);
  return around;
}

}  // namespace cpprun::io
