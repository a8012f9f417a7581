// SPDX-License-Identifier: BSD-3-Clause
// A load generator that speaks the store's protocol, as light as it can be: one thread, one epoll
// loop, requests prepared beforehand, replies only counted.
//
//   store_load PORT MODE CONNECTIONS DEPTH SECONDS SERVER_PID
//
// MODE: get, set, add, waitget (two round trips, as PyTorch's client does it), join (connect, shake
// hands and ADD, once each; DEPTH and SECONDS do not count), idle (the same, then holds the
// connections until its input ends); for raw_echo: echo and echojoin. Prints one line: operations
// per second, seconds, and the server's CPU time per operation in microseconds.

#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "proto/c10d/codec.h"

namespace {

using namespace cpprun::c10d;
using Clock = std::chrono::steady_clock;

constexpr int connecting_at_once = 512;

std::string bytes_of(const Request& request) {
  std::string bytes;
  encode(request, Dialect::d, bytes);
  return bytes;
}

// User and system time of a process, in seconds.
double cpu_seconds(const std::string& pid) {
  std::ifstream file("/proc/" + pid + "/stat");
  std::string text((std::istreambuf_iterator<char>(file)), {});
  std::istringstream fields(text.substr(text.rfind(')') + 2));
  std::string skipped;
  for (int at = 0; at < 11; ++at) fields >> skipped;
  double user = 0;
  double system = 0;
  fields >> user >> system;
  return (user + system) / static_cast<double>(sysconf(_SC_CLK_TCK));
}

// A client's loop: write, read that many bytes, next step.
struct Step {
  std::string sent;
  std::size_t answer_bytes = 0;
};
struct Script {
  std::vector<Step> steps;
  double operations = 1;  // that one pass through the steps counts for
};

std::string repeated(const std::string& bytes, int times) {
  std::string all;
  for (int at = 0; at < times; ++at) all += bytes;
  return all;
}

Script script_of(std::string_view mode, int depth) {
  const auto times = static_cast<std::size_t>(depth);
  const std::string value(40, 'v');
  constexpr Bytes keys[] = {"/k"};
  const std::string fence = bytes_of(Add{"/fence", 1});
  if (mode == "get") {
    return {{{repeated(bytes_of(Get{"/k"}), depth), times * 48}}, static_cast<double>(depth)};
  }
  if (mode == "add") {
    return {{{repeated(bytes_of(Add{"/n", 1}), depth), times * 8}}, static_cast<double>(depth)};
  }
  if (mode == "set") {
    // SET is not answered; an ADD behind each batch shows that it was done.
    return {{{repeated(bytes_of(Set{"/s", value}), depth) + fence, 8}}, static_cast<double>(depth)};
  }
  if (mode == "waitget") {
    return {{{repeated(bytes_of(Wait{keys}), depth), times},
             {repeated(bytes_of(Get{"/k"}), depth), times * 48}},
            static_cast<double>(depth)};
  }
  return {{{repeated(std::string(48, 'e'), depth), times * 48}}, static_cast<double>(depth)};
}

struct Client {
  int fd = -1;
  std::size_t step = 0;
  std::size_t missing = 0;  // bytes of the answer that have not arrived
};

class Load {
 public:
  explicit Load(std::uint16_t port) : port_(port), loop_(epoll_create1(0)) {}

  // Connects `count` clients, a few hundred at a time, and lets each send `hello` and read
  // `answer_bytes`. Returns the seconds it took.
  double join(int count, const std::string& hello, std::size_t answer_bytes) {
    const auto start = Clock::now();
    clients_.resize(static_cast<std::size_t>(count));
    int begun = 0;
    int joined = 0;
    std::array<epoll_event, 512> events;
    while (joined < count) {
      while (begun < count && begun - joined < connecting_at_once) begin(begun++);
      const int ready = epoll_wait(loop_, events.data(), events.size(), 10'000);
      if (ready <= 0) fail("the server does not answer");
      for (int at = 0; at < ready; ++at) {
        const epoll_event& event = events[static_cast<std::size_t>(at)];
        Client& client = clients_[event.data.u32];
        if ((event.events & EPOLLOUT) != 0) {
          client.missing = answer_bytes;
          say(client, hello);
          want(client, event.data.u32, EPOLLIN);
          if (answer_bytes == 0) ++joined;
        } else if (read_reply(client)) {
          ++joined;
        }
      }
    }
    return std::chrono::duration<double>(Clock::now() - start).count();
  }

  // All clients run the script until the time is over; returns passes and seconds.
  std::pair<std::uint64_t, double> run(const Script& script, double seconds) {
    const auto start = Clock::now();
    const auto end = start + std::chrono::duration<double>(seconds);
    std::uint64_t passes = 0;
    for (Client& client : clients_) begin_step(client, script);
    std::array<epoll_event, 512> events;
    auto now = start;
    while (now < end) {
      const int ready = epoll_wait(loop_, events.data(), events.size(), 10'000);
      if (ready <= 0) fail("the server does not answer");
      for (int at = 0; at < ready; ++at) {
        Client& client = clients_[events[static_cast<std::size_t>(at)].data.u32];
        if (!read_reply(client)) continue;
        client.step = (client.step + 1) % script.steps.size();
        if (client.step == 0) ++passes;
        begin_step(client, script);
      }
      now = Clock::now();
    }
    return {passes, std::chrono::duration<double>(now - start).count()};
  }

  Client& first() { return clients_.front(); }
  static void say(const Client& client, const std::string& bytes) {
    if (send(client.fd, bytes.data(), bytes.size(), MSG_NOSIGNAL) !=
        static_cast<ssize_t>(bytes.size())) {
      fail("the server does not take what is sent");
    }
  }

 private:
  [[noreturn]] static void fail(const char* reason) {
    std::fprintf(stderr, "store_load: %s (errno %d)\n", reason, errno);
    std::exit(1);
  }

  void begin(int index) {
    Client& client = clients_[static_cast<std::size_t>(index)];
    client.fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
    if (client.fd < 0) fail("out of sockets");
    const int on = 1;
    setsockopt(client.fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    address.sin_port = htons(port_);
    if (connect(client.fd, reinterpret_cast<sockaddr*>(&address), sizeof address) != 0 &&
        errno != EINPROGRESS) {
      fail("cannot connect");
    }
    epoll_event event{};
    event.events = EPOLLOUT;
    event.data.u32 = static_cast<std::uint32_t>(index);
    epoll_ctl(loop_, EPOLL_CTL_ADD, client.fd, &event);
  }

  void want(const Client& client, std::uint32_t index, std::uint32_t events) const {
    epoll_event event{};
    event.events = events;
    event.data.u32 = index;
    epoll_ctl(loop_, EPOLL_CTL_MOD, client.fd, &event);
  }

  static void begin_step(Client& client, const Script& script) {
    client.missing = script.steps[client.step].answer_bytes;
    say(client, script.steps[client.step].sent);
  }

  // True when the whole answer has arrived.
  static bool read_reply(Client& client) {
    static std::array<char, 65536> bytes;
    const ssize_t count = recv(client.fd, bytes.data(), bytes.size(), 0);
    if (count <= 0) fail("the server closed a connection");
    if (static_cast<std::size_t>(count) > client.missing) fail("more than the answer");
    client.missing -= static_cast<std::size_t>(count);
    return client.missing == 0;
  }

  std::uint16_t port_;
  int loop_;
  std::vector<Client> clients_;
};

}  // namespace

int main(int count, char** arguments) {
  if (count != 7) return std::fputs("see the head of store_load.cpp\n", stderr), 2;
  const auto port = static_cast<std::uint16_t>(std::atoi(arguments[1]));
  const std::string mode = arguments[2];
  const int connections = std::atoi(arguments[3]);
  const std::string pid = arguments[6];
  Load load(port);
  const double cpu_before_joining = cpu_seconds(pid);
  const bool is_echo = mode.starts_with("echo");
  // What PyTorch's client sends when it connects.
  const std::string hello =
      is_echo ? std::string(25, 'e')
              : bytes_of(Validate{}) + bytes_of(Ping{1}) + bytes_of(Add{"init/", 1});
  const double joined = load.join(connections, hello, is_echo ? hello.size() : 12);
  double operations = connections;
  double seconds = joined;
  double cpu = cpu_seconds(pid) - cpu_before_joining;
  if (mode == "idle") {
    std::puts("ready");
    std::fflush(stdout);
    std::getchar();
  } else if (!mode.ends_with("join")) {
    if (!is_echo) Load::say(load.first(), bytes_of(Set{"/k", std::string(40, 'v')}));
    const Script script = script_of(mode, std::atoi(arguments[4]));
    const double cpu_before = cpu_seconds(pid);
    const auto [passes, took] = load.run(script, std::atof(arguments[5]));
    cpu = cpu_seconds(pid) - cpu_before;
    operations = static_cast<double>(passes) * script.operations;
    seconds = took;
  }
  std::printf("%.0f %.4f %.3f\n", operations / seconds, seconds, cpu * 1e6 / operations);
}
