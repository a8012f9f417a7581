// SPDX-License-Identifier: BSD-3-Clause
#include "proto/host_list.h"

#include <fmt/format.h>

#include <charconv>
#include <cstdint>
#include <optional>

#include "proto/text.h"

namespace cpprun {

namespace {

using Names = std::vector<std::string>;

std::string too_many() {
  return fmt::format("names more than {} hosts", host_list_max);
}

// `07-09,12` → 07, 08, 09, 12.
Result<Names> numbers_of(std::string_view inside) {
  Names numbers;
  for (const std::string_view part : split(inside, ',')) {
    const std::size_t dash = part.find('-');
    const auto lowest_text = part.substr(0, dash);
    const auto lowest = exact_number<std::uint32_t>(lowest_text);
    const auto highest = dash == std::string_view::npos
                             ? lowest
                             : exact_number<std::uint32_t>(part.substr(dash + 1));
    if (!lowest || !highest || *highest < *lowest) {
      return failure(fmt::format("has [{}], which is not a list of numbers and ranges", inside));
    }
    if (numbers.size() + (*highest - *lowest) >= host_list_max) return failure(too_many());
    for (std::uint64_t number = *lowest; number <= *highest; ++number) {
      numbers.push_back(fmt::format("{:0{}}", number, lowest_text.size()));
    }
  }
  return numbers;
}

// Every beginning, followed by each of the endings.
Result<Names> followed_by(const Names& beginnings, const Names& endings) {
  if (beginnings.size() * endings.size() > host_list_max) return failure(too_many());
  Names names;
  names.reserve(beginnings.size() * endings.size());
  for (const auto& beginning : beginnings) {
    for (const auto& ending : endings) names.push_back(beginning + ending);
  }
  return names;
}

// One element of the list; commas only within its brackets.
Result<Names> hosts_of(std::string_view element) {
  Names hosts = {""};
  while (!element.empty()) {
    const std::size_t open = element.find_first_of("[]");
    const auto text = element.substr(0, open);
    for (auto& host : hosts) host += text;
    if (open == std::string_view::npos) break;
    const std::size_t close = element.find_first_of("[]", open + 1);
    if (element[open] == ']' || close == std::string_view::npos || element[close] == '[') {
      return failure("has an unmatched bracket");
    }
    const auto numbers = numbers_of(element.substr(open + 1, close - open - 1));
    if (!numbers) return tl::unexpected(numbers.error());
    auto longer = followed_by(hosts, *numbers);
    if (!longer) return longer;
    hosts = std::move(*longer);
    element.remove_prefix(close + 1);
  }
  return hosts;
}

// The first element of the list.
std::string_view first_element(std::string_view list) {
  int depth = 0;
  for (std::size_t at = 0; at < list.size(); ++at) {
    if (list[at] == '[') ++depth;
    if (list[at] == ']') --depth;
    if (list[at] == ',' && depth <= 0) return list.substr(0, at);
  }
  return list;
}

}  // namespace

Result<Names> expand_hosts(std::string_view list) {
  const auto wrong = [whole = list](const std::string& why) {
    constexpr std::size_t shown = 80;
    return failure(fmt::format("host list \"{}\"{} {}; write hosts as n[01-16],login",
                               whole.substr(0, shown), whole.size() > shown ? "…" : "", why));
  };
  Names all;
  while (true) {
    const auto element = first_element(list);
    if (trimmed(element).empty()) return wrong("has an empty name");
    auto hosts = hosts_of(trimmed(element));
    if (!hosts) return wrong(hosts.error().reason);
    if (all.size() + hosts->size() > host_list_max) return wrong(too_many());
    all.insert(all.end(), std::make_move_iterator(hosts->begin()),
               std::make_move_iterator(hosts->end()));
    if (element.size() == list.size()) return all;
    list.remove_prefix(element.size() + 1);
  }
}

int tasks_of_node(std::string_view tasks_per_node, int node) {
  int first_of_run = 0;
  for (const std::string_view run : split(tasks_per_node, ',')) {
    const std::size_t open = run.find("(x");
    const auto tasks = exact_number<int>(run.substr(0, open));
    std::optional<int> nodes = 1;
    if (open != std::string_view::npos) {
      if (!run.ends_with(')')) return 0;
      nodes = exact_number<int>(run.substr(open + 2, run.size() - open - 3));
    }
    if (!tasks || *tasks < 1 || !nodes || *nodes < 1) return 0;
    if (node - first_of_run < *nodes) return *tasks;
    first_of_run += *nodes;
  }
  return 0;
}

}  // namespace cpprun
