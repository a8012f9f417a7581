// SPDX-License-Identifier: BSD-3-Clause
// Workers that take part in several rounds: RoundClient, RoundConnections and run_restartable().
#include <doctest/doctest.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <future>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>

#include "tests/worker/child.h"
#include "tests/worker/temporary_directory.h"
#include "worker/env/io/round_client.h"
#include "worker/env/io/round_connections.h"
#include "worker/env/io/worker.h"

#ifdef __SANITIZE_THREAD__
// RoundConnections looks at the descriptors of all threads, which the kernel permits at any time.
extern "C" const char* __tsan_default_suppressions() {
  return "race:cpprun::RoundConnections::\n";
}
#endif

namespace rounds_test {

using namespace cpprun;
using testing::run_in_child;
using testing::TemporaryDirectory;

namespace {

constexpr auto long_wait = std::chrono::minutes(1);

// cpprun's end of the socket. Messages can be sent to one client.
class Launcher {
 public:
  explicit Launcher(const std::string& path) : listener_(::socket(AF_UNIX, SOCK_SEQPACKET, 0)) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::memcpy(address.sun_path, path.data(), path.size());
    if (::bind(listener_, reinterpret_cast<sockaddr*>(&address), sizeof address) != 0 ||
        ::listen(listener_, 1) != 0) {
      throw std::runtime_error("cannot listen");
    }
  }
  ~Launcher() {
    close();
    ::close(listener_);
  }
  Launcher(const Launcher&) = delete;
  Launcher& operator=(const Launcher&) = delete;

  void accept() { client_ = ::accept(listener_, nullptr, nullptr); }
  void close() {
    if (client_ >= 0) ::close(client_);
    client_ = -1;
  }
  std::string receive() const {
    std::array<char, 4096> bytes{};
    const auto got = ::recv(client_, bytes.data(), bytes.size(), 0);
    return {bytes.data(), static_cast<std::size_t>(std::max<ssize_t>(got, 0))};
  }
  void send(const std::string& message) const {
    ::send(client_, message.data(), message.size(), MSG_NOSIGNAL);
  }

 private:
  int listener_;
  int client_ = -1;
};

// A connection over the loopback.
struct Pair {
  Pair() {
    const int listener = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    auto* const any = reinterpret_cast<sockaddr*>(&address);
    socklen_t size = sizeof address;
    REQUIRE(::bind(listener, any, size) == 0);
    REQUIRE(::listen(listener, 1) == 0);
    REQUIRE(::getsockname(listener, any, &size) == 0);
    ends[0] = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    REQUIRE(::connect(ends[0], any, size) == 0);
    ends[1] = ::accept(listener, nullptr, nullptr);
    ::close(listener);
  }
  ~Pair() {
    ::close(ends[0]);
    ::close(ends[1]);
  }
  Pair(const Pair&) = delete;
  Pair& operator=(const Pair&) = delete;
  // Nothing can be read, though it is not closed.
  bool is_open() const {
    char byte = 0;
    return ::recv(ends[0], &byte, 1, MSG_DONTWAIT) < 0 && errno == EAGAIN;
  }
  std::array<int, 2> ends{};
};

// A connected client, and its launcher.
struct Both {
  TemporaryDirectory directory;
  Launcher launcher{directory.file("rounds")};
  RoundClient client{directory.file("rounds"), LocalRank{3}};
  Both() { launcher.accept(); }
};

}  // namespace

TEST_CASE("a worker reports that it waits, and receives its place") {
  Both both;
  both.launcher.send("place round=2 uuid=2 RANK=5 MASTER_ADDR=host=x");
  const auto place = both.client.await_place();
  CHECK(both.launcher.receive() == "waits local_rank=3 round=0");
  CHECK(place.round == 2);
  CHECK(place.variables == Environment{{"MASTER_ADDR", "host=x"}, {"RANK", "5"}});
  CHECK_FALSE(both.client.await_broken(std::chrono::milliseconds(0)));
  both.launcher.send("broken round=2");
  CHECK(both.client.await_broken(long_wait));
  both.launcher.send("place round=3 uuid=3 RANK=4");
  CHECK(both.client.await_place().round == 3);
  CHECK(both.launcher.receive() == "waits local_rank=3 round=2");
  CHECK_FALSE(both.client.await_broken(std::chrono::milliseconds(0)));
}

TEST_CASE("a round that is broken before it begins is skipped") {
  Both both;
  both.launcher.send("broken round=1");
  both.launcher.send("place round=1 RANK=0");
  auto place = std::async(std::launch::async, [&] { return both.client.await_place(); });
  CHECK(both.launcher.receive() == "waits local_rank=3 round=0");
  CHECK(both.launcher.receive() == "waits local_rank=3 round=1");
  both.launcher.send("place round=2 RANK=0");
  CHECK(place.get().round == 2);
}

TEST_CASE("a broken round closes its own connections, those that are just being made included") {
  const Pair before;
  Both both;
  both.launcher.send("place round=1 RANK=0");
  both.client.await_place();
  auto opening = std::make_unique<RoundConnections::Opening>();
  const Pair of_the_round;
  opening.reset();
  const Pair of_the_user;
  opening = std::make_unique<RoundConnections::Opening>();
  const Pair unfinished;
  both.launcher.send("broken round=1");
  REQUIRE(both.client.await_broken(long_wait));
  char byte = 0;
  CHECK(::recv(of_the_round.ends[1], &byte, 1, 0) == 0);
  CHECK(::recv(unfinished.ends[1], &byte, 1, 0) == 0);
  CHECK(before.is_open());
  CHECK(of_the_user.is_open());
  const Pair later;
  CHECK(::recv(later.ends[0], &byte, 1, 0) == 0);  // closed soon
}

TEST_CASE("what waits in its destructor is kept until the round is left") {
  auto object = std::make_shared<int>(1);
  const std::weak_ptr<int> watched = object;
  CHECK_FALSE(RoundConnections::keep(object));
  Both both;
  both.launcher.send("place round=1 RANK=0");
  both.client.await_place();
  CHECK(RoundConnections::keep(std::move(object)));
  both.launcher.send("broken round=1");
  both.launcher.send("place round=2 RANK=0");
  CHECK(both.client.await_broken(long_wait));
  CHECK(watched.use_count() == 1);
  both.client.await_place();
  CHECK(watched.expired());
}

TEST_CASE("what another thread still uses is destroyed by the thread that leaves the round") {
  std::promise<std::thread::id> destroyed_by;
  std::shared_ptr<int> object(new int(1), [&destroyed_by](const int* number) {
    destroyed_by.set_value(std::this_thread::get_id());
    delete number;
  });
  Both both;
  both.launcher.send("place round=1 RANK=0");
  both.client.await_place();
  CHECK(RoundConnections::keep(object));
  std::promise<void> leaves;
  std::thread user([object = std::move(object), left = leaves.get_future()]() mutable {
    left.wait();
    object.reset();
  });
  both.launcher.send("broken round=1");
  both.launcher.send("place round=2 RANK=0");
  CHECK(both.client.await_broken(long_wait));
  std::thread releases([&leaves] { leaves.set_value(); });
  both.client.await_place();
  CHECK(destroyed_by.get_future().get() == std::this_thread::get_id());
  releases.join();
  user.join();
}

TEST_CASE("without cpprun there are no further rounds") {
  const auto error_after = [](const std::function<void(Launcher&)>& act) {
    Both both;
    act(both.launcher);
    std::string said;
    try {
      both.client.await_place();
    } catch (const std::runtime_error& error) {
      said = error.what();
    }
    return said;
  };
  CHECK(error_after([](Launcher& launcher) { launcher.close(); }) ==
        "cpprun has closed the connection");
  for (const std::string message : {"move round=1", "place RANK=1", "place round=x", "= ="}) {
    CHECK(error_after([&](Launcher& launcher) { launcher.send(message); }) ==
          fmt::format("cpprun has sent an unknown message: \"{}\"", message));
  }
  const TemporaryDirectory directory;
  const std::string path = directory.file("absent");
  CHECK_THROWS_WITH(
      RoundClient(path, LocalRank{0}),
      fmt::format("cannot connect to cpprun at \"{}\": No such file or directory", path).c_str());
  CHECK_THROWS_WITH(RoundClient(std::string(200, 'x'), LocalRank{0}),
                    doctest::Contains("the path is too long"));
}

namespace {

// Runs `body` under a launcher that gives it a place in rounds 1 and 2. The first is broken
// when `breaks`.
testing::Ended run_rounds(const WorkerMain& body, bool breaks) {
  const TemporaryDirectory directory;
  return run_in_child([&] {
    const std::string path = directory.file("rounds");
    Launcher launcher(path);
    ::setenv("RANK", "1", 1);
    ::setenv("WORLD_SIZE", "2", 1);
    ::setenv("LOCAL_RANK", "0", 1);
    ::setenv("MASTER_ADDR", "127.0.0.1", 1);
    ::setenv("MASTER_PORT", "29500", 1);
    ::setenv("CPPRUN_ROUND_SOCKET", path.c_str(), 1);
    std::thread([&] {
      launcher.accept();
      launcher.send("place round=1 RANK=1 WORLD_SIZE=2");
      if (breaks) launcher.send("broken round=1");
      launcher.receive();
      launcher.receive();
      launcher.send("place round=2 RANK=0 WORLD_SIZE=1");
    }).detach();
    // The launcher's descriptors stay open until the process ends.
    ::_exit(run_restartable(body, breaks ? long_wait : std::chrono::milliseconds(1)));
    return 0;
  });
}

}  // namespace

TEST_CASE("run_restartable calls its body again in the next round") {
  const auto ended = run_rounds(
      [](const Context& context) -> int {
        if (context.world_size == 1) return 10 + context.rank.value;
        throw std::runtime_error("a peer is lost");
      },
      /*breaks=*/true);
  CHECK(ended.exit_code == 10);
  const bool is_skipped = ended.stderr_text.empty();  // it was broken before it began
  CHECK((is_skipped || ended.stderr_text == "rank 1 leaves the broken round 1: a peer is lost\n"));
}

TEST_CASE("run_restartable reports an error that no broken round explains") {
  const auto ended =
      run_rounds([](const Context&) -> int { throw std::runtime_error("loss is not finite"); },
                 /*breaks=*/false);
  CHECK(ended.exit_code == 1);
  CHECK(ended.stderr_text == "rank 1: std::runtime_error: loss is not finite\n");
}

TEST_CASE("run_restartable is run() under another launcher") {
  const auto ended = run_in_child(
      [] { return run_restartable([](const Context& context) { return context.world_size; }); });
  CHECK(ended.exit_code == 1);
}

}  // namespace rounds_test
