// SPDX-License-Identifier: BSD-3-Clause
// Message passing, from a tensor sent to one rank to every collective:
//
//   cpprun --standalone --nproc-per-node=4 ./messages
//   cpprun --standalone --nproc-per-node=4 ./messages --only broadcast
//   mpirun -np 4 ./messages --backend mpi
//
// Rank 0 prints what each rank did in each part, in rank order.

#include <ATen/ATen.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdio>
#include <functional>
#include <string>
#include <vector>

#include "worker/env/io/worker.h"
#include "worker/examples/command_line.h"
#include "worker/torch/collectives/collectives.h"
#include "worker/torch/collectives/messages.h"
#include "worker/torch/group/process_group.h"

namespace {

using cpprun::ProcessGroup;
using cpprun::ReduceOp;

at::Tensor number(double value) {
  return at::full({1}, value, at::kFloat);
}

std::string text_of(const at::Tensor& tensor) {
  const at::Tensor flat = tensor.flatten().to(at::kDouble).contiguous();
  const auto* const first = flat.const_data_ptr<double>();
  return fmt::format("[{}]", fmt::join(first, first + flat.numel(), ", "));
}

std::string text_of(const std::vector<at::Tensor>& tensors) {
  std::vector<std::string> texts;
  for (const at::Tensor& tensor : tensors) texts.push_back(text_of(tensor));
  return fmt::format("{}", fmt::join(texts, " "));
}

// Collects the report of one rank on one part.
class Voice {
 public:
  explicit Voice(const ProcessGroup& group) : group_(group) {}

  template <class... Arguments>
  void says(fmt::format_string<Arguments...> words, Arguments&&... arguments) {
    lines_ += fmt::format("  rank {} ", group_.rank());
    lines_ += fmt::format(words, std::forward<Arguments>(arguments)...) + '\n';
  }

  void publish(const std::string& title) {
    const auto reports = cpprun::gather_object(lines_, group_);
    if (group_.rank() == 0) {
      fmt::print("{}:\n{}", title, fmt::join(reports, ""));
      std::fflush(stdout);
    }
    lines_.clear();
  }

 private:
  const ProcessGroup& group_;
  std::string lines_;
};

// Rank 0 sends a different number to each other rank.
void blocking(const ProcessGroup& group, Voice& voice) {
  if (group.rank() == 0) {
    for (int rank = 1; rank < group.size(); ++rank) {
      const at::Tensor letter = number(10.0 * rank);
      cpprun::send(letter, rank, group);
      voice.says("sent {} to rank {}", text_of(letter), rank);
    }
    return;
  }
  const at::Tensor letter = number(0);
  const int sender = cpprun::recv(letter, 0, group);
  voice.says("received {} from rank {}", text_of(letter), sender);
}

// All ranks send around a ring at once. With blocking calls, all might wait for each other.
void non_blocking(const ProcessGroup& group, Voice& voice) {
  const int next = (group.rank() + 1) % group.size();
  const int before = (group.rank() + group.size() - 1) % group.size();
  const at::Tensor out = number(group.rank());
  const at::Tensor in = number(-1);
  cpprun::Work sending = cpprun::isend(out, next, group);
  cpprun::Work receiving = cpprun::irecv(in, before, group);
  sending.wait();
  receiving.wait();
  voice.says("sent {} to rank {} and received {} from rank {}", text_of(out), next, text_of(in),
             before);
}

// Receives in order of arrival; the sum does not depend on the order.
void any_source(const ProcessGroup& group, Voice& voice) {
  if (group.rank() != 0) {
    cpprun::send(number(group.rank()), 0, group);
    voice.says("sent its number to rank 0");
    return;
  }
  double sum = 0;
  std::vector<int> senders;
  for (int count = 1; count < group.size(); ++count) {
    const at::Tensor letter = number(0);
    senders.push_back(cpprun::recv(letter, cpprun::any_source, group));
    sum += letter.item<double>();
  }
  std::sort(senders.begin(), senders.end());
  voice.says("received values from ranks {1}; their sum is {0}", sum, fmt::join(senders, ", "));
}

void broadcast(const ProcessGroup& group, Voice& voice) {
  const at::Tensor tensor = number(group.rank() == 0 ? 42 : 0);
  cpprun::broadcast(tensor, group, 0);
  voice.says("holds {} from rank 0", text_of(tensor));
}

void reduce(const ProcessGroup& group, Voice& voice) {
  const at::Tensor tensor = number(group.rank() + 1);
  cpprun::reduce(tensor, group, 0, ReduceOp::sum);
  if (group.rank() == 0) voice.says("holds the sum {}", text_of(tensor));
}

void all_reduce(const ProcessGroup& group, Voice& voice) {
  const auto reduced = [&group](ReduceOp op) {
    const at::Tensor tensor = number(group.rank() + 1);
    cpprun::all_reduce(tensor, group, op);
    return text_of(tensor);
  };
  const std::string sum = reduced(ReduceOp::sum);
  const std::string average = reduced(ReduceOp::average);
  const std::string product = reduced(ReduceOp::product);
  const std::string least = reduced(ReduceOp::min);
  const std::string most = reduced(ReduceOp::max);
  voice.says("holds sum {} average {} product {} min {} max {}", sum, average, product, least,
             most);
}

void gather(const ProcessGroup& group, Voice& voice) {
  const auto all = cpprun::gather(number(group.rank() * group.rank()), group, 0);
  if (group.rank() == 0) voice.says("gathered {}", text_of(all));
}

void scatter(const ProcessGroup& group, Voice& voice) {
  std::vector<at::Tensor> parts;
  for (int rank = 0; rank < group.size() && group.rank() == 0; ++rank) {
    parts.push_back(number(100.0 + rank));
  }
  const at::Tensor mine = number(0);
  cpprun::scatter(mine, parts, group, 0);
  voice.says("received {} from rank 0", text_of(mine));
}

void all_gather(const ProcessGroup& group, Voice& voice) {
  voice.says("gathered {}", text_of(cpprun::all_gather(number(group.rank()), group)));
}

void reduce_scatter(const ProcessGroup& group, Voice& voice) {
  const at::Tensor mine = at::arange(group.size(), at::kFloat) + group.rank();
  const at::Tensor part = cpprun::reduce_scatter_tensor(mine, group, ReduceOp::sum);
  voice.says("contributed {}; received {}, the sum of element {} over all ranks", text_of(mine),
             text_of(part), group.rank());
}

void all_to_all(const ProcessGroup& group, Voice& voice) {
  const at::Tensor mine = at::arange(group.size(), at::kFloat) + 10.0 * group.rank();
  voice.says("sent {} and received {}", text_of(mine),
             text_of(cpprun::all_to_all_single(mine, group)));
}

void barrier(const ProcessGroup& group, Voice& voice) {
  cpprun::barrier(group);
  voice.says("passed the barrier");
}

void objects(const ProcessGroup& group, Voice& voice) {
  const auto words = cpprun::all_gather_object(fmt::format("hello from {}", group.rank()), group);
  voice.says("received: {}", fmt::join(words, "; "));
}

// The even ranks form one group, the odd ranks another.
void groups(const ProcessGroup& group, Voice& voice) {
  std::vector<int> even;
  std::vector<int> odd;
  for (int rank = 0; rank < group.size(); ++rank) (rank % 2 == 0 ? even : odd).push_back(rank);
  // Every rank creates both groups in the same order, and is a member of one.
  const auto evens = cpprun::new_group(group, even);
  const auto odds = odd.empty() ? std::nullopt : cpprun::new_group(group, odd);
  const ProcessGroup& mine = evens ? *evens : *odds;
  const at::Tensor tensor = number(group.rank());
  cpprun::all_reduce(tensor, mine);
  voice.says("is rank {} of the group {} and holds its sum {}", mine.rank(),
             fmt::format("{}", fmt::join(mine.global_ranks(), "+")), text_of(tensor));
}

struct Part {
  const char* name;
  const char* title;
  void (*show)(const ProcessGroup&, Voice&);
};

constexpr Part parts[] = {
    {"blocking", "send and recv", &blocking},
    {"non_blocking", "isend and irecv, around a ring", &non_blocking},
    {"any_source", "recv from any source", &any_source},
    {"broadcast", "broadcast", &broadcast},
    {"reduce", "reduce", &reduce},
    {"all_reduce", "all_reduce", &all_reduce},
    {"gather", "gather", &gather},
    {"scatter", "scatter", &scatter},
    {"all_gather", "all_gather", &all_gather},
    {"reduce_scatter", "reduce_scatter", &reduce_scatter},
    {"all_to_all", "all_to_all", &all_to_all},
    {"barrier", "barrier", &barrier},
    {"objects", "objects", &objects},
    {"groups", "new_group", &groups},
};

int show(const cpprun::Context& context, const std::string& only, const std::string& backend) {
  const auto group = cpprun::init_process_group(context, {.backend = backend});
  if (group.size() < 2) {
    throw std::runtime_error(
        "messages needs at least two ranks: cpprun --standalone --nproc-per-node=4 ./messages");
  }
  Voice voice(group);
  for (const Part& part : parts) {
    if (only != "all" && only != part.name) continue;
    part.show(group, voice);
    voice.publish(part.title);
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  std::string only = "all";
  std::string backend;
  std::vector<std::string> names = {"all"};
  for (const Part& part : parts) names.emplace_back(part.name);
  cpprun::examples::CommandLine app(
      "messages: demonstrates send, recv and every collective (cpprun … ./messages).");
  app.add("--only", only, "run only this part", names);
  app.add_backend(backend);
  if (const auto code = app.parse_or_exit(argc, argv)) return *code;
  return cpprun::run([&](const cpprun::Context& context) { return show(context, only, backend); });
}
