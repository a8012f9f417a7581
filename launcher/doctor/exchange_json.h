// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// What the console asks a host, and what it answers, as texts for fanout's Ask and Answer.

#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "launcher/doctor/host_facts.h"
#include "proto/result.h"

namespace cpprun::doctor {

// Say what you are, and listen at that port (0: any that is free).
struct AskFacts {
  int port = 0;
  friend bool operator==(const AskFacts&, const AskFacts&) = default;
};
// Look for others among all of these.
struct AskDial {
  std::vector<Target> all;
  friend bool operator==(const AskDial&, const AskDial&) = default;
};
using Question = std::variant<AskFacts, AskDial>;

std::string to_json(const Question& question);
Result<Question> read_question(std::string_view json);

using Reading = std::variant<HostFacts, std::vector<Dialed>>;

std::string to_json(const Reading& reading);
Result<Reading> read_reading(std::string_view json);

}  // namespace cpprun::doctor
