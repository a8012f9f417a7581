// SPDX-License-Identifier: BSD-3-Clause
// Variables: srun(1), OUTPUT ENVIRONMENT VARIABLES, of Slurm 22.05.
#include <fmt/format.h>

#include "launcher/scheduler/said.h"
#include "launcher/scheduler/scheduler_facts.h"
#include "proto/host_list.h"

namespace cpprun {

namespace {

// A step of a job, which is what srun starts. A batch script and the shell of an allocation are
// not: they run on one node, whatever the job has.
bool is_step(const Environment& environment) {
  return said_number(environment, 1, {"SLURM_STEP_NUM_NODES"}) &&
         said_number(environment, 0, {"SLURM_NODEID"}) &&
         said_number(environment, 0, {"SLURM_PROCID"});
}

// "slurm-77", "slurm-77.0", "slurm-70_3.0" of an array's task.
std::optional<Said<std::string>> job_of(const Environment& environment) {
  const auto job = said_text(environment, {"SLURM_JOB_ID", "SLURM_JOBID"});
  if (!job) return std::nullopt;
  const auto array = said_text(environment, {"SLURM_ARRAY_JOB_ID"});
  const auto task = said_text(environment, {"SLURM_ARRAY_TASK_ID"});
  const auto step = said_text(environment, {"SLURM_STEP_ID"});
  return Said<std::string>{
      fmt::format("slurm-{}{}{}", array && task ? array->value + "_" + task->value : job->value,
                  step ? "." : "", step ? step->value : ""),
      job->source};
}

// More than one on some node: then none is refused alone, or the others would wait for it.
void check_tasks(const Environment& environment, SchedulerFacts& facts) {
  const auto tasks = said_number(environment, 1, {"SLURM_STEP_NUM_TASKS"});
  if (!tasks || tasks->value <= facts.nodes->value) return;
  const auto placed = said_text(environment, {"SLURM_STEP_TASKS_PER_NODE"});
  const int here = placed ? tasks_of_node(placed->value, facts.node_rank->value) : 0;
  facts.mistakes.push_back(crowded_text(
      "Slurm",
      fmt::format("{} tasks on {} nodes ({}={})", tasks->value, facts.nodes->value,
                  placed ? placed->source : tasks->source,
                  placed ? placed->value : std::to_string(tasks->value)),
      fmt::format("srun --ntasks-per-node=1 cpprun --nproc-per-node={}", here > 1 ? here : 1)));
}

void read_step(const Environment& environment, SchedulerFacts& facts) {
  facts.nodes = said_number(environment, 1, {"SLURM_STEP_NUM_NODES"});
  facts.node_rank = said_number(environment, 0, {"SLURM_NODEID"});
  const auto hosts = said_text(environment, {"SLURM_STEP_NODELIST", "SLURM_JOB_NODELIST"});
  if (hosts) {
    const auto expanded = expand_hosts(hosts->value);
    if (expanded) {
      facts.master = {expanded->front(), hosts->source};
    } else {
      facts.no_master = fmt::format("{}: {}", hosts->source, expanded.error().reason);
    }
  }
  check_tasks(environment, facts);
  if (const auto components = said_number(environment, 2, {"SLURM_HET_SIZE"})) {
    facts.notes.push_back(fmt::format(
        "warning: this Slurm job has {} components ({}), and cpprun takes the {} nodes of one of "
        "them for the whole job\n  hint: for a job of all, give --nnodes, --node-rank, "
        "--master-addr and --rdzv-id",
        components->value, components->source, facts.nodes->value));
  }
}

// In a batch script itself, or in the shell of an allocation.
void read_allocation(const Environment& environment, SchedulerFacts& facts) {
  const auto nodes = said_number(environment, 2, {"SLURM_JOB_NUM_NODES", "SLURM_NNODES"});
  if (!nodes) return;
  facts.notes.push_back(
      fmt::format("this Slurm job has {} nodes ({}), and cpprun was started without srun, so on "
                  "this one alone: "
                  "`srun cpprun …` starts it on each",
                  nodes->value, nodes->source));
}

}  // namespace

std::optional<SchedulerFacts> slurm_facts(const Environment& environment) {
  SchedulerFacts facts{.name = "Slurm"};
  facts.job = job_of(environment);
  if (!facts.job) return std::nullopt;
  facts.port = {port_of(facts.job->value), facts.job->source};
  facts.gpus = said_number(environment, 1, {"SLURM_GPUS_ON_NODE"});
  is_step(environment) ? read_step(environment, facts) : read_allocation(environment, facts);
  return facts;
}

}  // namespace cpprun
