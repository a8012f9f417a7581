// SPDX-License-Identifier: BSD-3-Clause
// Every process by itself: MPI_COMM_SELF is a world of one.
#include "worker/torch/group/mpi_progress.h"

// Before doctest, because LibTorch has a CHECK of its own.
#include <ATen/ops/zeros.h>

#include <doctest/doctest.h>

#include <future>
#include <string>

using namespace cpprun;
using namespace std::chrono_literals;

namespace {

struct Starter {
  std::shared_ptr<MpiProgress> progress = mpi_progress();
  std::shared_ptr<MpiHealth> health = std::make_shared<MpiHealth>();

  Starter() { progress->wait_until_ready(60s); }

  c10::intrusive_ptr<MpiWork> receive(const at::Tensor& into, std::chrono::milliseconds timeout) {
    MpiCall call{.outputs = {into}, .timeout = timeout, .is_receive = true, .is_message = true};
    call.begin = [memory = into.data_ptr()](MPI_Request* request) {
      return MPI_Irecv(memory, 1, MPI_FLOAT, 0, 20, MPI_COMM_SELF, request);
    };
    call.finish = [into](const MPI_Status&) {
      return std::string(into.item<float>() < 0 ? "less than nothing came" : "");
    };
    call.source = [](const MPI_Status& status) { return status.MPI_SOURCE; };
    return MpiWork::start(progress, health, this, 0, std::move(call));
  }

  c10::intrusive_ptr<MpiWork> send(const at::Tensor& from) {
    MpiCall call{.timeout = 10s, .is_message = true};
    call.begin = [memory = from.data_ptr()](MPI_Request* request) {
      return MPI_Isend(memory, 1, MPI_FLOAT, 0, 20, MPI_COMM_SELF, request);
    };
    call.tensors = {from};
    return MpiWork::start(progress, health, this, 0, std::move(call));
  }
};

std::string failure_of(MpiWork& work, std::chrono::milliseconds timeout) {
  try {
    work.wait(timeout);
    return "none";
  } catch (const std::exception& error) {
    return error.what();
  }
}

}  // namespace

TEST_CASE("a finished work has its result, its source and a completed future") {
  Starter starter;
  const at::Tensor into = at::zeros({1});
  const auto receiving = starter.receive(into, 10s);
  const auto future = receiving->getFuture();
  CHECK(!receiving->isCompleted());
  starter.send(at::zeros({1}).add(4))->wait(kNoTimeout);
  CHECK(receiving->wait(kNoTimeout));
  CHECK(receiving->isSuccess());
  CHECK(receiving->sourceRank() == 0);
  CHECK(receiving->result().at(0).item<float>() == 4);
  future->wait();
  CHECK(future->value().toTensorVector().at(0).item<float>() == 4);
  CHECK(receiving->getFuture() == future);
}

TEST_CASE("an operation that exceeds its timeout ends with a message, and so does its future") {
  Starter starter;
  const auto receiving = starter.receive(at::zeros({1}), 10min);
  CHECK(failure_of(*receiving, 20ms) == "Timed out after 0.02 s over MPI");
  CHECK(!receiving->isSuccess());
  CHECK(receiving->getFuture()->hasError());
  CHECK(starter.health->why_broken() == "");  // it was only a message
}

TEST_CASE("a work that is aborted ends at once") {
  Starter starter;
  const auto receiving = starter.receive(at::zeros({1}), 10min);
  receiving->abort();
  CHECK(failure_of(*receiving, kNoTimeout) == mpi_aborted);
}

TEST_CASE("an invalid message is the work's failure") {
  Starter starter;
  const auto receiving = starter.receive(at::zeros({1}), 10s);
  starter.send(at::zeros({1}).sub(1))->wait(kNoTimeout);
  CHECK(failure_of(*receiving, kNoTimeout) == "less than nothing came");
}

TEST_CASE("a failed collective breaks its group, and the first failure stays its reason") {
  Starter starter;
  MpiCall call{.timeout = 10s};
  call.begin = [](MPI_Request*) { return MPI_ERR_OTHER; };
  const auto work = MpiWork::start(starter.progress, starter.health, &starter, 0, std::move(call));
  const std::string words = failure_of(*work, kNoTimeout);
  CHECK(words.find("MPI_ERR_OTHER") != std::string::npos);
  starter.health->breaks("later");
  CHECK(starter.health->why_broken() == words);
}
