// SPDX-License-Identifier: BSD-3-Clause
#include "worker/torch/group/agreement.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <numeric>
#include <sstream>

namespace cpprun {
namespace {

struct Camp {
  std::string call;
  std::vector<int> ranks;
};

// In the order of their first ranks.
std::vector<Camp> camps_of(const std::vector<std::optional<Call>>& calls) {
  std::vector<Camp> camps;
  for (std::size_t rank = 0; rank < calls.size(); ++rank) {
    if (!calls[rank]) continue;
    auto camp = std::find_if(camps.begin(), camps.end(), [&calls, rank](const Camp& each) {
      return each.call == calls[rank]->text;
    });
    if (camp == camps.end()) camp = camps.insert(camps.end(), Camp{calls[rank]->text, {}});
    camp->ranks.push_back(static_cast<int>(rank));
  }
  return camps;
}

std::string name_camps(const std::vector<Camp>& camps) {
  std::string text;
  for (const Camp& camp : camps) {
    text += fmt::format("{}{} {} {}", text.empty() ? "" : "; ", name_ranks(camp.ranks),
                        camp.ranks.size() == 1 ? "calls" : "call", camp.call);
  }
  return text;
}

std::vector<std::optional<std::int64_t>> steps_of(const std::vector<std::optional<Call>>& calls) {
  std::vector<std::optional<std::int64_t>> steps;
  for (const auto& call : calls) steps.push_back(call ? std::optional(call->steps) : std::nullopt);
  return steps;
}

std::vector<int> all_ranks(std::size_t count) {
  std::vector<int> ranks(count);
  std::iota(ranks.begin(), ranks.end(), 0);
  return ranks;
}

}  // namespace

std::string name_ranks(const std::vector<int>& ranks) {
  return fmt::format("rank{} {}", ranks.size() == 1 ? "" : "s", fmt::join(ranks, ", "));
}

std::optional<std::string> disagreement(std::int64_t number,
                                        const std::vector<std::optional<Call>>& calls) {
  const auto camps = camps_of(calls);
  if (camps.size() < 2) return std::nullopt;
  return fmt::format("the ranks disagree about collective {}: {}{}", number, name_camps(camps),
                     short_of_steps(steps_of(calls), all_ranks(calls.size())));
}

std::string absence(std::int64_t number, const std::vector<std::optional<Call>>& calls,
                    std::chrono::milliseconds waited) {
  std::vector<int> absent;
  for (std::size_t rank = 0; rank < calls.size(); ++rank) {
    if (!calls[rank]) absent.push_back(static_cast<int>(rank));
  }
  const auto camps = camps_of(calls);
  return fmt::format("{} did not come to collective {} within {:.3g} s{}", name_ranks(absent),
                     number, std::chrono::duration<double>(waited).count(),
                     camps.empty() ? "" : "; " + name_camps(camps));
}

std::string parted(const std::vector<std::optional<Call>>& calls, const std::vector<int>& ranks) {
  std::vector<std::optional<Call>> kinds = calls;
  for (auto& kind : kinds) {
    if (kind)
      kind->text = fmt::format("{} {}", kind->steps, kind->text.substr(0, kind->text.find('(')));
  }
  if (camps_of(kinds).size() < 2) return {};
  auto camps = camps_of(calls);
  for (Camp& camp : camps) {
    for (int& rank : camp.ranks) rank = ranks[static_cast<std::size_t>(rank)];
  }
  return "the ranks wait in different calls: " + name_camps(camps) +
         short_of_steps(steps_of(calls), ranks);
}

std::optional<std::string> model_difference(const std::vector<std::string>& models) {
  std::vector<std::istringstream> readers(models.begin(), models.end());
  while (true) {
    std::vector<std::optional<Call>> lines;
    bool ended = true;
    for (auto& reader : readers) {
      std::string line;
      const bool got = static_cast<bool>(std::getline(reader, line));
      ended = ended && !got;
      lines.push_back(Call{.text = got ? line : "nothing more"});
    }
    if (ended) return std::nullopt;
    const auto camps = camps_of(lines);
    if (camps.size() < 2) continue;
    std::string text;
    for (const Camp& camp : camps) {
      text +=
          fmt::format("{}{} on {}", text.empty() ? "" : "; ", camp.call, name_ranks(camp.ranks));
    }
    return text;
  }
}

std::string short_of_steps(const std::vector<std::optional<std::int64_t>>& steps,
                           const std::vector<int>& ranks) {
  std::int64_t most = 0;
  for (const auto& each : steps) most = std::max(most, each.value_or(0));
  std::vector<int> behind;
  std::vector<std::int64_t> made;
  for (std::size_t i = 0; i < steps.size(); ++i) {
    if (!steps[i] || *steps[i] == most) continue;
    behind.push_back(ranks[i]);
    made.push_back(*steps[i]);
  }
  if (behind.empty()) return {};
  return fmt::format(
      "; {} {} short of steps of DistributedDataParallel, {} where others are at {}: {}",
      name_ranks(behind), behind.size() == 1 ? "is" : "are", fmt::join(made, ", "), most,
      uneven_advice);
}

}  // namespace cpprun
