// SPDX-License-Identifier: BSD-3-Clause
#include "proto/link/values_json.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <limits>

#include "proto/link/bounds.h"
#include "proto/link/codec.h"
#include "proto/link/message.h"

namespace link_figures_json_test {

using namespace cpprun;
using namespace cpprun::link;
using namespace std::chrono_literals;

namespace {

// A worker in the middle of a long training, as one of eight on a node.
WorkerStats training(int local_rank) {
  return {.local_rank = LocalRank{local_rank},
          .pid = 2'345'678 + 3 * local_rank,
          .state = WorkerState::running,
          .since = 86'412'345ms + 2ms * local_rank,
          .step = 1'234'567 - local_rank % 2,
          .millisteps_per_second = 14'287 + 11 * local_rank,
          .samples = 316'049'152 - 256 * (local_rank % 2),
          .checkpoint_step = 1'234'000,
          .last_beat = 37ms + 4ms * local_rank,
          .resident_kib = 45'678'901 + 12'345 * local_rank,
          .cpu_percent = 137 + local_rank,
          .last_words = 3'612'000ms + 700ms * local_rank};
}

Status of_node(int workers) {
  Status status{.round = RoundNumber{12}};
  for (int local = 0; local < workers; ++local) status.workers.push_back(training(local));
  return status;
}

Status through_the_wire(const Status& status) {
  const auto decoded = decode(encode(status));
  REQUIRE_MESSAGE(decoded.has_value(), decoded.error().reason);
  REQUIRE(decoded->has_value());
  return std::get<Status>(decoded->value().message);
}

std::string refusal_of_rows(std::string_view rows) {
  const std::string body = fmt::format(R"({{"say":"status","round":1,"workers":{}}})", rows);
  std::string frame = {static_cast<char>(body.size() & 0xFF), static_cast<char>(body.size() >> 8),
                       0, 0};
  const auto decoded = decode(frame + body);
  return decoded ? std::string{} : decoded.error().reason;
}

}  // namespace

TEST_CASE("statistics survive a round trip, and unknown values stay unknown") {
  CHECK(through_the_wire(of_node(8)) == of_node(8));
  Status status = of_node(3);
  status.workers[1] = {.local_rank = LocalRank{1}, .state = WorkerState::starting};
  status.workers[2].last_words.reset();
  CHECK(through_the_wire(status) == status);
}

TEST_CASE("a total and metrics survive a round trip with six digits, for their worker only") {
  Status status = of_node(3);
  status.workers[1].total = 2'000'000;
  status.workers[1].metrics = {{"loss", 0.25}, {"lr", 3e-5}, {"z", {}}};
  status.workers[2].metrics = {{"loss", -1e300}};
  CHECK(through_the_wire(status) == status);
  status.workers[1].metrics = {{"loss", 1.23456789}};
  CHECK(through_the_wire(status).workers[1].metrics.front().value == 1.23457);
}

TEST_CASE("a last line and a GPU survive a round trip, with a total and without") {
  Status status = of_node(4);
  status.workers[0].last_line = "epoch 3: \"loss\" 0.25 \xC3\xA4";
  status.workers[1].gpu = {.index = 7, .percent = 98, .used_mib = 71'234, .total_mib = 81'559};
  status.workers[2].total = 7;
  status.workers[2].last_line = "x";
  status.workers[2].gpu = GpuUse{};
  CHECK(through_the_wire(status) == status);
}

TEST_CASE("the largest worker with all its metrics fits in a frame") {
  WorkerStats wild{.local_rank = LocalRank{bounds::local_world_size_max - 1},
                   .pid = std::numeric_limits<int>::max(),
                   .state = WorkerState::failed,
                   .since = Duration::max(),
                   .step = figure_max,
                   .millisteps_per_second = figure_max,
                   .samples = figure_max,
                   .checkpoint_step = figure_max,
                   .last_beat = Duration::max(),
                   .total = figure_max,
                   .resident_kib = figure_max,
                   .cpu_percent = figure_max,
                   .last_words = Duration::max()};
  for (char name = 'a'; name < 'i'; ++name) {
    wild.metrics.push_back({std::string(16, name), -1.234567e-301});
  }
  wild.last_line = std::string(last_line_bytes_max, '"');
  wild.gpu = GpuUse{.index = std::numeric_limits<int>::max()};
  wild.gpu->used_mib = wild.gpu->total_mib = figure_max >> 20;
  const Status status{.round = RoundNumber{std::numeric_limits<std::uint32_t>::max()},
                      .workers = {wild}};
  CHECK(encode(status).size() <= status_frame_bytes_max);
  CHECK(brief(status) == status);
}

TEST_CASE("eight workers of a long training fit in a frame, with their last lines and GPUs") {
  Status all = of_node(8);
  CHECK(encode(all).size() <= 512);
  for (WorkerStats& each : all.workers) {
    each.last_line = std::string(last_line_bytes_max, 'x');
    each.gpu = {.index = 7, .percent = 98, .used_mib = 71'234, .total_mib = 81'559};
  }
  CHECK(encode(all).size() <= status_frame_bytes_max);
  CHECK(brief(all) == all);
}

TEST_CASE("of too many workers the first are sent, and at least one") {
  const Status some = brief(of_node(2048));
  CHECK(encode(some).size() <= status_frame_bytes_max);
  CHECK(some.workers.size() >= 8);
  CHECK(some.workers.front() == training(0));
  Status wild{.round = RoundNumber{std::numeric_limits<std::uint32_t>::max()}};
  for (int local = 0; local < 4; ++local) {
    const std::int64_t huge = local % 2 == 0 ? figure_max : 0;
    wild.workers.push_back({.local_rank = LocalRank{local},
                            .pid = std::numeric_limits<int>::max(),
                            .state = WorkerState::failed,
                            .since = Duration::max(),
                            .step = huge,
                            .millisteps_per_second = huge,
                            .samples = huge,
                            .checkpoint_step = huge,
                            .last_beat = Duration::max(),
                            .resident_kib = huge,
                            .cpu_percent = huge,
                            .last_words = Duration::max()});
  }
  CHECK(brief(wild).workers.size() >= 1);
  CHECK(encode(brief(wild)).size() <= status_frame_bytes_max);
}

TEST_CASE("a value beyond the plausible maximum is sent as the maximum") {
  Status status{.round = RoundNumber{1}, .workers = {{.since = -5s, .step = -7, .samples = -1}}};
  status.workers.front().cpu_percent = std::numeric_limits<std::int64_t>::max();
  const auto read = through_the_wire(status).workers.front();
  CHECK(read.since == 0s);
  CHECK(read.step == 0);
  CHECK(read.cpu_percent == 100 * bounds::cpus_max);
}

TEST_CASE("a total and metrics of an untrusted worker are validated") {
  const auto refusal = [](const char* extras) {
    return refusal_of_rows(fmt::format("[[0,1,1,0,-1,-1,-1,-1,-1,-1,-1,-1,{}]]", extras));
  };
  CHECK(refusal("-1,{}").empty());
  CHECK(refusal("7,{\"a\":null,\"b\":1}").empty());
  CHECK(refusal("1.5,{}").find("total is not a whole number, or out of range") !=
        std::string::npos);
  CHECK(refusal("-2,{}").find("total is not") != std::string::npos);
  const char* const invalid = "metrics are invalid, or too many";
  CHECK(refusal("1,{\"a b\":1}").find(invalid) != std::string::npos);
  CHECK(refusal("1,{\"a\":\"x\"}").find(invalid) != std::string::npos);
  CHECK(refusal("1,{\"a\":1,\"b\":1,\"c\":1,\"d\":1,\"e\":1,\"f\":1,\"g\":1,\"h\":1,\"i\":1}")
            .find(invalid) != std::string::npos);
  CHECK_FALSE(refusal("1,[1]").empty());
  CHECK(refusal("-1,{},\"\",[0,-1,0,0],\"of a later version\"").empty());
  CHECK_FALSE(refusal("-1,{},7").empty());
  CHECK_FALSE(refusal("-1,{},\"\",[1,2,3]").empty());
  for (const char* const gpu : {"[-1,0,0,0]", "[0,101,0,0]", "[0,-2,0,0]", "[0,1,-1,0]",
                                "[0,1,0,1.5]", "[0,1,0,8589934593]"}) {
    CAPTURE(gpu);
    CHECK(refusal(fmt::format("-1,{{}},\"\",{}", gpu).c_str()).find("gpu is not") !=
          std::string::npos);
  }
}

TEST_CASE("every number of an untrusted worker is validated") {
  CHECK(refusal_of_rows("[[0,1,1,0,-1,-1,-1,-1,-1,-1,-1,-1]]").empty());
  CHECK(refusal_of_rows("[[2048,1,1,0,0,0,0,0,0,0,0,0]]") ==
        "invalid link frame: local_rank=2048 is out of range");
  CHECK(refusal_of_rows("[[0,-1,1,0,0,0,0,0,0,0,0,0]]").find("pid=-1") != std::string::npos);
  CHECK(refusal_of_rows("[[0,1,5,0,0,0,0,0,0,0,0,0]]").find("state=5") != std::string::npos);
  CHECK(refusal_of_rows("[[0,1,1,-1,0,0,0,0,0,0,0,0]]").find("since=-1") != std::string::npos);
  CHECK(refusal_of_rows("[[0,1,1,0,-2,0,0,0,0,0,0,0]]").find("step=-2") != std::string::npos);
  // 2^64 - 1 is not -1, and a sum of two rows is validated like the rows.
  CHECK_FALSE(refusal_of_rows("[[0,1,1,0,18446744073709551615,0,0,0,0,0,0,0]]").empty());
  CHECK_FALSE(
      refusal_of_rows("[[0,1,1,0,0,0,0,0,0,0,819200,0],[1,0,0,0,0,0,0,0,0,0,1,0]]").empty());
  CHECK_FALSE(refusal_of_rows("[[0,1,1,0,1e300,0,0,0,0,0,0,0]]").empty());
  CHECK_FALSE(refusal_of_rows("[[0,1,1,0,1.5,0,0,0,0,0,0,0]]").empty());
  CHECK_FALSE(refusal_of_rows("[[0,1,1,0,0,0,0,0,0,0,0]]").empty());
  CHECK_FALSE(refusal_of_rows("[7]").empty());
  CHECK_FALSE(refusal_of_rows("7").empty());
}

TEST_CASE("each worker is listed once in a message, and in order") {
  CHECK(refusal_of_rows("[[1,1,1,0,0,0,0,0,0,0,0,0],[0,1,0,0,0,0,0,0,0,0,0,0]]")
            .find("local_rank=1") != std::string::npos);
  CHECK(refusal_of_rows("[[1,1,1,0,0,0,0,0,0,0,0,0],[-1,1,0,0,0,0,0,0,0,0,0,0]]")
            .find("local_rank=0") != std::string::npos);
}

}  // namespace link_figures_json_test
