// SPDX-License-Identifier: BSD-3-Clause
// The page of a job of a thousand nodes with eight workers each, in a real Chromium: whether it
// stutters, and how much it reads. The nodes are messages to a real coordinator, which a real
// server shows; a thread serves, because the test waits for the browser.

#include <doctest/doctest.h>

#include <asio/io_context.hpp>
#include <asio/ip/tcp.hpp>
#include <chrono>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>

#include "rendezvous/coordinator/http_routes.h"
#include "rendezvous/status/event_ring.h"
#include "rendezvous/status/io/status_server.h"
#include "tests/integration/browser.h"

namespace page_crowd_test {

using namespace cpprun;
using namespace cpprun::integration;
using namespace std::chrono_literals;
using nlohmann::json;

namespace {

constexpr int nodes = 1000;
constexpr int workers = 8;
constexpr TimePoint t0{};
constexpr Duration age = 2h;  // the age of the job

link::WorkerStats figures_of(int node, int local_rank) {
  const std::int64_t step = 41'000 - (node * 7 + local_rank) % 40;
  return {.local_rank = LocalRank{local_rank},
          .pid = 4000 + local_rank,
          .state = WorkerState::running,
          .since = 1h,
          .step = step,
          .millisteps_per_second = 11'400 + step % 100,
          .samples = step * 64,
          .checkpoint_step = 40'000,
          .last_beat = 90ms,
          .resident_kib = 9'000'000 + step,
          .cpu_percent = 97,
          .last_words = 4s};
}

// Nodes that met, failed once, met again, and report their workers' statistics.
Coordinator crowded() {
  Coordinator coordinator{{.only = {},
                           .options = {.lease = age * 2, .status_interval = 5s, .last_call = 30s},
                           .limits = {.links_per_source = nodes}}};
  const auto link_of = [](int node) { return LinkId{static_cast<std::uint64_t>(node) + 1}; };
  const auto say = [&](Duration at, int node, const link::Message& what) {
    coordinator.handle(t0 + at, Coordinator::Said{link_of(node), what});
  };
  for (int node = 0; node < nodes; ++node) {
    coordinator.handle(t0, Coordinator::Opened{{.link = link_of(node), .peer = "10.0.0.1"}});
    say(0s, node,
        link::Join{.job = "llama-1k",
                   .host = "gpu-" + std::to_string(node),
                   .pid = 1000 + node,
                   .nodes_min = nodes,
                   .nodes_max = nodes,
                   .local_world_size = workers,
                   .restarts = {.max = 10}});
    if (node == 0) coordinator.handle(t0, Coordinator::StoreReady{"llama-1k", 7});
  }
  coordinator.handle(t0 + 40s, Coordinator::StoreAsked{"llama-1k"});
  say(50min, 417,
      link::Failed{.round = RoundNumber{1},
                   .failure = {.rank = Rank{417 * workers + 3},
                               .local_rank = LocalRank{3},
                               .pid = 4003,
                               .status = {.signalled = false, .value = 1},
                               .message = "torch.OutOfMemoryError: CUDA out of memory",
                               .cause = "out_of_memory"}});
  for (int node = 0; node < nodes; ++node)
    say(50min + 9s, node, link::Drained{RoundNumber{1}, 3min});
  coordinator.handle(t0 + 51min, Coordinator::StoreAsked{"llama-1k"});
  for (int node = 0; node < nodes; ++node) {
    link::Status status{RoundNumber{2}};
    for (int each = 0; each < workers; ++each) status.workers.push_back(figures_of(node, each));
    say(age, node, status);
  }
  return coordinator;
}

class Crowd {
 public:
  Crowd()
      : coordinator_(crowded()),
        acceptor_(io_, {asio::ip::address_v4::loopback(), 0}),
        server_(io_, StatusAccess::network,
                {.answer = [this](const http::Request& request,
                                  const StatusClient&) { return answer_to(request); },
                 .refused = [](const std::string& line) { MESSAGE(line); }}) {
    accept();
    thread_ = std::thread([this] { io_.run(); });
  }
  ~Crowd() {
    io_.stop();
    thread_.join();
  }

  std::string address() const {
    return "http://127.0.0.1:" + std::to_string(acceptor_.local_endpoint().port()) + "/";
  }

 private:
  http::Response answer_to(const http::Request& request) const {
    if (asks_for_events(request)) return events_answer(ring_, request);
    const Duration passed = std::chrono::steady_clock::now() - began_;
    const auto wall = std::chrono::system_clock::now();
    return answer(
        coordinator_, {},
        {.now = t0 + age + passed, .wall = std::chrono::time_point_cast<WallTime::duration>(wall)},
        request);
  }
  void accept() {
    acceptor_.async_accept([this](const asio::error_code& error, asio::ip::tcp::socket socket) {
      if (error) return;
      socket.non_blocking(true);
      server_.adopt(FileDescriptor(socket.release()), PeerAddress{}, {});
      accept();
    });
  }

  const Coordinator coordinator_;
  const EventRing ring_{"run"};
  const std::chrono::steady_clock::time_point began_ = std::chrono::steady_clock::now();
  asio::io_context io_;
  asio::ip::tcp::acceptor acceptor_;
  StatusServer server_;
  std::thread thread_;
};

// From now on, and before: how long each task of more than 50 ms kept the page busy.
const std::string watch_long_tasks =
    "window.long = []; new PerformanceObserver(list => { for (const each of list.getEntries())"
    " long.push(each.duration); }).observe({type: 'longtask', buffered: true}); true";

// The bytes read from one poll of all nodes to the next, and the seconds between.
const std::string read_traffic =
    "new Promise(done => { const starts = []; new PerformanceObserver(() => {"
    " const all = performance.getEntriesByType('resource');"
    " const begins = all.filter(each => each.name.endsWith('/nodes?ranks=0')).map(each =>"
    " each.startTime); if (begins.length < 2) return; const [from, to] = begins;"
    " done([all.filter(each => each.startTime >= from && each.startTime < to).reduce("
    "(sum, each) => sum + each.transferSize, 0), (to - from) / 1000]);"
    " }).observe({type: 'resource', buffered: true}); })";

}  // namespace

TEST_CASE("eight thousand workers are drawn without a stutter, and read less than 20 KB/s") {
  if (const auto why = no_browser(); !why.empty()) return skip(why);
  const Crowd crowd;
  Browser browser;
  browser.open(crowd.address());
  browser.value_of(watch_long_tasks);
  browser.value_of("performance.setResourceTimingBufferSize(100000)");
  browser.until("document.querySelectorAll('#grid i.running').length === 8000");
  browser.value_of("document.querySelectorAll('#grid i')[3340].click()");
  browser.until("document.getElementById('node').textContent.startsWith('rank 3340, pid 4004')");
  CHECK(browser.value_of("document.querySelectorAll('#ranks tbody tr').length") == workers);
  CHECK(browser.value_of("document.querySelectorAll('#slow tbody tr').length") == 5);
  if (const auto directory = from_build("CPPRUN_PICTURES"); !directory.empty()) {
    browser.show(1000, 1500, /*dark=*/true);
    browser.take_picture(directory + "/status-page-1000.png");
  }

  const json traffic = browser.value_of(read_traffic);
  const double rate = traffic[0].get<double>() / 1000 / traffic[1].get<double>();
  double longest = 0;
  const json tasks = browser.value_of("long");
  for (const json& task : tasks) longest = std::max(longest, task.get<double>());
  std::printf("1,000 nodes: %.1f KB/s over %.0f s; %zu tasks above 50 ms, the longest %.0f ms\n",
              rate, traffic[1].get<double>(), tasks.size(), longest);
  CHECK(rate < 20);
  CHECK(longest < 1000);

  // The measurement itself works.
  browser.value_of("setTimeout(() => { for (const end = Date.now() + 150; Date.now() < end;) ; })");
  browser.value_of("new Promise(done => { const look = () => long.length > " +
                   std::to_string(tasks.size()) + " ? done() : setTimeout(look, 20); look(); })");
}

}  // namespace page_crowd_test
