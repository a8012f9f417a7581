// SPDX-License-Identifier: BSD-3-Clause
#include "launcher/control/io/status.h"

#include <algorithm>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include "launcher/control/daemon_text.h"
#include "launcher/control/io/console.h"
#include "launcher/control/io/jobs.h"
#include "launcher/control/overview.h"

namespace cpprun::io {

namespace {

// Of a daemon that has no job, or several, what is asked for is how it stands itself.
int show_daemons(const FoundJobs& found, const std::vector<FoundDaemon>& daemons, const Wish& wish,
                 const Canvas& canvas) {
  if (wish.as_json) {
    std::vector<SeenAnswer> seen;
    for (const auto& each : daemons) seen.push_back({each.place.text(), each.text});
    print(daemons_json(seen, found.answers));
    return control_code::done;
  }
  for (const auto& each : daemons) {
    print(daemon_text(each.view) + warnings_text(each.view.warnings, canvas));
  }
  std::vector<SeenJob> jobs;
  for (const auto& each : found.jobs) jobs.push_back({each.job, each.place.text()});
  if (!jobs.empty()) print("\n" + list_text(jobs, canvas));
  return control_code::done;
}

}  // namespace

int show_status(const Wish& wish, const Environment& environment) {
  FoundJobs jobs = find_jobs(wish, environment);
  const auto daemons = find_daemons(jobs);
  const Canvas canvas = canvas_of_stdout(environment);
  if (wish.job.empty() && jobs.jobs.size() != 1 && !daemons.empty()) {
    return show_daemons(jobs, daemons, wish, canvas);
  }
  const auto found = pick_job(std::move(jobs), wish, environment);
  if (!found) return give_up(found.error());
  const auto details = body_of(found->place, {.target = found->target()});
  if (!details) return give_up(details.error());
  const auto pages = node_pages(*found);
  if (!pages) return give_up(pages.error());
  const auto its = std::ranges::find_if(
      daemons, [&](const FoundDaemon& each) { return each.place.text() == found->place.text(); });
  if (wish.as_json) {
    print(status_json(*details, *pages, its == daemons.end() ? std::string() : its->text));
    return control_code::done;
  }
  const auto job = job_view(*details);
  if (!job) return give_up({job.error().reason});
  std::vector<NodeView> nodes;
  for (const auto& page : *pages) {
    auto view = nodes_view(page);
    if (!view) return give_up({view.error().reason});
    std::move(view->nodes.begin(), view->nodes.end(), std::back_inserter(nodes));
  }
  print(status_text(*job, nodes, canvas));
  if (its != daemons.end()) print("\n" + daemon_text(its->view));
  return control_code::done;
}

}  // namespace cpprun::io
