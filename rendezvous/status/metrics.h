// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// What Prometheus is told of jobs and daemons, and in which of its formats.

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "rendezvous/status/snapshot.h"

namespace cpprun {

// In which of its formats Prometheus wants to be told, by the Accept of its request.
enum class MetricsFormat {
  plain,         // Prometheus' text format 0.0.4
  open_metrics,  // OpenMetrics 1.0.0
};

// The weights (q=) of both are compared; OpenMetrics has to be asked for by name, and is given
// where neither is preferred. What is no weight counts as 0.
MetricsFormat metrics_format(std::string_view accept);

// The Content-Type of an answer in it.
std::string_view content_type(MetricsFormat format);

// What Prometheus is told, in its text format 0.0.4 or in OpenMetrics. Every series names its job
// by `run_id`, never by `job`, which is Prometheus' own name for whom it asks. A job costs the same
// whatever its size: nodes are counted, not named.

struct MetricFacts {
  std::string_view name;
  std::string_view type;    // counter or gauge
  std::string_view labels;  // "run_id, state"
  std::string_view help;    // without an escape
};

// All there are, as docs/operating.md lists them.
std::span<const MetricFacts> metrics();

// `jobs` are all jobs; where more of them exist than are told, `jobs_total` says how many.
// `daemon`: that has them; nothing: a cpprun does.
std::string metrics_text(const std::vector<JobSnapshot>& jobs, std::size_t jobs_total,
                         TimePoint now, MetricsFormat format = MetricsFormat::plain,
                         const std::optional<DaemonSnapshot>& daemon = {});

// A value of a label as the format wants it, without the quotes around it.
std::string label_text(std::string_view value);

}  // namespace cpprun
