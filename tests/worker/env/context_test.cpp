// SPDX-License-Identifier: BSD-3-Clause
#include "worker/env/context_parser.h"

#include <doctest/doctest.h>

namespace context_test {

using namespace cpprun;

namespace {

Environment torchrun_environment() {
  return {{"RANK", "3"},
          {"LOCAL_RANK", "1"},
          {"GROUP_RANK", "1"},
          {"ROLE_RANK", "3"},
          {"ROLE_NAME", "trainer"},
          {"WORLD_SIZE", "4"},
          {"LOCAL_WORLD_SIZE", "2"},
          {"GROUP_WORLD_SIZE", "2"},
          {"ROLE_WORLD_SIZE", "4"},
          {"MASTER_ADDR", "10.0.0.1"},
          {"MASTER_PORT", "29500"},
          {"TORCHELASTIC_RESTART_COUNT", "1"},
          {"TORCHELASTIC_MAX_RESTARTS", "3"},
          {"TORCHELASTIC_RUN_ID", "job7"},
          {"TORCHELASTIC_USE_AGENT_STORE", "True"},
          {"TORCHELASTIC_ERROR_FILE", "/logs/1/error.json"}};
}

Environment slurm_environment() {
  return {{"SLURM_PROCID", "5"},
          {"SLURM_LOCALID", "1"},
          {"SLURM_NODEID", "1"},
          {"SLURM_NTASKS", "6"},
          {"SLURM_NNODES", "2"},
          {"SLURM_TASKS_PER_NODE", "4,2"},
          {"SLURM_JOB_NODELIST", "gpu[07-08]"},
          {"SLURM_JOB_ID", "41234"}};
}

std::string reason_of(const Environment& environment) {
  const auto context = parse_context(environment);
  return context ? "accepted" : context.error().reason;
}

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("torchrun's variables describe a worker completely") {
  const auto context = parse_context(torchrun_environment());
  REQUIRE(context.has_value());
  CHECK(context->rank == Rank{3});
  CHECK(context->local_rank == LocalRank{1});
  CHECK(context->group_rank == GroupRank{1});
  CHECK(context->world_size == 4);
  CHECK(context->local_world_size == 2);
  CHECK(context->group_world_size == 2);
  CHECK(context->role_name == "trainer");
  CHECK(context->store ==
        MeetingPoint{
            .address = "10.0.0.1", .port = 29500, .hosted_by_launcher = true, .use_libuv = true});
  CHECK(context->restart_count == 1);
  CHECK(context->max_restarts == 3);
  CHECK(context->run_id == "job7");
  CHECK(context->error_file == "/logs/1/error.json");
  CHECK(context->launched_by == LaunchedBy::torchrun);
  CHECK_FALSE(context->leads());
}

TEST_CASE("an empty environment is a world of one") {
  const auto context = parse_context({});
  REQUIRE(context.has_value());
  CHECK(*context == Context{});
  CHECK(context->alone());
  CHECK(context->leads());
}

TEST_CASE("the four variables of env:// are enough") {
  const auto context = parse_context(
      {{"RANK", "1"}, {"WORLD_SIZE", "2"}, {"MASTER_ADDR", "127.0.0.1"}, {"MASTER_PORT", "29500"}});
  REQUIRE(context.has_value());
  CHECK(context->rank == Rank{1});
  CHECK(context->role_rank == Rank{1});
  CHECK_FALSE(context->store.hosted_by_launcher);
}

TEST_CASE("only the value True means that the launcher hosts the store") {
  Environment environment = torchrun_environment();
  environment["TORCHELASTIC_USE_AGENT_STORE"] = "true";
  CHECK_FALSE(parse_context(environment)->store.hosted_by_launcher);
}

TEST_CASE("USE_LIBUV=0 selects the older store server") {
  Environment environment = torchrun_environment();
  environment["USE_LIBUV"] = "0";
  CHECK_FALSE(parse_context(environment)->store.use_libuv);
}

TEST_CASE("a rank that is not a number is an error with its value") {
  Environment environment = torchrun_environment();
  environment["RANK"] = "abc";
  CHECK(contains(reason_of(environment), "RANK=abc is not a whole number from 0"));
}

TEST_CASE("a rank beyond the world is rejected with both numbers") {
  Environment environment = torchrun_environment();
  environment["RANK"] = "4";
  CHECK(contains(reason_of(environment), "RANK=4 must be below WORLD_SIZE=4"));
}

TEST_CASE("a local rank beyond its machine is rejected with both numbers") {
  Environment environment = torchrun_environment();
  environment["LOCAL_RANK"] = "2";
  CHECK(contains(reason_of(environment), "LOCAL_RANK=2 must be below LOCAL_WORLD_SIZE=2"));
}

TEST_CASE("several ranks without a meeting point are an error that names the missing variables") {
  Environment environment = torchrun_environment();
  environment.erase("MASTER_ADDR");
  environment["MASTER_PORT"] = "";
  const std::string reason = reason_of(environment);
  CHECK(contains(reason, "MASTER_ADDR is not set: with WORLD_SIZE=4, set it to"));
  CHECK(contains(reason, "MASTER_PORT is not set"));
}

TEST_CASE("a port out of range is rejected") {
  Environment environment = torchrun_environment();
  environment["MASTER_PORT"] = "65536";
  CHECK(
      contains(reason_of(environment), "MASTER_PORT=65536 is not a whole number from 0 to 65535"));
  environment["MASTER_PORT"] = "0";
  CHECK(contains(reason_of(environment), "MASTER_PORT=0 is not a valid port"));
}

TEST_CASE("a rank without a world is an error that explains how to start") {
  CHECK(
      contains(reason_of({{"RANK", "0"}}), "WORLD_SIZE is not set: start the program with cpprun"));
}

TEST_CASE("Slurm's variables are used if torchrun's are missing") {
  const auto context = parse_context(slurm_environment());
  REQUIRE(context.has_value());
  CHECK(context->rank == Rank{5});
  CHECK(context->local_rank == LocalRank{1});
  CHECK(context->group_rank == GroupRank{1});
  CHECK(context->world_size == 6);
  CHECK(context->local_world_size == 2);
  CHECK(context->group_world_size == 2);
  CHECK(context->store.address == "gpu07");
  CHECK(context->store.port == 20000 + 41234 % 20000);
  CHECK_FALSE(context->store.hosted_by_launcher);
  CHECK(context->launched_by == LaunchedBy::slurm);
}

TEST_CASE("a Slurm step smaller than its job determines the world") {
  Environment environment = slurm_environment();
  environment["SLURM_NTASKS"] = "64";
  environment["SLURM_STEP_NUM_TASKS"] = "6";
  CHECK(parse_context(environment)->world_size == 6);
}

TEST_CASE("torchrun's variables take precedence over Slurm's") {
  Environment environment = slurm_environment();
  environment.merge(torchrun_environment());
  CHECK(parse_context(environment)->rank == Rank{3});
}

TEST_CASE("MASTER_ADDR and MASTER_PORT take precedence over Slurm's defaults") {
  Environment environment = slurm_environment();
  environment["MASTER_ADDR"] = "10.1.1.1";
  environment["MASTER_PORT"] = "4000";
  const auto context = parse_context(environment);
  CHECK(context->store.address == "10.1.1.1");
  CHECK(context->store.port == 4000);
}

TEST_CASE("a Slurm task beyond its world is rejected with both numbers") {
  Environment environment = slurm_environment();
  environment["SLURM_PROCID"] = "6";
  CHECK(contains(reason_of(environment), "SLURM_PROCID=6 must be below SLURM_NTASKS=6"));
}

TEST_CASE("a program in the shell of a Slurm allocation runs alone") {
  const auto context = parse_context({{"SLURM_NTASKS", "8"}, {"SLURM_JOB_ID", "1"}});
  REQUIRE(context.has_value());
  CHECK(context->alone());
}

TEST_CASE("Open MPI's variables are sufficient on one machine") {
  const Environment mpi = {{"OMPI_COMM_WORLD_RANK", "1"},
                           {"OMPI_COMM_WORLD_SIZE", "2"},
                           {"OMPI_COMM_WORLD_LOCAL_RANK", "1"},
                           {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"}};
  const auto context = parse_context(mpi);
  REQUIRE(context.has_value());
  CHECK(context->launched_by == LaunchedBy::open_mpi);
  CHECK(context->rank == Rank{1});
  CHECK(context->world_size == 2);
  CHECK(context->local_rank == LocalRank{1});
  CHECK(context->store.address == "127.0.0.1");
  CHECK(context->store.port == 29500);
}

TEST_CASE("several machines under mpirun need the address of rank 0") {
  Environment mpi = {{"OMPI_COMM_WORLD_RANK", "1"}, {"OMPI_COMM_WORLD_SIZE", "2"}};
  CHECK(contains(reason_of(mpi), "-x MASTER_ADDR=<host of rank 0>"));
  mpi["MASTER_ADDR"] = "node1";
  CHECK(reason_of(mpi) == "accepted");
  mpi["OMPI_COMM_WORLD_RANK"] = "2";
  CHECK(contains(reason_of(mpi), "OMPI_COMM_WORLD_RANK=2 must be below OMPI_COMM_WORLD_SIZE=2"));
}

TEST_CASE(
    "the debug level OFF or DETAIL is read, and an empty list of GPUs differs from an unset "
    "one") {
  CHECK_FALSE(parse_context({})->distributed_debug);
  CHECK(parse_context({{"CPPRUN_DISTRIBUTED_DEBUG", "DETAIL"}})->distributed_debug);
  CHECK(parse_context({{"TORCH_DISTRIBUTED_DEBUG", "detail"}})->distributed_debug);
  CHECK_FALSE(parse_context({{"TORCH_DISTRIBUTED_DEBUG", "INFO"}})->distributed_debug);
  CHECK_FALSE(
      parse_context({{"CPPRUN_DISTRIBUTED_DEBUG", "OFF"}, {"TORCH_DISTRIBUTED_DEBUG", "DETAIL"}})
          ->distributed_debug);
  CHECK(contains(reason_of({{"TORCH_DISTRIBUTED_DEBUG", "all"}}),
                 "TORCH_DISTRIBUTED_DEBUG=all is invalid (valid: OFF, INFO, DETAIL)"));
  CHECK_FALSE(parse_context({})->cuda_visible_devices.has_value());
  CHECK(parse_context({{"CUDA_VISIBLE_DEVICES", ""}})->cuda_visible_devices == "");
}

}  // namespace context_test
