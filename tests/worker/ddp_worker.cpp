// The C++ half of ddp_parity.py: trains the same little models on the same numbers as its Python
// half, under every option of DistributedDataParallel, and writes down losses and parameters.
// Usage: ddp_worker <output file>

#include <fmt/format.h>
#include <torch/torch.h>

#include <fstream>

#include "worker/env/io/record.h"
#include "worker/torch/collectives.h"
#include "worker/torch/ddp.h"
#include "worker/torch/optim.h"

namespace {

constexpr int steps = 20;
constexpr int batch = 8;

struct NetImpl : torch::nn::Module {
  explicit NetImpl(bool two_heads) : two_heads_(two_heads) {
    body->push_back(torch::nn::Linear(16, 32));
    body->push_back(torch::nn::BatchNorm1d(32));
    body->push_back(torch::nn::ReLU());
    body->push_back(torch::nn::Linear(32, 32));
    body->push_back(torch::nn::BatchNorm1d(32));
    body->push_back(torch::nn::ReLU());
    register_module("body", body);
    head_a = register_module("head_a", torch::nn::Linear(32, 4));
    if (two_heads_) head_b = register_module("head_b", torch::nn::Linear(32, 4));
  }

  torch::Tensor forward(const torch::Tensor& x, int step) {
    const torch::Tensor features = body->forward(x);
    return two_heads_ && step % 3 == 0 ? head_b->forward(features) : head_a->forward(features);
  }

  torch::nn::Sequential body;
  torch::nn::Linear head_a{nullptr}, head_b{nullptr};
  bool two_heads_;
};
TORCH_MODULE(Net);

struct Mode {
  std::string name;
  cpprun::DdpOptions options;
  bool accumulates = false;
};

void train(const Mode& mode, const cpprun::ProcessGroup& group, std::ofstream& out) {
  torch::manual_seed(1234);
  cpprun::DistributedDataParallel<Net> ddp(Net(mode.options.find_unused_parameters), group,
                                           mode.options);
  cpprun::FusedSgd sgd(ddp.parameters(), {.lr = 0.05, .momentum = 0.9});
  const int rank = group.rank();
  for (int step = 0; step < steps; ++step) {
    const auto numbers = torch::arange(1, batch * 16 + 1, torch::kFloat);
    const auto x = torch::sin(numbers * (0.37 * (rank + 1)) + 0.11 * step).view({batch, 16});
    const auto y = (torch::arange(batch) * 7 + rank + step) % 4;
    const bool local = mode.accumulates && step % 2 == 0;
    const auto run = [&] {
      const auto loss = torch::nn::functional::cross_entropy(ddp.forward(x, step), y);
      loss.backward();
      out << fmt::format("{} loss {} {:.9g}\n", mode.name, step, loss.item<double>());
    };
    if (local) {
      const auto guard = ddp.no_sync();
      run();
      continue;
    }
    run();
    sgd.step();
    ddp.zero_grad();
  }
  for (const auto& item : ddp.module()->named_parameters()) {
    const auto flat = item.value().detach().flatten();
    for (std::int64_t i = 0; i < flat.numel(); ++i) {
      out << fmt::format("{} {} {} {:.9g}\n", mode.name, item.key(), i, flat[i].item<double>());
    }
  }
}

int write_all(const cpprun::Context& context, const std::string& path) {
  std::ofstream out(path);
  const auto group = cpprun::init_process_group(context);
  const std::vector<Mode> modes = {
      {.name = "default", .options = {}},
      {.name = "small_buckets", .options = {.bucket_cap_mb = 0.004}},
      {.name = "find_unused", .options = {.find_unused_parameters = true}},
      {.name = "bucket_view", .options = {.bucket_cap_mb = 0.004, .gradient_as_bucket_view = true}},
      {.name = "own_buffers", .options = {.broadcast_buffers = false}},
      {.name = "static_graph", .options = {.static_graph = true}},
      {.name = "no_sync", .options = {}, .accumulates = true}};
  for (const Mode& mode : modes) train(mode, group, out);
  // In the mixed job a Python rank says this, and both must mean the same collectives.
  const auto seen = cpprun::all_gather(context.rank.value + 0.5, group);
  const torch::Tensor sum = torch::full({3}, context.rank.value + 1, torch::kFloat);
  cpprun::all_reduce(sum, group);
  cpprun::broadcast(sum, group, 1);
  cpprun::barrier(group);
  out << fmt::format("collectives gathered 0 {:.9g}\ncollectives reduced 0 {:.9g}\n", seen.at(1),
                     sum[0].item<double>());
  return out.flush() ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  return cpprun::run([path = std::string(argv[1])](const cpprun::Context& context) {
    return write_all(context, path);
  });
}
