// `./dev sim`: plays many seeds in several processes and says how it went. A seed that breaks a
// promise prints itself, how to play it again, and what happened.

#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <cstdio>
#include <string>
#include <vector>

#include "tests/sim/campaign.h"

namespace {

using namespace cpprun;
using namespace cpprun::sim;

struct Options {
  Campaign campaign{.seeds = 1000};
  int jobs = 1;
};

// What a process tells the one that started it.
struct Word {
  std::uint64_t runs = 0;
  std::uint64_t steps = 0;
  std::int64_t simulated = 0;
  bool failed = false;
  std::uint64_t seed = 0;
};

std::optional<int> read_command_line(int argc, char** argv, Options& options) {
  CLI::App app{"Plays clusters in simulated time and checks what must always hold.", "./dev sim"};
  std::string keep;
  app.add_option("--seeds", options.campaign.seeds, "how many seeds")->capture_default_str();
  app.add_option("--first", options.campaign.first, "the first of them")->capture_default_str();
  app.add_option("--agents", options.campaign.agents_max,
                 "nodes of a job at most; more than 64 are taken as they are")
      ->capture_default_str()
      ->check(CLI::Range(1, 20000));
  app.add_option("--faults", options.campaign.kinds_text,
                 "what may go wrong, with commas: " + kinds_in_words())
      ->capture_default_str();
  app.add_option("--keep", keep, "only these of a run's faults, by index; none: no fault");
  app.add_option("--jobs", options.jobs, "processes")->check(CLI::Range(1, 256));
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
  const auto kinds = parse_kinds(options.campaign.kinds_text);
  if (!kinds) {
    fmt::print(stderr, "sim: {}\n", kinds.error().reason);
    return 2;
  }
  options.campaign.kinds = *kinds;
  if (keep.empty()) return std::nullopt;
  options.campaign.keep.emplace();
  if (keep == "none") return std::nullopt;
  for (const std::string& number : CLI::detail::split(keep, ',')) {
    options.campaign.keep->push_back(std::atoi(number.c_str()));
  }
  return std::nullopt;
}

Word play(const Campaign& campaign) {
  const Tally tally = sail(campaign);
  return {.runs = tally.runs,
          .steps = tally.steps,
          .simulated = tally.simulated.count(),
          .failed = tally.failed.has_value(),
          .seed = tally.failed.value_or(0)};
}

// Each process takes every n-th seed and writes one Word into its pipe.
std::vector<Word> play_in_processes(const Options& options) {
  std::vector<Word> words;
  std::vector<std::pair<pid_t, int>> children;
  for (int job = 0; job < options.jobs; ++job) {
    int ends[2];
    if (::pipe(ends) != 0) break;
    const pid_t child = ::fork();
    if (child == 0) {
      Campaign part = options.campaign;
      const auto skipped = static_cast<std::uint64_t>(job);
      part.first += skipped;
      part.seeds = part.seeds > skipped ? part.seeds - skipped : 0;
      part.stride = static_cast<std::uint64_t>(options.jobs);
      const Word word = play(part);
      const bool told = ::write(ends[1], &word, sizeof word) == static_cast<ssize_t>(sizeof word);
      ::_exit(told ? 0 : 1);
    }
    ::close(ends[1]);
    children.emplace_back(child, ends[0]);
  }
  for (const auto& [child, end] : children) {
    Word word;
    const bool told = ::read(end, &word, sizeof word) == static_cast<ssize_t>(sizeof word);
    ::close(end);
    int status = 0;
    ::waitpid(child, &status, 0);
    if (told) {
      words.push_back(word);
    } else {
      fmt::print(stderr, "sim: a process died (status {:#x}); run it with --jobs 1\n", status);
      words.push_back({.failed = true, .seed = options.campaign.first});
    }
  }
  return words;
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  if (const auto code = read_command_line(argc, argv, options)) return *code;
  const auto begin = std::chrono::steady_clock::now();
  const std::vector<Word> words =
      options.jobs == 1 ? std::vector{play(options.campaign)} : play_in_processes(options);
  const double took =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  Word all;
  for (const Word& word : words) {
    all.runs += word.runs;
    all.steps += word.steps;
    all.simulated += word.simulated;
    if (!word.failed || (all.failed && all.seed < word.seed)) continue;
    all.failed = true;
    all.seed = word.seed;
  }
  if (all.failed) fmt::print("{}", report_of(options.campaign, all.seed));
  fmt::print("{} runs, {} steps, {:.1f} hours simulated in {:.1f} s, {:.2f} million steps/s: {}\n",
             all.runs, all.steps, static_cast<double>(all.simulated) / 3.6e12, took,
             static_cast<double>(all.steps) / took / 1e6,
             all.failed ? "a promise was broken" : "every promise was kept");
  return all.failed ? 1 : 0;
}
