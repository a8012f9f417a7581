// SPDX-License-Identifier: BSD-3-Clause
// The coordinator's cost of status requests: one job of many nodes with eight workers each, at a
// real coordinator and behind a real HTTP session, without sockets. Whole requests as bytes in,
// whole answers as bytes out.
//
//   status_bench [NODES…]
//
// Prints a table of processor time, the median of some requests; then the cost of receiving the
// statistics of a node.

#include <fmt/format.h>
#include <time.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "proto/http/session.h"
#include "proto/link/codec.h"
#include "proto/link/message.h"
#include "rendezvous/coordinator/coordinator.h"
#include "rendezvous/coordinator/http_routes.h"

namespace {

using namespace cpprun;
using namespace std::chrono_literals;

constexpr int looks = 41;
constexpr int workers_per_node = 8;

double cpu_microseconds() {
  timespec now{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) * 1e6 + static_cast<double>(now.tv_nsec) / 1e3;
}

double median(std::vector<double> values) {
  std::ranges::sort(values);
  return values[values.size() / 2];
}

link::Status figures(int node, int step) {
  link::Status status{.round = RoundNumber{1}};
  for (int local = 0; local < workers_per_node; ++local) {
    status.workers.push_back({.local_rank = LocalRank{local},
                              .pid = 4000 + local,
                              .state = WorkerState::running,
                              .since = 3600s,
                              .step = step + (node + local) % 7,
                              .millisteps_per_second = 2500,
                              .samples = step * 64,
                              .checkpoint_step = step - step % 100,
                              .last_beat = 300ms,
                              .resident_kib = 40'000'000,
                              .cpu_percent = 98,
                              .last_words = 4s});
  }
  return status;
}

struct Scene {
  explicit Scene(int nodes) : nodes_count(nodes) {
    for (int node = 0; node < nodes; ++node) {
      const LinkId link = link_of(node);
      const std::string peer =
          fmt::format("10.{}.{}.{}", node / 62500, node / 250 % 250, node % 250);
      coordinator.handle(now, Coordinator::Opened{{.link = link, .peer = peer}});
      coordinator.handle(now,
                         Coordinator::Said{link, link::Join{.job = "train",
                                                            .host = fmt::format("node-{}", node),
                                                            .pid = node + 2,
                                                            .nodes_min = nodes,
                                                            .nodes_max = nodes,
                                                            .local_world_size = workers_per_node,
                                                            .lease = 60s}});
      if (node == 0) coordinator.handle(now, Coordinator::StoreReady{"train", 4000});
    }
    coordinator.handle(now, Coordinator::StoreAsked{"train"});
    for (int node = 0; node < nodes; ++node) receive(node, figures(node, 1000));
  }

  static LinkId link_of(int node) { return LinkId{static_cast<std::uint64_t>(node) + 1}; }

  void receive(int node, const link::Status& status) {
    now += 1us;
    coordinator.handle(now, Coordinator::Said{link_of(node), status});
  }

  // The bytes of the answer to a GET.
  std::string look(std::string_view target) {
    http::Session session;
    session.hear(fmt::format("GET {} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n", target));
    const auto step = session.next();
    const auto& request = std::get<http::Session::Asked>(step).request;
    if (const auto looked = looked_at(request)) coordinator.handle(now, *looked);
    return session.answer(answer(coordinator, {}, {now, WallTime{}}, request));
  }

  int nodes_count;
  TimePoint now{};
  Coordinator coordinator{
      {.only = {}, .options = {.lease = 3s, .status_interval = 5s, .last_call = 30s}}};
};

// One request, as a row of the table.
void measure(Scene& scene, std::string_view what, std::string_view target) {
  std::vector<double> took;
  std::size_t bytes = 0;
  for (int look = 0; look < looks; ++look) {
    scene.now += 1s;
    const double begin = cpu_microseconds();
    const std::string answer = scene.look(target);
    took.push_back(cpu_microseconds() - begin);
    bytes = answer.size();
    if (!answer.starts_with("HTTP/1.1 200")) {
      fmt::print(stderr, "status_bench: {} was answered with {}\n", target, answer.substr(0, 80));
      std::exit(1);
    }
  }
  fmt::print("| {} | {} | {:.2f} | {:.2f} | {:.1f} |\n", scene.nodes_count, what,
             median(took) / 1e3, *std::ranges::max_element(took) / 1e3,
             static_cast<double>(bytes) / 1e3);
}

// Decodes and stores a frame of a node's statistics.
double microseconds_per_status(Scene& scene) {
  const auto frame = link::encode(link::brief(figures(1, 123'456)));
  constexpr int frames = 20'000;
  const double begin = cpu_microseconds();
  for (int at = 0; at < frames; ++at) {
    scene.now += 1us;
    auto decoded = link::decode(frame);
    scene.coordinator.handle(scene.now, Coordinator::Said{Scene::link_of(at % scene.nodes_count),
                                                          std::move((*decoded)->message)});
  }
  return (cpu_microseconds() - begin) / frames;
}

}  // namespace

int main(int count, char** words) {
  std::vector<int> sizes;
  for (int at = 1; at < count; ++at) sizes.push_back(std::atoi(words[at]));
  if (sizes.empty()) sizes = {1000, 10'000};
  fmt::print(
      "| nodes | one look at | CPU, ms | the longest of {}, ms | answer, KB |\n"
      "| --- | --- | --- | --- | --- |\n",
      looks);
  std::string frames;
  for (const int nodes : sizes) {
    Scene scene(nodes);
    measure(scene, "`/api/v1/jobs`", "/api/v1/jobs");
    measure(scene, "`/api/v1/jobs/ID`", "/api/v1/jobs/train");
    measure(scene, "its first 500 nodes, with ranks", "/api/v1/jobs/train/nodes");
    measure(scene, "its first 500 nodes, `ranks=0`", "/api/v1/jobs/train/nodes?ranks=0");
    measure(scene, "its last 500 nodes, with ranks",
            fmt::format("/api/v1/jobs/train/nodes?after={}", nodes - 501));
    measure(scene, "`/metrics`", "/metrics");
    frames += fmt::format("{}{:.1f} us ({} nodes)", frames.empty() ? "" : ", ",
                          microseconds_per_status(scene), nodes);
  }
  fmt::print("\nA node's figures, of eight workers, decoded and kept: {}.\n", frames);
}
