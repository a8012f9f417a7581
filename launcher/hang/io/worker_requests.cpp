// SPDX-License-Identifier: BSD-3-Clause
#include "launcher/hang/io/worker_requests.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <memory>
#include <string_view>
#include <utility>

#include "proto/http/client.h"
#include "proto/text.h"
#include "rendezvous/io/file_descriptor.h"

namespace cpprun::io {

namespace {

using Kind = hang::Answer::Kind;

constexpr std::size_t read_bytes_max = 64 * 1024;
constexpr std::size_t reason_bytes_max = 200;  // of an error page
// A worker's server accepts few connections before its thread gets a CPU.
constexpr std::chrono::milliseconds pause_of_full_server{10};

// One request that was sent.
struct Exchange {
  WorkerRequest* request = nullptr;
  FileDescriptor socket;
  http::ReplyReader reply{hang::answer_bytes_max};
  std::string body = {};
  TimePoint begun = std::chrono::steady_clock::now();
};

void fail(WorkerRequest& request, std::string reason) {
  request.answer = {.kind = Kind::failed, .body = {}, .reason = std::move(reason)};
}

std::string connect_reason(int error_number) {
  if (error_number == ENOENT) return "its server has not started";
  if (error_number == ECONNREFUSED) return "its server has ended";
  return fmt::format("cannot connect to its server: {}", errno_text(error_number));
}

// None: it has failed, or its queue of connections is full.
std::unique_ptr<Exchange> begin(WorkerRequest& request) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (request.socket.size() >= sizeof address.sun_path) {
    fail(request, "the path of its socket is too long");
    return nullptr;
  }
  std::memcpy(address.sun_path, request.socket.data(), request.socket.size());
  auto exchange = std::make_unique<Exchange>();
  exchange->request = &request;
  exchange->socket.reset(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  const int socket = exchange->socket.get();
  const auto* const plain = reinterpret_cast<const sockaddr*>(&address);
  if (socket < 0 || ::connect(socket, plain, sizeof address) != 0) {
    if (errno == EAGAIN) {
      request.answer = {
          .kind = Kind::silent, .body = {}, .reason = "its server accepts no connection"};
    } else {
      fail(request, connect_reason(errno));
    }
    return nullptr;
  }
  ucred peer{};
  socklen_t peer_bytes = sizeof peer;
  if (::getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &peer_bytes) == 0) {
    request.answered_by = peer.pid;
  }
  const std::string bytes =
      http::to_bytes({.method = http::Method::post, .target = request.target});
  const auto sent = ::send(socket, bytes.data(), bytes.size(), MSG_NOSIGNAL);
  if (sent != static_cast<ssize_t>(bytes.size())) {
    fail(request, fmt::format("cannot send to its server: {}", errno_text(errno)));
    return nullptr;
  }
  return exchange;
}

void finish(Exchange& exchange) {
  hang::Answer& answer = exchange.request->answer;
  exchange.body += exchange.reply.take_body();
  constexpr unsigned ok = 200;
  if (exchange.reply.status() == ok) {
    answer = {.kind = Kind::answered,
              .body = std::move(exchange.body),
              .reason = {},
              .took = std::chrono::steady_clock::now() - exchange.begun};
    return;
  }
  fail(*exchange.request, fmt::format("its server answered {}: {}", exchange.reply.status(),
                                      plain_line(exchange.body, reason_bytes_max)));
}

// Whether the exchange is over.
bool receive(Exchange& exchange, std::string& buffer) {
  const auto got = ::recv(exchange.socket.get(), buffer.data(), buffer.size(), 0);
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) return false;
  if (got < 0) {
    fail(*exchange.request, fmt::format("cannot read from its server: {}", errno_text(errno)));
    return true;
  }
  const auto bytes = std::string_view(buffer).substr(0, static_cast<std::size_t>(got));
  const auto heard = got > 0 ? exchange.reply.hear(bytes) : exchange.reply.end();
  if (!heard) {
    fail(*exchange.request, "its server: " + heard.error().reason);
    return true;
  }
  if (!exchange.reply.is_whole()) return false;
  finish(exchange);
  return true;
}

}  // namespace

void ask_workers(std::vector<WorkerRequest>& requests, TimePoint deadline) {
  std::vector<std::unique_ptr<Exchange>> open;
  std::vector<WorkerRequest*> waiting;
  for (WorkerRequest& request : requests) waiting.push_back(&request);
  std::string buffer(read_bytes_max, '\0');
  for (;;) {
    std::erase_if(waiting, [&](WorkerRequest* request) {
      auto begun = begin(*request);
      if (begun == nullptr) return request->answer.kind == Kind::failed;
      open.push_back(std::move(begun));
      return true;
    });
    auto left =
        std::chrono::ceil<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now());
    if (left.count() <= 0 || (open.empty() && waiting.empty())) break;
    if (!waiting.empty()) left = std::min(left, pause_of_full_server);
    std::vector<pollfd> polled;
    for (const auto& each : open) polled.push_back({each->socket.get(), POLLIN, 0});
    const int ready = ::poll(polled.data(), polled.size(), static_cast<int>(left.count()));
    if (ready < 0 && errno != EINTR) break;
    for (std::size_t index = 0; ready > 0 && index < polled.size(); ++index) {
      if (polled[index].revents != 0 && receive(*open[index], buffer)) open[index].reset();
    }
    std::erase(open, nullptr);
  }
  for (const auto& each : open) {
    each->request->answer = {.kind = Kind::silent,
                             .body = {},
                             .reason = each->reply.has_begun() ? "an incomplete response" : ""};
  }
}

}  // namespace cpprun::io
