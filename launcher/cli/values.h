// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// The kinds of values that flags take, each with its bounds. What is wrong with a text is told as
// the rest of a sentence whose beginning is the name of the flag: "=x is not a whole number from
// 0". Declaration refuses an empty text before one of these reads it.

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include "launcher/cli/flags.h"
#include "launcher/streams.h"
#include "proto/clock.h"
#include "proto/result.h"

namespace cpprun {

template <class T>
using ValueReader = std::function<Result<T>(const std::string& text)>;

inline constexpr int any_count_max = 2'147'483'647;  // where a number has no bound of its own

ValueReader<int> whole_number_within(int lowest, int highest);
// A name that every node tells the master.
ValueReader<std::string> name_within(std::size_t bytes_max);

Result<std::string> job_id(const std::string& text);
Result<std::string> any_text(const std::string& text);
Result<std::string> host_name(const std::string& text);
Result<NodeRange> node_range(const std::string& text);            // "2", "2:4"
Result<Duration> policy_seconds(const std::string& text);         // "30", "0.5"
Result<BeatTimeout> beat_timeout(const std::string& text);        // "60", "auto"
Result<double> seconds_above_zero(const std::string& text);       // "0.1"
Result<std::vector<int>> final_codes(const std::string& text);    // "2,SIGSEGV"
Result<RestartBudgets> restart_budgets(const std::string& text);  // "3,hang=1,node=unlimited"
Result<HostLimit> host_limit(const std::string& text);            // "3", "3/3600"
Result<std::vector<int>> local_ranks(const std::string& text);    // "0,2"
Result<std::uint64_t> log_bytes(const std::string& text);         // "500000", "64M"
Result<StreamChoices> stream_choices(const std::string& text);    // "3", "0:1,1:3"

}  // namespace cpprun
