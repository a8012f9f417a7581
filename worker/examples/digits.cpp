// SPDX-License-Identifier: BSD-3-Clause
// Trains a small convolutional network to read handwritten digits, on any number of ranks:
//
//   cpprun --standalone --nproc-per-node=2 ./digits
//
// All that is distributed is in train(): a process group, a wrapped model, a sampler that divides
// the images, and an ordinary loop. With --checkpoint the run survives the death of any rank
// (cpprun --max-restarts): it resumes in mid-epoch with the images not yet seen, on the remaining
// ranks.

#include <fmt/format.h>
#include <torch/torch.h>

#include <chrono>
#include <cmath>
#include <csignal>
#include <cstdio>
#include <numbers>
#include <optional>

#include "worker/env/io/heartbeat.h"
#include "worker/env/io/worker.h"
#include "worker/examples/command_line.h"
#include "worker/examples/digits_file.h"
#include "worker/torch/collectives/collectives.h"
#include "worker/torch/data/sampler.h"
#include "worker/torch/ddp/ddp.h"
#include "worker/torch/files/checkpoint.h"
#include "worker/torch/optim/sgd.h"

namespace {

using cpprun::examples::CommandLine;
using cpprun::examples::Digits;
using Clock = std::chrono::steady_clock;

struct Settings {
  int epochs = 20;
  int batch_size = 32;
  double lr = 0.05;
  int seed = 42;
  std::string data;
  std::string checkpoint;
  int save_every = 20;
  bool resume = false;
  int fail_at_epoch = 0;
  int fail_at_step = 0;
  int fail_rank = 0;
  std::string init_method = "env://";
  std::string backend;
};

struct ReaderImpl : torch::nn::Module {
  explicit ReaderImpl(int classes) {
    // One by one: C++ may evaluate the arguments of one call in any order, and they draw random
    // numbers.
    body->push_back(torch::nn::Conv2d(torch::nn::Conv2dOptions(1, 16, 3).padding(1).bias(false)));
    body->push_back(torch::nn::BatchNorm2d(16));
    body->push_back(torch::nn::ReLU());
    body->push_back(torch::nn::Conv2d(torch::nn::Conv2dOptions(16, 32, 3).padding(1).bias(false)));
    body->push_back(torch::nn::BatchNorm2d(32));
    body->push_back(torch::nn::ReLU());
    body->push_back(torch::nn::MaxPool2d(2));
    body->push_back(torch::nn::Flatten());
    body->push_back(torch::nn::Linear(32 * 4 * 4, 64));
    body->push_back(torch::nn::ReLU());
    body->push_back(torch::nn::Linear(64, classes));
    register_module("body", body);
  }

  torch::Tensor forward(const torch::Tensor& images) { return body->forward(images); }

  torch::nn::Sequential body;
};
TORCH_MODULE(Reader);

struct Set {
  torch::Tensor images;
  torch::Tensor labels;
  std::int64_t size() const { return labels.size(0); }
};

// Every fifth image is held out.
constexpr std::int64_t held_out_every = 5;

Set select(const Digits& digits, bool held_out) {
  const torch::Tensor all = torch::arange(digits.count);
  const torch::Tensor is_held_out = all % held_out_every == held_out_every - 1;
  const torch::Tensor chosen =
      all.masked_select(held_out ? is_held_out : is_held_out.logical_not());
  const torch::Tensor pixels = torch::tensor(at::ArrayRef<std::uint8_t>(digits.pixels))
                                   .view({digits.count, 1, digits.rows, digits.columns});
  const torch::Tensor labels = torch::tensor(at::ArrayRef<std::uint8_t>(digits.labels));
  return {.images = pixels.index_select(0, chosen).to(torch::kFloat) / 8 - 1,
          .labels = labels.index_select(0, chosen).to(torch::kLong)};
}

using Model = cpprun::DistributedDataParallel<Reader>;

// State for the whole training.
struct Run {
  const Settings& settings;
  const cpprun::Context& context;
  const cpprun::ProcessGroup& group;
  const cpprun::StopSignal& stop;
  const Set& training;
  const cpprun::DistributedSampler& sampler;
  Model& model;
  cpprun::FusedSgd& sgd;
  cpprun::Heartbeat& heartbeat;
  std::optional<cpprun::Checkpoints> checkpoints;
};

// The progress of the training, and the losses of the current epoch so far.
struct Course {
  cpprun::Progress progress{.epoch = 1};
  double loss_sum = 0;  // of all ranks, at the last reduction
  double images = 0;
  double own_loss_sum = 0;  // of this rank, since then
  double own_images = 0;
};

void reduce_losses(Course& course, const cpprun::ProcessGroup& group) {
  const torch::Tensor sums =
      torch::tensor({course.own_loss_sum, course.own_images}, torch::kDouble);
  cpprun::all_reduce(sums, group);
  course.loss_sum += sums[0].item<double>();
  course.images += sums[1].item<double>();
  course.own_loss_sum = course.own_images = 0;
}

std::uint64_t steps_of(const Course& course) {
  return static_cast<std::uint64_t>(course.progress.step);
}

void save(const Run& run, Course& course) {
  reduce_losses(course, run.group);
  cpprun::StateDict state;
  state.put("model", cpprun::state_of(*run.model.module()));
  state.put("optimizer", run.sgd.state());
  state.set("loss_sum", course.loss_sum);
  state.set("images", course.images);
  run.checkpoints->save(course.progress, state, run.group);
  run.heartbeat.saved(steps_of(course));
}

// Without --resume, an old run's checkpoints must not be mistaken for this run's. This includes
// restarted attempts, so a job that may restart needs --resume from the start.
void check_directory(const Run& run) {
  if (run.context.max_restarts > 0) {
    throw std::runtime_error(
        "the launcher restarts failed jobs (--max-restarts), so --checkpoint needs --resume: "
        "without it, the next attempt could not load the checkpoints; --resume also works with an "
        "empty directory");
  }
  if (!run.checkpoints->any(run.group)) return;
  throw std::runtime_error(
      fmt::format("\"{}\" contains checkpoints of an earlier run: use --resume to continue that "
                  "run, or another --checkpoint directory",
                  run.settings.checkpoint));
}

void load(Run& run, Course& course) {
  if (!run.settings.resume) return check_directory(run);
  const auto found = run.checkpoints->load_newest(run.group);
  if (!found) return;
  cpprun::load_state(*run.model.module(), found->state.part("model"));
  run.sgd.load(found->state.part("optimizer"));
  course.progress = found->progress;
  course.loss_sum = found->state.real("loss_sum");
  course.images = found->state.real("images");
  run.heartbeat.saved(steps_of(course));
  if (!run.context.leads()) return;
  for (const std::string& reason : found->passed_over) {
    fmt::print("digits: skipped {}\n", reason);
  }
  fmt::print(
      "digits: resuming at step {}, epoch {}, after {} images of that epoch, world size {} (was "
      "{})\n",
      course.progress.step, course.progress.epoch, course.progress.samples, run.group.size(),
      found->world_size);
  std::fflush(stdout);
}

// Only in the first attempt: the job should succeed after a restart.
bool shall_fail(const Run& run, int asked, std::int64_t now) {
  return asked != 0 && asked == now && run.context.restart_count == 0 &&
         run.settings.fail_rank == run.context.rank.value;
}

// SIGTERM reaches the ranks at different times, but they must stop at the same step.
bool any_stops(const Run& run) {
  const torch::Tensor asked = torch::full({1}, run.stop.requested() ? 1 : 0, torch::kInt);
  cpprun::all_reduce(asked, run.group, cpprun::ReduceOp::max);
  return asked.item<int>() != 0;
}

void step(const Run& run, Course& course, const torch::Tensor& batch) {
  if (shall_fail(run, run.settings.fail_at_step, course.progress.step + 1)) ::raise(SIGKILL);
  const torch::Tensor output = run.model.forward(run.training.images.index_select(0, batch));
  const torch::Tensor loss =
      torch::nn::functional::cross_entropy(output, run.training.labels.index_select(0, batch));
  run.model.zero_grad();
  loss.backward();
  run.sgd.step();
  const auto images = static_cast<double>(batch.size(0));
  course.own_loss_sum += loss.item<double>() * images;
  course.own_images += images;
  ++course.progress.step;
  course.progress.samples += batch.size(0) * run.group.size();
  run.heartbeat.beat({.step = steps_of(course)});
}

// Trains the rest of the current epoch. Returns false if it stops early.
bool train_epoch(const Run& run, Course& course) {
  // How often the ranks agree on whether to stop.
  constexpr std::int64_t steps_between_questions = 5;
  run.model.module()->train();
  const auto indices = run.sampler.indices(course.progress.epoch, course.progress.samples);
  if (indices.empty()) return true;
  for (const torch::Tensor& batch :
       torch::tensor(indices, torch::kLong).split(run.settings.batch_size)) {
    step(run, course, batch);
    const std::int64_t steps = course.progress.step;
    if (run.checkpoints && steps % run.settings.save_every == 0) save(run, course);
    if (steps % steps_between_questions == 0 && any_stops(run)) return false;
  }
  return true;
}

// The share of held-out images that are classified correctly. Each rank tests its part.
double accuracy(Model& model, const Set& set, const cpprun::ProcessGroup& group) {
  const torch::NoGradGuard no_grad;
  model.module()->eval();
  const torch::Tensor mine = torch::arange(group.rank(), set.size(), group.size());
  const torch::Tensor read = model.forward(set.images.index_select(0, mine)).argmax(1);
  const torch::Tensor right =
      read.eq(set.labels.index_select(0, mine)).sum().to(torch::kDouble).reshape({1});
  cpprun::all_reduce(right, group);
  return right.item<double>() / static_cast<double>(set.size());
}

// Half a cosine from the given rate to zero.
double rate_of(const Settings& settings, int epoch) {
  const double progress = static_cast<double>(epoch) / settings.epochs;
  return settings.lr * 0.5 * (1 + std::cos(std::numbers::pi * progress));
}

void print_epoch(const Run& run, const Course& course, double right, double images_per_second) {
  if (!run.context.leads()) return;
  fmt::print("epoch {:2}/{}  loss {:.4f}  accuracy {:5.2f} %  {:6.0f} images/s  world size {}\n",
             course.progress.epoch, run.settings.epochs, course.loss_sum / course.images,
             100 * right, images_per_second, run.group.size());
  std::fflush(stdout);
}

// Returns false after a request to stop.
bool train_epochs(const Run& run, Course& course, const Set& held_out) {
  while (course.progress.epoch <= run.settings.epochs) {
    if (shall_fail(run, run.settings.fail_at_epoch, course.progress.epoch)) {
      throw std::runtime_error(
          fmt::format("failing on purpose in epoch {} (--fail-at-epoch)", course.progress.epoch));
    }
    const auto start = Clock::now();
    const double images_before = course.images;
    run.sgd.set_lr(rate_of(run.settings, static_cast<int>(course.progress.epoch - 1)));
    const bool whole = train_epoch(run, course);
    if (!whole) return false;
    reduce_losses(course, run.group);
    const std::chrono::duration<double> seconds = Clock::now() - start;
    print_epoch(run, course, accuracy(run.model, held_out, run.group),
                (course.images - images_before) / seconds.count());
    course = {.progress = {.epoch = course.progress.epoch + 1, .step = course.progress.step}};
  }
  return true;
}

int train(const cpprun::Context& context, const Settings& settings, const Digits& digits) {
  torch::manual_seed(static_cast<std::uint64_t>(settings.seed));
  const auto group = cpprun::init_process_group(
      context, {.backend = settings.backend, .init_method = settings.init_method});
  // Only now: while this rank waits for the others, SIGTERM should just end it.
  const cpprun::StopSignal stop;
  const Set training = select(digits, /*held_out=*/false);
  const Set held_out = select(digits, /*held_out=*/true);
  Model model(Reader(digits.classes), group);
  cpprun::FusedSgd sgd(
      model.parameters(),
      {.lr = settings.lr, .momentum = 0.9, .weight_decay = 5e-4, .nesterov = true});
  const cpprun::DistributedSampler sampler({.dataset_size = training.size(),
                                            .replicas = group.size(),
                                            .rank = group.rank(),
                                            .seed = static_cast<std::uint64_t>(settings.seed)});
  if (context.leads()) {
    fmt::print("digits: {} training images, {} held out, world size {}, seed {}\n", training.size(),
               held_out.size(), group.size(), settings.seed);
  }
  cpprun::Heartbeat heartbeat(context);
  Run run{settings, context, group, stop, training, sampler, model, sgd, heartbeat, {}};
  Course course;
  if (!settings.checkpoint.empty()) {
    run.checkpoints.emplace(settings.checkpoint);
    load(run, course);
  }
  const auto start = Clock::now();
  const bool finished = train_epochs(run, course, held_out);
  if (run.checkpoints) save(run, course);
  const std::chrono::duration<double> seconds = Clock::now() - start;
  if (!finished) {
    if (context.leads()) {
      fmt::print("digits: stopped by a signal in epoch {}, after step {}{}\n",
                 course.progress.epoch, course.progress.step, run.checkpoints ? " (saved)" : "");
    }
    return 0;
  }
  const double right = accuracy(model, held_out, group);
  if (context.leads()) {
    fmt::print(
        "digits: {:.2f} % of {} held-out images classified correctly after {} epochs, {:.1f} s\n",
        100 * right, held_out.size(), settings.epochs, seconds.count());
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  Settings settings;
  settings.data = cpprun::examples::find_digits();
  CommandLine app("digits: trains a classifier of handwritten digits (cpprun … ./digits).");
  app.add("--epochs", settings.epochs, "number of epochs", {{1, 10000}});
  app.add("--batch-size", settings.batch_size, "images per step and rank", {{1, 100000}});
  app.add("--lr", settings.lr, "initial learning rate", {{0.0, 1e6}});
  app.add("--seed", settings.seed, "random seed of weights and image order", {{0, 1 << 30}});
  app.add("--data", settings.data, "file with the digits");
  app.add("--checkpoint", settings.checkpoint, "directory for checkpoints; default: none");
  app.add("--save-every", settings.save_every, "steps between checkpoints", {{1, 1 << 30}});
  app.add_flag("--resume", settings.resume, "resume from the newest checkpoint, if any");
  app.add("--fail-at-epoch", settings.fail_at_epoch,
          "throw an exception in this epoch of the first attempt; 0: never", {{0, 10000}});
  app.add("--fail-at-step", settings.fail_at_step,
          "kill this process at this step of the first attempt; 0: never", {{0, 1 << 30}});
  app.add("--fail-rank", settings.fail_rank, "the rank that fails", {{0, 1 << 30}});
  app.add_meeting(settings.init_method);
  app.add_backend(settings.backend);
  if (const auto code = app.parse_or_exit(argc, argv)) return *code;
  return cpprun::run([&settings](const cpprun::Context& context) {
    if (settings.data.empty()) throw std::runtime_error("digits.bin not found: use --data=FILE");
    const auto digits = cpprun::examples::read_digits(settings.data);
    if (!digits) throw std::runtime_error(digits.error().reason);
    return train(context, settings, *digits);
  });
}
