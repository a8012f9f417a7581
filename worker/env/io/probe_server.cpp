// SPDX-License-Identifier: BSD-3-Clause
#include "worker/env/io/probe_server.h"

#include <fmt/format.h>
#include <poll.h>
#include <pthread.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstddef>
#include <cstring>
#include <exception>
#include <thread>

#include "worker/env/io/blocked_signals.h"
#include "worker/env/io/fatal_signals.h"
#include "worker/env/io/thread_stacks.h"

namespace cpprun {
namespace {

constexpr std::size_t request_bytes_max = 4096;
constexpr int request_timeout_ms = 1000;
constexpr int backlog = 16;
// Requests at once: a handler may hang in a lock of the library that it asks.
constexpr int serving_threads_max = 8;
constexpr std::chrono::milliseconds pause_after_shortage{100};
constexpr const char* thread_name = "cpprun_probe";

std::atomic<ProbeHandlers> other_handlers{nullptr};
std::atomic<int> thread_count{0};

struct Reply {
  int status = 200;
  std::string body;
};

Reply traceback_reply() {
  static std::atomic_flag is_running = ATOMIC_FLAG_INIT;
  if (is_running.test_and_set()) {
    return {.status = 503, .body = "another traceback is being written"};
  }
  Reply reply{.body = native_traceback(thread_name)};
  is_running.clear();
  return reply;
}

// "POST /handler/ping?x=y HTTP/1.1".
Reply reply_to(std::string_view request) {
  constexpr std::string_view start = "POST /handler/";
  if (!request.starts_with(start)) return {.status = 404, .body = "not found"};
  request.remove_prefix(start.size());
  const auto name = request.substr(0, request.find_first_of(" ?\r\n"));
  if (name == "ping") return {.body = "pong"};
  if (name == "dump_traceback") return traceback_reply();
  const auto handlers = other_handlers.load();
  auto body = handlers != nullptr ? handlers(name) : std::nullopt;
  if (body) return {.body = *std::move(body)};
  return {.status = 404, .body = fmt::format("Handler {} not found", name)};
}

// The head of the request. Its body, which no handler uses, may follow.
std::string read_request(int client) {
  std::string request;
  while (request.size() < request_bytes_max && request.find("\r\n\r\n") == std::string::npos) {
    pollfd readable{client, POLLIN, 0};
    if (::poll(&readable, 1, request_timeout_ms) <= 0) break;
    std::array<char, 1024> some;
    const auto got = ::recv(client, some.data(), some.size(), 0);
    if (got <= 0) break;
    request.append(some.data(), static_cast<std::size_t>(got));
  }
  return request;
}

void send_all(int client, std::string_view bytes) {
  while (!bytes.empty()) {
    pollfd writable{client, POLLOUT, 0};
    if (::poll(&writable, 1, request_timeout_ms) <= 0) return;
    const auto sent = ::send(client, bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent < 0 && errno == EAGAIN) continue;
    if (sent <= 0) return;
    bytes.remove_prefix(static_cast<std::size_t>(sent));
  }
}

// A handler may be that of a library, and memory may be short. An exception must not end the
// worker.
void serve(int client) {
  try {
    Reply reply{.status = 500, .body = "the handler has failed"};
    const std::string request = read_request(client);
    try {
      reply = reply_to(request);
    } catch (...) {
    }
    send_all(client,
             fmt::format("HTTP/1.1 {} {}\r\nConnection: close\r\nContent-Length: {}\r\n"
                         "Content-Type: text/plain\r\n\r\n",
                         reply.status, reply.status == 200 ? "OK" : "Error", reply.body.size()) +
                 reply.body);
  } catch (...) {
  }
  ::close(client);
}

// Runs `work` on a thread that receives no signals. False: no thread can be created.
template <typename Work>
bool run_on_thread(Work work) {
  const BlockedSignals blocked;
  try {
    std::thread([work] {
      static_cast<void>(::pthread_setname_np(::pthread_self(), thread_name));
      work();
    }).detach();
  } catch (const std::exception&) {
    return false;
  }
  return true;
}

// Of descriptors or memory, which may pass.
bool is_shortage(int error) {
  return error == EMFILE || error == ENFILE || error == ENOBUFS || error == ENOMEM;
}

void accept_clients(int listener) {
  while (true) {
    const int client = ::accept4(listener, nullptr, nullptr, SOCK_CLOEXEC);
    if (client < 0 && (errno == EINTR || errno == ECONNABORTED)) continue;
    if (client < 0 && is_shortage(errno)) {
      std::this_thread::sleep_for(pause_after_shortage);
      continue;
    }
    if (client < 0) break;
    if (thread_count.fetch_add(1) < serving_threads_max && run_on_thread([client] {
          serve(client);
          --thread_count;
        })) {
      continue;
    }
    --thread_count;
    ::close(client);
  }
  ::close(listener);
}

// Takes over the path of a process that has ended, and no other.
bool is_unused(const sockaddr_un& address) {
  const int client = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  const auto* const plain = reinterpret_cast<const sockaddr*>(&address);
  const bool is_refused = ::connect(client, plain, sizeof address) != 0 && errno == ECONNREFUSED;
  ::close(client);
  return is_refused && ::unlink(address.sun_path) == 0;
}

int listen_on(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.empty() || path.size() >= sizeof address.sun_path) return -1;
  std::memcpy(address.sun_path, path.data(), path.size());
  const int listener = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const auto* const plain = reinterpret_cast<const sockaddr*>(&address);
  const auto bind = [&] { return ::bind(listener, plain, sizeof address) == 0; };
  // Before it listens, no client can connect.
  const bool is_bound = bind() || (errno == EADDRINUSE && is_unused(address) && bind());
  if (is_bound && ::chmod(path.c_str(), 0600) == 0 && ::listen(listener, backlog) == 0) {
    return listener;
  }
  ::close(listener);
  return -1;
}

}  // namespace

void set_probe_handlers(ProbeHandlers handlers) {
  other_handlers = handlers;
}

void start_probe_server(const std::string& path) {
  const int listener = listen_on(path);
  if (listener < 0) return;
  prepare_backtrace();
  if (!run_on_thread([listener] { accept_clients(listener); })) ::close(listener);
}

}  // namespace cpprun
