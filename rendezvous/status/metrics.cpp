// SPDX-License-Identifier: BSD-3-Clause
#include "rendezvous/status/metrics.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>

#include "proto/text.h"

namespace cpprun {

namespace {

// Parses "1", "0.5" or "0.125"; any other form counts as 0.
int thousandths(std::string_view text) {
  const bool is_one = text.starts_with('1');
  if (!is_one && !text.starts_with('0')) return 0;
  int weight = is_one ? 1000 : 0;
  text.remove_prefix(1);
  if (text.empty()) return weight;
  if (!text.starts_with('.') || text.size() > 4) return 0;
  int unit = 100;
  for (const char digit : text.substr(1)) {
    if (digit < '0' || digit > '9') return 0;
    weight += (digit - '0') * unit;
    unit /= 10;
  }
  return std::min(weight, 1000);
}

// One parsed media range of an Accept header.
struct Accepted {
  std::string_view type;
  std::string_view version;  // empty: any
  int weight = 1000;         // in thousandths
};

Accepted read(std::string_view range) {
  Accepted accepted{.type = trimmed(range.substr(0, range.find(';')))};
  for (auto semicolon = range.find(';'); semicolon != std::string_view::npos;
       semicolon = range.find(';')) {
    range.remove_prefix(semicolon + 1);
    const auto part = range.substr(0, range.find(';'));
    const auto equals = part.find('=');
    const auto value = equals == std::string_view::npos ? "" : trimmed(part.substr(equals + 1));
    const auto name = trimmed(part.substr(0, equals));
    if (is_alike(name, "q")) accepted.weight = thousandths(value);
    if (is_alike(name, "version")) accepted.version = value;
  }
  return accepted;
}

}  // namespace

MetricsFormat metrics_format(std::string_view accept) {
  int open_metrics = 0;
  int plain = 0;
  for (const auto range : split(accept, ',')) {
    const Accepted each = read(range);
    const auto is = [&](std::string_view type, std::string_view version) {
      return is_alike(each.type, type) && (each.version.empty() || each.version == version);
    };
    if (is("application/openmetrics-text", "1.0.0")) {
      open_metrics = std::max(open_metrics, each.weight);
    } else if (is("text/plain", "0.0.4") || each.type == "text/*" || each.type == "*/*") {
      plain = std::max(plain, each.weight);
    }
  }
  const bool is_wanted = open_metrics > 0 && open_metrics >= plain;
  return is_wanted ? MetricsFormat::open_metrics : MetricsFormat::plain;
}

std::string_view content_type(MetricsFormat format) {
  switch (format) {
    case MetricsFormat::open_metrics:
      return "application/openmetrics-text; version=1.0.0; charset=utf-8";
    case MetricsFormat::plain:
      break;
  }
  return "text/plain; version=0.0.4; charset=utf-8";
}

namespace {

enum Metric : std::size_t {
  jobs_known,
  job_state,
  state_seconds,
  rounds_total,
  restarts_total,
  restarts_left,
  restarts_max,
  failures_total,
  nodes_present,
  nodes_away,
  nodes_min,
  nodes_max,
  workers_in_world,
  lease_seconds,
  silence_seconds,
  node_seconds,
  exit_code,
  workers_running,
  workers_beating,
  step_min,
  step_max,
  checkpoint_step,
  steps_per_second,
  beat_age,
  resident_bytes,
  figures_age,
  records_durable,
  daemon_leads,
  daemon_epoch,
  daemon_in_sync,
  daemon_standbys,
  standby_bytes_behind,
  etcd_usable,
  leader_changes,
  leader_silence,
  daemon_warnings,
  metric_count,
};

constexpr std::array<MetricFacts, metric_count> facts = {{
    {"cpprun_jobs", "gauge", "", "Jobs of this coordinator."},
    {"cpprun_job_state", "gauge", "run_id, state",
     "1 for the current state of the job: gathering, pausing, running, draining or over."},
    {"cpprun_job_state_seconds", "gauge", "run_id", "Time since the job entered its state."},
    {"cpprun_rounds_total", "counter", "run_id", "Rounds that have started."},
    {"cpprun_restarts_total", "counter", "run_id, cause",
     "Restarts used, by the cause of the failure."},
    {"cpprun_restarts_left", "gauge", "run_id", "Restarts left in the budget."},
    {"cpprun_restarts_max", "gauge", "run_id", "The restart budget."},
    {"cpprun_failures_total", "counter", "run_id, cause",
     "Rounds that ended with a failure, by the cause of the first failure."},
    {"cpprun_nodes", "gauge", "run_id, state",
     "Nodes by state: waiting, running, succeeded or drained."},
    {"cpprun_nodes_away", "gauge", "run_id", "Disconnected nodes whose lease has not expired."},
    {"cpprun_nodes_min", "gauge", "run_id", "Minimum number of nodes of the job."},
    {"cpprun_nodes_max", "gauge", "run_id", "Maximum number of nodes of the job."},
    {"cpprun_workers", "gauge", "run_id", "Workers of the latest round."},
    {"cpprun_lease_seconds", "gauge", "run_id",
     "Time without a message after which a node is lost."},
    {"cpprun_silence_seconds_max", "gauge", "run_id",
     "Time since the last message of the longest-silent node."},
    {"cpprun_node_seconds", "gauge", "run_id, account",
     "Time of all nodes by account. A detected failure moves time between accounts."},
    {"cpprun_job_exit_code", "gauge", "run_id", "Exit code of a job that has ended."},
    {"cpprun_workers_running", "gauge", "run_id", "Workers that their nodes report as running."},
    {"cpprun_workers_beating", "gauge", "run_id", "Running workers that have sent heartbeats."},
    {"cpprun_step_min", "gauge", "run_id", "Step of the slowest worker."},
    {"cpprun_step_max", "gauge", "run_id", "Step of the fastest worker."},
    {"cpprun_checkpoint_step", "gauge", "run_id", "Step of the latest reported checkpoint."},
    {"cpprun_steps_per_second_min", "gauge", "run_id", "Steps per second of the slowest worker."},
    {"cpprun_beat_age_seconds_max", "gauge", "run_id",
     "Time since the last heartbeat of the longest-silent worker."},
    {"cpprun_worker_resident_bytes_max", "gauge", "run_id",
     "Resident memory of the largest worker, without its children."},
    {"cpprun_figures_age_seconds_max", "gauge", "run_id", "Age of the oldest worker statistics."},
    {"cpprun_records_durable", "gauge", "",
     "Whether the jobs would survive a restart of this cpprund; only with --state."},
    {"cpprun_leads", "gauge", "", "Whether this cpprund is the leader."},
    {"cpprun_epoch", "gauge", "", "Epoch of the leader."},
    {"cpprun_in_sync", "gauge", "",
     "Whether this standby has all data of the leader; only on a standby."},
    {"cpprun_standbys", "gauge", "state",
     "Standbys of this cpprund by state: in_sync or catching_up; only on the leader."},
    {"cpprun_standby_bytes_behind_max", "gauge", "",
     "Bytes that the slowest standby still lacks; only if there is a standby."},
    {"cpprun_etcd_usable", "gauge", "",
     "Whether etcd responds and accepts writes; only with --etcd."},
    {"cpprun_leader_changes_total", "counter", "",
     "Changes of the leader, as seen by this cpprund."},
    {"cpprun_leader_silence_seconds", "gauge", "",
     "Time without a leader at the last change, as seen by this cpprund."},
    {"cpprun_warnings", "gauge", "", "Number of warnings; cpprunctl status shows them."},
}};

// All series of one metric have to be adjacent in the output. Prometheus reads every value as a
// double.
class Writer {
 public:
  Writer(std::string& text, MetricsFormat format) : text_(text), format_(format) {}

  void begin(Metric metric) {
    name_ = facts[metric].name;
    const bool is_open = format_ == MetricsFormat::open_metrics;
    const auto family = is_open ? without(name_, "_total") : name_;
    text_ += fmt::format("# HELP {} {}\n# TYPE {} {}\n", family, facts[metric].help, family,
                         facts[metric].type);
    const bool has_unit = is_open && name_.ends_with("_seconds");
    if (has_unit) text_ += fmt::format("# UNIT {} seconds\n", family);
  }
  void add(double value) { text_ += fmt::format("{} {}\n", name_, value); }
  void add(std::string_view label, std::string_view of, double value) {
    text_ += fmt::format("{}{{{}=\"{}\"}} {}\n", name_, label, label_text(of), value);
  }
  void add(const JobSnapshot& job, double value) {
    text_ += fmt::format("{}{{run_id=\"{}\"}} {}\n", name_, label_text(job.terms.id), value);
  }
  void add(const JobSnapshot& job, std::string_view label, std::string_view of, double value) {
    text_ += fmt::format("{}{{run_id=\"{}\",{}=\"{}\"}} {}\n", name_, label_text(job.terms.id),
                         label, label_text(of), value);
  }

 private:
  static std::string_view without(std::string_view name, std::string_view suffix) {
    if (name.ends_with(suffix)) name.remove_suffix(suffix.size());
    return name;
  }

  std::string& text_;
  const MetricsFormat format_;
  std::string_view name_;
};

using Value = double (*)(const JobSnapshot&);
using Counts = const std::map<std::string, std::size_t>& (*)(const JobSnapshot&);

void write_states(Writer& writer, const std::vector<JobSnapshot>& jobs, TimePoint now) {
  writer.begin(job_state);
  constexpr std::array states = {JobState::gathering, JobState::pausing, JobState::running,
                                 JobState::draining, JobState::over};
  for (const auto& job : jobs) {
    for (const auto state : states) {
      writer.add(job, "state", name_of(state), job.state == state ? 1 : 0);
    }
  }
  writer.begin(state_seconds);
  for (const auto& job : jobs) {
    if (job.since) writer.add(job, in_seconds(now - *job.since));
  }
}

void write_nodes(Writer& writer, const std::vector<JobSnapshot>& jobs) {
  writer.begin(nodes_present);
  for (const auto& job : jobs) {
    const auto add = [&](Member::State state, std::size_t count) {
      writer.add(job, "state", name_of(state), static_cast<double>(count));
    };
    add(Member::State::waiting, job.nodes.waiting);
    add(Member::State::running, job.nodes.running);
    add(Member::State::succeeded, job.nodes.succeeded);
    add(Member::State::drained, job.nodes.drained);
  }
}

void write_causes(Writer& writer, Metric metric, const std::vector<JobSnapshot>& jobs,
                  Counts counts) {
  writer.begin(metric);
  for (const auto& job : jobs) {
    for (const auto& [cause, count] : counts(job))
      writer.add(job, "cause", cause, static_cast<double>(count));
  }
}

void write_each(Writer& writer, Metric metric, const std::vector<JobSnapshot>& jobs, Value value) {
  writer.begin(metric);
  for (const auto& job : jobs) writer.add(job, value(job));
}

using Figure = std::optional<double> (*)(const JobProgress&);

std::optional<double> number(const std::optional<std::int64_t>& value, double unit = 1) {
  return value ? std::optional(static_cast<double>(*value) * unit) : std::nullopt;
}
std::optional<double> seconds(const std::optional<Duration>& value) {
  return value ? std::optional(in_seconds(*value)) : std::nullopt;
}

// Only minima and maxima: a series per worker would be millions.
void write_progress(Writer& writer, const std::vector<JobSnapshot>& jobs) {
  const auto write = [&](Metric metric, Figure figure) {
    writer.begin(metric);
    for (const auto& job : jobs) {
      const auto value = job.progress ? figure(*job.progress) : std::nullopt;
      if (value) writer.add(job, *value);
    }
  };
  using Progress = const JobProgress&;
  using Optional = std::optional<double>;
  write(workers_running, [](Progress of) -> Optional { return static_cast<double>(of.workers); });
  write(workers_beating, [](Progress of) -> Optional { return static_cast<double>(of.beating); });
  write(step_min, [](Progress of) { return number(of.step_min); });
  write(step_max, [](Progress of) { return number(of.step_max); });
  write(checkpoint_step, [](Progress of) { return number(of.checkpoint_step); });
  write(steps_per_second, [](Progress of) { return number(of.millisteps_per_second_min, 0.001); });
  write(beat_age, [](Progress of) { return seconds(of.beat_age_max); });
  write(resident_bytes, [](Progress of) { return number(of.resident_kib_max, 1024); });
  write(figures_age, [](Progress of) { return seconds(of.told_ago_max); });
}

double figure(std::uint64_t number) {
  return static_cast<double>(number);
}

void write_standbys(Writer& writer, const DaemonSnapshot& daemon) {
  std::uint64_t in_sync = 0;
  std::uint64_t bytes_behind = 0;
  for (const StandbySnapshot& each : daemon.standbys) {
    in_sync += each.is_in_sync ? 1 : 0;
    bytes_behind = std::max(bytes_behind, each.bytes_behind);
  }
  writer.begin(daemon_standbys);
  if (daemon.leads) {
    writer.add("state", "in_sync", figure(in_sync));
    writer.add("state", "catching_up", figure(daemon.standbys.size() - in_sync));
  }
  writer.begin(standby_bytes_behind);
  if (!daemon.standbys.empty()) writer.add(figure(bytes_behind));
}

// In a cpprun the metrics are declared, but have no samples.
void write_daemon(Writer& writer, const std::optional<DaemonSnapshot>& it) {
  const DaemonSnapshot daemon = it.value_or(DaemonSnapshot{});
  const auto write = [&](Metric metric, std::optional<double> value) {
    writer.begin(metric);
    if (it && value) writer.add(*value);
  };
  const auto only = [](bool is_known, double value) {
    return is_known ? std::optional(value) : std::nullopt;
  };
  write(records_durable, only(daemon.durable.has_value(), daemon.durable == true));
  write(daemon_leads, daemon.leads);
  write(daemon_epoch, figure(daemon.epoch));
  write(daemon_in_sync, only(!daemon.leads, daemon.is_in_sync));
  write_standbys(writer, daemon);
  write(etcd_usable, only(daemon.has_etcd, daemon.trouble.empty()));
  write(leader_changes, figure(daemon.changes));
  const auto silence = daemon.last_change ? daemon.last_change->silence : std::nullopt;
  write(leader_silence, seconds(silence));
  write(daemon_warnings, figure(warnings_of(daemon).size()));
}

}  // namespace

std::span<const MetricFacts> metrics() {
  return facts;
}

std::string metrics_text(const std::vector<JobSnapshot>& jobs, std::size_t jobs_total,
                         TimePoint now, MetricsFormat format,
                         const std::optional<DaemonSnapshot>& daemon) {
  std::string text;
  Writer writer(text, format);
  writer.begin(jobs_known);
  writer.add(static_cast<double>(jobs_total));
  write_states(writer, jobs, now);
  write_each(writer, rounds_total, jobs,
             [](const JobSnapshot& job) -> double { return job.round.value; });
  write_causes(writer, restarts_total, jobs,
               [](const JobSnapshot& job) -> const auto& { return job.restarts_by_cause; });
  write_each(writer, restarts_left, jobs,
             [](const JobSnapshot& job) -> double { return job.restarts_left; });
  write_each(writer, restarts_max, jobs,
             [](const JobSnapshot& job) -> double { return job.terms.restarts.max; });
  write_causes(writer, failures_total, jobs,
               [](const JobSnapshot& job) -> const auto& { return job.failures_by_cause; });
  write_nodes(writer, jobs);
  write_each(writer, nodes_away, jobs,
             [](const JobSnapshot& job) { return static_cast<double>(job.nodes.away); });
  write_each(writer, nodes_min, jobs,
             [](const JobSnapshot& job) -> double { return job.terms.nodes_min; });
  write_each(writer, nodes_max, jobs,
             [](const JobSnapshot& job) -> double { return job.terms.nodes_max; });
  write_each(writer, workers_in_world, jobs,
             [](const JobSnapshot& job) -> double { return job.world_size; });
  write_each(writer, lease_seconds, jobs,
             [](const JobSnapshot& job) { return in_seconds(job.lease); });
  writer.begin(silence_seconds);
  for (const auto& job : jobs) {
    if (job.silence_max) writer.add(job, in_seconds(*job.silence_max));
  }
  writer.begin(node_seconds);
  for (const auto& job : jobs) {
    for (std::size_t i = 0; i < account_count; ++i) {
      writer.add(job, "account", name_of(static_cast<Account>(i)),
                 std::chrono::duration<double>(job.time.nodes[i]).count());
    }
  }
  writer.begin(exit_code);
  for (const auto& job : jobs) {
    if (job.finish) writer.add(job, job.finish->exit_code);
  }
  write_progress(writer, jobs);
  write_daemon(writer, daemon);
  if (format == MetricsFormat::open_metrics) text += "# EOF\n";
  return text;
}

std::string label_text(std::string_view value) {
  std::string text;
  // Invalid UTF-8 would make the whole reply unreadable.
  for (const char letter : plain_lines(value)) {
    if (letter == '\\' || letter == '"') {
      text += '\\';
      text += letter;
    } else if (letter == '\n') {
      text += "\\n";
    } else {
      text += letter;
    }
  }
  return text;
}

}  // namespace cpprun
