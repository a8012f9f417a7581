// SPDX-License-Identifier: BSD-3-Clause
// Variables: HPE's PALS, application interface (PALS_*, and PMI_* beside them); PBS's qsub(1B).
#include <fmt/format.h>

#include "launcher/scheduler/said.h"
#include "launcher/scheduler/scheduler_facts.h"

namespace cpprun {

namespace {

void read_job(const Environment& environment, SchedulerFacts& facts) {
  const auto job = said_text(environment, {"PBS_JOBID"});
  const auto application = said_text(environment, {"PALS_APID"});
  const auto& id = job ? job : application;
  if (!id) return;
  facts.job = {(job ? "pbs-" : "pals-") + id->value, id->source};
  facts.port = {port_of(id->value), id->source};
}

// One task a node, started by PALS.
SchedulerFacts pals_facts(const Environment& environment, const Said<int>& node,
                          const TextFile& read_file) {
  SchedulerFacts facts{.name = "PALS", .node_rank = node};
  facts.nodes = said_number(environment, 1, {"PMI_SIZE"});
  const auto here = said_number(environment, 1, {"PMI_LOCAL_SIZE", "PALS_LOCAL_SIZE"});
  if (here && here->value > 1) {
    facts.mistakes.push_back(
        crowded_text("mpiexec", tasks_here(*here), "mpiexec --ppn 1 cpprun …"));
  }
  read_job(environment, facts);
  const auto file = said_text(environment, {"PBS_NODEFILE"});
  if (!file) return facts;
  // The file is on the first host alone, at some sites.
  const auto text = read_file(file->value);
  const auto hosts = text ? hosts_of_lines(*text) : std::vector<std::string>{};
  if (!hosts.empty()) {
    facts.master = {hosts.front(), file->source};
  } else {
    facts.no_master = fmt::format(
        "{}={} cannot be read on this host{}{}; the job's script can: cpprun "
        "--master-addr=$(head -n 1 $PBS_NODEFILE) …",
        file->source, file->value, text ? "" : ": ", text ? "" : text.error().reason);
  }
  return facts;
}

}  // namespace

std::optional<SchedulerFacts> pbs_facts(const Environment& environment, const TextFile& read_file) {
  if (const auto node = said_number(environment, 0, {"PALS_NODEID"})) {
    return pals_facts(environment, *node, read_file);
  }
  const auto job = said_text(environment, {"PBS_JOBID"});
  const auto file = said_text(environment, {"PBS_NODEFILE"});
  if (!job || !file) return std::nullopt;
  // In the job's script: PBS leaves it to others to start anything on the other hosts.
  SchedulerFacts facts{.name = "PBS"};
  read_job(environment, facts);
  const auto text = read_file(file->value);
  const auto hosts = text ? hosts_of_lines(*text) : std::vector<std::string>{};
  if (hosts.size() > 1) {
    facts.notes.push_back(
        fmt::format("this PBS job has {} hosts ({}), and cpprun was started on this one alone: "
                    "`mpiexec --ppn 1 cpprun …` or `mpirun -N 1 cpprun …` starts it on each",
                    hosts.size(), file->source));
  }
  return facts;
}

}  // namespace cpprun
