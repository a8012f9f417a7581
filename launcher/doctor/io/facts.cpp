// SPDX-License-Identifier: BSD-3-Clause
#include "launcher/doctor/io/facts.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <climits>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <vector>

#include "launcher/plan/io/gpus.h"
#include "launcher/plan/io/host.h"
#include "proto/text.h"
#include "proto/version.h"
#include "rendezvous/io/file_descriptor.h"

namespace cpprun::io {

using namespace doctor;

namespace {

constexpr std::size_t version_bytes_max = 200;

std::string target_of(const char* link) {
  std::array<char, PATH_MAX> path{};
  const ssize_t size = ::readlink(link, path.data(), path.size());
  return size > 0 ? std::string(path.data(), static_cast<std::size_t>(size)) : std::string();
}

std::string text_of(const char* path) {
  std::ifstream file(path);
  std::string text{std::istreambuf_iterator<char>(file), {}};
  return std::string(trimmed(text));
}

// What the program prints first; empty where it cannot be run.
std::string first_line_of(std::string program, const Environment& environment) {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) return {};
  const FileDescriptor reading(ends[0]);
  FileDescriptor writing(ends[1]);
  std::string flag = "--version";
  std::array<char*, 3> words = {program.data(), flag.data(), nullptr};
  std::vector<std::string> settings;
  for (const auto& [name, value] : environment) settings.push_back(name + "=" + value);
  std::vector<char*> variables;
  for (auto& setting : settings) variables.push_back(setting.data());
  variables.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  ::posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
  ::posix_spawn_file_actions_adddup2(&actions, writing.get(), STDOUT_FILENO);
  pid_t pid = 0;
  const int refused =
      ::posix_spawnp(&pid, words[0], &actions, nullptr, words.data(), variables.data());
  ::posix_spawn_file_actions_destroy(&actions);
  if (refused != 0) return {};
  writing.reset();
  std::string said(version_bytes_max, '\0');
  std::size_t size = 0;
  while (size < said.size()) {
    const ssize_t got = ::read(reading.get(), said.data() + size, said.size() - size);
    if (got <= 0) break;
    size += static_cast<std::size_t>(got);
  }
  said.resize(size);
  int status = 0;
  ::waitpid(pid, &status, 0);
  return status == 0 ? plain_line(said.substr(0, said.find('\n'))) : std::string();
}

// The one beside this program, or the one on PATH.
std::string version_of_cpprun(const Environment& environment) {
  const std::string own = target_of("/proc/self/exe");
  const auto beside = first_line_of(own.substr(0, own.rfind('/') + 1) + "cpprun", environment);
  return beside.empty() ? first_line_of("cpprun", environment) : beside;
}

Disk look_at(const std::string& path) {
  Disk disk{.path = path};
  struct statvfs found {};
  if (::statvfs(path.c_str(), &found) != 0) {
    disk.refusal = errno_text(errno);
    return disk;
  }
  disk.size = std::uint64_t{found.f_blocks} * found.f_frsize;
  disk.free = std::uint64_t{found.f_bavail} * found.f_frsize;
  if (::access(path.c_str(), W_OK | X_OK) != 0) disk.refusal = errno_text(errno);
  return disk;
}

std::optional<std::uint64_t> finite(rlim_t limit) {
  return limit == RLIM_INFINITY ? std::nullopt : std::optional<std::uint64_t>(limit);
}

Limits own_limits() {
  rlimit files{}, locked{}, processes{};
  (void)::getrlimit(RLIMIT_NOFILE, &files);  // they cannot fail
  (void)::getrlimit(RLIMIT_MEMLOCK, &locked);
  (void)::getrlimit(RLIMIT_NPROC, &processes);
  return {.open_files = finite(files.rlim_max),
          .locked_bytes = finite(locked.rlim_cur),
          .processes = finite(processes.rlim_cur)};
}

bool has_infiniband() {
  std::error_code missing;  // then there is none
  return std::filesystem::directory_iterator("/sys/class/infiniband", missing) !=
         std::filesystem::directory_iterator();
}

// The kernel that runs, and the name of our network within it.
std::string network_stack() {
  return text_of("/proc/sys/kernel/random/boot_id") + " " + target_of("/proc/self/ns/net");
}

}  // namespace

HostFacts gather_facts(const Environment& environment) {
  const auto* temporary = find_variable(environment, "TMPDIR");
  const bool is_set = temporary != nullptr && !temporary->empty();
  HostFacts facts{.host = host_name(),
                  .version = std::string(version_text()),
                  .cpprun = version_of_cpprun(environment),
                  .network = network_stack(),
                  .gpus = count_gpus(),
                  .has_infiniband = has_infiniband(),
                  .limits = own_limits(),
                  .shared_memory = look_at("/dev/shm"),
                  .temporary = look_at(is_set ? *temporary : "/tmp")};
  facts.missing_gpus = missing_gpus(facts.gpus, environment).value_or("");
  return facts;
}

}  // namespace cpprun::io
