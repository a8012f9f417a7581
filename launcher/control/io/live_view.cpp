// SPDX-License-Identifier: BSD-3-Clause
#include "launcher/control/io/live_view.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <iterator>
#include <limits>
#include <string>
#include <utility>

#include "launcher/control/io/console.h"
#include "launcher/control/io/jobs.h"
#include "launcher/control/io/live_terminal.h"
#include "launcher/control/top_frame.h"

namespace cpprun::io {

namespace {

using namespace std::chrono_literals;
using std::chrono::steady_clock;

constexpr auto between_looks = 1s;
constexpr int signal_code = 128;  // and its number, as a shell shows it

// What is seen of the job that is meant, or of all of them where none is.
Attempt<TopView> look(const Wish& wish, const Environment& environment) {
  Wish quiet = wish;
  quiet.as_json = true;  // What is wrong is shown in the picture.
  const FoundJobs all = find_jobs(quiet, environment);
  if (wish.job.empty() && all.jobs.size() > 1) {
    TopView view;
    for (const auto& each : all.jobs) view.jobs.push_back({each.job, each.place.text()});
    return view;
  }
  const auto found = find_job(quiet, environment);
  if (!found) return tl::unexpected(found.error());
  const auto details = body_of(found->place, {.target = found->target()});
  if (!details) return tl::unexpected(details.error());
  const auto pages = node_pages(*found);
  if (!pages) return tl::unexpected(pages.error());
  auto job = job_view(*details);
  if (!job) return tl::unexpected(Setback{job.error().reason});
  TopView view{.jobs = {}, .job = std::move(*job)};
  for (const auto& page : *pages) {
    auto nodes = nodes_view(page);
    if (!nodes) return tl::unexpected(Setback{nodes.error().reason});
    std::move(nodes->nodes.begin(), nodes->nodes.end(), std::back_inserter(view.nodes));
  }
  return view;
}

void print_once(const TopView& view, const Canvas& canvas) {
  auto lines = top_frame(view, {}, canvas, std::numeric_limits<std::size_t>::max() / 2);
  lines.pop_back();  // the keys
  for (const auto& line : lines) print(line + "\n");
}

// The last picture stays for a while where nobody answers any more: the job may come back.
int run(LiveTerminal terminal, TopView view, const Wish& wish, const Environment& environment) {
  TopSettings settings;
  auto looked = steady_clock::now();
  while (true) {
    const auto now = steady_clock::now();
    if (now - looked >= between_looks) {
      auto seen = look(wish, environment);
      looked = steady_clock::now();
      if (seen) {
        view = std::move(*seen);
      } else {
        view.trouble = seen.error().sentence;
      }
    }
    const Canvas canvas = canvas_of_stdout(environment);
    if (!terminal.show(top_frame(view, settings, canvas, height_of_terminal()))) {
      return control_code::done;
    }
    const auto left = between_looks - (steady_clock::now() - looked);
    const auto news = terminal.wait(std::max<Duration>(left, 0ms));
    if (news.signal != 0) return signal_code + news.signal;
    if (news.is_gone) return control_code::done;
    if (!news.keys.empty() && press(settings, news.keys) == KeyEffect::quit) {
      return control_code::done;
    }
  }
}

}  // namespace

int show_top(const Wish& wish, const Environment& environment) {
  auto view = look(wish, environment);
  if (!view) return give_up(view.error());
  const bool is_live = ::isatty(STDOUT_FILENO) == 1 && ::isatty(STDIN_FILENO) == 1;
  if (!is_live) {
    print_once(*view, canvas_of_stdout(environment));
    return control_code::done;
  }
  auto terminal = LiveTerminal::take();
  if (!terminal) return give_up({terminal.error().reason});
  // Others may begin meanwhile; what is looked at stays the same.
  Wish settled = wish;
  if (view->job) {
    settled.job = view->job->id;
    settled.whole_name = true;
  }
  return run(std::move(*terminal), std::move(*view), settled, environment);
}

}  // namespace cpprun::io
