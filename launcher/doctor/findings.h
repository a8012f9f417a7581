// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// The problems found on the examined hosts, with hints, as values and as text. Pure.

#include <string>
#include <vector>

#include "launcher/doctor/examination.h"
#include "launcher/plan/host_facts.h"
#include "launcher/table.h"

namespace cpprun::doctor {

struct Expected {
  std::string version;      // of cpprun on every host
  bool is_shipped = false;  // cpprun is shipped, so the hosts need not have it
};

// Problems of single hosts, in their order, then problems between hosts.
std::vector<Finding> findings_of(const std::vector<ExaminedHost>& hosts, const Expected& expected);

// The name given by the user; for this machine alone, its own name.
std::string title_of(const ExaminedHost& host);

// How many of the hosts that a host tried to reach it resolved and connected to.
struct Sight {
  int looked_for = 0;
  int resolved = 0;
  int reached = 0;
  friend bool operator==(const Sight&, const Sight&) = default;
};
Sight sight_of(const ExaminedHost& host);

// The result of an examination for the user, and for scripts.

// A table of the hosts, the findings with their hints, and the number of tested pairs.
std::string doctor_text(const std::vector<ExaminedHost>& hosts,
                        const std::vector<Finding>& findings, const Canvas& canvas);

// The same as JSON, on one line.
std::string doctor_json(const std::vector<ExaminedHost>& hosts,
                        const std::vector<Finding>& findings);

}  // namespace cpprun::doctor
