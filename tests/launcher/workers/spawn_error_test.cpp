// SPDX-License-Identifier: BSD-3-Clause
#include "launcher/workers/spawn.h"

#include <doctest/doctest.h>

#include <cerrno>

namespace spawn_error_test {

using namespace cpprun;

TEST_CASE("a missing program exits with 127 and any other spawn error with 126, as in a shell") {
  CHECK(exit_code_of(SpawnError{SpawnStage::exec, ENOENT}) == 127);
  CHECK(exit_code_of(SpawnError{SpawnStage::exec, EACCES}) == 126);
  CHECK(exit_code_of(SpawnError{SpawnStage::stdout_target, ENOENT}) == 126);
}

TEST_CASE("every stage completes \"cannot …\"") {
  CHECK(to_text(SpawnStage::clone) == "create a process");
  CHECK(to_text(SpawnStage::stderr_target) == "redirect its stderr");
}

}  // namespace spawn_error_test
