// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// What is wrong with the hosts of an examination, and what helps, as values and as text. Pure.

#include <cstdint>
#include <string>
#include <vector>

#include "launcher/doctor/examination.h"
#include "launcher/table.h"

namespace cpprun::doctor {

struct Finding {
  std::string host;  // that has to be mended, as it was named
  std::string what;  // a clause
  std::string cure;  // another
  friend bool operator==(const Finding&, const Finding&) = default;
};

struct Expected {
  std::string version;      // of cpprun, on every host
  bool is_shipped = false;  // it is brought along, and need not be there
};

// Those of the hosts in their order, and then those between them.
std::vector<Finding> findings_of(const std::vector<ExaminedHost>& hosts, const Expected& expected);

// As it was named, or, of this machine alone, as it calls itself.
std::string title_of(const ExaminedHost& host);

// How many of the others that a host has looked for it has found, by name and by connection.
struct Sight {
  int looked_for = 0;
  int resolved = 0;
  int reached = 0;
  friend bool operator==(const Sight&, const Sight&) = default;
};
Sight sight_of(const ExaminedHost& host);

// "64.0 MiB".
std::string size_text(std::uint64_t bytes);

// An examination for people, and for scripts.

// A table of the hosts, what was found with its cure, and how many pairs were tried.
std::string doctor_text(const std::vector<ExaminedHost>& hosts,
                        const std::vector<Finding>& findings, const Canvas& canvas);

// The same as JSON, in one line.
std::string doctor_json(const std::vector<ExaminedHost>& hosts,
                        const std::vector<Finding>& findings);

}  // namespace cpprun::doctor
