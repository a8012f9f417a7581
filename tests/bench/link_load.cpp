// SPDX-License-Identifier: BSD-3-Clause
// A crowd of agents without workers: one thread, one epoll loop, real connections over loopback,
// and every frame written and read by the link's own codec.
//
//   link_load PORT COORDINATOR_PID AGENTS [RESTARTS [IDLE_SECONDS [SECRET_FILE]]]
//
// With the file of a secret, every agent proves that it has it, and encrypts its link.
//
// All of them join one job; then one reports that a worker failed, all agents drain and get the
// next round, RESTARTS times; then they send their heartbeats, one a second each, and their
// workers' statistics when they are asked for them. Prints a line of "name value" pairs: times in
// milliseconds, the coordinator's processor time in microseconds per agent.
//
// Work that real agents do on machines of their own, all at the same time, must not count as the
// coordinator's: joins are encoded before the clock starts, seats decoded and compared after it has
// stopped. In between a frame is only distinguished by its name.

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "proto/link/codec.h"
#include "proto/link/message.h"
#include "proto/secure/io/openssl_library.h"
#include "rendezvous/io/secret_file.h"
#include "tests/bench/process_counters.h"

namespace {

using namespace cpprun;
using Clock = std::chrono::steady_clock;

constexpr std::size_t connecting_at_once = 1024;
constexpr std::size_t agents_per_address = 4096;  // as many as a daemon accepts from one address
constexpr int heartbeat_milliseconds = 1000;

[[noreturn]] void give_up(const std::string& reason) {
  std::fprintf(stderr, "link_load: %s (errno %d)\n", reason.c_str(), errno);
  std::exit(1);
}

double milliseconds_since(Clock::time_point start) {
  return std::chrono::duration<double, std::milli>(Clock::now() - start).count();
}

struct Agent {
  enum class State { connecting, greeting, linked };
  int fd = -1;
  State state = State::connecting;
  std::string join;   // encoded beforehand
  std::string inbox;  // a frame that has not arrived in full
  std::string seat;   // the frame with its seat
  std::string_view awaited;
  bool done = false;                           // has received what it waits for
  std::unique_ptr<SecureChannel> secure = {};  // null: unencrypted
};

class Crowd {
 public:
  Crowd(std::uint16_t port, std::size_t count, int restarts, std::shared_ptr<SecureContext> secure)
      : secure_(std::move(secure)),
        port_(port),
        loop_(epoll_create1(EPOLL_CLOEXEC)),
        agents_(count) {
    for (std::size_t index = 0; index < count; ++index) {
      agents_[index].join = link::encode(link::Join{.job = "bench",
                                                    .host = "node" + std::to_string(index),
                                                    .pid = static_cast<int>(index) + 2,
                                                    .nodes_min = static_cast<int>(count),
                                                    .nodes_max = static_cast<int>(count),
                                                    .local_world_size = 8,
                                                    .restarts = {.max = restarts},
                                                    .addresses = {"10.0.0.1", "fd00::1"},
                                                    .lease = std::chrono::seconds(60)});
    }
  }

  // From the first connection to the last agent that has its ranks.
  double join() {
    const auto start = Clock::now();
    await("sealed");
    std::size_t begun = 0;
    while (done_ < agents_.size()) {
      while (begun < agents_.size() && begun - linked_ < connecting_at_once) connect(begun++);
      listen(10'000);
    }
    const double took = milliseconds_since(start);
    check_seats();
    return took;
  }

  // From one agent's report of a failed worker to the last agent that has its ranks again.
  double restart() {
    const link::Failed failed{.round = round_,
                              .failure = {.host = "node0", .pid = 7, .status = {.value = 1}}};
    const link::Drained drained{round_};
    drained_frame_ = link::encode(drained);
    const auto start = Clock::now();
    await("sealed");
    say(agents_.front(), link::encode(failed));
    while (done_ < agents_.size()) listen(10'000);
    const double took = milliseconds_since(start);
    check_seats();
    return took;
  }

  // One heartbeat a second each, evenly spread, every one answered.
  void idle(double seconds) {
    const std::string heartbeat = link::encode(link::Heartbeat{});
    figures_ = link::encode(figures());
    await("nothing");
    const auto start = Clock::now();
    std::size_t sent = 0;
    for (double now = 0; now < seconds * 1e3; now = milliseconds_since(start)) {
      const double due = now / heartbeat_milliseconds * static_cast<double>(agents_.size());
      while (static_cast<double>(sent) < due) say(agents_[sent++ % agents_.size()], heartbeat);
      listen(1);
    }
  }

  // Of one agent, on average.
  double sent_bytes() const { return sent_ / static_cast<double>(agents_.size()); }
  double heard_bytes() const { return heard_ / static_cast<double>(agents_.size()); }
  void forget_bytes() { sent_ = heard_ = 0; }

 private:
  void await(std::string_view name) {
    done_ = 0;
    for (Agent& agent : agents_) agent.awaited = name, agent.done = false;
  }

  link::Status figures() const {
    link::Status status{.round = round_};
    for (int local = 0; local < 8; ++local) {
      status.workers.push_back({.local_rank = LocalRank{local},
                                .pid = 4000 + local,
                                .state = WorkerState::running,
                                .since = std::chrono::hours(1),
                                .step = 123'456,
                                .millisteps_per_second = 2500,
                                .samples = 7'901'184,
                                .checkpoint_step = 123'000,
                                .last_beat = std::chrono::milliseconds(300),
                                .resident_kib = 40'000'000,
                                .cpu_percent = 98,
                                .last_words = std::chrono::seconds(4)});
    }
    return link::brief(status);
  }

  void connect(std::size_t index) {
    Agent& agent = agents_[index];
    agent.fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (agent.fd < 0) give_up("out of sockets");
    const int on = 1;
    setsockopt(agent.fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    setsockopt(agent.fd, IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, &on, sizeof on);
    sockaddr_in own{};
    own.sin_family = AF_INET;
    own.sin_addr.s_addr =
        htonl(INADDR_LOOPBACK + static_cast<std::uint32_t>(index / agents_per_address));
    if (bind(agent.fd, reinterpret_cast<sockaddr*>(&own), sizeof own) != 0) give_up("cannot bind");
    sockaddr_in coordinator = own;
    coordinator.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    coordinator.sin_port = htons(port_);
    if (::connect(agent.fd, reinterpret_cast<sockaddr*>(&coordinator), sizeof coordinator) != 0 &&
        errno != EINPROGRESS) {
      give_up("cannot connect");
    }
    epoll_event event{.events = EPOLLOUT, .data = {.u64 = index}};
    epoll_ctl(loop_, EPOLL_CTL_ADD, agent.fd, &event);
  }

  void listen(int timeout_milliseconds) {
    const int ready =
        epoll_wait(loop_, events_.data(), static_cast<int>(events_.size()), timeout_milliseconds);
    if (ready < 0 || (ready == 0 && timeout_milliseconds > 1)) give_up("the coordinator is silent");
    for (int at = 0; at < ready; ++at) {
      const epoll_event& event = events_[static_cast<std::size_t>(at)];
      Agent& agent = agents_[event.data.u64];
      if (agent.state != Agent::State::connecting) {
        receive(agent);
        continue;
      }
      if (secure_) agent.secure = std::make_unique<SecureChannel>(secure_);
      say(agent, link::preamble);
      agent.state = Agent::State::greeting;
      epoll_event reading{.events = EPOLLIN, .data = {.u64 = event.data.u64}};
      epoll_ctl(loop_, EPOLL_CTL_MOD, agent.fd, &reading);
    }
  }

  void receive(Agent& agent) {
    const ssize_t count = recv(agent.fd, read_.data(), read_.size(), 0);
    if (count <= 0) give_up("the coordinator closed a link");
    heard_ += static_cast<double>(count);
    if (agent.secure) {
      if (!agent.secure->hear({read_.data(), static_cast<std::size_t>(count)})) {
        give_up(agent.secure->reason());
      }
      agent.inbox += agent.secure->take_heard();
      transmit(agent, agent.secure->take_outgoing());
    } else {
      agent.inbox.append(read_.data(), static_cast<std::size_t>(count));
    }
    if (agent.state == Agent::State::greeting) {
      if (agent.inbox.size() < link::preamble.size()) return;
      agent.inbox.erase(0, link::preamble.size());
      agent.state = Agent::State::linked;
      ++linked_;
      say(agent, agent.join);
    }
    while (auto frame = next_frame(agent)) understand(agent, std::move(*frame));
    if (agent.inbox.empty()) agent.inbox = {};
  }

  static std::optional<std::string> next_frame(Agent& agent) {
    if (agent.inbox.size() < 4) return std::nullopt;
    std::size_t length = 4;
    for (std::size_t i = 0; i < 4; ++i) {
      length += static_cast<std::size_t>(static_cast<unsigned char>(agent.inbox[i])) << (8 * i);
    }
    if (agent.inbox.size() < length) return std::nullopt;
    std::string frame = agent.inbox.substr(0, length);
    agent.inbox.erase(0, length);
    return frame;
  }

  void understand(Agent& agent, std::string frame) {
    const auto says = [&](std::string_view name) {
      return frame.find("\"say\":\"" + std::string{name} + "\"") != std::string::npos;
    };
    if (says("refused") || says("finish")) give_up("the coordinator said " + frame.substr(4));
    if (says("drain")) say(agent, drained_frame_);
    // The job is polled: the statistics of an agent's eight workers, as they fit into one frame.
    if (frame.find("\"watch_ms\"") != std::string::npos) say(agent, figures_);
    if (agent.done || !says(agent.awaited)) return;
    agent.done = true;
    agent.seat = std::move(frame);
    ++done_;
  }

  void say(const Agent& agent, std::string_view bytes) {
    if (!agent.secure) return transmit(agent, bytes);
    agent.secure->say(bytes);
    transmit(agent, agent.secure->take_outgoing());
  }

  void transmit(const Agent& agent, std::string_view bytes) {
    if (bytes.empty()) return;
    if (send(agent.fd, bytes.data(), bytes.size(), MSG_NOSIGNAL) !=
        static_cast<ssize_t>(bytes.size())) {
      give_up("the coordinator does not take what is sent");
    }
    sent_ += static_cast<double>(bytes.size());
  }

  // Every agent has a seat of its own, all in the same new round: else nothing was measured.
  void check_seats() {
    std::set<int> ranks;
    const RoundNumber before = round_;
    for (const Agent& agent : agents_) {
      const auto decoded = link::decode(agent.seat);
      if (!decoded || !*decoded) give_up("a seat that cannot be read");
      const auto* sealed = std::get_if<link::Sealed>(&(*decoded)->message);
      if (sealed == nullptr || sealed->round == before) give_up("not a new seat");
      ranks.insert(sealed->group_rank.value);
      round_ = sealed->round;
    }
    const int last = static_cast<int>(agents_.size()) - 1;
    if (ranks.size() != agents_.size() || *ranks.rbegin() != last) give_up("ranks are not dense");
  }

  std::shared_ptr<SecureContext> secure_;  // null: no agent has a secret
  std::uint16_t port_;
  int loop_;
  std::vector<Agent> agents_;
  std::size_t linked_ = 0;
  std::size_t done_ = 0;
  RoundNumber round_{};
  std::string drained_frame_;
  std::string figures_;
  double sent_ = 0;
  double heard_ = 0;
  std::array<epoll_event, 512> events_{};
  std::array<char, 65536> read_{};
};

std::shared_ptr<SecureContext> secure_of(const std::string& file) {
  if (file.empty()) return nullptr;
  auto secrets = read_secret_file(file);
  if (!secrets) give_up(secrets.error().reason);
  auto secure = LinkSecurity(*std::move(secrets)).for_dialing();
  if (!secure) give_up(secure.error().reason);
  return *secure;
}

void raise_descriptor_limit(std::size_t wanted) {
  rlimit limit{};
  getrlimit(RLIMIT_NOFILE, &limit);
  limit.rlim_cur = limit.rlim_max;
  if (limit.rlim_max < wanted) limit.rlim_cur = limit.rlim_max = wanted;  // As root that works.
  setrlimit(RLIMIT_NOFILE, &limit);
}

}  // namespace

int main(int count, char** words) {
  if (count < 4) return std::fputs("see the head of link_load.cpp\n", stderr), 64;
  const auto number = [&](int at) { return at < count ? std::atoi(words[at]) : 0; };
  const pid_t coordinator = number(2);
  const auto agents = static_cast<std::size_t>(number(3));
  const int restarts = number(4);
  raise_descriptor_limit(agents + 64);
  Crowd crowd(static_cast<std::uint16_t>(number(1)), agents, restarts,
              secure_of(count > 6 ? words[6] : ""));
  const auto each = static_cast<double>(agents);

  const auto before = bench::counters_of(coordinator);
  std::printf("join_ms %.3f", crowd.join());
  const auto joined = bench::counters_of(coordinator);
  std::printf(" join_cpu_us %.2f", (joined.cpu_seconds - before.cpu_seconds) * 1e6 / each);
  std::printf(" sent_bytes %.0f heard_bytes %.0f", crowd.sent_bytes(), crowd.heard_bytes());
  std::printf(" link_bytes %.0f",
              static_cast<double>(joined.resident_bytes - before.resident_bytes) / each);
  for (int at = 0; at < restarts; ++at) {
    crowd.forget_bytes();
    const auto calm = bench::counters_of(coordinator);
    std::printf(" restart_ms %.3f", crowd.restart());
    std::printf(" restart_cpu_us %.2f",
                (bench::counters_of(coordinator).cpu_seconds - calm.cpu_seconds) * 1e6 / each);
  }
  if (restarts > 0) std::printf(" restart_bytes %.0f", crowd.heard_bytes());
  if (const int seconds = number(5); seconds > 0) {
    const auto calm = bench::counters_of(coordinator);
    crowd.idle(seconds);
    const auto later = bench::counters_of(coordinator);
    std::printf(" idle_cpu_percent %.3f idle_wake_ups %.1f",
                (later.cpu_seconds - calm.cpu_seconds) * 100 / seconds,
                static_cast<double>(later.wake_ups - calm.wake_ups) / seconds);
  }
  std::printf("\n");
}
