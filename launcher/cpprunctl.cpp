// SPDX-License-Identifier: BSD-3-Clause
// cpprunctl: reads the command line, queries the coordinators of jobs, and prints their replies.

#include <cstdio>
#include <string_view>
#include <variant>

#include "launcher/control/command_line.h"
#include "launcher/control/io/commands.h"
#include "launcher/doctor/io/doctor.h"
#include "proto/environment.h"
#include "proto/version.h"
#include "rendezvous/io/program.h"

extern char** environ;

namespace {

int run(int argc, char** argv) {
  if (argc > 1 && std::string_view(argv[1]) == "--fanout-child") {
    return cpprun::io::run_doctor_side(cpprun::environment_of(environ), argc > 2);
  }
  const auto read = cpprun::read_control_line(argc, argv, cpprun::version_text());
  if (const auto* end = std::get_if<cpprun::CommandLineEnd>(&read)) {
    if (end->exit_code == 0) {
      (void)cpprun::print_or_exit("cpprunctl", end->text);
    } else {
      std::fputs(end->text.c_str(), stderr);
    }
    return end->exit_code;
  }
  return cpprun::io::run_control(std::get<cpprun::ControlOptions>(read),
                                 cpprun::environment_of(environ));
}

}  // namespace

int main(int argc, char** argv) {
  return cpprun::run_program("cpprunctl", [&] { return run(argc, argv); });
}
