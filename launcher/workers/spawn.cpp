// SPDX-License-Identifier: BSD-3-Clause
#include "launcher/workers/spawn.h"

#include <cerrno>

namespace cpprun {

std::string to_text(SpawnStage stage) {
  switch (stage) {
    case SpawnStage::log_directory:
      return "create its log directory";
    case SpawnStage::pipes:
      return "create the pipes for its output";
    case SpawnStage::clone:
      return "create a process";
    case SpawnStage::session:
      return "create its session";
    case SpawnStage::death_signal:
      return "set its parent-death signal";
    case SpawnStage::processors:
      return "set its CPU affinity";
    case SpawnStage::stdout_target:
      return "redirect its stdout";
    case SpawnStage::stderr_target:
      return "redirect its stderr";
    case SpawnStage::exec:
      return "execute";
  }
  return "start it";
}

int exit_code_of(const SpawnError& error) {
  return error.stage == SpawnStage::exec && error.error_number == ENOENT ? 127 : 126;
}

namespace {

// From the top: four bits that identify a mark, the outer run's number, the inner run's number. The
// first bit is 0, so it is below "unlimited". The second is 1, so it is above every intended limit.
constexpr int number_bits = 30;
constexpr std::uint64_t number_max = (1ULL << number_bits) - 1;
constexpr std::uint64_t kind = 0b0101;
constexpr int kind_at = 2 * number_bits;

std::uint64_t outer_number(std::uint64_t worn) {
  return (worn >> number_bits) & number_max;
}

std::uint64_t own_number(std::uint64_t worn) {
  return worn & number_max;
}

bool is_mark(std::uint64_t worn) {
  return worn >> kind_at == kind;
}

}  // namespace

WorkerMark make_worker_mark(std::uint32_t random, std::uint64_t worn) {
  const std::uint64_t own = random & number_max;
  // For nested cppruns, keep the outermost: when it exits, all of them do.
  const std::uint64_t outer = is_mark(worn) ? outer_number(worn) : own;
  return {kind << kind_at | outer << number_bits | own};
}

bool is_marked(std::uint64_t worn, WorkerMark mark) {
  if (!is_mark(worn)) return false;
  const std::uint64_t own = own_number(mark.value);
  return own_number(worn) == own || outer_number(worn) == own;
}

}  // namespace cpprun
