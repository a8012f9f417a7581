// SPDX-License-Identifier: BSD-3-Clause
// Every process by itself: MPI_COMM_SELF is a world of one.
#include "worker/torch/group/mpi_progress.h"

#include <doctest/doctest.h>

#include <future>
#include <optional>
#include <string>
#include <thread>

using namespace cpprun;
using namespace std::chrono_literals;

namespace {

// Outlives its operation, whether or not the test waits for it.
struct Ended {
  std::promise<std::string> failure;
  std::string wait() { return failure.get_future().get(); }
  ~Ended() { mpi_progress()->drain(this); }
};

std::shared_ptr<MpiOperation> operation(Ended& ended, std::chrono::milliseconds timeout,
                                        std::function<int(MPI_Request*)> begin) {
  auto made = std::make_shared<MpiOperation>();
  made->group = &ended;
  made->timeout = timeout;
  made->begin = std::move(begin);
  made->end = [&ended](const MpiEnd& end) { ended.failure.set_value(end.failure); };
  return made;
}

std::shared_ptr<MpiOperation> receive(Ended& ended, std::chrono::milliseconds timeout, int* into,
                                      int tag) {
  auto made = operation(ended, timeout, [into, tag](MPI_Request* request) {
    return MPI_Irecv(into, 1, MPI_INT, 0, tag, MPI_COMM_SELF, request);
  });
  made->is_receive = true;
  return made;
}

std::shared_ptr<MpiOperation> send(Ended& ended, int* from, int tag) {
  return operation(ended, 10s, [from, tag](MPI_Request* request) {
    return MPI_Isend(from, 1, MPI_INT, 0, tag, MPI_COMM_SELF, request);
  });
}

std::shared_ptr<MpiProgress> ready() {
  auto progress = mpi_progress();
  progress->wait_until_ready(60s);
  return progress;
}

}  // namespace

TEST_CASE("one thread makes all calls, and it is not the caller's") {
  const auto progress = ready();
  std::optional<std::thread::id> first;
  std::optional<std::thread::id> second;
  progress->call([&] {
    first = std::this_thread::get_id();
    return 0;
  });
  CHECK(progress->call([&] {
    second = std::this_thread::get_id();
    return 7;
  }) == 7);
  CHECK(first == second);
  CHECK(first != std::this_thread::get_id());
}

TEST_CASE("several operations run at once, and end in any order") {
  const auto progress = ready();
  int out[] = {11, 12};
  int in[] = {0, 0};
  Ended received[2];
  Ended sent[2];
  progress->submit(receive(received[0], 10s, &in[0], 1));
  progress->submit(receive(received[1], 10s, &in[1], 2));
  progress->submit(send(sent[1], &out[1], 2));
  CHECK(received[1].wait() == "");
  progress->submit(send(sent[0], &out[0], 1));
  CHECK(received[0].wait() == "");
  CHECK(in[0] == 11);
  CHECK(in[1] == 12);
}

TEST_CASE("a receive that times out is canceled, and does not consume later messages") {
  const auto progress = ready();
  int late = 0;
  int in_time = 0;
  int out = 5;
  Ended first;
  Ended second;
  Ended sent;
  progress->submit(receive(first, 20ms, &late, 3));
  CHECK(first.wait() == "Timed out after 0.02 s over MPI");
  progress->submit(send(sent, &out, 3));
  progress->submit(receive(second, 10s, &in_time, 3));
  CHECK(second.wait() == "");
  CHECK(in_time == 5);
  CHECK(late == 0);
}

TEST_CASE("a group's operations are given up together, and no others") {
  const auto progress = ready();
  int in[] = {0, 0};
  Ended ours;
  Ended theirs;
  Ended sent;
  progress->submit(receive(ours, 10min, &in[0], 4));
  progress->submit(receive(theirs, 10min, &in[1], 5));
  progress->give_up_all(&ours, mpi_aborted);
  CHECK(ours.wait() == mpi_aborted);
  progress->drain(&ours);
  int out = 6;
  progress->submit(send(sent, &out, 5));
  CHECK(theirs.wait() == "");
}

TEST_CASE("an MPI error is reported with MPI's message") {
  const auto progress = ready();
  progress->call([] { return MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN); });
  int out = 0;
  Ended invalid_rank;
  progress->submit(operation(invalid_rank, 10s, [&out](MPI_Request* request) {
    return MPI_Isend(&out, 1, MPI_INT, 99, 0, MPI_COMM_SELF, request);
  }));
  CHECK(invalid_rank.wait().find("rank") != std::string::npos);
}

TEST_CASE("a callback of a future may wait for another operation") {
  const auto progress = ready();
  std::promise<std::string> waited;
  int in = 0;
  int out = 8;
  Ended received;
  Ended sent;
  progress->later([&] {
    progress->submit(receive(received, 10s, &in, 6));
    progress->submit(send(sent, &out, 6));
    waited.set_value(received.wait());
  });
  CHECK(waited.get_future().get() == "");
  CHECK(in == 8);
}
