// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// `cpprunctl doctor`: examines hosts through their remote shells, or only this machine. Also the
// host's side of it.

#include <string>
#include <vector>

#include "launcher/doctor/examination.h"
#include "launcher/fanout/io/fan_out.h"
#include "launcher/fanout/message.h"
#include "proto/environment.h"

namespace cpprun::io {

struct DoctorRequest {
  std::vector<fanout::Member> members;
  std::vector<std::string> shell;
  int port = 0;  // where the hosts listen; 0: any free port
  bool ship = false;
};

struct Examined {
  std::vector<doctor::ExaminedHost> hosts;
  int interrupted = 0;  // the exit code if interrupted; 0: it finished
};

Examined examine_hosts(const DoctorRequest& order, const Environment& environment);

// If `port` is not 0, checks that it can be bound.
Examined examine_here(int port, const Environment& environment);

// Runs what a console's remote shell started here: `cpprunctl --fanout-child [remove]`.
int run_doctor_side(Environment environment, bool removes_itself);

}  // namespace cpprun::io
