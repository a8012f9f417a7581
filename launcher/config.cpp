// SPDX-License-Identifier: BSD-3-Clause
#include "launcher/config.h"

#include <fmt/format.h>

#include <optional>
#include <string>

#include "proto/text.h"

namespace cpprun {

namespace {

std::optional<StreamChoice> choice_of(std::string_view digit) {
  if (digit == "0") return StreamChoice{};
  if (digit == "1") return StreamChoice{.out = true, .err = false};
  if (digit == "2") return StreamChoice{.out = false, .err = true};
  if (digit == "3") return StreamChoice{.out = true, .err = true};
  return std::nullopt;
}

tl::unexpected<Error> not_understood(std::string_view text) {
  return failure(fmt::format(
      "\"{}\" is neither one digit (0 none, 1 stdout, 2 stderr, 3 both) nor a list such as "
      "0:1,1:3 (local rank, then digit)",
      text));
}

}  // namespace

StreamChoice StreamChoices::of(int local_rank) const {
  if (by_local_rank.empty()) return all;
  const auto found = by_local_rank.find(local_rank);
  return found == by_local_rank.end() ? StreamChoice{} : found->second;
}

bool StreamChoices::any() const {
  if (by_local_rank.empty()) return all != StreamChoice{};
  for (const auto& [rank, choice] : by_local_rank) {
    if (choice != StreamChoice{}) return true;
  }
  return false;
}

Result<StreamChoices> parse_stream_choices(std::string_view given) {
  const auto text = trimmed(given);
  StreamChoices choices;
  if (const auto all = choice_of(text)) {
    choices.all = *all;
    return choices;
  }
  for (const std::string_view each : split(text, ',')) {
    const std::string_view pair = trimmed(each);
    const auto colon = pair.find(':');
    if (colon == std::string_view::npos) return not_understood(text);
    const auto rank = exact_number<int>(pair.substr(0, colon));
    const auto choice = choice_of(pair.substr(colon + 1));
    if (!rank || *rank < 0 || !choice) return not_understood(text);
    if (!choices.by_local_rank.emplace(*rank, *choice).second) {
      return failure(fmt::format("\"{}\" lists local rank {} twice", text, *rank));
    }
  }
  return choices;
}

}  // namespace cpprun
