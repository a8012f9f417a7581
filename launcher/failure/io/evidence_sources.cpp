// SPDX-License-Identifier: BSD-3-Clause
#include "launcher/failure/io/evidence_sources.h"

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
#include <optional>
#include <string_view>
#include <vector>

#include "launcher/failure/evidence.h"
#include "launcher/workers/io/process_tree.h"
#include "proto/text.h"
#include "rendezvous/io/file_descriptor.h"

namespace cpprun::io {

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
std::vector<std::string> group_folders() {
  const auto text = read_proc("/proc/self/cgroup", cgroup_text_bytes_max).value_or("");
  std::vector<std::string> folders;
  if (const auto group = group_of("memory", text)) {
    folders.push_back("/sys/fs/cgroup/memory" + *group);
    folders.emplace_back("/sys/fs/cgroup/memory");
  }
  if (const auto group = group_of("", text)) {
    folders.push_back("/sys/fs/cgroup" + *group);
    folders.push_back("/sys/fs/cgroup/unified" + *group);
    folders.emplace_back("/sys/fs/cgroup");
  }
  return folders;
}

// The content of the first of those files that exists.
std::optional<std::string> group_file(const std::string& v1, const std::string& v2) {
  for (const auto& folder : group_folders()) {
    for (const auto& name : {v2, v1}) {
      if (auto text = read_proc(folder + "/" + name, cgroup_text_bytes_max)) return text;
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
  constexpr double kilo = 1024;
  const auto mebibytes = *bytes / kilo / kilo;
  return mebibytes < kilo ? fmt::format("{:.0f} MiB", mebibytes)
                          : fmt::format("{:.1f} GiB", mebibytes / kilo);
}

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
    if (const auto look = look_at(below[i])) text += "; below it " + to_text(*look);
  }
  if (below.size() > children_told_max) {
    text += "; and " + std::to_string(below.size() - children_told_max) + " more";
  }
  return text;
}

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

std::string machine_name(Elf64_Half machine) {
  switch (machine) {
    case EM_X86_64:
      return "x86-64";
    case EM_AARCH64:
      return "aarch64";
    case EM_386:
      return "x86, 32 bits";
    case EM_ARM:
      return "ARM, 32 bits";
    case EM_PPC64:
      return "POWER";
    case EM_RISCV:
      return "RISC-V";
    default:
      return fmt::format("processor number {}", machine);
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
    return {ExecFault::wrong_machine, "it is for " + machine_name(header.e_machine)};
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
            fmt::format("\"{}\\r\": its lines end as on Windows",
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
