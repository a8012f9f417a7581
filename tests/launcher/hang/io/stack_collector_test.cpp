// SPDX-License-Identifier: BSD-3-Clause
#include "launcher/hang/io/stack_collector.h"

#include <doctest/doctest.h>
#include <pthread.h>

#include <chrono>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "tests/launcher/hang/io/hang_probe.h"

namespace stack_collector_test {

using namespace cpprun;
using namespace std::chrono_literals;
using hang::Answer;
using hang::Observation;
using probe::ChildProcess;
using Ready = std::function<void()>;

namespace {

// A short wait for those that never answer; the others have far more time than they need.
constexpr io::ObservationOptions patient{.timeout = 60s, .interval = 1ms, .answer_timeout = 30s};
constexpr io::ObservationOptions brief{.timeout = 60s, .interval = 1ms, .answer_timeout = 50ms};
constexpr io::ObservationOptions only_proc{.interval = 20ms, .from_outside = false};

Observation observe(int pid, const io::ObservationOptions& options, std::string socket = {}) {
  const io::ObservedWorker worker{
      .local_rank = LocalRank{0}, .rank = Rank{7}, .pid = pid, .socket = std::move(socket)};
  auto all = io::observe_workers({worker}, options);
  REQUIRE(all.size() == 1);
  return all.front();
}

// The answer to a ping of a worker whose server does that for each client.
Answer answer_of(const io::ObservationOptions& options,
                 const std::function<void(int client)>& serve) {
  const probe::PrivateDirectory directory;
  const auto socket = directory.path + "/w0";
  const ChildProcess worker([&](const Ready& ready) { probe::serve(socket, ready, serve); });
  return observe(worker.pid(), options, socket).ping;
}

}  // namespace

TEST_CASE("/proc tells what a process, its threads and its children wait for") {
  const ChildProcess worker([](const Ready& ready) {
    if (::fork() == 0) {
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);
      while (true) ::pause();
    }
    std::thread(::pause).detach();
    ready();
    while (true) ::pause();
  });
  const auto seen = observe(worker.pid(), only_proc);
  CHECK(seen.rank == Rank{7});
  CHECK_FALSE(seen.has_exited);
  CHECK(seen.process.parent == ::getpid());
  CHECK(seen.process.thread_count == 2);
  REQUIRE(seen.process.threads.size() == 2);
  CHECK(seen.process.threads.front().tid == worker.pid());
  CHECK(seen.interval >= 20ms);
  REQUIRE(seen.children.size() == 1);
  CHECK(seen.children.front().parent == worker.pid());
  CHECK(seen.ping.kind == Answer::Kind::not_asked);
}

TEST_CASE("a busy process uses its CPU between the two reads") {
  const ChildProcess worker([](const Ready& ready) {
    ready();
    for (volatile bool busy = true; busy;) {
    }
  });
  const auto seen = observe(worker.pid(), {.interval = 200ms, .from_outside = false});
  REQUIRE(seen.process.threads.size() == 1);
  CHECK(seen.process.threads.front().state == 'R');
  CHECK(seen.process.threads.front().cpu_meanwhile > 0ns);
}

TEST_CASE("a stopped process is not waited for, and an ended one is not asked") {
  const ChildProcess worker([](const Ready& ready) {
    ready();
    while (true) ::pause();
  });
  ::kill(worker.pid(), SIGSTOP);
  REQUIRE(::waitpid(worker.pid(), nullptr, WUNTRACED) == worker.pid());
  const auto stopped = observe(worker.pid(), patient, "/nonexistent/socket");
  CHECK(stopped.process.state == 'T');
  CHECK(stopped.ping == Answer{Answer::Kind::silent, "", "the process is stopped"});
  ::kill(worker.pid(), SIGKILL);
  siginfo_t end{};
  REQUIRE(::waitid(P_PID, static_cast<id_t>(worker.pid()), &end, WEXITED | WNOWAIT) == 0);
  const auto ended = observe(worker.pid(), patient, "/nonexistent/socket");
  CHECK(ended.has_exited);
  CHECK(ended.process.state == 'Z');
  CHECK(ended.ping.kind == Answer::Kind::not_asked);
}

TEST_CASE("a good answer arrives whole") {
  const auto answer = answer_of(patient, [](int client) {
    probe::say(client, "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\npong");
  });
  CHECK(answer.kind == Answer::Kind::answered);
  CHECK(answer.body == "pong");
  CHECK(answer.took > Duration{});
}

TEST_CASE("a server that accepts one connection after the other answers all requests") {
  const probe::PrivateDirectory directory;
  const auto socket = directory.path + "/w0";
  const ChildProcess worker([&](const Ready& ready) {
    probe::serve(
        socket, ready,
        [](int client) { probe::say(client, "HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\n."); },
        /*queue_length=*/0);
  });
  const auto seen = observe(worker.pid(), patient, socket);
  for (const Answer* const each :
       {&seen.ping, &seen.flight_record, &seen.nccl_record, &seen.traceback}) {
    CHECK(each->kind == Answer::Kind::answered);
  }
}

TEST_CASE("a bad answer has a reason") {
  using Kind = Answer::Kind;
  CHECK(answer_of(patient, [](int client) { probe::say(client, "garbage\r\n\r\n"); }) ==
        Answer{Kind::failed, "", "its server: the response is not HTTP"});
  CHECK(answer_of(patient, [](int) {}) ==
        Answer{Kind::failed, "", "its server: connection closed without a response"});
  CHECK(answer_of(patient, [](int client) {
          probe::say(client, "HTTP/1.1 500 Error\r\nContent-Length: 2\r\n\r\nno");
        }) == Answer{Kind::failed, "", "its server answered 500: no"});
  const auto endless = answer_of(patient, [](int client) {
    probe::say(client, "HTTP/1.1 200 OK\r\n\r\n");
    const std::string many(1 << 20, 'x');
    for (int i = 0; i < 100; ++i) probe::say(client, many);
  });
  CHECK(endless ==
        Answer{Kind::failed, "", "its server: the response has more than 4194304 bytes"});
  CHECK(answer_of(brief, [](int) { ::pause(); }) == Answer{Kind::silent, "", ""});
  CHECK(answer_of(brief, [](int client) {
          probe::say(client, "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\npo");
          ::pause();
        }) == Answer{Kind::silent, "", "an incomplete response"});
}

TEST_CASE("a socket that cannot be used has a reason") {
  const ChildProcess worker([](const Ready& ready) {
    ready();
    while (true) ::pause();
  });
  const auto reason = [&](const std::string& socket) {
    return observe(worker.pid(), patient, socket).ping.reason;
  };
  CHECK(reason("/nonexistent/socket") == "its server has not started");
  CHECK(reason(std::string(200, 'x')) == "the path of its socket is too long");
  const probe::PrivateDirectory directory;
  const auto socket = directory.path + "/w0";
  const ChildProcess other([&](const Ready& ready) { probe::serve(socket, ready, [](int) {}); });
  CHECK(reason(socket).starts_with("its socket belongs to another process ("));
}

TEST_CASE("native frames of a worker without a server, or the reason why there are none") {
  const ChildProcess worker([](const Ready& ready) {
    ready();
    while (true) ::pause();
  });
  const auto seen = observe(worker.pid(), patient);
  CHECK(seen.native.empty() != seen.native_reason.empty());
  if (!seen.native.empty()) CHECK(seen.native.find("pause ") != std::string::npos);
  // It was not left stopped.
  CHECK(observe(worker.pid(), only_proc).process.state == 'S');
}

TEST_CASE("py-spy is asked about a worker without a server, and not waited for too long") {
  const ChildProcess worker([](const Ready& ready) {
    ready();
    while (true) ::pause();
  });
  const probe::PrivateDirectory directory;
  const auto answer = [&](std::string_view script, Duration timeout) {
    auto options = patient;
    options.timeout = timeout;
    options.py_spy = directory.file("py-spy", "#!/bin/sh\n" + std::string(script), 0700);
    return observe(worker.pid(), options).py_spy;
  };
  using Kind = Answer::Kind;
  const auto pid = std::to_string(worker.pid());
  CHECK(answer("echo \"$@\"", 60s) ==
        Answer{Kind::answered, "dump --json --nonblocking --pid " + pid + "\n", ""});
  CHECK(answer("echo no permission >&2; exit 1", 60s) ==
        Answer{Kind::failed, "", "py-spy: no permission"});
  CHECK(answer("exec sleep 1000", 100ms) ==
        Answer{Kind::silent, "", "py-spy did not finish in time"});
}

TEST_CASE("a worker that exits while it is asked has exited") {
  const probe::PrivateDirectory directory;
  const auto socket = directory.path + "/w0";
  const ChildProcess worker(
      [&](const Ready& ready) { probe::serve(socket, ready, [](int) { ::_exit(3); }); });
  const auto seen = observe(worker.pid(), patient, socket);
  CHECK(seen.has_exited);
  CHECK(seen.ping.kind == Answer::Kind::failed);
}

TEST_CASE("of five thousand threads a few are read, and the main one is the first") {
  constexpr int thread_count = 5000;
  constexpr std::size_t stack_bytes = 64 * 1024;
  const ChildProcess worker([](const Ready& ready) {
    pthread_attr_t small{};
    ::pthread_attr_init(&small);
    ::pthread_attr_setstacksize(&small, stack_bytes);
    for (int at = 0; at < thread_count; ++at) {
      pthread_t thread{};
      const auto wait = [](void*) -> void* {
        while (true) ::pause();
      };
      if (::pthread_create(&thread, &small, wait, nullptr) != 0) ::_exit(1);
    }
    ready();
    while (true) ::pause();
  });
  const auto seen = observe(worker.pid(), only_proc);
  if (seen.has_exited) {
    MESSAGE("skipped: this machine allows no such number of threads");
    return;
  }
  CHECK(seen.process.thread_count == thread_count + 1);
  CHECK(seen.process.threads.size() == hang::threads_max);
  CHECK(seen.process.threads.front().tid == worker.pid());
}

namespace {

// What an ordinary user reads of a worker. A text, because another process does it.
std::string seen_by_nobody(int pid) {
  constexpr uid_t nobody = 65534;
  probe::Pipe answer;
  const ChildProcess user([&](const Ready& ready) {
    if (::setgid(nobody) != 0 || ::setuid(nobody) != 0) ::_exit(1);
    ready();
    const auto seen = observe(pid, brief);
    const bool is_read =
        !seen.has_exited && seen.process.state == 'S' && !seen.native_reason.empty();
    const std::string text = is_read ? "read\n" : "not read\n";
    if (::write(answer.in(), text.data(), text.size()) < 0) ::_exit(1);
  });
  answer.close_in();
  return answer.read_line();
}

}  // namespace

TEST_CASE(
    "a worker of another user is read as far as permitted, and a reason is given for the rest") {
  if (::geteuid() != 0) {
    MESSAGE("skipped: only root can be another user");
    return;
  }
  const auto wait = [](const Ready& ready) {
    ready();
    while (true) ::pause();
  };
  const ChildProcess of_root(wait);
  CHECK(seen_by_nobody(of_root.pid()) == "read");
  const ChildProcess untraceable([&](const Ready& ready) {
    if (::setuid(65534) != 0 || ::prctl(PR_SET_DUMPABLE, 0) != 0) ::_exit(1);
    wait(ready);
  });
  CHECK(seen_by_nobody(untraceable.pid()) == "read");
  const ChildProcess of_nobody([&](const Ready& ready) {
    if (::setuid(65534) != 0) ::_exit(1);
    wait(ready);
  });
  CHECK_FALSE(observe(of_nobody.pid(), only_proc).has_exited);
}

}  // namespace stack_collector_test
