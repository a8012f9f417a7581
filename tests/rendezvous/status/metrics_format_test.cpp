// SPDX-License-Identifier: BSD-3-Clause
#include "rendezvous/status/metrics.h"

#include <doctest/doctest.h>

#include <sstream>
#include <string>

#include "tests/rendezvous/job/job_table.h"

namespace metrics_format_test {

using namespace cpprun;
using namespace cpprun::testing;
using namespace std::chrono_literals;

namespace {

constexpr auto plain = MetricsFormat::plain;
constexpr auto open_metrics = MetricsFormat::open_metrics;

std::vector<JobSnapshot> one_job() {
  Table table(3);
  table.seal();
  return {snapshot_of(table.job, t0 + 10s)};
}

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("OpenMetrics is sent to a client that accepts it and prefers no other format") {
  struct Row {
    std::string accept;
    MetricsFormat format;
  };
  const std::string name = "application/openmetrics-text";
  const Row rows[] = {
      {"", plain},
      {"*/*", plain},
      {"text/plain", plain},
      {"text/html,application/xhtml+xml,*/*;q=0.8", plain},
      {name, open_metrics},
      {"Application/OpenMetrics-Text; Version=1.0.0; charset=utf-8", open_metrics},
      {name + ";version=1.0.0", open_metrics},
      {name + ";version=0.0.1", plain},
      {name + ";version=2.0.0", plain},
      {name + ";q=0", plain},
      {name + ";q=0.000", plain},
      {name + ";q=0.001", open_metrics},
      {name + ";q=1.0;version=1.0.0", open_metrics},
      {name + ";q=high", plain},
      {name + ";q=", plain},
      {name + ";q", plain},
      {name + ";q=-1", plain},
      {name + ";q=7", plain},
      {name + ";q=0.0001", plain},
      {name + ",text/plain", open_metrics},
      {"text/plain, " + name, open_metrics},
      {"text/plain," + name + ";q=0.9", plain},
      {"text/plain;q=0.5," + name + ";q=0.6", open_metrics},
      {"text/*;q=0.7," + name + ";q=0.6", plain},
      {"text/plain;version=1.0.0;q=1," + name + ";q=0.6", open_metrics},
      {"application/openmetrics-textual", plain},
      {";;,,;=,q=1", plain},
      // As sent by Prometheus 2.42 and 3.5.
      {name + ";version=1.0.0,application/openmetrics-text;version=0.0.1;q=0.75,"
              "text/plain;version=0.0.4;q=0.5,*/*;q=0.1",
       open_metrics},
      {name + ";version=1.0.0;escaping=allow-utf-8;q=0.5," + name +
           ";version=0.0.1;q=0.4,text/plain;version=1.0.0;escaping=allow-utf-8;q=0.3,"
           "text/plain;version=0.0.4;q=0.2,*/*;q=0.1",
       open_metrics},
  };
  for (const Row& row : rows) {
    CAPTURE(row.accept);
    CHECK(metrics_format(row.accept) == row.format);
  }
}

TEST_CASE("OpenMetrics declares counters without their suffix, names units, and has an end") {
  const std::string text = metrics_text(one_job(), 1, t0 + 10s, open_metrics);
  CHECK(text.ends_with("\n# EOF\n"));
  CHECK(has(text, "# TYPE cpprun_rounds counter\n"));
  CHECK(has(text, "# HELP cpprun_rounds Rounds that have started.\n"));
  CHECK(has(text, "\ncpprun_rounds_total{run_id=\"j\"} 1\n"));
  CHECK_FALSE(has(text, "TYPE cpprun_rounds_total"));
  CHECK(has(text, "# TYPE cpprun_lease_seconds gauge\n# UNIT cpprun_lease_seconds seconds\n"));
  // A unit must be the suffix of its metric's name.
  CHECK_FALSE(has(text, "UNIT cpprun_silence_seconds_max"));
  CHECK_FALSE(has(text, "UNIT cpprun_jobs"));
}

TEST_CASE("both formats differ only in their metadata") {
  const auto series = [](const std::string& text) {
    std::string kept;
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line);) {
      if (!line.starts_with('#')) kept += line + "\n";
    }
    return kept;
  };
  const std::string text = metrics_text(one_job(), 1, t0 + 10s, plain);
  CHECK(series(text) == series(metrics_text(one_job(), 1, t0 + 10s, open_metrics)));
  CHECK(has(text, "# TYPE cpprun_rounds_total counter\n"));
  CHECK_FALSE(has(text, "# EOF"));
  CHECK_FALSE(has(text, "# UNIT"));
}

TEST_CASE("each format has its name and version in the content type") {
  CHECK(content_type(plain) == "text/plain; version=0.0.4; charset=utf-8");
  CHECK(content_type(open_metrics) == "application/openmetrics-text; version=1.0.0; charset=utf-8");
}

}  // namespace metrics_format_test
