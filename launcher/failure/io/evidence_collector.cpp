// SPDX-License-Identifier: BSD-3-Clause
#include "launcher/failure/io/evidence_collector.h"

#include <elf.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <iterator>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "launcher/failure/bounds.h"
#include "launcher/failure/evidence.h"
#include "launcher/output/io/log_dir.h"
#include "launcher/plan/io/host.h"
#include "launcher/plan/program.h"
#include "launcher/workers/io/process_tree.h"
#include "proto/text.h"
#include "rendezvous/io/file_descriptor.h"

namespace cpprun::io {

namespace {

namespace fs = std::filesystem;

// A disk counts as full below this: writing a page or creating a file fails. f_bavail excludes the
// part that the kernel reserves for root on most disks.
constexpr unsigned long free_bytes_min = 64UL * 1024;

bool is_full(const std::string& directory) {
  struct statvfs disk {};
  if (::statvfs(directory.c_str(), &disk) != 0 || disk.f_blocks == 0) return false;
  const bool no_names = disk.f_files != 0 && disk.f_favail == 0;
  return disk.f_bavail * disk.f_frsize < free_bytes_min || no_names;
}

// The default size of /dev/shm in a container.
constexpr std::uint64_t container_shm_bytes = 64ULL << 20;

std::string small_shm() {
  const auto size = examine_disk("/dev/shm").size;
  return size > container_shm_bytes || size == 0 ? "" : memory_text(static_cast<double>(size));
}

// What must be read from disks, any of which may hang.
struct Question {
  std::string error_file;
  std::string last_lines_file;
  std::string executable;               // check why it could not be executed
  std::string interpreter;              // may be a Python interpreter
  std::string script_directory;         // where Python looks for the script's modules
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
std::string script_directory(const std::vector<std::string>& argv) {
  const bool is_script = argv.size() > 2 && argv[1] == "-u" && !argv[2].starts_with('-');
  const auto parent = is_script ? fs::path(argv[2]).parent_path().string() : std::string();
  return parent.empty() ? "." : parent;
}

// The names of the modules and packages in a directory.
std::vector<std::string> modules_in(const fs::path& directory) {
  constexpr std::size_t modules_max = 4096;
  std::vector<std::string> names;
  std::error_code unreadable;  // treated as empty
  for (const auto& entry : fs::directory_iterator(directory, unreadable)) {
    const auto& path = entry.path();
    std::error_code unknown;
    if (path.extension() == ".py" || entry.is_directory(unknown)) names.push_back(path.stem());
    if (names.size() == modules_max) break;
  }
  return names;
}

// A module with a similar name. For a dotted name, each part is looked up in the package of the
// parts before it.
std::string similar_module(const std::string& wanted, fs::path directory) {
  std::string found;
  for (const auto part : split(wanted, '.')) {
    const auto names = modules_in(directory);
    const bool is_there = std::ranges::find(names, part) != names.end();
    const auto name = is_there ? std::string(part) : similar_name(part, names);
    if (name.empty()) return "";
    found += (found.empty() ? "" : ".") + name;
    directory /= name;
  }
  return found == wanted ? "" : found;
}

ModuleSight look_for_module(const Question& question, const Answer& answer) {
  const auto& lines = question.last_words.empty() ? answer.last_lines : question.last_words;
  auto wanted = missing_module({answer.error_text});
  if (wanted.empty()) wanted = missing_module(lines);
  if (wanted.empty()) return {};
  const auto first = wanted.substr(0, wanted.find('.'));
  const auto beside = modules_in(question.script_directory);
  const bool is_own = std::ranges::find(beside, first) != beside.end() && first != wanted;
  ModuleSight sight{.similar = similar_module(wanted, question.script_directory)};
  if (is_own && wanted == first + ".py") sight.similar = first;  // python -m pkg.py
  if (is_own && sight.similar.empty()) sight.own_package = first;
  const auto here = modules_in(".");
  const bool is_here = std::ranges::find(here, first) != here.end();
  std::error_code unknown;
  const bool is_searched = fs::equivalent(question.script_directory, ".", unknown);
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
                                     std::string run_directory)
    : pump_(pump),
      run_directory_(std::move(run_directory)),
      disks_{"/dev/shm"},
      async_task_(context, side, bounds::evidence_timeout) {
  const auto* temporary = find_variable(environment, "TMPDIR");
  disks_.push_back(temporary == nullptr || temporary->empty() ? "/tmp" : *temporary);
  if (!run_directory_.empty()) disks_.push_back(run_directory_);
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
    question.script_directory = script_directory(spec.argv);
    question.last_words = evidence.last_lines;
  }
  async_task_.ask([question] { return packed_answer(look(question)); },
                  [this, evidence, question,
                   told = std::move(told)](const std::optional<std::string>& told_aside) mutable {
                    const auto answer = unpacked_answer(told_aside);
                    if (!answer) return told(std::move(evidence), false);
                    evidence.error_text = answer->error_text;
                    const bool stays = !run_directory_.empty() && !answer->error_text.empty();
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
HostEvidence EvidenceCollector::host_facts_of(const Outcome& outcome) {
  HostEvidence around;
  around.last_seen = last_seen(outcome.local_rank);
  if (outcome.spawn_error || outcome.obeyed()) return around;
  const auto now = oom_kills();
  around.oom_kills = now.in_group - oom_before_.in_group;
  around.oom_kills_on_machine = now.on_machine - oom_before_.on_machine;
  around.memory_limit = memory_limit();
  around.kernel_lines = kernel_log_.about(outcome.pid);
  return around;
}

// --- the kernel's log ----------------------------------------------------------------------------

namespace {

constexpr std::size_t record_bytes_max =
    8 * 1024;  // the kernel returns whole records of at most this size
constexpr std::size_t lines_kept_max = 256;
constexpr std::size_t records_at_once_max = 4096;  // bounds the loop if the kernel keeps logging
constexpr std::size_t line_bytes_max = 300;

// Whether the line contains the number as a whole word: pid 42 does not match 1042.
bool names(const std::string& line, const std::string& number) {
  for (auto at = line.find(number); at != std::string::npos; at = line.find(number, at + 1)) {
    const bool begins = at == 0 || std::isalnum(static_cast<unsigned char>(line[at - 1])) == 0;
    const auto after = at + number.size();
    const bool ends =
        after >= line.size() || std::isalnum(static_cast<unsigned char>(line[after])) == 0;
    if (begins && ends) return true;
  }
  return false;
}

// The log mentions processes for many reasons. Only these lines are about their end.
bool about_an_end(const std::string& line) {
  constexpr std::array words = {"segfault", "trap",    "Killed process",
                                "oom-kill", "SECCOMP", "seccomp"};
  for (const char* word : words) {
    if (line.find(word) != std::string::npos) return true;
  }
  return false;
}

}  // namespace

KernelLog::KernelLog() : log_(::open("/dev/kmsg", O_RDONLY | O_NONBLOCK | O_CLOEXEC)) {
  if (log_.get() >= 0) ::lseek(log_.get(), 0, SEEK_END);
}

std::vector<std::string> KernelLog::about(int pid) {
  take_what_is_new();
  std::vector<std::string> found;
  for (const auto& line : lines_) {
    const bool device = line.find("NVRM: Xid") != std::string::npos;
    if (device || (about_an_end(line) && names(line, std::to_string(pid)))) found.push_back(line);
  }
  return found;
}

// A record is "priority,sequence,time,flags;text\n", optionally followed by key=value lines.
void KernelLog::take_what_is_new() {
  std::array<char, record_bytes_max> record{};
  for (std::size_t i = 0; log_.get() >= 0 && i < records_at_once_max; ++i) {
    const auto got = ::read(log_.get(), record.data(), record.size());
    // EPIPE: records were overwritten before they were read. The next read returns the oldest one
    // left.
    if (got < 0 && errno == EPIPE) continue;
    if (got <= 0) return;
    std::string text(record.data(), static_cast<std::size_t>(got));
    const auto begin = text.find(';');
    if (begin == std::string::npos) continue;
    text = text.substr(begin + 1, text.find('\n', begin) - begin - 1);
    lines_.push_back(text.substr(0, line_bytes_max));
    if (lines_.size() > lines_kept_max) lines_.pop_front();
  }
}

// --- OOM kills and the memory limit --------------------------------------------------------------

namespace {

constexpr std::size_t cgroup_text_bytes_max = 64 * 1024;
// Without a limit, cgroup v1 reports a number near the largest page count.
constexpr double no_limit_bytes = 1e18;

// The number after "name " at the start of a line.
std::optional<double> number_after(const std::string& text, std::string_view name) {
  for (const std::string_view line : split(text, '\n')) {
    if (!line.starts_with(name) || line.size() <= name.size() || line[name.size()] != ' ') continue;
    if (const auto number = leading_number<double>(line.substr(name.size() + 1))) return number;
  }
  return std::nullopt;
}

// This process's group in the hierarchy of that controller; "" selects the cgroup v2 hierarchy.
// `text` is the content of /proc/self/cgroup.
std::optional<std::string> group_of(std::string_view controller, const std::string& text) {
  for (const std::string_view line : split(text, '\n')) {
    const auto first = line.find(':');
    const auto second = line.find(':', first + 1);
    if (first == std::string_view::npos || second == std::string_view::npos) continue;
    const auto names = "," + std::string(line.substr(first + 1, second - first - 1)) + ",";
    const bool ours = controller.empty()
                          ? names == ",,"
                          : names.find("," + std::string(controller) + ",") != std::string::npos;
    if (ours) return std::string(line.substr(second + 1));
  }
  return std::nullopt;
}

// Directories that may hold this group's files. In a container the path may be the host's and not
// exist here. The group is then the root of the mounted hierarchy.
std::vector<std::string> group_directories() {
  const auto text = read_proc("/proc/self/cgroup", cgroup_text_bytes_max).value_or("");
  std::vector<std::string> directories;
  if (const auto group = group_of("memory", text)) {
    directories.push_back("/sys/fs/cgroup/memory" + *group);
    directories.emplace_back("/sys/fs/cgroup/memory");
  }
  if (const auto group = group_of("", text)) {
    directories.push_back("/sys/fs/cgroup" + *group);
    directories.push_back("/sys/fs/cgroup/unified" + *group);
    directories.emplace_back("/sys/fs/cgroup");
  }
  return directories;
}

// The content of the first of those files that exists.
std::optional<std::string> group_file(const std::string& v1, const std::string& v2) {
  for (const auto& directory : group_directories()) {
    for (const auto& name : {v2, v1}) {
      if (auto text = read_proc(directory + "/" + name, cgroup_text_bytes_max)) return text;
    }
  }
  return std::nullopt;
}

}  // namespace

OomKills oom_kills() {
  OomKills kills;
  if (const auto text = group_file("memory.oom_control", "memory.events")) {
    if (const auto count = number_after(*text, "oom_kill")) {
      kills.in_group = static_cast<long>(*count);
      // Every process counted here belongs to this group; kills elsewhere on the machine do not.
      return kills;
    }
  }
  const auto machine = read_proc("/proc/vmstat", cgroup_text_bytes_max).value_or("");
  kills.on_machine = static_cast<long>(number_after(machine, "oom_kill").value_or(0));
  return kills;
}

std::string memory_limit() {
  const auto text = group_file("memory.limit_in_bytes", "memory.max");
  const auto bytes = leading_number<double>(text.value_or(""));
  if (!bytes || *bytes <= 0 || *bytes > no_limit_bytes) return "";
  return memory_text(*bytes);
}

// --- a process before SIGKILL --------------------------------------------------------------------

namespace {

constexpr std::size_t status_bytes_max = 16 * 1024;
// Enough for a shell and its command. A worker may have hundreds of children.
constexpr std::size_t children_told_max = 2;

std::string proc(int pid, const char* name) {
  return read_proc("/proc/" + std::to_string(pid) + "/" + name, status_bytes_max).value_or("");
}

std::string first_line(const std::string& text) {
  return text.substr(0, text.find('\n'));
}

// "202 0x7f…" holds a number; "running" and "-1 …" mean no system call.
std::optional<int> system_call_in(const std::string& text) {
  const auto number = leading_number<int>(text);
  return number && *number >= 0 ? number : std::nullopt;
}

// Parses one "[<0>] futex_wait_queue+0x60/0x90" per line.
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
    if (const auto look = look_at(below[i])) text += "; its descendant " + to_text(*look);
  }
  if (below.size() > children_told_max) {
    text += "; and " + std::to_string(below.size() - children_told_max) + " more";
  }
  return text;
}

// --- a file that could not be executed -----------------------------------------------------------

namespace {

constexpr std::size_t head_bytes_max = 4096;  // headers; the kernel reads less of a #! line

#if defined(__x86_64__)
constexpr Elf64_Half our_machine = EM_X86_64;
#elif defined(__aarch64__)
constexpr Elf64_Half our_machine = EM_AARCH64;
#else
constexpr Elf64_Half our_machine = EM_NONE;  // then no binary is rejected for its architecture
#endif

std::string read_at(int file, std::size_t offset, std::size_t bytes_max) {
  std::string text(bytes_max, '\0');
  const auto got = ::pread(file, text.data(), text.size(), static_cast<off_t>(offset));
  text.resize(got < 0 ? 0 : static_cast<std::size_t>(got));
  return text;
}

template <class Header>
bool take(const std::string& bytes, std::size_t at, Header& header) {
  if (at + sizeof header > bytes.size()) return false;
  std::memcpy(&header, bytes.data() + at, sizeof header);
  return true;
}

std::string architecture_name(Elf64_Half machine) {
  switch (machine) {
    case EM_X86_64:
      return "x86-64";
    case EM_AARCH64:
      return "aarch64";
    case EM_386:
      return "32-bit x86";
    case EM_ARM:
      return "32-bit ARM";
    case EM_PPC64:
      return "POWER";
    case EM_RISCV:
      return "RISC-V";
    default:
      return fmt::format("ELF machine {}", machine);
  }
}

bool exists(const std::string& path) {
  return ::access(path.c_str(), F_OK) == 0;
}

ProgramFile missing(const std::string& interpreter) {
  return {ExecFault::missing_interpreter, fmt::format("\"{}\"", interpreter)};
}

ProgramFile look_at_binary(int file, const std::string& head) {
  Elf64_Ehdr header{};
  if (!take(head, 0, header)) return {ExecFault::no_magic, ""};
  // e_machine has the same offset in 32-bit and 64-bit headers.
  if (our_machine != EM_NONE && header.e_machine != our_machine) {
    return {ExecFault::wrong_machine, architecture_name(header.e_machine)};
  }
  const auto table = read_at(file, header.e_phoff, head_bytes_max);
  for (std::size_t i = 0; i < header.e_phnum; ++i) {
    Elf64_Phdr segment{};
    if (!take(table, i * sizeof segment, segment)) break;
    if (segment.p_type != PT_INTERP) continue;
    const auto loader =
        read_at(file, segment.p_offset, std::min<std::size_t>(segment.p_filesz, head_bytes_max));
    if (!exists(loader.c_str())) return missing(loader.c_str());
  }
  return {};
}

ProgramFile look_at_script(std::string_view head) {
  auto line = head.substr(2, head.find('\n') - 2);
  line.remove_prefix(std::min(line.find_first_not_of(" \t"), line.size()));
  const auto interpreter = std::string(line.substr(0, line.find_first_of(" \t")));
  // With Windows line endings the kernel takes the carriage return as part of the name. It is
  // invisible in most output.
  if (interpreter.ends_with('\r')) {
    return {ExecFault::missing_interpreter,
            fmt::format("\"{}\\r\": the script has Windows line endings",
                        interpreter.substr(0, interpreter.size() - 1))};
  }
  return exists(interpreter) ? ProgramFile{} : missing(interpreter);
}

}  // namespace

ProgramFile look_at_program(const std::string& path) {
  struct statvfs disk {};
  if (::statvfs(path.c_str(), &disk) == 0 && (disk.f_flag & ST_NOEXEC) != 0) {
    return {ExecFault::noexec_mount, ""};
  }
  const FileDescriptor file{::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)};
  if (!file) return {};
  const auto head = read_at(file.get(), 0, head_bytes_max);
  if (head.starts_with(ELFMAG)) return look_at_binary(file.get(), head);
  if (head.starts_with("#!")) return look_at_script(head);
  return {ExecFault::no_magic, ""};
}

}  // namespace cpprun::io
