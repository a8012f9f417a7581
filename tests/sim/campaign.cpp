// SPDX-License-Identifier: BSD-3-Clause
#include "tests/sim/campaign.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <cstdint>
#include <utility>

#include "tests/sim/world.h"

namespace cpprun::sim {

namespace {

// The number of runs that are minimized to find the shortest case; more would take minutes.
constexpr std::size_t candidates_max = 20;

Scenario with_faults(const Scenario& scenario, const std::vector<int>& kept) {
  Scenario smaller = scenario;
  smaller.faults.clear();
  for (const int index : kept) {
    if (index < 0 || index >= static_cast<int>(scenario.faults.size())) continue;
    smaller.faults.push_back(scenario.faults[static_cast<std::size_t>(index)]);
  }
  return smaller;
}

bool is_unidentified(const Fault& fault) {
  return fault.kind == FaultKind::unidentified || fault.kind == FaultKind::liar;
}

// The order of simultaneous messages depends on the numbers of their links.
std::string in_order(const std::string& story) {
  std::vector<std::string> lines;
  for (std::size_t from = 0; from < story.size();) {
    const std::size_t end = story.find('\n', from);
    lines.push_back(story.substr(from, end - from));
    from = end + 1;
  }
  std::sort(lines.begin(), lines.end());
  return fmt::format("{}\n", fmt::join(lines, "\n"));
}

// The first line that differs.
std::string difference(const std::string& with, const std::string& without) {
  std::size_t line = 0;
  for (std::size_t i = 0; i < std::min(with.size(), without.size()) && with[i] == without[i]; ++i) {
    if (with[i] == '\n') line = i + 1;
  }
  const auto from = [line](const std::string& text) {
    return text.substr(line, text.find('\n', line) - line);
  };
  return fmt::format("\"{}\" and without them \"{}\"", from(with), from(without));
}

// Plays a scenario. With unidentified clients, the nodes must receive the same messages as without
// them.
std::optional<std::string> play(const Scenario& scenario, World& world) {
  const auto verdict = world.run();
  if (verdict || std::none_of(scenario.faults.begin(), scenario.faults.end(), is_unidentified)) {
    return verdict;
  }
  Scenario alone = scenario;
  std::erase_if(alone.faults, is_unidentified);
  World undisturbed{alone};
  if (undisturbed.run()) return std::nullopt;
  const std::string with = in_order(world.story());
  const std::string without = in_order(undisturbed.story());
  if (with == without) return std::nullopt;
  return "the lies of strangers changed a job: with them " + difference(with, without);
}

std::string last_lines(const std::string& text, std::size_t lines_max) {
  std::size_t at = text.size();
  for (std::size_t lines = 0; lines <= lines_max; ++lines) {
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
    const std::uint64_t seed = campaign.first + i;
    if (campaign.may_play && !campaign.may_play(seed)) break;
    const Scenario scenario = scenario_of(campaign, seed);
    World world{scenario};
    auto verdict = play(scenario, world);
    ++tally.runs;
    tally.steps += world.steps();
    tally.simulated += world.simulated();
    if (!verdict) continue;
    tally.broken.push_back({seed, std::move(*verdict)});
    if (!campaign.goes_on) break;
  }
  return tally;
}

std::string promise_of(std::string verdict) {
  std::erase_if(verdict, [](unsigned char c) { return std::isdigit(c) != 0; });
  return verdict.substr(0, verdict.find(':'));
}

std::vector<int> faults_needed(const Scenario& scenario) {
  std::vector<int> kept;
  for (std::size_t i = 0; i < scenario.faults.size(); ++i) kept.push_back(static_cast<int>(i));
  const auto verdict_of = [](const Scenario& each) {
    World world{each};
    return play(each, world);
  };
  const std::string promise = promise_of(verdict_of(scenario).value_or(""));
  bool smaller = true;
  while (smaller) {
    smaller = false;
    for (std::size_t i = 0; i < kept.size(); ++i) {
      std::vector<int> fewer = kept;
      fewer.erase(fewer.begin() + static_cast<std::ptrdiff_t>(i));
      const auto verdict = verdict_of(with_faults(scenario, fewer));
      if (promise_of(verdict.value_or("")) != promise) continue;
      kept = fewer;
      smaller = true;
      break;
    }
  }
  return kept;
}

std::vector<Group> grouped(const std::vector<Broken>& broken) {
  std::vector<Group> groups;
  for (const Broken& each : broken) {
    const std::string promise = promise_of(each.verdict);
    auto group = std::find_if(groups.begin(), groups.end(),
                              [&](const Group& known) { return known.promise == promise; });
    if (group == groups.end()) group = groups.insert(groups.end(), Group{promise, {}});
    group->seeds.push_back(each.seed);
  }
  std::stable_sort(groups.begin(), groups.end(),
                   [](const Group& a, const Group& b) { return a.seeds.size() > b.seeds.size(); });
  return groups;
}

std::uint64_t shortest_of(const Campaign& campaign, const std::vector<std::uint64_t>& seeds) {
  std::uint64_t best = seeds.front();
  std::pair<std::size_t, std::size_t> least{SIZE_MAX, SIZE_MAX};  // faults, steps
  for (std::size_t i = 0; i < std::min(seeds.size(), candidates_max); ++i) {
    const Scenario whole = scenario_of(campaign, seeds[i]);
    World world{with_faults(whole, faults_needed(whole))};
    (void)world.run();  // Only its length is needed.
    const std::pair length{world.scenario().faults.size(), world.steps()};
    if (length >= least) continue;
    least = length;
    best = seeds[i];
  }
  return best;
}

std::string report_of(const Campaign& campaign, std::uint64_t seed, std::size_t lines_max) {
  const Scenario whole = draw(seed, campaign.agents_max, campaign.kinds);
  const std::vector<int> kept = campaign.keep ? *campaign.keep : faults_needed(whole);
  const Scenario smaller = with_faults(whole, kept);
  World world{smaller, true};
  const std::string verdict = play(smaller, world).value_or("nothing was wrong");
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
  return text + last_lines(world.transcript(), lines_max);
}

std::string report_of(const Campaign& campaign, const std::vector<Broken>& broken,
                      std::size_t lines_max) {
  std::string text;
  for (const Group& group : grouped(broken)) {
    const std::size_t times = group.seeds.size();
    text += fmt::format("{} {} this promise: {}\n", times, times == 1 ? "run breaks" : "runs break",
                        group.promise);
    if (times > 1) text += "The shortest of them:\n";
    text += report_of(campaign, shortest_of(campaign, group.seeds), lines_max) + "\n";
  }
  return text;
}

}  // namespace cpprun::sim
