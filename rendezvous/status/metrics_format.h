// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// In which of its formats Prometheus wants to be told, by the Accept of its request.

#include <string_view>

namespace cpprun {

enum class MetricsFormat {
  plain,         // Prometheus' text format 0.0.4
  open_metrics,  // OpenMetrics 1.0.0
};

// The weights (q=) of both are compared; OpenMetrics has to be asked for by name, and is given
// where neither is preferred. What is no weight counts as 0.
MetricsFormat metrics_format(std::string_view accept);

// The Content-Type of an answer in it.
std::string_view content_type(MetricsFormat format);

}  // namespace cpprun
