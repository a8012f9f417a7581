// SPDX-License-Identifier: BSD-3-Clause
// Tests that need a GPU: the nccl backend with one rank, two ranks that share the GPU, and training
// on it. `./dev gpu` runs them. The cases "two workers: ..." need two processes, started by cpprun:
// in one process, all backward passes on a GPU share a thread, and two ranks would wait for each
// other. They run over gloo and over nccl. The cases "two workers over nccl: ..." need two ranks
// that NCCL takes for two hosts, because it rejects two ranks of one host on one GPU. The scenes
// are programs that gpu_check.py watches as they fail.

#include <torch/torch.h>

#include <c10/core/CachingDeviceAllocator.h>
#include <unistd.h>

#include <cstdio>
#include <future>
#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>

// LibTorch has a CHECK of its own.
#include <doctest/doctest.h>

#include "tests/worker/temporary_directory.h"
#include "tests/worker/two_ranks.h"
#include "worker/env/io/environment.h"
#include "worker/env/io/worker.h"
#include "worker/torch/collectives/collectives.h"
#include "worker/torch/collectives/messages.h"
#include "worker/torch/data/batch_loader.h"
#include "worker/torch/ddp/data_parallel.h"
#include "worker/torch/ddp/ddp.h"
#include "worker/torch/ddp/sync_batch_norm.h"
#include "worker/torch/files/checkpoint.h"
#include "worker/torch/group/device.h"
#include "worker/torch/group/nccl_backend.h"
#include "worker/torch/optim/adam.h"
#include "worker/torch/optim/sgd.h"
#include "worker/torch/optim/training.h"

namespace gpu_test {

using namespace cpprun;
using testing::expect;

namespace {

const torch::Device gpu(torch::kCUDA, 0);

torch::Tensor on_gpu(std::vector<float> values) {
  return torch::tensor(values).to(gpu);
}

bool equal(const torch::Tensor& tensor, std::vector<float> values) {
  return tensor.is_cuda() && torch::equal(tensor.cpu(), torch::tensor(values));
}

bool close(const torch::Tensor& a, const torch::Tensor& b) {
  return torch::allclose(a, b, /*rtol=*/1e-4, /*atol=*/1e-5);
}

// As one of two workers that cpprun has started.
void as_worker(const std::function<void(const ProcessGroup&)>& body) {
  const auto context = parse_context(read_environment());
  REQUIRE(context);
  REQUIRE(context->world_size == 2);  // cpprun --nproc-per-node=2
  body(init_process_group(*context));
}

// As one of two workers whose group has nccl for the GPU's tensors.
void over_nccl_with_two(const std::function<void(const ProcessGroup&)>& body) {
  as_worker([&](const ProcessGroup& group) {
    REQUIRE(group.native()->getBackend(torch::kCUDA)->getBackendName() == "nccl");
    body(group);
  });
}

// The main function of a worker: an error ends the process with a report, as in a real program.
void as_program(std::chrono::milliseconds timeout,
                const std::function<void(const ProcessGroup&)>& body) noexcept {
  const int code = run([&](const Context& context) {
    const ProcessGroup group = init_process_group(context, {.timeout = timeout});
    if (group.native()->getBackend(torch::kCUDA)->getBackendName() != "nccl") return 3;
    const torch::Tensor connected = on_gpu({1});
    all_reduce(connected, group);
    if (connected.item<float>() != 2) return 4;
    std::printf("rank %d is process %d\n", group.rank(), static_cast<int>(getpid()));
    std::fflush(stdout);
    body(group);
    return 0;
  });
  CHECK(code == 0);
}

// One rank, with nccl for the GPU's tensors.
std::string over_nccl(const std::function<void(const ProcessGroup&)>& body,
                      const std::string& backend = "cpu:gloo,cuda:nccl") {
  return testing::on_ranks(1, body, {.backend = backend});
}

torch::nn::Sequential small_net() {
  torch::manual_seed(5);
  torch::nn::Sequential net(torch::nn::Linear(8, 16), torch::nn::ReLU(), torch::nn::Linear(16, 4));
  net->to(gpu);
  return net;
}

// The batches of both ranks; each rank takes half of the rows.
torch::Tensor whole_batch() {
  return torch::sin(torch::arange(16 * 8, torch::kFloat)).view({16, 8}).to(gpu);
}

torch::Tensor loss_of(const torch::Tensor& output) {
  return output.square().mean();
}

std::vector<torch::Tensor> gradients_of(const torch::nn::Module& module) {
  std::vector<torch::Tensor> gradients;
  for (const auto& parameter : module.parameters()) gradients.push_back(parameter.grad().clone());
  return gradients;
}

}  // namespace

TEST_CASE("this build has nccl, and the machine a GPU") {
  REQUIRE(nccl_built());
  REQUIRE(cuda_device_count() > 0);
}

TEST_CASE("every collective over nccl") {
  for (const char* backend : {"cpu:gloo,cuda:nccl", "nccl"}) {
    CAPTURE(backend);
    CHECK(over_nccl(
              [](const ProcessGroup& group) {
                for (const ReduceOp op : {ReduceOp::sum, ReduceOp::average, ReduceOp::product,
                                          ReduceOp::min, ReduceOp::max}) {
                  const torch::Tensor values = on_gpu({1, 2, 3});
                  all_reduce(values, group, op);
                  expect(equal(values, {1, 2, 3}), "all_reduce");
                  reduce(values, group, 0, op);
                  expect(equal(values, {1, 2, 3}), "reduce");
                  expect(equal(reduce_scatter_tensor(values, group, op), {1, 2, 3}),
                         "reduce_scatter_tensor");
                  expect(equal(reduce_scatter({values}, group, op), {1, 2, 3}), "reduce_scatter");
                }
                const torch::Tensor values = on_gpu({4, 5});
                broadcast(values, group);
                expect(equal(values, {4, 5}), "broadcast");
                expect(equal(all_gather(values, group).front(), {4, 5}), "all_gather");
                expect(equal(all_gather_into_tensor(values, group), {4, 5}),
                       "all_gather_into_tensor");
                expect(equal(gather(values, group).front(), {4, 5}), "gather");
                const torch::Tensor output = torch::zeros(2, gpu);
                scatter(output, {values}, group);
                expect(equal(output, {4, 5}), "scatter");
                output.zero_();
                all_to_all({output}, {values}, group);
                expect(equal(output, {4, 5}), "all_to_all");
                expect(equal(all_to_all_single(values, group), {4, 5}), "all_to_all_single");
                Work work = all_reduce_async(values, group);
                expect(equal(work.wait().front(), {4, 5}), "all_reduce_async");
                barrier(group);
                expect(all_gather(2.5, group) == std::vector<double>{2.5}, "a number");
                expect(all_gather_object(std::string("text"), group).front() == "text", "a text");
              },
              backend) == "");
  }
}

TEST_CASE("numbers of every type over nccl") {
  CHECK(over_nccl([](const ProcessGroup& group) {
          for (const auto type : {torch::kFloat, torch::kDouble, torch::kHalf, torch::kBFloat16,
                                  torch::kInt, torch::kLong, torch::kByte}) {
            const torch::Tensor values = torch::ones({5}, torch::TensorOptions(gpu).dtype(type));
            all_reduce(values, group);
            expect(values.sum().item<double>() == 5, "all_reduce");
          }
        }) == "");
}

TEST_CASE("a sub-group over nccl, and one over gloo") {
  CHECK(over_nccl([](const ProcessGroup& group) {
          for (const char* backend : {"", "gloo", "nccl"}) {
            const auto part = new_group(group, {0}, {.backend = backend});
            expect(part.has_value(), "a member");
            const torch::Tensor values = on_gpu({7});
            all_reduce(values, *part);
            expect(equal(values, {7}), "all_reduce");
            barrier(*part);
          }
        }) == "");
}

TEST_CASE("a group is left and joined again in one process") {
  for (int i = 0; i < 3; ++i) {
    CHECK(over_nccl([](const ProcessGroup& group) {
            const torch::Tensor values = on_gpu({1});
            all_reduce(values, group);
            barrier(group);
          }) == "");
  }
}

TEST_CASE("a step of DistributedDataParallel over nccl is that of the plain model, bit for bit") {
  auto plain = small_net();
  loss_of(plain->forward(whole_batch())).backward();
  const auto expected = gradients_of(*plain);
  const auto check = [&](const DdpOptions& options) {
    CHECK(over_nccl([&](const ProcessGroup& group) {
            auto net = small_net();
            DistributedDataParallel ddp(net, group, options);
            for (int i = 0; i < 3; ++i) {
              ddp.zero_grad();
              loss_of(ddp.forward(whole_batch())).backward();
              const auto gradients = gradients_of(*net);
              for (std::size_t k = 0; k < expected.size(); ++k) {
                expect(torch::equal(gradients[k], expected[k]), "gradient");
              }
            }
          }) == "");
  };
  check({});
  check({.bucket_cap_mb = 0.001});
  check({.find_unused_parameters = true});
  check({.gradient_as_bucket_view = true});
  check({.static_graph = true});
  check({.comm_hook = allreduce_hook});
}

TEST_CASE("compressing hooks over nccl") {
  auto plain = small_net();
  loss_of(plain->forward(whole_batch())).backward();
  const auto expected = gradients_of(*plain);
  for (const CommHook hook : {fp16_compress_hook, bf16_compress_hook}) {
    CHECK(over_nccl([&](const ProcessGroup& group) {
            auto net = small_net();
            DistributedDataParallel ddp(net, group, {.comm_hook = hook});
            loss_of(ddp.forward(whole_batch())).backward();
            const auto gradients = gradients_of(*net);
            for (std::size_t k = 0; k < expected.size(); ++k) {
              expect(torch::allclose(gradients[k], expected[k], 1e-2, 1e-3), "gradient");
            }
          }) == "");
  }
}

TEST_CASE("no_sync adds up on the GPU") {
  CHECK(over_nccl([](const ProcessGroup& group) {
          auto net = small_net();
          DistributedDataParallel ddp(net, group);
          {
            const auto local = ddp.no_sync();
            loss_of(ddp.forward(whole_batch())).backward();
          }
          const auto once = gradients_of(*net);
          loss_of(ddp.forward(whole_batch())).backward();
          expect(close(net->parameters()[0].grad(), 2 * once[0]), "twice the gradient");
        }) == "");
}

TEST_CASE("two ranks share one GPU: they join, and gloo carries its tensors") {
  CHECK(testing::on_two_ranks([](const ProcessGroup& group) {
          const torch::Tensor sum = on_gpu({static_cast<float>(group.rank() + 1)});
          all_reduce(sum, group);
          expect(equal(sum, {3}), "all_reduce");
          const torch::Tensor first = on_gpu({static_cast<float>(group.rank())});
          broadcast(first, group, 1);
          expect(equal(first, {1}), "broadcast");
          const auto all = all_gather(on_gpu({static_cast<float>(group.rank())}), group);
          expect(equal(all[1], {1}), "all_gather");
          barrier(group);
        }) == "");
}

TEST_CASE("two ranks that ask for nccl on one GPU are rejected with a sentence") {
  const std::string error = testing::on_two_ranks([](const ProcessGroup&) {}, {.backend = "nccl"});
  CHECK(error.find("has no GPU of its own") != std::string::npos);
}

TEST_CASE("two workers: they train on one GPU as one worker does with both batches") {
  auto plain = small_net();
  loss_of(plain->forward(whole_batch())).backward();
  const auto expected = gradients_of(*plain);
  as_worker([&](const ProcessGroup& group) {
    auto net = small_net();
    DistributedDataParallel ddp(net, group);
    for (int i = 0; i < 3; ++i) {
      ddp.zero_grad();
      loss_of(ddp.forward(whole_batch().narrow(0, 8 * group.rank(), 8))).backward();
      const auto gradients = gradients_of(*net);
      for (std::size_t k = 0; k < expected.size(); ++k) CHECK(close(gradients[k], expected[k]));
    }
  });
}

TEST_CASE("two workers: SyncBatchNorm on the GPU is BatchNorm over both batches") {
  const torch::Tensor whole =
      (torch::sin(torch::arange(4 * 3 * 16, torch::kFloat)) + 50).view({4, 3, 4, 4}).to(gpu);
  const torch::Tensor weights =
      torch::cos(torch::arange(whole.numel(), torch::kFloat)).view(whole.sizes()).to(gpu);
  torch::nn::BatchNorm2d plain(3);
  plain->to(gpu);
  const auto input = whole.clone().set_requires_grad(true);
  const auto output = plain->forward(input);
  (output * weights).sum().backward();
  as_worker([&](const ProcessGroup& group) {
    const std::int64_t from = 2 * group.rank();
    SyncBatchNorm norm(3);
    norm->to(gpu);
    norm->set_process_group(group);
    const auto mine = whole.narrow(0, from, 2).clone().set_requires_grad(true);
    const auto got = norm->forward(mine);
    (got * weights.narrow(0, from, 2)).sum().backward();
    CHECK(close(got, output.narrow(0, from, 2)));
    CHECK(close(mine.grad(), input.grad().narrow(0, from, 2)));
    CHECK(close(norm->running_var, plain->running_var));
  });
}

TEST_CASE("two workers over nccl: every collective gives known values") {
  over_nccl_with_two([](const ProcessGroup& group) {
    const auto rank = static_cast<float>(group.rank());
    const auto mine = [&] { return on_gpu({rank + 1, 2 * (rank + 1)}); };
    const auto reduced = [&](ReduceOp op) {
      const torch::Tensor values = mine();
      all_reduce(values, group, op);
      return values;
    };
    CHECK(equal(reduced(ReduceOp::sum), {3, 6}));
    CHECK(equal(reduced(ReduceOp::average), {1.5, 3}));
    CHECK(equal(reduced(ReduceOp::product), {2, 8}));
    CHECK(equal(reduced(ReduceOp::min), {1, 2}));
    CHECK(equal(reduced(ReduceOp::max), {2, 4}));

    torch::Tensor values = mine();
    reduce(values, group, 1);
    if (group.rank() == 1) CHECK(equal(values, {3, 6}));
    values = mine();
    broadcast(values, group, 1);
    CHECK(equal(values, {2, 4}));
    const auto all = all_gather(mine(), group);
    CHECK(equal(all.at(0), {1, 2}));
    CHECK(equal(all.at(1), {2, 4}));
    CHECK(equal(all_gather_into_tensor(mine(), group), {1, 2, 2, 4}));
    const auto gathered = gather(mine(), group, 1);
    REQUIRE(gathered.size() == (group.rank() == 1 ? 2 : 0));
    if (group.rank() == 1) CHECK(equal(torch::cat(gathered), {1, 2, 2, 4}));

    const torch::Tensor output = torch::zeros(2, gpu);
    scatter(output, {on_gpu({10, 11}), on_gpu({20, 21})}, group, 0);
    CHECK(equal(output, {10 * rank + 10, 10 * rank + 11}));
    const torch::Tensor four = on_gpu({1, 2, 3, 4}) * (rank + 1);
    CHECK(equal(reduce_scatter_tensor(four, group), {6 * rank + 3, 6 * rank + 6}));
    CHECK(equal(reduce_scatter({mine(), on_gpu({5, 6})}, group),
                group.rank() == 0 ? std::vector<float>{3, 6} : std::vector<float>{10, 12}));

    const std::vector<torch::Tensor> received = {torch::zeros(1, gpu), torch::zeros(1, gpu)};
    all_to_all(received, {on_gpu({10 * rank}), on_gpu({10 * rank + 1})}, group);
    CHECK(equal(torch::cat(received), {rank, 10 + rank}));
    const torch::Tensor two = on_gpu({10 * rank, 10 * rank + 1});
    CHECK(equal(all_to_all_single(two, group), {rank, 10 + rank}));
    const std::vector<std::int64_t> splits =
        group.rank() == 0 ? std::vector<std::int64_t>{1, 2} : std::vector<std::int64_t>{2, 1};
    const torch::Tensor three = on_gpu({10 * rank, 10 * rank + 1, 10 * rank + 2});
    CHECK(equal(all_to_all_single(three, group, splits, splits),
                group.rank() == 0 ? std::vector<float>{0, 10, 11} : std::vector<float>{1, 2, 12}));

    Work work = all_reduce_async(mine(), group);
    CHECK(equal(work.wait().front(), {3, 6}));
    CHECK(equal(all_reduce_async(mine(), group)
                    .then([] { return std::vector<torch::Tensor>{on_gpu({9})}; })
                    .wait()
                    .front(),
                {9}));
    barrier(group);
    CHECK(all_gather(rank + 0.5, group) == std::vector<double>{0.5, 1.5});
    CHECK(all_gather_object(std::string("text of ") + std::to_string(group.rank()), group).at(1) ==
          "text of 1");
  });
}

TEST_CASE("two workers over nccl: numbers of every type") {
  over_nccl_with_two([](const ProcessGroup& group) {
    for (const auto type : {torch::kFloat, torch::kDouble, torch::kHalf, torch::kBFloat16,
                            torch::kInt, torch::kLong, torch::kByte}) {
      CAPTURE(c10::toString(type));
      const auto options = torch::TensorOptions(gpu).dtype(type);
      const torch::Tensor values = torch::full({5}, group.rank() + 1, options);
      all_reduce(values, group);
      CHECK(values.sum().item<double>() == 15);
    }
  });
}

TEST_CASE("two workers over nccl: subgroups, over nccl and over gloo") {
  over_nccl_with_two([](const ProcessGroup& group) {
    const auto rank = static_cast<float>(group.rank());
    for (const char* backend : {"", "nccl", "gloo"}) {
      CAPTURE(backend);
      const auto both = new_group(group, {1, 0}, {.backend = backend});
      REQUIRE(both);
      const torch::Tensor sum = on_gpu({rank + 1});
      all_reduce(sum, *both);
      CHECK(equal(sum, {3}));
      barrier(*both);
      const auto alone = new_group(group, {1}, {.backend = backend});
      REQUIRE(alone.has_value() == (group.rank() == 1));
      if (!alone) continue;
      const torch::Tensor same = on_gpu({7});
      all_reduce(same, *alone);
      CHECK(equal(same, {7}));
    }
  });
}

TEST_CASE("two workers over nccl: messages") {
  over_nccl_with_two([](const ProcessGroup& group) {
    const int other = 1 - group.rank();
    const auto rank = static_cast<float>(group.rank());
    const torch::Tensor received = torch::zeros(2, gpu);
    if (group.rank() == 0) send(on_gpu({4, 5}), 1, group);
    if (group.rank() == 1) recv(received, 0, group);
    if (group.rank() == 1) CHECK(equal(received, {4, 5}));
    if (group.rank() == 1) send(on_gpu({6, rank}), other, group);
    if (group.rank() == 0) recv(received, other, group);
    if (group.rank() == 0) CHECK(equal(received, {6, 1}));
  });
}

TEST_CASE("two workers over nccl: DistributedDataParallel with each option, by both batches") {
  auto plain = small_net();
  loss_of(plain->forward(whole_batch())).backward();
  const auto expected = gradients_of(*plain);
  over_nccl_with_two([&](const ProcessGroup& group) {
    const auto check = [&](const char* what, const DdpOptions& options, double tolerance) {
      CAPTURE(what);
      auto net = small_net();
      DistributedDataParallel ddp(net, group, options);
      for (int i = 0; i < 3; ++i) {
        ddp.zero_grad();
        loss_of(ddp.forward(whole_batch().narrow(0, 8 * group.rank(), 8))).backward();
        const auto gradients = gradients_of(*net);
        for (std::size_t k = 0; k < expected.size(); ++k) {
          CHECK(torch::allclose(gradients[k], expected[k], tolerance, tolerance / 10));
        }
      }
    };
    check("default", {}, 1e-4);
    check("buckets", {.bucket_cap_mb = 0.001}, 1e-4);
    check("unused", {.find_unused_parameters = true}, 1e-4);
    check("views", {.gradient_as_bucket_view = true}, 1e-4);
    check("static", {.static_graph = true}, 1e-4);
    check("hook", {.comm_hook = allreduce_hook}, 1e-4);
    check("fp16", {.comm_hook = fp16_compress_hook}, 1e-2);
    check("bf16", {.comm_hook = bf16_compress_hook}, 5e-2);
  });
}

TEST_CASE("two workers over nccl: operations under way keep no memory of finished ones") {
  over_nccl_with_two([](const ProcessGroup& group) {
    constexpr std::int64_t floats = 8 << 20;  // 32 MiB; 300 of them are more than 9 GiB
    for (int i = 0; i < 300; ++i) {
      const torch::Tensor values = torch::ones(floats, gpu);
      all_reduce(values, group);
      if (i % 100 == 99) CHECK(values[i].item<float>() == 2);
    }
    const auto stats = at::getDeviceAllocator(torch::kCUDA)->getDeviceStats(gpu.index());
    CHECK(stats.allocated_bytes.at(0).peak < std::int64_t{1} << 30);  // of all pools
  });
}

TEST_CASE("scene over nccl: rank 1 does not come" * doctest::skip()) {
  as_program(std::chrono::seconds(10), [](const ProcessGroup& group) {
    // Until cpprun ends it.
    if (group.rank() == 1) std::promise<void>().get_future().wait_for(std::chrono::minutes(2));
    const torch::Tensor values = on_gpu({1});
    all_reduce(values, group);
    static_cast<void>(values.item<float>());
  });
}

TEST_CASE("scene over nccl: the ranks call different collectives" * doctest::skip()) {
  as_program(std::chrono::seconds(10), [](const ProcessGroup& group) {
    // So large that no rank ends alone: all_reduce waits for what a sender of broadcast ignores.
    const torch::Tensor values = torch::ones(std::int64_t{64} << 20, gpu);
    if (group.rank() == 0) all_reduce(values, group);
    if (group.rank() == 1) broadcast(values, group, 1);
    torch::cuda::synchronize();
  });
}

TEST_CASE("scene over nccl: collectives until one rank is killed" * doctest::skip()) {
  as_program(std::chrono::minutes(5), [](const ProcessGroup& group) {
    const torch::Tensor values = torch::ones(1 << 20, gpu);
    while (true) {
      all_reduce(values, group, ReduceOp::average);
      torch::cuda::synchronize();
    }
  });
}

TEST_CASE("scene over nccl: workers that share a mask join" * doctest::skip()) {
  as_program(std::chrono::minutes(1), [](const ProcessGroup&) {});
}

TEST_CASE("the optimizers on the GPU do what they do on the CPU") {
  const auto train = [](const torch::Device& device, const auto& make_optimizer) {
    auto net = small_net();
    net->to(device);
    auto optimizer = make_optimizer(net->parameters());
    for (int i = 0; i < 5; ++i) {
      optimizer.zero_grad();
      loss_of(net->forward(whole_batch().to(device))).backward();
      const auto norm = clip_grad_norm(net->parameters(), 0.05);
      expect(norm.device() == device, "the norm stays where the gradients are");
      optimizer.step();
    }
    return net->parameters()[0].detach().cpu();
  };
  const auto sgd = [](const auto& parameters) {
    return FusedSgd(parameters, {.lr = 0.1, .momentum = 0.9});
  };
  const auto adam = [](const auto& parameters) {
    return FusedAdam(parameters, adamw_options(0.1));
  };
  CHECK(torch::allclose(train(gpu, sgd), train(torch::kCPU, sgd), 1e-3, 1e-4));
  CHECK(torch::allclose(train(gpu, adam), train(torch::kCPU, adam), 1e-2, 1e-3));
}

TEST_CASE("Autocast computes in bfloat16 on the GPU, and the model learns") {
  auto net = small_net();
  FusedSgd sgd(net->parameters(), {.lr = 0.1});
  double first = 0;
  double last = 0;
  for (int i = 0; i < 20; ++i) {
    torch::Tensor loss;
    {
      const Autocast autocast(torch::kCUDA);
      const auto output = net->forward(whole_batch());
      CHECK((output.scalar_type() == torch::kBFloat16));
      loss = loss_of(output.to(torch::kFloat));
    }
    sgd.zero_grad();
    loss.backward();
    sgd.step();
    last = loss.item<double>();
    if (i == 0) first = last;
  }
  CHECK(last < 0.5 * first);
}

TEST_CASE("a checkpoint restores model, optimizer and the GPU's random numbers") {
  const testing::TemporaryDirectory directory;
  const Checkpoints checkpoints(directory.file("checkpoints"));
  CHECK(over_nccl([&](const ProcessGroup& group) {
          auto net = small_net();
          FusedAdam adam(net->parameters(), adamw_options());
          loss_of(net->forward(whole_batch())).backward();
          adam.step();
          StateDict state;
          state.put("net", state_of(*net));
          state.put("adam", adam.state());
          torch::manual_seed(3);
          checkpoints.save({.epoch = 1, .step = 7, .samples = 0}, state, group);
          const auto next = torch::rand({4}, gpu);
          const auto next_of_cpu = torch::rand({4});
          const auto weight = net->parameters()[0].detach().clone();

          torch::nn::Sequential other(torch::nn::Linear(8, 16), torch::nn::ReLU(),
                                      torch::nn::Linear(16, 4));
          other->to(gpu);
          FusedAdam other_adam(other->parameters(), adamw_options());
          torch::manual_seed(99);
          const auto found = checkpoints.load_newest(group);
          expect(found && found->progress.step == 7, "the checkpoint");
          load_state(*other, found->state.part("net"));
          other_adam.load(found->state.part("adam"));
          expect(torch::equal(torch::rand({4}, gpu), next), "the GPU's random numbers");
          expect(torch::equal(torch::rand({4}), next_of_cpu), "the CPU's random numbers");
          expect(torch::equal(other->parameters()[0], weight), "the model");
          for (auto* each : {&net, &other}) {
            for (auto& parameter : (*each)->parameters())
              parameter.mutable_grad() = torch::Tensor();
            loss_of((*each)->forward(whole_batch())).backward();
          }
          adam.step();
          other_adam.step();
          expect(torch::equal(other->parameters()[0], net->parameters()[0]), "the next step");
        }) == "");
}

TEST_CASE("a loader's thread computes on the GPU of the thread that made it") {
  BatchLoader loader({0, 1, 2, 3}, {.batch_size = 2}, [](const std::vector<std::int64_t>& indices) {
    return Batch{.inputs = torch::tensor(indices).to(torch::kCUDA), .targets = {}};
  });
  const auto batch = loader.next();
  REQUIRE(batch);
  CHECK(batch->inputs.device() == gpu);
  CHECK(torch::equal(batch->inputs.cpu(), torch::tensor({0, 1}, torch::kLong)));
}

TEST_CASE("DataParallel on one GPU named twice") {
  auto plain = small_net();
  const auto expected = plain->forward(whole_batch());
  DataParallel<torch::nn::Sequential> parallel(plain, {gpu, gpu});
  const auto output = parallel.forward(whole_batch());
  CHECK(close(output, expected));
  loss_of(output).backward();
  CHECK(plain->parameters()[0].grad().is_cuda());
}

TEST_CASE("a GPU that does not exist is rejected with a sentence") {
  Context context;
  context.local_rank = LocalRank{999};
  context.local_world_size = 1000;
  CHECK_THROWS_WITH_AS(bind_cuda_device(context),
                       doctest::Contains("local rank 999 has no GPU of its own"), DistributedError);
  CHECK(bind_cuda_device(Context{}) == gpu);
}

TEST_CASE("messages between two ranks that share a GPU") {
  CHECK(testing::on_two_ranks([](const ProcessGroup& group) {
          // gloo sends the CPU's tensors alone.
          torch::Tensor values = torch::full({2}, group.rank() + 1.0);
          if (group.rank() == 0) send(values.to(gpu).cpu(), 1, group);
          if (group.rank() == 1) {
            recv(values, 0, group);
            expect(equal(values.to(gpu), {1, 1}), "what was sent");
          }
        }) == "");
}

}  // namespace gpu_test
