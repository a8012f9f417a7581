// SPDX-License-Identifier: BSD-3-Clause
#include "launcher/hang/io/process_memory.h"

#include <fmt/format.h>
#include <sys/uio.h>

#include <cerrno>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "launcher/hang/python_memory.h"
#include "launcher/workers/io/process_tree.h"
#include "proto/text.h"

namespace cpprun::io {

namespace {

// A process that uses a GPU has thousands of mappings.
constexpr std::size_t maps_bytes_max = 8 << 20;
// The initialized data of Python is a megabyte. The search ends at this size.
constexpr std::size_t data_bytes_max = 32 << 20;
// A script that polls is awake for less, and Python code that runs changes its stack.
constexpr auto pause = std::chrono::milliseconds(5);

struct Mapping {
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
};

// False if any byte is missing; errno tells why.
bool read_memory(int pid, std::uint64_t address, std::span<char> to) {
  const iovec local{to.data(), to.size()};
  const iovec remote{reinterpret_cast<void*>(address), to.size()};
  errno = EFAULT;
  return ::process_vm_readv(pid, &local, 1, &remote, 1, 0) == static_cast<ssize_t>(to.size());
}

// "7f12-7f34 rw-p 00001000 fe:01 1234   /usr/lib/libpython3.13.so.1.0", where that is writable, and
// the program or the library of Python.
std::vector<Mapping> python_data(std::string_view maps, std::string_view program) {
  std::vector<Mapping> found;
  for (const std::string_view line : split(maps, '\n')) {
    const std::size_t slash = line.find('/');
    const std::size_t dash = line.find('-');
    const std::size_t space = line.find(' ');
    if (slash == line.npos || dash > space || line.substr(space + 1, 2) != "rw") continue;
    const std::string_view path = line.substr(slash);
    const std::string_view name = path.substr(path.rfind('/') + 1);
    if (path != program && !name.starts_with("libpython")) continue;
    const auto begin = hex_number<std::uint64_t>(line.substr(0, dash));
    const auto end = hex_number<std::uint64_t>(line.substr(dash + 1, space - dash - 1));
    if (begin && end && *begin < *end && *end - *begin <= data_bytes_max) {
      found.push_back({*begin, *end});
    }
  }
  return found;
}

}  // namespace

PythonStacks python_stacks_of(int pid, TimePoint deadline) {
  using Clock = std::chrono::steady_clock;
  using Kind = hang::Answer::Kind;
  const auto failed = [](std::string reason) {
    return PythonStacks{
        .traceback = {.kind = Kind::failed, .body = {}, .reason = std::move(reason)}};
  };
  const auto maps = read_proc(fmt::format("/proc/{}/maps", pid), maps_bytes_max);
  std::error_code error;
  const auto program = std::filesystem::read_symlink(fmt::format("/proc/{}/exe", pid), error);
  if (!maps || error) return {};
  const hang::MemoryAccess access{.read =
                                      [pid, deadline](std::uint64_t address, std::span<char> to) {
                                        return Clock::now() < deadline &&
                                               read_memory(pid, address, to);
                                      },
                                  .pause = [] { std::this_thread::sleep_for(pause); }};
  std::size_t bytes_left = data_bytes_max;
  for (const Mapping& mapping : python_data(*maps, program.string())) {
    if (Clock::now() >= deadline) return failed("no time was left");
    const std::size_t size = mapping.end - mapping.begin;
    if (size > bytes_left) continue;
    bytes_left -= size;
    std::string memory(size, '\0');
    if (!read_memory(pid, mapping.begin, memory)) {
      if (errno == EPERM) return failed("no permission to read its memory");
      continue;
    }
    const auto runtime = hang::find_python(memory);
    if (!runtime) continue;
    auto stacks = hang::read_python(access, mapping.begin + *runtime, pid);
    if (!stacks) {
      return failed(Clock::now() < deadline ? stacks.error().reason : "no time was left");
    }
    return {.traceback = {.kind = Kind::answered, .body = std::move(stacks->traceback)},
            .main_holds_gil = stacks->main_holds_gil};
  }
  return {};
}

}  // namespace cpprun::io
