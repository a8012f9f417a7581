// SPDX-License-Identifier: BSD-3-Clause
// What a capture of the stacks of 10,000 ranks on 1,250 nodes costs the coordinator, with one odd
// rank and with evidence that is large. No sockets.
//
//   hang_bench
//
// Prints a table of milliseconds of CPU time: to read the frames of all nodes, to read the evidence
// in them, to merge it and draw the verdict, and the sum.

#include <fmt/format.h>
#include <time.h>

#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <functional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "proto/link/bounds.h"
#include "proto/link/codec.h"
#include "proto/link/message.h"
#include "rendezvous/hang/evidence.h"
#include "rendezvous/hang/evidence_json.h"
#include "rendezvous/hang/verdict.h"

namespace {

using namespace cpprun;
using namespace cpprun::hang;

constexpr int ranks = 10'000;
constexpr int ranks_per_node = 8;
constexpr int rounds = 5;
constexpr int odd = 777;

double milliseconds_of(const std::function<void()>& work) {
  const auto now = [] {
    timespec time{};
    ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
    return static_cast<double>(time.tv_sec) * 1e3 + static_cast<double>(time.tv_nsec) / 1e6;
  };
  const double begin = now();
  work();
  return now() - begin;
}

// Waits in a collective of the job, or is at a line of its own before it.
WorkerEvidence worker(int rank, int line) {
  const Frame loop{"fit_loop", "/opt/venv/lib/python3.11/site-packages/lightning/fit_loop.py", 363};
  const bool waits = line == 0;
  return {.rank = Rank{rank},
          .activity = waits ? Activity::collective : Activity::busy,
          .stack = {waits ? Frame{"all_reduce", "/v/torch/distributed/distributed_c10d.py", 3252}
                          : Frame{"fetch", "/a/data.py", line},
                    {"training_step", "/a/train.py", 88},
                    loop,
                    loop,
                    {"main", "/a/train.py", 120}},
          .positions = {{.group = "default_pg",
                         .sequence = waits ? 1204 : 1203,
                         .operation = "all_reduce",
                         .shape = "[4, 1024] Float",
                         .is_pending = waits}}};
}

Position done_in(std::string group, const RankSet& members) {
  return {.group = std::move(group),
          .sequence = 9,
          .operation = "all_gather",
          .shape = "[8] Float",
          .members = members};
}

// In a group of its node, and in one of every eighth rank.
WorkerEvidence in_three_groups(int rank) {
  WorkerEvidence evidence = worker(rank, rank == odd ? 1 : 0);
  const int node = rank / ranks_per_node;
  const int local = rank % ranks_per_node;
  RankSet inner;
  for (int at = 0; at < ranks_per_node; ++at) inner.add(Rank{node * ranks_per_node + at});
  RankSet outer;
  for (int at = local; at < ranks; at += ranks_per_node) outer.add(Rank{at});
  evidence.positions.push_back(done_in(fmt::format("tp (group {})", node), inner));
  evidence.positions.push_back(done_in(fmt::format("dp (group {})", ranks + local), outer));
  return evidence;
}

void print_row(const char* title, const std::function<WorkerEvidence(int)>& evidence_of_rank) {
  std::vector<std::string> sent;
  std::size_t bytes = 0;
  for (int first = 0; first < ranks; first += ranks_per_node) {
    std::vector<WorkerEvidence> workers;
    for (int at = 0; at < ranks_per_node; ++at) workers.push_back(evidence_of_rank(first + at));
    Evidence evidence = cluster(workers);
    limit(evidence);
    std::string json = evidence_json(evidence);
    if (json.size() > bounds::record_part_bytes_max) std::abort();
    bytes += json.size();
    sent.push_back(link::encode(link::Captured{.number = 1, .bytes = std::move(json)}));
  }
  double receiving = 1e9;
  double reading = 1e9;
  double concluding = 1e9;
  for (int round = 0; round < rounds; ++round) {
    std::vector<std::string> received;
    std::vector<Evidence> nodes;
    receiving = std::min(receiving, milliseconds_of([&] {
                           for (const auto& each : sent) {
                             auto message = link::decode(each).value()->message;
                             received.push_back(std::get<link::Captured>(message).bytes);
                           }
                         }));
    reading = std::min(reading, milliseconds_of([&] {
                         for (const auto& each : received) {
                           nodes.push_back(parse_evidence(each).value());
                         }
                       }));
    concluding = std::min(concluding, milliseconds_of([&] {
                            if (verdict_of(merged(nodes), ranks).sentence.empty()) std::abort();
                          }));
  }
  fmt::print("{:34}  {:10}  {:6.1f}  {:8.1f}  {:7.1f}  {:5.1f}\n", title, bytes / sent.size(),
             receiving, reading, concluding, receiving + reading + concluding);
}

}  // namespace

int main() {
  fmt::print("evidence of 10,000 ranks            bytes/node  frames  evidence  verdict    sum\n");
  print_row("one rank is elsewhere", [](int rank) { return worker(rank, rank == odd ? 1 : 0); });
  print_row("every eighth rank is elsewhere", [](int rank) { return worker(rank, rank % 8 / 7); });
  print_row("each rank of a node is elsewhere", [](int rank) { return worker(rank, rank % 8); });
  print_row("64 lines, in no order", [](int rank) { return worker(rank, 1 + rank * 7919 % 64); });
  print_row("every rank is at another line", [](int rank) { return worker(rank, 1 + rank); });
  print_row("three groups each, members known", in_three_groups);
}
