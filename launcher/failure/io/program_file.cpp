// SPDX-License-Identifier: BSD-3-Clause
#include "launcher/failure/io/program_file.h"

#include <elf.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <string_view>

#include "rendezvous/io/file_descriptor.h"

namespace cpprun::io {

namespace {

constexpr std::size_t head_bytes_max = 4096;  // headers, and the kernel reads less of a #! line

#if defined(__x86_64__)
constexpr Elf64_Half our_machine = EM_X86_64;
#elif defined(__aarch64__)
constexpr Elf64_Half our_machine = EM_AARCH64;
#else
constexpr Elf64_Half our_machine = EM_NONE;  // then no binary is called a stranger
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
  // The machine stands at the same place in both classes of binaries.
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
  // A carriage return of another system's editor belongs to the name, and is seen by nobody.
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
