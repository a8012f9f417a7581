// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// Why the kernel would not execute a file: one errno stands for four different mistakes.

#include <string>

#include "launcher/failure/evidence.h"

namespace cpprun::io {

struct ProgramFile {
  ExecFault fault = ExecFault::none;
  std::string detail;  // the interpreter that is missing, the processor it was built for
};

ProgramFile look_at_program(const std::string& path);

}  // namespace cpprun::io
