// SPDX-License-Identifier: BSD-3-Clause
// `./dev sim`: plays many seeds in several processes and prints a summary. Each broken promise is
// reported once, with the shortest run that breaks it, the command to play it again, and its trace.

#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>
#include <chrono>
#include <cstdio>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include "tests/sim/campaign.h"

namespace {

using namespace cpprun;
using namespace cpprun::sim;
using Clock = std::chrono::steady_clock;

struct Options {
  Campaign campaign{.goes_on = true};
  double minutes = 0;  // 0: as many seeds as were asked for
  std::size_t lines_max = 80;
  int jobs = 1;
};

// New seeds; two runs that start in one second differ.
std::uint64_t seed_from_clock() {
  using std::chrono::milliseconds;
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return static_cast<std::uint64_t>(std::chrono::duration_cast<milliseconds>(now).count());
}

std::optional<int> read_command_line(int argc, char** argv, Options& options) {
  CLI::App app{"Plays clusters in simulated time and checks what must always hold.", "./dev sim"};
  std::string keep;
  Campaign& campaign = options.campaign;
  auto* seeds = app.add_option("--seeds", campaign.seeds, "how many seeds")->capture_default_str();
  app.add_option("--minutes", options.minutes, "for so long, instead of a number of seeds")
      ->check(CLI::PositiveNumber)
      ->excludes(seeds);
  auto* first = app.add_option("--first", campaign.first, "the first of them (else by the clock)");
  app.add_option("--agents", campaign.agents_max,
                 "nodes of a job at most; more than 64 are taken as they are")
      ->capture_default_str()
      ->check(CLI::Range(1, 20000));
  app.add_option("--faults", campaign.kinds_text, "what may go wrong, with commas: " + kinds_text())
      ->capture_default_str();
  app.add_option("--keep", keep, "only these of a run's faults, by index; none: no fault");
  app.add_option("--lines", options.lines_max, "of what happened in a run, at its end")
      ->capture_default_str();
  app.add_option("--jobs", options.jobs, "processes")->check(CLI::Range(1, 256));
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
  const auto kinds = parse_kinds(campaign.kinds_text);
  if (!kinds) {
    fmt::print(stderr, "sim: {}\n", kinds.error().reason);
    return 2;
  }
  campaign.kinds = *kinds;
  if (first->empty()) campaign.first = seed_from_clock();
  if (options.minutes > 0) campaign.seeds = std::numeric_limits<std::uint64_t>::max() / 2;
  if (keep.empty()) return std::nullopt;
  campaign.keep.emplace();
  if (keep == "none") return std::nullopt;
  for (const std::string& number : CLI::detail::split(keep, ',')) {
    campaign.keep->push_back(std::atoi(number.c_str()));
  }
  return std::nullopt;
}

// The result that a process sends to its parent: its numbers, then a line for each broken promise.
std::string to_text(const Tally& tally) {
  std::string text = fmt::format("{} {} {}\n", tally.runs, tally.steps, tally.simulated.count());
  for (const Broken& each : tally.broken) text += fmt::format("{} {}\n", each.seed, each.verdict);
  return text;
}

std::uint64_t take_number(std::string_view& text) {
  std::uint64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  if (error == std::errc{} && !text.empty()) text.remove_prefix(1);
  return number;
}

void add(std::string_view text, Tally& all) {
  all.runs += take_number(text);
  all.steps += take_number(text);
  all.simulated += Duration{static_cast<std::int64_t>(take_number(text))};
  while (!text.empty()) {
    const std::uint64_t seed = take_number(text);
    const auto end = std::min(text.find('\n'), text.size());
    all.broken.push_back({seed, std::string{text.substr(0, end)}});
    text.remove_prefix(std::min(end + 1, text.size()));
  }
}

bool write_all(int to, std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = ::write(to, text.data(), text.size());
    if (written <= 0) return false;
    text.remove_prefix(static_cast<std::size_t>(written));
  }
  return true;
}

std::string read_all(int from) {
  std::string text;
  char chunk[4096];
  for (ssize_t got = 0; (got = ::read(from, chunk, sizeof chunk)) > 0;) {
    text.append(chunk, static_cast<std::size_t>(got));
  }
  return text;
}

// Each process takes every n-th seed and stores its current seed in shared memory, so that a seed
// that kills its process is known.
Tally play_in_processes(const Options& options, Clock::time_point until) {
  const auto jobs = static_cast<std::size_t>(options.jobs);
  void* const shared = ::mmap(nullptr, jobs * sizeof(std::uint64_t), PROT_READ | PROT_WRITE,
                              MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (shared == MAP_FAILED) return {};
  auto* const playing = static_cast<volatile std::uint64_t*>(shared);
  std::vector<std::pair<pid_t, int>> children;
  for (std::size_t job = 0; job < jobs; ++job) {
    int ends[2];
    if (::pipe(ends) != 0) break;
    const pid_t child = ::fork();
    if (child == 0) {
      Campaign part = options.campaign;
      part.first += job;
      part.seeds = part.seeds > job ? part.seeds - job : 0;
      part.stride = jobs;
      part.may_play = [&](std::uint64_t seed) {
        playing[job] = seed;
        return Clock::now() < until;
      };
      ::_exit(write_all(ends[1], to_text(sail(part))) ? 0 : 1);
    }
    ::close(ends[1]);
    children.emplace_back(child, ends[0]);
  }
  Tally all;
  for (std::size_t job = 0; job < children.size(); ++job) {
    const auto [child, end] = children[job];
    const std::string said = read_all(end);
    ::close(end);
    int status = 0;
    ::waitpid(child, &status, 0);
    add(said, all);
    if (status == 0) continue;
    fmt::print(stderr,
               "sim: a process died (status {:#x}) of this seed: ./dev sim --first {} "
               "--seeds 1 --agents {} --faults {}\n",
               status, std::uint64_t{playing[job]}, options.campaign.agents_max,
               options.campaign.kinds_text);
    all.broken.push_back({playing[job], "the process of the simulator died"});
  }
  ::munmap(shared, jobs * sizeof(std::uint64_t));
  return all;
}

// A run that kills its process cannot be played in this one.
std::string report(const Options& options, std::vector<Broken> broken) {
  std::erase_if(broken, [](const Broken& each) { return each.verdict.starts_with("the process"); });
  std::sort(broken.begin(), broken.end(),
            [](const Broken& a, const Broken& b) { return a.seed < b.seed; });
  return report_of(options.campaign, broken, options.lines_max);
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  if (const auto code = read_command_line(argc, argv, options)) return *code;
  fmt::print("seeds from {}, faults: {}\n", options.campaign.first, options.campaign.kinds_text);
  std::fflush(stdout);
  const auto begin = Clock::now();
  const auto timeout = std::chrono::duration<double>(options.minutes * 60);
  const auto until = options.minutes > 0
                         ? begin + std::chrono::duration_cast<Clock::duration>(timeout)
                         : Clock::time_point::max();
  const Tally all = play_in_processes(options, until);
  const double took = std::chrono::duration<double>(Clock::now() - begin).count();
  if (!all.broken.empty()) fmt::print("{}", report(options, all.broken));
  const std::size_t times = all.broken.size();
  fmt::print("{} runs, {} steps, {:.1f} hours simulated in {:.1f} s, {:.2f} million steps/s: {}\n",
             all.runs, all.steps, static_cast<double>(all.simulated.count()) / 3.6e12, took,
             static_cast<double>(all.steps) / took / 1e6,
             times == 0   ? "every promise was kept"
             : times == 1 ? "a promise was broken"
                          : fmt::format("promises were broken {} times", times));
  return all.broken.empty() ? 0 : 1;
}
