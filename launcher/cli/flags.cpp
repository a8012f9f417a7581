// SPDX-License-Identifier: BSD-3-Clause
#include "launcher/cli/flags.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <cstdint>
#include <optional>

#include "launcher/failure/causes.h"
#include "proto/bounds.h"
#include "proto/link/bounds.h"
#include "proto/signal_names.h"
#include "proto/text.h"
#include "rendezvous/command_line.h"
#include "rendezvous/endpoint.h"

namespace cpprun {

namespace bounds {
// The smallest limit for a log file: a page of text has to fit.
inline constexpr std::uint64_t log_file_bytes_least = 4096;
}  // namespace bounds

namespace {

// Nodes exchange durations as milliseconds; this limit keeps them in range.
constexpr double policy_seconds_max = 2'000'000;

// Puts ": " before an error of another parser, to follow the flag's name.
template <class T>
Result<T> after_colon(Result<T> read) {
  if (!read) return failure(fmt::format(": {}", read.error().reason));
  return read;
}

}  // namespace

ValueReader<int> whole_number_within(int lowest, int highest) {
  return [lowest, highest](const std::string& text) -> Result<int> {
    const auto value = whole_number(text);
    if (value && *value >= lowest && *value <= highest) return *value;
    if (highest == any_count_max) {
      return failure(fmt::format("={} is not a whole number of at least {}", text, lowest));
    }
    return failure(fmt::format("={} is not a whole number from {} to {}", text, lowest, highest));
  };
}

ValueReader<std::string> name_within(std::size_t bytes_max) {
  return [bytes_max](const std::string& text) -> Result<std::string> {
    if (text.size() > bytes_max) {
      return failure(
          fmt::format(" has {} bytes\n  hint: use at most {} bytes", text.size(), bytes_max));
    }
    const std::string plain = plain_line(text);
    if (plain == text) return text;
    // Other nodes would read a different name.
    return failure(
        fmt::format("={} contains unprintable characters, shown here as \"?\"\n  hint: use "
                    "printable characters",
                    plain));
  };
}

Result<std::string> job_id(const std::string& text) {
  return name_within(bounds::job_id_bytes_max)(text);
}

Result<std::string> any_text(const std::string& text) {
  return text;
}

Result<std::string> host_name(const std::string& text) {
  return after_colon(parse_host(text));
}

Result<NodeRange> node_range(const std::string& text) {
  const auto parts = split(text, ':');
  const auto lowest = whole_number(parts.front());
  const auto highest = whole_number(parts.back());
  if (parts.size() > 2 || !lowest || !highest || *lowest < 1 || *highest < *lowest) {
    return failure(
        fmt::format("={} is neither a number of nodes, such as 2, nor a range, such as 2:4", text));
  }
  if (*highest > bounds::nodes_max) {
    return failure(fmt::format("={} is above the maximum of {} nodes", text, bounds::nodes_max));
  }
  return NodeRange{*lowest, *highest};
}

Result<Duration> policy_seconds(const std::string& given) {
  const auto text = trimmed(given);
  const auto seconds = exact_number<double>(text);
  // Written so that NaN fails the check.
  if (!seconds || !(*seconds >= 0.001) || *seconds > policy_seconds_max) {
    return failure(fmt::format("={} is not a number of seconds from 0.001 to {}, such as 30 or 0.5",
                               text, static_cast<int>(policy_seconds_max)));
  }
  return std::chrono::round<std::chrono::milliseconds>(std::chrono::duration<double>(*seconds));
}

Result<HeartbeatTimeout> beat_timeout(const std::string& given) {
  if (trimmed(given) == "auto") return HeartbeatTimeout{.automatic = true};
  const auto seconds = policy_seconds(given);
  if (seconds && *seconds >= std::chrono::seconds(1)) return HeartbeatTimeout{.fixed = *seconds};
  return failure(fmt::format("={} is neither auto nor a number of seconds from 1 to {}",
                             trimmed(given), static_cast<int>(policy_seconds_max)));
}

Result<Duration> hang_timeout(const std::string& given) {
  if (trimmed(given) == "off") return Duration{};
  const auto seconds = policy_seconds(given);
  if (seconds && *seconds >= std::chrono::seconds(1)) return *seconds;
  return failure(fmt::format("={} is neither off nor a number of seconds from 1 to {}",
                             trimmed(given), static_cast<int>(policy_seconds_max)));
}

Result<std::vector<std::string>> warm_modules(const std::string& given) {
  if (const auto is_on = switch_value(trimmed(given))) {
    return is_on.value() ? std::vector<std::string>{"torch"} : std::vector<std::string>{};
  }
  std::vector<std::string> modules;
  for (const auto each : split(given, ',')) {
    const auto name = trimmed(each);
    const auto is_word = [](std::string_view word) {
      return !word.empty() && std::isdigit(static_cast<unsigned char>(word.front())) == 0 &&
             std::ranges::all_of(word, [](unsigned char byte) {
               return std::isalnum(byte) != 0 || byte == '_' || byte >= 0x80;
             });
    };
    if (!std::ranges::all_of(split(name, '.'), is_word)) {
      return failure(
          fmt::format("={}: \"{}\" is not the name of a Python module\n  hint: use on, "
                      "off or a list such as torch,transformers",
                      plain_line(given), plain_line(name)));
    }
    modules.emplace_back(name);
  }
  return modules;
}

Result<double> seconds_above_zero(const std::string& given) {
  const auto text = trimmed(given);
  const auto seconds = exact_number<double>(text);
  if (seconds && *seconds > 0) return *seconds;
  return failure(fmt::format("={} is not a number of seconds above 0", text));
}

Result<std::vector<int>> final_codes(const std::string& text) {
  constexpr int exit_code_max = 255;
  std::vector<int> codes;
  for (const auto each : split(text, ',')) {
    const auto part = trimmed(each);
    const auto code = whole_number(part);
    const auto signal = signal_number(part);
    if (signal) {
      codes.push_back(-*signal);
    } else if (code && *code >= 1 && *code <= exit_code_max) {
      codes.push_back(*code);
    } else {
      return failure(fmt::format(
          "={}: \"{}\" is neither an exit code from 1 to {} nor a signal, such as SIGSEGV", text,
          part, exit_code_max));
    }
  }
  // Sorted, so that the order typed does not matter when nodes compare settings.
  std::ranges::sort(codes);
  codes.erase(std::ranges::unique(codes).begin(), codes.end());
  if (codes.size() > bounds::no_restart_codes_max) {
    return failure(fmt::format("={} lists {} codes; the maximum is {}", text, codes.size(),
                               bounds::no_restart_codes_max));
  }
  return codes;
}

namespace {

bool is_cause(std::string_view name) {
  return find_cause(name) != nullptr ||
         std::ranges::find(cause_groups(), name, &CauseGroup::name) != cause_groups().end();
}

std::string unknown_cause(std::string_view text, std::string_view name) {
  std::vector<std::string_view> names;
  for (const CauseGroup& each : cause_groups()) names.push_back(each.name);
  return fmt::format("={}: unknown cause \"{}\"; use one of {}, or an id from docs/failures.md",
                     text, name, fmt::join(names, ", "));
}

}  // namespace

Result<RestartBudgets> restart_budgets(const std::string& text) {
  RestartBudgets budgets;
  bool has_number = false;
  for (const auto each : split(text, ',')) {
    const auto part = trimmed(each);
    const auto equals = part.find('=');
    const auto count = whole_number(trimmed(part.substr(equals + 1)));
    const bool is_count = count && *count >= 0;
    if (equals == std::string_view::npos) {
      if (!is_count && part == trimmed(text)) {
        return failure(fmt::format("={} is not a whole number of at least 0", part));
      }
      if (!is_count) {
        return failure(
            fmt::format("={}: \"{}\" is neither a whole number nor CAUSE=N", text, part));
      }
      if (has_number) return failure(fmt::format("={} sets two budgets for the whole job", text));
      budgets.whole_job = *count;
      has_number = true;
      continue;
    }
    const auto name = trimmed(part.substr(0, equals));
    if (!is_cause(name)) return failure(unknown_cause(text, name));
    if (!is_count && trimmed(part.substr(equals + 1)) != "unlimited") {
      return failure(
          fmt::format("={}: the budget of {} is neither a whole number nor unlimited", text, name));
    }
    const auto same = [name](const CauseBudget& other) { return other.cause == name; };
    if (std::ranges::any_of(budgets.causes, same)) {
      return failure(fmt::format("={} sets two budgets for {}", text, name));
    }
    budgets.causes.push_back(
        {.cause = std::string(name), .max = is_count ? std::optional(*count) : std::nullopt});
  }
  // Sorted, so that the order typed does not matter when nodes compare settings.
  std::ranges::sort(budgets.causes, {}, &CauseBudget::cause);
  if (budgets.causes.size() > cause_budgets_max) {
    return failure(fmt::format("={} lists {} causes; the maximum is {}", text,
                               budgets.causes.size(), cause_budgets_max));
  }
  return budgets;
}

Result<HostLimit> host_limit(const std::string& text) {
  const auto slash = text.find('/');
  const auto count = whole_number(trimmed(std::string_view(text).substr(0, slash)));
  if (!count || *count < 1) {
    return failure(fmt::format("={} is neither N nor N/SECONDS, such as 3 or 3/3600", text));
  }
  HostLimit limit{.failures = *count};
  if (slash == std::string::npos) return limit;
  const auto window = policy_seconds(text.substr(slash + 1));
  if (!window) {
    return failure(fmt::format("={}: \"{}\" is not a number of seconds, such as 3/3600", text,
                               text.substr(slash + 1)));
  }
  limit.window = *window;
  return limit;
}

Result<std::vector<int>> local_ranks(const std::string& text) {
  std::vector<int> ranks;
  if (text.empty()) return ranks;  // torchrun's default
  for (const auto part : split(text, ',')) {
    const auto rank = whole_number(part);
    if (!rank || *rank < 0) {
      return failure(fmt::format("={} is not a list of local ranks, such as 0,2", text));
    }
    ranks.push_back(*rank);
  }
  return ranks;
}

Result<std::uint64_t> log_bytes(const std::string& text) {
  const auto bytes = byte_size(text);
  if (bytes && *bytes >= bounds::log_file_bytes_least) return *bytes;
  return failure(fmt::format("={} is not a size of at least {} bytes, such as 500000 or 64M", text,
                             bounds::log_file_bytes_least));
}

Result<StreamChoices> stream_choices(const std::string& text) {
  return after_colon(parse_stream_choices(text));
}

}  // namespace cpprun
