// SPDX-License-Identifier: BSD-3-Clause
#include "launcher/control/io/caller.h"

#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <netdb.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <memory>
#include <utility>

#include "proto/bounds.h"
#include "proto/sniff.h"
#include "proto/text.h"
#include "rendezvous/io/file_descriptor.h"
#include "rendezvous/status/door_places.h"
#include "rendezvous/status/io/door.h"

namespace cpprun::io {

namespace {

using std::chrono::steady_clock;

constexpr std::size_t chunk_bytes = 64 * 1024;

tl::unexpected<Error> cannot_reach(const Place& place, const std::string& why) {
  return failure(fmt::format("cannot reach {}: {}", place.text(), why));
}

// Whether it becomes ready before that; an address may be silent for ever.
bool is_ready(int socket, short what, int milliseconds) {
  pollfd watched{socket, what, 0};
  int ready = 0;
  do {
    ready = ::poll(&watched, 1, milliseconds);
  } while (ready < 0 && errno == EINTR);
  return ready == 1;
}

// All of it at once: it is little.
bool is_sent(int socket, const std::string& bytes) {
  return bytes.empty() || ::send(socket, bytes.data(), bytes.size(), MSG_NOSIGNAL) ==
                              static_cast<ssize_t>(bytes.size());
}

int error_of(int socket) {
  int error_number = 0;
  socklen_t size = sizeof error_number;
  (void)::getsockopt(socket, SOL_SOCKET, SO_ERROR, &error_number, &size);
  return error_number;
}

int milliseconds_until(steady_clock::time_point deadline) {
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - steady_clock::now());
  return std::max(0, static_cast<int>(left.count()));
}

Result<FileDescriptor> dial(const Place& place, const Endpoint& endpoint,
                            steady_clock::time_point deadline) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_NUMERICSERV;
  addrinfo* found = nullptr;
  const auto port = std::to_string(endpoint.port);
  const int unknown = ::getaddrinfo(endpoint.host.c_str(), port.c_str(), &hints, &found);
  if (unknown != 0) return cannot_reach(place, ::gai_strerror(unknown));
  const std::unique_ptr<addrinfo, void (*)(addrinfo*)> list(found, ::freeaddrinfo);
  int error_number = ECONNREFUSED;
  for (const addrinfo* at = found; at != nullptr; at = at->ai_next) {
    FileDescriptor socket(::socket(at->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    if (!socket) continue;
    if (::connect(socket.get(), at->ai_addr, at->ai_addrlen) == 0) return socket;
    error_number = errno;
    if (error_number != EINPROGRESS) continue;
    const bool is_over = is_ready(socket.get(), POLLOUT, milliseconds_until(deadline));
    error_number = is_over ? error_of(socket.get()) : ETIMEDOUT;
    if (error_number == 0) return socket;
  }
  return cannot_reach(place, errno_text(error_number));
}

Result<FileDescriptor> connect_to(const Place& place, steady_clock::time_point deadline) {
  if (place.address) return dial(place, *place.address, deadline);
  Knock knocked = knock(place.door);
  if (!knocked.socket) return cannot_reach(place, errno_text(knocked.error_number));
  return std::move(knocked.socket);
}

std::string silence_text(Duration patience) {
  return fmt::format("it has not answered within {} s: is it stopped?",
                     std::chrono::duration_cast<std::chrono::seconds>(patience).count());
}

std::vector<std::string> names_in(const std::string& folder) {
  std::vector<std::string> names;
  const std::unique_ptr<DIR, int (*)(DIR*)> open(::opendir(folder.c_str()), ::closedir);
  if (!open) return names;
  while (const dirent* entry = ::readdir(open.get())) names.emplace_back(entry->d_name);
  std::sort(names.begin(), names.end());
  return names;
}

// One of those that are asked at once.
struct Asked {
  std::optional<Call> call;
  std::optional<Result<Answer>> answer;

  void hear(const Place& place) {
    const auto heard = call->hear();
    if (!heard) {
      answer = cannot_reach(place, heard.error().reason);
    } else if (call->answer().is_whole()) {
      answer = Answer{call->answer().status(), call->take_body()};
    }
  }
};

void hear_all(std::vector<Asked>& asked, const std::vector<Place>& places, Duration patience,
              steady_clock::time_point deadline) {
  while (true) {
    std::vector<pollfd> watched;
    std::vector<std::size_t> whose;
    for (std::size_t at = 0; at < asked.size(); ++at) {
      if (asked[at].answer) continue;
      watched.push_back({asked[at].call->fd(), POLLIN, 0});
      whose.push_back(at);
    }
    if (watched.empty()) return;
    const int left = milliseconds_until(deadline);
    const int ready = left == 0 ? 0 : ::poll(watched.data(), watched.size(), left);
    if (ready < 0) continue;  // a signal came
    if (ready == 0) {
      for (const std::size_t at : whose) {
        asked[at].answer = cannot_reach(places[at], silence_text(patience));
      }
      return;
    }
    for (std::size_t at = 0; at < watched.size(); ++at) {
      if (watched[at].revents != 0) asked[whose[at]].hear(places[whose[at]]);
    }
  }
}

}  // namespace

std::string Place::text() const {
  return address ? to_string(*address) : door;
}

Result<Call> Call::begin(const Place& place, const http::Question& question,
                         steady_clock::time_point deadline) {
  auto socket = connect_to(place, deadline);
  if (!socket) return tl::unexpected<Error>(socket.error());
  http::Question said = question;
  if (place.address) said.host = to_string(*place.address);
  const auto bytes = http::to_bytes(said);
  Call call;
  call.socket_ = std::move(*socket);
  if (place.secure) {
    call.secure_ = std::make_unique<SecureChannel>(place.secure);
    const auto proven = call.prove(bytes, deadline);
    if (!proven) return cannot_reach(place, proven.error().reason);
    return call;
  }
  // A question is some hundred bytes, which fit into what the kernel keeps for the other side.
  if (!is_ready(call.fd(), POLLOUT, milliseconds_until(deadline)) || !is_sent(call.fd(), bytes)) {
    return cannot_reach(place, "it takes no question: " + errno_text(errno));
  }
  return call;
}

// Both sides prove that they hold the secret, and the question is asked behind that.
Result<void> Call::prove(const std::string& question, steady_clock::time_point deadline) {
  secure_->say(question);
  while (true) {
    if (!is_sent(fd(), secure_->take_outgoing())) return failure(errno_text(errno));
    if (secure_->is_established()) return {};
    const int left = milliseconds_until(deadline);
    if (left == 0 || !is_ready(fd(), POLLIN, left)) {
      return failure("it does not answer a handshake: is that a cpprun master with a secret?");
    }
    std::array<char, chunk_bytes> chunk;
    const ssize_t count = ::recv(fd(), chunk.data(), chunk.size(), MSG_DONTWAIT);
    if (count < 0 && (errno == EAGAIN || errno == EINTR)) continue;
    if (count < 0) return failure(errno_text(errno));
    if (count == 0) return failure("it closed the connection in the middle of a handshake");
    if (!secure_->hear({chunk.data(), static_cast<std::size_t>(count)})) {
      return failure(secure_->reason());
    }
  }
}

// Behind the secret the other side greets first, as it greets an agent.
Result<void> Call::take(std::string_view bytes) {
  if (!secure_) return reader_.hear(bytes);
  const bool goes_on = secure_->hear(bytes);
  std::string heard = secure_->take_heard();
  const std::size_t missing = std::min(link_preamble.size() - greeting_.size(), heard.size());
  greeting_ += heard.substr(0, missing);
  heard.erase(0, missing);
  if (!link_preamble.starts_with(greeting_)) return failure("it greets as no cpprun master does");
  if (auto taken = reader_.hear(heard); !taken) return taken;
  if (!goes_on) return failure(secure_->reason());
  return {};
}

Result<bool> Call::hear() {
  std::array<char, chunk_bytes> chunk;
  const ssize_t count = ::recv(socket_.get(), chunk.data(), chunk.size(), MSG_DONTWAIT);
  if (count < 0 && (errno == EAGAIN || errno == EINTR)) return true;
  if (count < 0) return failure(errno_text(errno));
  if (count == 0) {
    if (auto ended = reader_.end(); !ended) return tl::unexpected<Error>(ended.error());
    return false;
  }
  const auto heard = take({chunk.data(), static_cast<std::size_t>(count)});
  if (!heard) return tl::unexpected<Error>(heard.error());
  return true;
}

std::vector<Result<Answer>> ask_all(const std::vector<Place>& places,
                                    const http::Question& question, Duration patience) {
  const auto deadline =
      steady_clock::now() + std::chrono::duration_cast<steady_clock::duration>(patience);
  std::vector<Asked> asked(places.size());
  for (std::size_t at = 0; at < places.size(); ++at) {
    auto call = Call::begin(places[at], question, deadline);
    if (call) {
      asked[at].call = std::move(*call);
    } else {
      asked[at].answer = tl::unexpected<Error>(call.error());
    }
  }
  hear_all(asked, places, patience, deadline);
  std::vector<Result<Answer>> answers;
  for (auto& each : asked) answers.push_back(std::move(*each.answer));
  return answers;
}

Result<Answer> ask(const Place& place, const http::Question& question) {
  return ask_all({place}, question, bounds::ask_patience).front();
}

Found find_places(const Environment& environment, bool of_all_users) {
  auto folders = searched_door_folders(environment, ::geteuid());
  for (const auto& folder : folders) sweep_doors(folder);
  if (of_all_users) {
    for (auto& folder : door_folders_of_all(environment, names_in("/run/user"),
                                            names_in(temporary_folder(environment)))) {
      if (std::ranges::find(folders, folder) == folders.end()) folders.push_back(std::move(folder));
    }
  }
  Found found;
  for (const auto& folder : folders) {
    std::string why;
    for (const auto& name : doors_in(folder, &why)) {
      found.places.push_back({.door = folder.path() + "/" + name});
    }
    if (!why.empty()) found.troubles.push_back(fmt::format("{}: {}", folder.path(), why));
  }
  return found;
}

}  // namespace cpprun::io
