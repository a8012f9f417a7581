// SPDX-License-Identifier: BSD-3-Clause
// The evidence of an exit, from real files and processes.

#include <doctest/doctest.h>
#include <elf.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <string>

#include "launcher/failure/io/evidence_collector.h"

namespace evidence_collector_test {

using namespace cpprun;

namespace {

namespace fs = std::filesystem;

struct File {
  explicit File(const std::string& text) {
    std::string name = (fs::temp_directory_path() / "program_XXXXXX").string();
    ::close(::mkstemp(name.data()));
    path = name;
    std::ofstream(path, std::ios::binary) << text;
  }
  ~File() { fs::remove(path); }
  std::string path;
};

std::string binary_for(Elf64_Half machine) {
  Elf64_Ehdr header{};
  std::copy_n(ELFMAG, SELFMAG, header.e_ident);
  header.e_machine = machine;
  return {reinterpret_cast<const char*>(&header), sizeof header};
}

}  // namespace

TEST_CASE("a file that cannot be executed is examined for its fault") {
  using io::look_at_program;
  CHECK(look_at_program("/bin/sh").fault == ExecFault::none);
  CHECK(look_at_program("/nowhere").fault == ExecFault::none);
  CHECK(look_at_program(File("echo hello\n").path).fault == ExecFault::no_magic);
  CHECK(look_at_program(File("").path).fault == ExecFault::no_magic);
  CHECK(look_at_program(File("#!/bin/sh\n").path).fault == ExecFault::none);
  const auto script = look_at_program(File("#! /opt/nowhere/python -u\n").path);
  CHECK(script.fault == ExecFault::missing_interpreter);
  CHECK(script.detail == "\"/opt/nowhere/python\"");
  const auto windows = look_at_program(File("#!/bin/sh\r\necho\r\n").path);
  CHECK(windows.fault == ExecFault::missing_interpreter);
  CHECK(windows.detail.find("Windows line endings") != std::string::npos);
}

TEST_CASE("a binary for another processor is recognised") {
  const auto unidentified = io::look_at_program(File(binary_for(EM_RISCV)).path);
  CHECK(unidentified.fault == ExecFault::wrong_machine);
  CHECK(unidentified.detail == "RISC-V");
}

TEST_CASE("a waiting process is reported as waiting") {
  const pid_t child = ::fork();
  if (child == 0) {
    for (;;) ::pause();
  }
  std::string seen;
  while (seen.find("state S") == std::string::npos) seen = io::process_snapshot(child);
  CHECK(seen.find("(pid " + std::to_string(child) + ") was in state S (sleeping)") !=
        std::string::npos);
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
  CHECK(io::process_snapshot(child).empty());
}

TEST_CASE("the kernel's counters of out-of-memory kills never decrease") {
  const auto before = io::oom_kills();
  const auto after = io::oom_kills();
  CHECK(before.in_group >= 0);
  CHECK(before.on_machine >= 0);
  CHECK(after.in_group >= before.in_group);
  CHECK(after.on_machine >= before.on_machine);
}

}  // namespace evidence_collector_test
