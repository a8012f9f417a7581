#include "worker/torch/agreement.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

namespace cpprun {
namespace {

struct Camp {
  std::string call;
  std::vector<int> ranks;
};

// In the order of their first ranks.
std::vector<Camp> camps_of(const std::vector<std::optional<std::string>>& calls) {
  std::vector<Camp> camps;
  for (std::size_t rank = 0; rank < calls.size(); ++rank) {
    if (!calls[rank]) continue;
    auto camp = std::find_if(camps.begin(), camps.end(), [&calls, rank](const Camp& each) {
      return each.call == *calls[rank];
    });
    if (camp == camps.end()) camp = camps.insert(camps.end(), Camp{*calls[rank], {}});
    camp->ranks.push_back(static_cast<int>(rank));
  }
  return camps;
}

std::string name_ranks(const std::vector<int>& ranks) {
  return fmt::format("rank{} {}", ranks.size() == 1 ? "" : "s", fmt::join(ranks, ", "));
}

std::string name_camps(const std::vector<Camp>& camps) {
  std::string text;
  for (const Camp& camp : camps) {
    text += fmt::format("{}{} {} {}", text.empty() ? "" : "; ", name_ranks(camp.ranks),
                        camp.ranks.size() == 1 ? "calls" : "call", camp.call);
  }
  return text;
}

}  // namespace

std::optional<std::string> disagreement(std::int64_t number,
                                        const std::vector<std::string>& calls) {
  const auto camps = camps_of({calls.begin(), calls.end()});
  if (camps.size() < 2) return std::nullopt;
  return fmt::format("the ranks disagree about collective {}: {}", number, name_camps(camps));
}

std::string absence(std::int64_t number, const std::vector<std::optional<std::string>>& calls,
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

}  // namespace cpprun
