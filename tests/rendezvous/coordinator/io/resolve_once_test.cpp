// SPDX-License-Identifier: BSD-3-Clause
// How often a name server is asked: this program has its own getaddrinfo, which counts the calls.

#include <dlfcn.h>
#include <doctest/doctest.h>
#include <netdb.h>

#include <asio/io_context.hpp>
#include <set>
#include <string>

#include "rendezvous/client/io/link_client.h"
#include "rendezvous/coordinator/io/coordinator_server.h"
#include "rendezvous/store/io/listener.h"

namespace resolve_once_test {

using namespace cpprun;
using namespace std::chrono_literals;

namespace {
int names_looked_up = 0;
}

extern "C" int getaddrinfo(const char* node, const char* service, const addrinfo* hints,
                           addrinfo** list) {
  const bool is_number = hints != nullptr && (hints->ai_flags & AI_NUMERICHOST) != 0;
  if (node != nullptr && !is_number) ++names_looked_up;
  using Function = int (*)(const char*, const char*, const addrinfo*, addrinfo**);
  static const auto real = reinterpret_cast<Function>(dlsym(RTLD_NEXT, "getaddrinfo"));
  return real(node, service, hints, list);
}

TEST_CASE("a daemon resolves its own name once at startup and not for each job") {
  asio::io_context context;
  std::set<int> store_ports;
  std::vector<std::string> notes;
  CoordinatorServer server(context, {.to_local_agent = [](const link::Message&) {},
                                     .note = [&](const Note& note) { notes.push_back(note.text); },
                                     .done = nullptr});
  const auto opened = server.open({.host = "localhost"}, {.only = {}, .options = {.lease = 60s}});
  REQUIRE(opened.has_value());
  CHECK(names_looked_up == 1);
  CHECK_FALSE(opened->hosts.empty());
  for (const std::string job : {"first", "second", "third"}) {
    bool is_up = false;
    LinkClient agent(context, opened->hosts.front(), opened->port,
                     {.up = [&](const std::string&) { is_up = true; },
                      .message =
                          [&](const link::Message& message) {
                            const auto* sealed = std::get_if<link::Sealed>(&message);
                            if (sealed != nullptr) store_ports.insert(sealed->store_port);
                          },
                      .down = [](const std::string&) {}});
    agent.dial();
    const auto jobs_before = store_ports.size();
    const auto deadline = std::chrono::steady_clock::now() + 20s;
    while (!is_up && std::chrono::steady_clock::now() < deadline) context.run_one_for(100ms);
    agent.send(link::Join{.job = job, .host = "a", .pid = 1, .nodes_min = 1, .nodes_max = 1});
    while (store_ports.size() == jobs_before && std::chrono::steady_clock::now() < deadline) {
      context.run_one_for(100ms);
    }
    agent.hang_up();
  }
  CHECK(store_ports.size() == 3);
  CHECK(names_looked_up == 1);
}

TEST_CASE("the addresses of a resolved name are reused without another lookup") {
  const auto first = open_port("localhost", 0);
  REQUIRE(first.has_value());
  names_looked_up = 0;
  const auto again = open_port(first->hosts, 0);
  REQUIRE(again.has_value());
  CHECK(again->sockets.size() == first->sockets.size());
  CHECK(again->hosts == first->hosts);
  CHECK(again->port != first->port);
  CHECK(names_looked_up == 0);
  CHECK_FALSE(open_port(std::vector<std::string>{"localhost"}, 0).has_value());
}

}  // namespace resolve_once_test
