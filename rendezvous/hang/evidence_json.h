// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// Evidence and verdicts as JSON: in the messages of agents, in report.json, and for
// `cpprunctl stacks --json`. Ranks are text ("0-30,32", see RankSet), a frame is an array
// ["function", "file", line], and fields that are empty or zero are omitted.

#include <cstddef>
#include <string>
#include <string_view>

#include "proto/result.h"
#include "rendezvous/hang/evidence.h"
#include "rendezvous/hang/verdict.h"

namespace cpprun::hang {

std::string evidence_json(const Evidence& evidence);
// Fails if any value is out of range or too long. `entries_max` bounds each list; the default is
// that of one node.
Result<Evidence> parse_evidence(std::string_view json, std::size_t entries_max = positions_max);

std::string verdict_json(const Verdict& verdict);
Result<Verdict> parse_verdict(std::string_view json);

}  // namespace cpprun::hang
