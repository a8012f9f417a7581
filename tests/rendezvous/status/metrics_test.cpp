// SPDX-License-Identifier: BSD-3-Clause
#include "rendezvous/status/metrics.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <cstdlib>
#include <fstream>
#include <iterator>
#include <set>
#include <sstream>

#include "tests/rendezvous/job/job_table.h"

namespace metrics_test {

using namespace cpprun;
using namespace cpprun::testing;
using namespace std::chrono_literals;

namespace {

bool has_line(const std::string& text, const std::string& line) {
  return ("\n" + text).find("\n" + line + "\n") != std::string::npos;
}

std::vector<JobSnapshot> one_job() {
  Table table(3);
  table.seal();
  table.hear(t0 + 4s, b,
             link::Failed{.round = RoundNumber{1},
                          .failure = {.rank = Rank{3}, .status = {true, 9}, .cause = "killed"}});
  table.drained(t0 + 6s, 1, {a, b});
  return {measured(table.job, t0 + 10s)};
}

std::string api_page() {
  const char* const directory = std::getenv("CPPRUN_SOURCE_DIRECTORY");
  REQUIRE(directory != nullptr);
  std::ifstream file(std::string(directory) + "/docs/http-api.md");
  return {std::istreambuf_iterator<char>(file), {}};
}

}  // namespace

TEST_CASE("the metrics of a restarted job include its restarts") {
  const std::string text = metrics_text(one_job(), 1, t0 + 10s);
  CHECK(has_line(text, "cpprun_jobs 1"));
  CHECK(has_line(text, "cpprun_job_state{run_id=\"j\",state=\"running\"} 1"));
  CHECK(has_line(text, "cpprun_job_state{run_id=\"j\",state=\"over\"} 0"));
  CHECK(has_line(text, "cpprun_job_state_seconds{run_id=\"j\"} 4"));
  CHECK(has_line(text, "cpprun_rounds_total{run_id=\"j\"} 2"));
  CHECK(has_line(text, "cpprun_restarts_total{run_id=\"j\",cause=\"killed\"} 1"));
  CHECK(has_line(text, "cpprun_failures_total{run_id=\"j\",cause=\"killed\"} 1"));
  CHECK(has_line(text, "cpprun_restarts_left{run_id=\"j\"} 2"));
  CHECK(has_line(text, "cpprun_nodes{run_id=\"j\",state=\"running\"} 2"));
  CHECK(has_line(text, "cpprun_workers{run_id=\"j\"} 4"));
  CHECK(has_line(text, "cpprun_silence_seconds_max{run_id=\"j\"} 4"));
  CHECK(text.find("cpprun_job_exit_code{") == std::string::npos);
}

TEST_CASE("every metric is declared once, before its series, and is in the table of the manual") {
  const std::string text = metrics_text(one_job(), 1, t0);
  std::istringstream lines(text);
  std::set<std::string> announced;
  std::string last;
  for (std::string line; std::getline(lines, line);) {
    CAPTURE(line);
    std::istringstream words(line);
    std::string first;
    std::string second;
    std::string name;
    words >> first >> second >> name;
    if (first != "#") {
      CHECK(first.substr(0, first.find('{')) == last);
    } else if (second == "TYPE") {
      last = name;
    } else {
      CHECK(second == "HELP");
      CHECK(announced.insert(name).second);
    }
  }
  CHECK(announced.size() == metrics().size());
  const std::string page = api_page();
  std::size_t rows = 0;
  for (auto at = page.find("\n| `cpprun_"); at != std::string::npos;
       at = page.find("\n| `cpprun_", at + 1)) {
    ++rows;
  }
  CHECK(rows == metrics().size());
  for (const auto& metric : metrics()) {
    CAPTURE(metric.name);
    CHECK(announced.contains(std::string(metric.name)));
    std::string labels(metric.labels);
    if (const auto comma = labels.find(", "); comma != std::string::npos) {
      labels.replace(comma, 2, "`, `");
    }
    if (!labels.empty()) labels = "`" + labels + "`";
    const auto row =
        fmt::format("\n| `{}` | {} | {} | {} |", metric.name, metric.type, labels, metric.help);
    CHECK(page.find(row) != std::string::npos);
  }
}

TEST_CASE("no label is called job, and counters end with total") {
  for (const auto& metric : metrics()) {
    CAPTURE(metric.name);
    CHECK(metric.labels.find("job") == std::string_view::npos);
    CHECK((metric.type == "counter") == metric.name.ends_with("_total"));
  }
}

TEST_CASE("a label value cannot end the label, the line or the text") {
  CHECK(label_text("a\"} 1\ncpprun_jobs 7\\") == "a\\\"} 1\\ncpprun_jobs 7\\\\");
  CHECK(label_text("\xff") == "?");
  auto jobs = one_job();
  jobs[0].terms.id = "x\"\n";
  CHECK(has_line(metrics_text(jobs, 1, t0), "cpprun_rounds_total{run_id=\"x\\\"\\n\"} 2"));
}

TEST_CASE("a metric says whether the next cpprund would know its jobs, if they are stored") {
  const std::string none = "# TYPE cpprun_records_durable gauge";
  CHECK(has_line(metrics_text({}, 0, t0), none));
  CHECK(metrics_text({}, 0, t0).find("\ncpprun_records_durable ") == std::string::npos);
  const auto exported = [](std::optional<bool> durable) {
    return metrics_text({}, 0, t0, MetricsFormat::plain, DaemonSnapshot{.durable = durable});
  };
  CHECK(has_line(exported(true), "cpprun_records_durable 1"));
  CHECK(has_line(exported(false), "cpprun_records_durable 0"));
  CHECK(exported({}).find("\ncpprun_records_durable ") == std::string::npos);
}

TEST_CASE("a daemon's metrics include its role, its standbys, etcd and changes of leadership") {
  DaemonSnapshot daemon{.has_etcd = true,
                        .leads = true,
                        .epoch = 12,
                        .standbys = {{.name = "b", .is_in_sync = true, .bytes_behind = 3},
                                     {.name = "c", .bytes_behind = 7}},
                        .changes = 2,
                        .last_change = LeaderChange{.silence = 12ms}};
  const auto exported = [&daemon] { return metrics_text({}, 0, t0, MetricsFormat::plain, daemon); };
  CHECK(has_line(exported(), "cpprun_leads 1"));
  CHECK(has_line(exported(), "cpprun_epoch 12"));
  CHECK(has_line(exported(), "cpprun_standbys{state=\"in_sync\"} 1"));
  CHECK(has_line(exported(), "cpprun_standbys{state=\"catching_up\"} 1"));
  CHECK(has_line(exported(), "cpprun_standby_bytes_behind_max 7"));
  CHECK(has_line(exported(), "cpprun_etcd_usable 1"));
  CHECK(has_line(exported(), "cpprun_leader_changes_total 2"));
  CHECK(has_line(exported(), "cpprun_leader_silence_seconds 0.012"));
  CHECK(exported().find("\ncpprun_in_sync ") == std::string::npos);
  daemon = {.has_etcd = true, .leader = "a", .is_in_sync = true, .trouble = "no answer"};
  CHECK(has_line(exported(), "cpprun_leads 0"));
  CHECK(has_line(exported(), "cpprun_in_sync 1"));
  CHECK(has_line(exported(), "cpprun_etcd_usable 0"));
  CHECK(has_line(exported(), "cpprun_warnings 1"));
  CHECK(exported().find("\ncpprun_standbys{") == std::string::npos);
  CHECK(metrics_text({}, 0, t0).find("\ncpprun_leads ") == std::string::npos);
}

TEST_CASE("without a job only the number of jobs is exported") {
  const std::string text = metrics_text({}, 0, t0);
  CHECK(has_line(text, "cpprun_jobs 0"));
  CHECK(text.find("run_id=") == std::string::npos);
}

}  // namespace metrics_test
