#include "tests/sim/campaign.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>

#include "tests/sim/world.h"

namespace cpprun::sim {

namespace {

constexpr std::size_t transcript_lines_max = 80;

Scenario with_faults(const Scenario& scenario, const std::vector<int>& kept) {
  Scenario smaller = scenario;
  smaller.faults.clear();
  for (const int index : kept) {
    if (index < 0 || index >= static_cast<int>(scenario.faults.size())) continue;
    smaller.faults.push_back(scenario.faults[static_cast<std::size_t>(index)]);
  }
  return smaller;
}

// Which promise it was, whoever it was broken to.
std::string kind_of(std::string verdict) {
  std::erase_if(verdict, [](unsigned char c) { return std::isdigit(c) != 0; });
  return verdict.substr(0, verdict.find(':'));
}

std::string last_lines(const std::string& text) {
  std::size_t at = text.size();
  for (std::size_t lines = 0; lines <= transcript_lines_max; ++lines) {
    if (at == 0) return text;
    at = text.rfind('\n', at - 1);
    if (at == std::string::npos) return text;
  }
  return "             …\n" + text.substr(at + 1);
}

}  // namespace

Scenario scenario_of(const Campaign& campaign, std::uint64_t seed) {
  const Scenario whole = draw(seed, campaign.agents_max, campaign.kinds);
  return campaign.keep ? with_faults(whole, *campaign.keep) : whole;
}

Tally sail(const Campaign& campaign) {
  Tally tally;
  for (std::uint64_t i = 0; i < campaign.seeds; i += campaign.stride) {
    World world{scenario_of(campaign, campaign.first + i)};
    const auto verdict = world.run();
    ++tally.runs;
    tally.steps += world.steps();
    tally.simulated += world.simulated();
    if (!verdict) continue;
    tally.failed = campaign.first + i;
    tally.verdict = *verdict;
    return tally;
  }
  return tally;
}

std::vector<int> faults_needed(const Scenario& scenario) {
  std::vector<int> kept;
  for (std::size_t i = 0; i < scenario.faults.size(); ++i) kept.push_back(static_cast<int>(i));
  const std::string promise = kind_of(World{scenario}.run().value_or(""));
  bool smaller = true;
  while (smaller) {
    smaller = false;
    for (std::size_t i = 0; i < kept.size(); ++i) {
      std::vector<int> fewer = kept;
      fewer.erase(fewer.begin() + static_cast<std::ptrdiff_t>(i));
      const auto verdict = World{with_faults(scenario, fewer)}.run();
      if (kind_of(verdict.value_or("")) != promise) continue;
      kept = fewer;
      smaller = true;
      break;
    }
  }
  return kept;
}

std::string report_of(const Campaign& campaign, std::uint64_t seed) {
  const Scenario whole = draw(seed, campaign.agents_max, campaign.kinds);
  const std::vector<int> kept = campaign.keep ? *campaign.keep : faults_needed(whole);
  World world{with_faults(whole, kept), true};
  const std::string verdict = world.run().value_or("nothing was wrong");
  std::string text =
      fmt::format("seed {} breaks a promise: {}\n  {}\n", seed, verdict, to_text(world.scenario()));
  for (const int index : kept) {
    if (index < 0 || index >= static_cast<int>(whole.faults.size())) continue;
    text += fmt::format("  fault {}: {}\n", index,
                        to_text(whole.faults[static_cast<std::size_t>(index)]));
  }
  text += fmt::format("  again: ./dev sim --first {} --seeds 1 --agents {} --faults {} --keep {}\n",
                      seed, campaign.agents_max, campaign.kinds_text,
                      kept.empty() ? "none" : fmt::format("{}", fmt::join(kept, ",")));
  return text + last_lines(world.transcript());
}

}  // namespace cpprun::sim
