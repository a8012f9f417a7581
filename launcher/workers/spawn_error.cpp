// SPDX-License-Identifier: BSD-3-Clause
#include "launcher/workers/spawn_error.h"

#include <cerrno>

namespace cpprun {

std::string to_text(SpawnStage stage) {
  switch (stage) {
    case SpawnStage::log_folder:
      return "make the folder of its logs";
    case SpawnStage::pipes:
      return "make the pipes of its output";
    case SpawnStage::clone:
      return "make a process";
    case SpawnStage::session:
      return "give it its own session";
    case SpawnStage::death_signal:
      return "tie its end to cpprun's";
    case SpawnStage::processors:
      return "bind it to its processors";
    case SpawnStage::stdout_target:
      return "open what its stdout goes to";
    case SpawnStage::stderr_target:
      return "open what its stderr goes to";
    case SpawnStage::exec:
      return "execute";
  }
  return "start it";
}

int exit_code_of(const SpawnError& error) {
  return error.stage == SpawnStage::exec && error.error_number == ENOENT ? 127 : 126;
}

}  // namespace cpprun
