// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// Prometheus metrics of jobs and daemons, and the choice of the exposition format.

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "rendezvous/status/snapshot.h"

namespace cpprun {

enum class MetricsFormat {
  plain,         // Prometheus' text format 0.0.4
  open_metrics,  // OpenMetrics 1.0.0
};

// Chosen from the Accept header of the request by comparing the weights (q=). OpenMetrics has to be
// named explicitly, and wins a tie. An invalid weight counts as 0.
MetricsFormat metrics_format(std::string_view accept);

// The Content-Type header for that format.
std::string_view content_type(MetricsFormat format);

// Every series names its job by the label `run_id`, never by `job`, which Prometheus reserves for
// the scrape target. The cost of a job does not depend on its size: nodes are counted, not named.

struct MetricFacts {
  std::string_view name;
  std::string_view type;    // "counter" or "gauge"
  std::string_view labels;  // "run_id, state"
  std::string_view help;    // has to be free of characters that need an escape
};

// All metrics, as docs/http-api.md lists them.
std::span<const MetricFacts> metrics();

// `jobs` may be fewer than exist; `jobs_total` is the number of all of them. `daemon` is the
// cpprund that runs the jobs; empty in a cpprun.
std::string metrics_text(const std::vector<JobSnapshot>& jobs, std::size_t jobs_total,
                         TimePoint now, MetricsFormat format = MetricsFormat::plain,
                         const std::optional<DaemonSnapshot>& daemon = {});

// Escapes a label value; the quotes are not included.
std::string label_text(std::string_view value);

}  // namespace cpprun
