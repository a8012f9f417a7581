// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// `cpprunctl doctor`: examines hosts through their remote shells, or this machine alone; and a
// host's side of that.

#include <asio/io_context.hpp>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "launcher/doctor/examination.h"
#include "launcher/fanout/io/host_side.h"
#include "launcher/fanout/message.h"
#include "proto/environment.h"

namespace cpprun::io {

struct DoctorOrder {
  std::vector<fanout::Member> members;
  std::vector<std::string> shell;
  int port = 0;  // where the hosts listen; 0: anywhere
  bool ship = false;
};

struct Examined {
  std::vector<doctor::ExaminedHost> hosts;
  int interrupted = 0;  // the code with which to end then; 0: it came to its end
};

Examined examine_hosts(const DoctorOrder& order, const Environment& environment);

// `port`: tried as well, where it is not 0.
Examined examine_here(int port, const Environment& environment);

// What a console's remote shell has started here: `cpprunctl --fanout-child [remove]`.
int run_doctor_side(Environment environment, bool removes_itself);

// A host's side of an examination: says what the machine is, listens at a port, and looks for the
// others by name and by connection. Whoever comes to the port is told a random word and nothing
// else; it is closed when the examination is over.
// For fanout's host side.
Answerer make_host_answers(asio::io_context& context, const Environment& environment);

// What this machine is, as far as a job cares. Waits for its disks and for the cpprun it asks, and
// for nobody else.
// Without its port and its clock.
doctor::HostFacts gather_facts(const Environment& environment);

}  // namespace cpprun::io
