// SPDX-License-Identifier: BSD-3-Clause
#include "launcher/plan/plan.h"

#include <doctest/doctest.h>

namespace plan_test {

using namespace cpprun;

namespace {

Config two_workers() {
  Config config;
  config.job = "job7";
  config.local_world_size = 2;
  config.restarts.max = 3;
  config.role = "trainer";
  config.signals_text = "SIGTERM,SIGINT";
  config.program.arguments = {"--rank=${local_rank}", "cost=$$5", "$home"};
  return config;
}

link::Sealed second_node() {
  link::Sealed sealed;
  sealed.round = RoundNumber{2};
  sealed.restart_count = 1;
  sealed.group_rank = GroupRank{1};
  sealed.group_world_size = 2;
  sealed.base_rank = Rank{4};
  sealed.world_size = 6;
  sealed.role_base_rank = 1;
  sealed.role_world_size = 3;
  sealed.store_port = 29501;
  return sealed;
}

NodeFacts facts() {
  NodeFacts result;
  result.node_token = "t0ken";
  result.master_host = "10.0.0.1";
  result.sockets.gloo = "eth0";
  return result;
}

const ResolvedProgram program{
    {"/usr/bin/python3", "-u", "train.py"}, "/usr/bin/python3", "train.py"};

std::vector<WorkerSpec> plan_for(const Config& config, const NodeFacts& node = facts()) {
  return make_plan(config, second_node(), program, node);
}

}  // namespace

TEST_CASE("every worker gets torchrun's variables, exactly spelled") {
  const auto specs = plan_for(two_workers());
  REQUIRE(specs.size() == 2);
  CHECK(specs[1].variables == Environment{{"LOCAL_RANK", "1"},
                                          {"RANK", "5"},
                                          {"GROUP_RANK", "1"},
                                          {"ROLE_RANK", "2"},
                                          {"ROLE_NAME", "trainer"},
                                          {"LOCAL_WORLD_SIZE", "2"},
                                          {"WORLD_SIZE", "6"},
                                          {"GROUP_WORLD_SIZE", "2"},
                                          {"ROLE_WORLD_SIZE", "3"},
                                          {"MASTER_ADDR", "10.0.0.1"},
                                          {"MASTER_PORT", "29501"},
                                          {"TORCHELASTIC_RESTART_COUNT", "1"},
                                          {"TORCHELASTIC_MAX_RESTARTS", "3"},
                                          {"TORCHELASTIC_RUN_ID", "job7"},
                                          {"TORCHELASTIC_USE_AGENT_STORE", "True"},
                                          {"TORCHELASTIC_ERROR_FILE", ""},
                                          {"TORCHELASTIC_SIGNALS_TO_HANDLE", "SIGTERM,SIGINT"},
                                          {"TORCH_NCCL_ASYNC_ERROR_HANDLING", "1"},
                                          {"OMP_NUM_THREADS", "1"},
                                          {"GLOO_SOCKET_IFNAME", "eth0"},
                                          {"CPPRUN_MASTER_ADDR", "10.0.0.1"},
                                          {"CPPRUN_NODE_TOKEN", "t0ken"}});
}

TEST_CASE("with a local store the workers find it at loopback, and know the master") {
  auto node = facts();
  node.local_store_port = 40'001;
  const auto variables = plan_for(two_workers(), node)[0].variables;
  CHECK(variables.at("MASTER_ADDR") == "127.0.0.1");
  CHECK(variables.at("MASTER_PORT") == "40001");
  CHECK(variables.at("CPPRUN_MASTER_ADDR") == "10.0.0.1");
}

TEST_CASE("the user's variables are kept, and so is an outer cpprun's token") {
  auto node = facts();
  node.environment = {{"OMP_NUM_THREADS", "8"},
                      {"TORCH_NCCL_ASYNC_ERROR_HANDLING", "3"},
                      {"CPPRUN_NODE_TOKEN", "outer"}};
  const auto specs = plan_for(two_workers(), node);
  CHECK_FALSE(specs[0].variables.contains("OMP_NUM_THREADS"));
  CHECK_FALSE(specs[0].variables.contains("TORCH_NCCL_ASYNC_ERROR_HANDLING"));
  CHECK(specs[0].variables.at("CPPRUN_NODE_TOKEN") == "outer,t0ken");
}

TEST_CASE("a single worker keeps its threads") {
  auto config = two_workers();
  config.local_world_size = 1;
  CHECK_FALSE(plan_for(config)[0].variables.contains("OMP_NUM_THREADS"));
}

TEST_CASE("macros are replaced per worker and other text is unchanged") {
  const auto specs = plan_for(two_workers());
  CHECK(specs[1].argv == std::vector<std::string>{"/usr/bin/python3", "-u", "train.py", "--rank=1",
                                                  "cost=$5", "$home"});
  CHECK(expand_macros("$local_rank", LocalRank{3}) == "3");
  CHECK(expand_macros("$local_ranks ${local_rank ${} $ $1", LocalRank{3}) ==
        "$local_ranks ${local_rank ${} $ $1");
  CHECK(expand_macros("a$local_rank-b${local_rank}c$$local_rank", LocalRank{3}) ==
        "a3-b3c$local_rank");
}

TEST_CASE("the prefix is torchrun's, or the template's") {
  CHECK(line_prefix({}, "default", "n1", LocalRank{1}, Rank{5}) == "[default1]:");
  LogOptions logs;
  logs.prefix_template = "[rank${rank}/$local_rank $role_name@${hostname} $$ $other]: ";
  CHECK(line_prefix(logs, "r", "n1", LocalRank{1}, Rank{5}) == "[rank5/1 r@n1 $ $other]: ");
}

TEST_CASE("streams are routed by the flags and the filter") {
  auto config = two_workers();
  auto node = facts();
  node.run_directory = "/logs/job7_x";
  config.logs.redirects = {.all = {.out = true, .err = false}, .by_local_rank = {}};
  config.logs.tee = {.all = {.out = false, .err = true}, .by_local_rank = {}};
  config.logs.console_ranks = std::vector<int>{0};
  const auto specs = plan_for(config, node);
  CHECK(specs[0].out == StreamPlan{StreamTarget::file, "/logs/job7_x/attempt_1/0/stdout.log"});
  CHECK(specs[0].err == StreamPlan{StreamTarget::tee, "/logs/job7_x/attempt_1/0/stderr.log"});
  CHECK(specs[1].err == StreamPlan{StreamTarget::file, "/logs/job7_x/attempt_1/1/stderr.log"});
  CHECK(specs[1].error_file == "/logs/job7_x/attempt_1/1/error.json");
  CHECK(specs[1].variables.at("TORCHELASTIC_ERROR_FILE") == specs[1].error_file);
}

TEST_CASE("stderr passes through cpprun, and so does stdout if both are the same file") {
  const auto targets = [](Config config, ConsoleFacts console) {
    auto where = facts();
    where.console = console;
    const auto spec = plan_for(config, where).front();
    return std::pair(spec.out.target, spec.err.target);
  };
  using Pair = std::pair<StreamTarget, StreamTarget>;
  constexpr Pair inherited{StreamTarget::console, StreamTarget::console};
  Config config = two_workers();
  CHECK(targets(config, {.terminal = true, .one = false}) ==
        Pair{StreamTarget::console, StreamTarget::terminal});
  CHECK(targets(config, {.terminal = true, .one = true}) ==
        Pair{StreamTarget::with_err, StreamTarget::terminal});
  CHECK(targets(config, {.terminal = false, .one = false}) ==
        Pair{StreamTarget::console, StreamTarget::passed});
  CHECK(targets(config, {.terminal = false, .one = true}) ==
        Pair{StreamTarget::with_err, StreamTarget::passed});
  config.logs.redirects = *parse_stream_choices("1");
  config.logs.tee = *parse_stream_choices("0:2");
  auto where = facts();
  where.run_directory = "/logs/job7_x";
  where.console = {.terminal = false, .one = true};
  const auto specs = plan_for(config, where);
  CHECK(specs[0].err.target == StreamTarget::tee);
  CHECK(specs[1].out.target == StreamTarget::file);
  CHECK(specs[1].err.target == StreamTarget::passed);
  config = two_workers();
  config.logs.stderr_inherited = true;
  CHECK(targets(config, {.terminal = false, .one = true}) == inherited);
  CHECK(targets(config, {.terminal = true, .one = true}) == inherited);
}

TEST_CASE("files with a size limit are written by cpprun") {
  auto config = two_workers();
  auto node = facts();
  node.run_directory = "/logs/job7_x";
  config.logs.file_bytes_max = 5000;
  config.logs.redirects = {.all = {.out = true, .err = false}, .by_local_rank = {}};
  config.logs.tee = {.all = {.out = false, .err = true}, .by_local_rank = {}};
  const auto spec = plan_for(config, node).front();
  CHECK(spec.out.target == StreamTarget::kept);
  CHECK(spec.err.target == StreamTarget::tee);
  CHECK(spec.out.file_bytes_max == 5000);
  CHECK(spec.err.file_bytes_max == 5000);
}

TEST_CASE("a round without a restart gets a directory of its own, a restart gets torchrun's") {
  auto node = facts();
  node.run_directory = "/logs/job7_x";
  auto sealed = second_node();
  sealed.round = RoundNumber{3};  // one restart, and one change of membership
  const auto changed = make_plan(two_workers(), sealed, program, node);
  CHECK(changed[0].error_file == "/logs/job7_x/attempt_1_round_3/0/error.json");
  sealed.restart_count = 2;
  const auto restarted = make_plan(two_workers(), sealed, program, node);
  CHECK(restarted[0].error_file == "/logs/job7_x/attempt_2/0/error.json");
}

TEST_CASE("without a log directory a tee goes to the console only, and the filter silences") {
  auto config = two_workers();
  auto node = facts();
  node.error_directory = "/tmp/cpprun_x";
  config.logs.tee = {.all = {.out = true, .err = false}, .by_local_rank = {}};
  config.logs.console_ranks = std::vector<int>{1};
  const auto specs = plan_for(config, node);
  CHECK(specs[1].out == StreamPlan{StreamTarget::tee, ""});
  CHECK(specs[1].err == StreamPlan{StreamTarget::terminal, ""});
  CHECK(specs[0].out == StreamPlan{StreamTarget::nowhere, ""});
  CHECK(specs[0].err == StreamPlan{StreamTarget::kept, ""});  // its last lines, for the report
  CHECK(specs[0].error_file == "/tmp/cpprun_x/attempt_1_0_error.json");
  CHECK(specs[1].error_file == "/tmp/cpprun_x/attempt_1_1_error.json");
  CHECK(specs[0].log_directory.empty());
}

TEST_CASE("with logs disabled every stream stays on the console") {
  auto config = two_workers();
  config.logs.disabled = true;
  config.logs.redirects = {.all = {.out = true, .err = true}, .by_local_rank = {}};
  CHECK(plan_for(config)[0].out == StreamPlan{});
}

TEST_CASE("with a virtual local rank every worker has local rank 0 and sees its own device") {
  auto config = two_workers();
  config.virtual_local_rank = true;
  CHECK(plan_for(config)[1].variables.at("LOCAL_RANK") == "0");
  CHECK(plan_for(config)[1].variables.at("RANK") == "5");
  CHECK(plan_for(config)[1].variables.at("CUDA_VISIBLE_DEVICES") == "1");
  auto node = facts();
  node.environment = {{"CUDA_VISIBLE_DEVICES", "GPU-a, GPU-b ,GPU-c"}};
  CHECK(plan_for(config, node)[0].variables.at("CUDA_VISIBLE_DEVICES") == "GPU-a");
  CHECK(plan_for(config, node)[1].variables.at("CUDA_VISIBLE_DEVICES") == "GPU-b");
  CHECK(plan_for(config, node)[1].argv[3] == "--rank=1");
  CHECK_FALSE(plan_for(config, node)[1].variables.contains("HIP_VISIBLE_DEVICES"));
}

TEST_CASE("HIP_VISIBLE_DEVICES takes precedence, and a worker gets its device in both variables") {
  auto config = two_workers();
  config.virtual_local_rank = true;
  auto node = facts();
  node.environment = {{"CUDA_VISIBLE_DEVICES", "0,1"}, {"HIP_VISIBLE_DEVICES", "6, 4"}};
  const auto variables = plan_for(config, node)[1].variables;
  CHECK(variables.at("HIP_VISIBLE_DEVICES") == "4");
  CHECK(variables.at("CUDA_VISIBLE_DEVICES") == "4");
  node.environment["HIP_VISIBLE_DEVICES"].clear();
  CHECK(plan_for(config, node)[1].variables.at("CUDA_VISIBLE_DEVICES") == "1");
  CHECK_FALSE(plan_for(config, node)[1].variables.contains("HIP_VISIBLE_DEVICES"));
}

TEST_CASE("the script's own option for the local rank comes before its arguments") {
  auto config = two_workers();
  config.local_rank_flag = "local_rank";
  CHECK(plan_for(config)[1].argv == std::vector<std::string>{"/usr/bin/python3", "-u", "train.py",
                                                             "--local_rank=1", "--rank=1",
                                                             "cost=$5", "$home"});
}

TEST_CASE("duplicated lines of a teed stream go to one file of the attempt") {
  auto config = two_workers();
  auto node = facts();
  node.run_directory = "/logs/job7_x";
  config.logs.tee = {.all = {.out = true, .err = false}, .by_local_rank = {}};
  config.logs.duplicate_out = {"apple"};
  config.logs.duplicate_err = {"pear"};
  config.logs.console_ranks = std::vector<int>{0};
  const auto specs = plan_for(config, node);
  CHECK(specs[0].out.duplicate_file == "/logs/job7_x/attempt_1/filtered_stdout.log");
  CHECK(specs[0].out.duplicate_words == std::vector<std::string>{"apple"});
  CHECK(specs[0].err.duplicate_file.empty());
  CHECK(specs[1].out.duplicate_words.empty());
}

TEST_CASE("a worker is bound to the processors that the node assigns") {
  auto node = facts();
  CHECK(plan_for(two_workers(), node)[1].cpus.empty());
  node.cpus = {{0, 1}, {2, 3}};
  CHECK(plan_for(two_workers(), node)[1].cpus == CpuSet{2, 3});
}

}  // namespace plan_test
