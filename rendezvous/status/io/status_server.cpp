// SPDX-License-Identifier: BSD-3-Clause
#include "rendezvous/status/io/status_server.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/socket.h>
#include <unistd.h>
#include <asio/posix/stream_descriptor.hpp>
#include <asio/post.hpp>
#include <asio/steady_timer.hpp>

#include <algorithm>
#include <array>
#include <cerrno>
#include <memory>
#include <new>
#include <optional>
#include <string>
#include <utility>

#include "proto/http/bounds.h"
#include "proto/text.h"
#include "rendezvous/bounds.h"
#include "rendezvous/io/file_descriptor.h"
#include "rendezvous/io/program.h"
#include "rendezvous/io/socket_address.h"
#include "rendezvous/status/status_json.h"

namespace cpprun {

// One connection. It stays alive until it ends and no handler holds it.
class StatusServer::Visit : public std::enable_shared_from_this<Visit> {
 public:
  Visit(StatusServer& server, const Principal& principal, AccessLevel access,
        std::string first_bytes, std::unique_ptr<SecureChannel> secure)
      : server_(&server),
        access_(access),
        peer_(principal.peer),
        client_(principal.client),
        is_by_secret_(principal.client.credential.has_value()),
        name_(principal.name),
        socket_(server.context_),
        timer_(server.context_),
        secure_(std::move(secure)),
        unread_(std::move(first_bytes)) {
    if (server.callbacks_.accounting) memory_.emplace(server.callbacks_.accounting, peer_);
  }

  // Returns why the connection cannot be served; empty if it can.
  std::string take(FileDescriptor socket) {
    asio::error_code error;
    socket_.assign(socket.get(), error);
    if (error) return error.message();
    (void)socket.release();  // now owned by the stream
    return {};
  }

  // A client without access gets the reason as a 403. Nothing that it sent is parsed, unless it may
  // carry a token.
  void begin(const std::string& objection) {
    const bool may_show_token = server_->callbacks_.credential != nullptr;
    if (may_show_token) objection_ = objection;
    const auto begun = [self = shared_from_this(), objection, may_show_token] {
      if (self->server_ == nullptr) return;
      if (objection.empty() || may_show_token) return self->serve_in_turn();
      self->unread_.clear();
      self->is_last_ = true;
      self->say(http::last_answer({.status = 403, .body = objection + "\n"}));
    };
    since_ = std::chrono::steady_clock::now();
    asio::post(server_->context_, begun);
  }

  ConnectionSlot place() const {
    return {.access = is_by_secret_ ? AccessLevel::proven : access_,
            .is_idle = !watches_ && outbox_.empty() && waits_for_ == 0,
            .source = peer_.source().host_text(),
            .since = since_};
  }
  bool watches() const { return watches_; }
  std::uint64_t waits_for() const { return waits_for_; }
  const std::optional<std::string>& watched_owner() const { return watched_owner_; }
  bool is_by_secret() const { return is_by_secret_; }
  bool may_hear_of(const std::string* owner) const {
    return owner == nullptr || !watched_owner_ || *watched_owner_ == *owner;
  }

  // Sends the next part of a streaming reply.
  void add(const std::string& bytes) {
    if (server_ == nullptr) return;
    if (outbox_.size() - sent_ + bytes.size() > server_->limits_.watcher_bytes) return end();
    if (!outbox_.empty()) {
      outbox_ += bytes;  // appended to the write in progress
      (void)may_hold();
      return;
    }
    say(bytes);
  }

  void answer_at_last(const http::Response& response) {
    if (server_ == nullptr) return;
    waits_for_ = 0;
    std::string bytes = session_.answer(response);
    is_last_ = session_.closes();
    say(std::move(bytes));
  }

  void end() {
    if (server_ == nullptr) return;
    StatusServer* const server = std::exchange(server_, nullptr);
    send_close_notify();
    asio::error_code ignored;  // it ends either way
    timer_.cancel();
    socket_.close(ignored);
    server->forget(this);
  }

 private:
  static constexpr std::size_t target_shown_bytes = 100;
  // It may always hold this much, whatever else its address holds: enough for the status of a
  // hundred jobs.
  static constexpr std::size_t bytes_always = 192 * 1024;
  static constexpr int unauthorized = 401;

  int fd() { return socket_.native_handle(); }

  // Received bytes are processed in turn, with a poll of all sockets in between.
  void serve_in_turn() {
    server_->turns_->add([self = shared_from_this()] {
      if (self->server_ != nullptr) self->serve();
    });
  }

  // Handles one request; the next waits for its turn.
  void serve() {
    try {
      const std::size_t taken = std::min(unread_.size(), session_.room());
      session_.hear(std::string_view(unread_).substr(0, taken));
      unread_.erase(0, taken);
      const auto step = session_.next();
      if (const auto* asked = std::get_if<http::Session::Asked>(&step)) {
        return answer(asked->request);
      }
      if (const auto* refused = std::get_if<http::Session::Refused>(&step)) {
        is_last_ = true;
        return say(refused->bytes);
      }
    } catch (const std::bad_alloc&) {
      return end();  // out of memory: only this connection ends
    }
    if (!unread_.empty() && session_.room() > 0) return serve_in_turn();
    listen();
  }

  // A client with read access needs no identity; a client that sends a command does. A token covers
  // only the request that carries it.
  http::Response answer_to(const http::Request& request) {
    const auto& credential_of = server_->callbacks_.credential;
    const bool shows_token = credential_of != nullptr && !request.authorization.empty();
    StatusClient client = client_;
    if (shows_token || !objection_.empty()) {
      auto shown = shows_token ? credential_of(request) : failure(objection_);
      if (!shown) return refusal_of(request, shown.error().reason);
      client.credential = *std::move(shown);
    }
    if (client.credential) {
      is_by_secret_ = true;
      watched_owner_ = client.credential->owner;
    }
    ends_at_.reset();
    if (client.credential && client.credential->lasts) {
      ends_at_ = std::chrono::steady_clock::now() + *client.credential->lasts;
    }
    const bool asks_for_more = request.method == http::Method::post && !client.credential;
    if (asks_for_more && client.by_loopback && !client.user) {
      client.user = client_.user = owner_of_peer(fd(), peer_);
    }
    return server_->callbacks_.answer(request, client);
  }

  http::Response refusal_of(const http::Request& request, const std::string& why) const {
    server_->callbacks_.refused(fmt::format("{}: no access to {}: {}", name_,
                                            plain_line(request.target, target_shown_bytes), why));
    return {.status = unauthorized,
            .body = fmt::format("{}; or use a token (cpprunctl token)\n", why),
            .fields = {{"WWW-Authenticate", "Bearer"}}};
  }

  void answer(const http::Request& request) {
    http::Response response = answer_to(request);
    // After a 401 the connection is closed, so that clients without a valid token do not keep a
    // slot.
    if (response.status == unauthorized) {
      is_last_ = true;
      return say(http::last_answer(response));
    }
    if (response.ticket != 0) {
      waits_for_ = response.ticket;
      return end_after(server_->limits_.outcome);
    }
    if (response.goes_on) {
      const std::string why = server_->objection_to_watching(watched_owner_);
      if (!why.empty()) response = {.status = 503, .body = why + "\n"};
    }
    watches_ = response.goes_on && request.method == http::Method::get;
    std::string bytes = session_.answer(response);
    is_last_ = session_.closes() && !watches_;
    if (watches_) server_->keep_alive();
    say(std::move(bytes));
    if (watches_ && server_ != nullptr) drain();
  }

  // A request has to be complete within a fixed time after its first byte, even if its bytes
  // trickle in.
  void listen() {
    if (has_peer_finished()) return end();
    const bool is_torn = session_.is_torn();
    if (!std::exchange(was_torn_, is_torn) || !is_torn) {
      since_ = std::chrono::steady_clock::now();
      end_after(is_torn ? server_->limits_.request : server_->limits_.idle);
    }
    wait(asio::posix::stream_descriptor::wait_read, &Visit::read);
  }

  void read() {
    const auto bytes = receive();
    if (!bytes) return end();
    if (bytes->empty()) {
      if (has_peer_finished()) return end();
      // Part of a TLS record is no reason to give its client more time.
      return wait(asio::posix::stream_descriptor::wait_read, &Visit::read);
    }
    unread_ += *bytes;
    if (may_hold()) serve_in_turn();
  }

  // Received bytes, decrypted; may be empty. nullopt: the connection has ended.
  std::optional<std::string> receive() {
    std::array<char, bounds::link_read_bytes> chunk;
    const ssize_t count = ::recv(fd(), chunk.data(), chunk.size(), MSG_DONTWAIT);
    if (count < 0 && (errno == EAGAIN || errno == EINTR)) return std::string();
    if (count <= 0) return std::nullopt;
    const std::string_view bytes(chunk.data(), static_cast<std::size_t>(count));
    if (!secure_) return std::string(bytes);
    if (!secure_->hear(bytes)) return std::nullopt;
    return secure_->take_heard();
  }

  bool has_peer_finished() const { return secure_ && secure_->is_finished(); }

  // Tells the peer that the reply is complete. Not sent if it is not.
  void send_close_notify() {
    if (!secure_ || !outbox_.empty()) return;
    try {
      secure_->finish();
      const std::string bytes = secure_->take_outgoing();
      (void)::send(fd(), bytes.data(), bytes.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
    } catch (const std::bad_alloc&) {
      // The connection may be closed just because there is no memory.
    }
  }

  void say(std::string bytes) {
    outbox_ = std::move(bytes);
    sent_ = 0;
    was_torn_ = false;
    if (!may_hold()) return;
    end_after(server_->limits_.answer);
    write();
  }

  // The next bytes for the socket. They are encrypted piece by piece, so that TLS needs little
  // memory.
  std::string_view next_bytes() {
    if (!secure_) return std::string_view(outbox_).substr(sent_);
    if (sealed_.empty()) {
      const auto piece = std::string_view(outbox_).substr(sent_, bounds::link_read_bytes);
      if (!secure_->say(piece)) return {};
      sent_ += piece.size();
      sealed_ = secure_->take_outgoing();
    }
    return sealed_;
  }

  void write() {
    for (auto bytes = next_bytes(); !bytes.empty(); bytes = next_bytes()) {
      const ssize_t count = ::send(fd(), bytes.data(), bytes.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
      if (count < 0 && errno == EINTR) continue;
      if (count < 0 && errno == EAGAIN) {
        return wait(asio::posix::stream_descriptor::wait_write, &Visit::write);
      }
      if (count < 0) return end();
      if (secure_) {
        sealed_.erase(0, static_cast<std::size_t>(count));
      } else {
        sent_ += static_cast<std::size_t>(count);
      }
    }
    if (sent_ < outbox_.size()) return end();  // encryption failed
    outbox_ = {};
    sealed_ = {};
    sent_ = 0;
    if (!may_hold()) return;
    if (watches_) return rest();
    since_ = std::chrono::steady_clock::now();
    if (!is_last_) return serve_in_turn();
    // Closing with unread data would reset the connection and could discard the reply before the
    // client reads it.
    send_close_notify();
    (void)::shutdown(fd(), SHUT_WR);  // fails only if the client is gone
    end_after(server_->limits_.resignation);
    drain();
  }

  // False: the connection was closed, because its address holds too much memory. A connection that
  // holds little or whose client has proven its identity is kept, so that operators get through in
  // an incident.
  bool may_hold() {
    if (!memory_) return true;
    constexpr std::size_t request = bounds::http_head_bytes_max + bounds::http_body_bytes_max;
    const std::size_t held = request + unread_.capacity() + outbox_.capacity() +
                             (secure_ ? secure_->bytes_held() + bounds::link_read_bytes : 0);
    const std::string objection = memory_->hold(held);
    const bool may_always = held <= bytes_always || access_ == AccessLevel::proven || is_by_secret_;
    if (objection.empty() || may_always) return true;
    server_->callbacks_.refused(fmt::format("{}: request dropped: {}", name_, objection));
    end();
    return false;
  }

  // Waits for more to send, or for the expiry of the credential.
  void rest() {
    timer_.cancel();
    if (ends_at_) end_after(*ends_at_ - std::chrono::steady_clock::now());
  }

  // Discards further input; only the disconnect matters.
  void drain() {
    if (!receive() || has_peer_finished()) return end();
    wait(asio::posix::stream_descriptor::wait_read, &Visit::drain);
  }

  void wait(asio::posix::stream_descriptor::wait_type what, void (Visit::*then)()) {
    socket_.async_wait(what, [self = shared_from_this(), then](const asio::error_code& error) {
      if (self->server_ == nullptr) return;
      if (error) return self->end();
      try {
        ((*self).*then)();
      } catch (const std::bad_alloc&) {
        self->end();  // out of memory: only this connection ends
      }
    });
  }

  void end_after(Duration timeout) {
    timer_.expires_after(std::chrono::duration_cast<asio::steady_timer::duration>(timeout));
    timer_.async_wait([self = shared_from_this()](const asio::error_code& error) {
      if (error) return;
      if (self->waits_for_ == 0) return self->end();
      try {
        self->answer_at_last({.status = 503,
                              .type = "application/json",
                              .body = error_json("the result is not known yet; check whether the "
                                                 "command was executed before you retry")});
      } catch (const std::bad_alloc&) {
        self->end();  // out of memory: only this connection ends
      }
    });
  }

  StatusServer* server_;  // of all of these: disconnected, may reconnect
  AccessLevel access_;    // at connection time
  PeerAddress peer_;
  StatusClient client_;
  bool is_by_secret_ = false;  // authenticated by a secret or by one of its tokens
  std::string name_;
  std::string objection_;  // the refusal for a client without a token; empty: it has access
  asio::posix::stream_descriptor socket_;
  asio::steady_timer timer_;
  std::optional<PeerMemory> memory_;
  std::unique_ptr<SecureChannel> secure_;  // null: unencrypted
  http::Session session_;
  std::string unread_;  // received, but the session has no room for it yet
  std::string outbox_;
  std::string sealed_;                        // encrypted from it, and not taken by the socket yet
  std::size_t sent_ = 0;                      // bytes of the outbox
  bool is_last_ = false;                      // close after the reply being sent
  bool watches_ = false;                      // its reply is a stream
  std::uint64_t waits_for_ = 0;               // ticket of the delayed reply; 0: none
  std::optional<std::string> watched_owner_;  // the owner whose events it may see; empty: all
  // When the credential expires.
  std::optional<std::chrono::steady_clock::time_point> ends_at_;
  bool was_torn_ = false;  // the running deadline is that of a partial request
  std::chrono::steady_clock::time_point since_;  // start of the current wait
};

namespace {

// Watcher slots reserved for operators, who may come late; owners of a daemon's jobs cannot take
// them.
constexpr std::size_t operators_watch = 2;

}  // namespace

StatusServer::StatusServer(asio::io_context& context, StatusAccess access, Callbacks callbacks,
                           const StatusLimits& limits)
    : context_(context),
      access_(access),
      callbacks_(std::move(callbacks)),
      limits_(limits),
      turns_(std::make_shared<Turns>(context)),
      keep_alive_(context) {}

StatusServer::~StatusServer() {
  keep_alive_.cancel();
  for (const auto& visit : std::vector(visits_)) visit->end();
}

void StatusServer::adopt(FileDescriptor socket, const PeerAddress& peer, std::string first_bytes) {
  const Principal principal{peer, client_of(socket.get(), peer), peer.text()};
  receive(std::move(socket), principal, std::move(first_bytes));
}

void StatusServer::adopt_local(FileDescriptor socket, std::uint32_t user) {
  StatusClient client;
  client.by_loopback = true;
  client.user = user;
  receive(std::move(socket), {{}, std::move(client), fmt::format("uid {}", user)}, {});
}

void StatusServer::adopt_holder(FileDescriptor socket, Credential credential,
                                const PeerAddress& peer, std::unique_ptr<SecureChannel> secure,
                                std::string first_bytes) {
  std::string name = credential.holder;
  receive(std::move(socket),
          {peer,
           {.by_loopback = true, .user = failure(name), .credential = std::move(credential)},
           std::move(name)},
          std::move(first_bytes), std::move(secure));
}

void StatusServer::receive(FileDescriptor socket, const Principal& principal,
                           std::string first_bytes, std::unique_ptr<SecureChannel> secure) {
  const auto may = may_look(access_, principal.client, ::geteuid());
  const bool is_known = principal.client.credential || principal.client.user;
  const AccessLevel access = !may       ? AccessLevel::none
                             : is_known ? AccessLevel::proven
                                        : AccessLevel::admitted;
  if (visits_.size() >= limits_.connections && !make_room(access)) {
    return callbacks_.refused(fmt::format("{}: rejected, because {} other clients are being served",
                                          principal.name, visits_.size()));
  }
  const std::string objection = may ? std::string() : may.error().reason;
  if (!may && callbacks_.credential == nullptr) {
    callbacks_.refused(fmt::format("{}: no read access: {}", principal.name, objection));
  }
  const auto visit =
      std::make_shared<Visit>(*this, principal, access, std::move(first_bytes), std::move(secure));
  if (const std::string why = visit->take(std::move(socket)); !why.empty()) {
    return callbacks_.refused(fmt::format("{}: cannot respond: {}", principal.name, why));
  }
  visits_.push_back(visit);
  visit->begin(objection);
}

StatusClient StatusServer::client_of(int socket, const PeerAddress& peer) const {
  StatusClient client{.by_loopback = peer.is_loopback(), .user = failure("not looked up")};
  if (asks_whose(access_, client.by_loopback)) client.user = owner_of_peer(socket, peer);
  return client;
}

std::size_t StatusServer::watchers() const {
  return static_cast<std::size_t>(
      std::ranges::count_if(visits_, [](const auto& visit) { return visit->watches(); }));
}

// One owner takes at most half of the watcher slots, and all owners together leave some free.
std::string StatusServer::objection_to_watching(const std::optional<std::string>& owner) const {
  const std::size_t all = watchers();
  if (all >= limits_.watchers)
    return fmt::format("{} clients already follow the events, the maximum", all);
  if (!owner) return {};
  std::size_t own = 0;
  std::size_t owners = 0;
  for (const auto& visit : visits_) {
    if (!visit->watches() || !visit->watched_owner()) continue;
    ++owners;
    if (visit->watched_owner() == owner) ++own;
  }
  if (own >= (limits_.watchers + 1) / 2) {
    return fmt::format("\"{}\" already has {} clients following the events, the maximum", *owner,
                       own);
  }
  if (owners + operators_watch >= limits_.watchers) {
    return fmt::format(
        "{} clients already follow the events; the remaining slots are for \"admin\"", all);
  }
  return {};
}

void StatusServer::answer(std::uint64_t ticket, const http::Response& response) {
  for (const auto& visit : std::vector(visits_)) {
    if (visit->waits_for() == ticket) visit->answer_at_last(response);
  }
}

void StatusServer::tell_watchers(const std::string& bytes, const std::string* owner) {
  if (bytes.empty()) return;
  for (const auto& visit : std::vector(visits_)) {
    if (visit->watches() && visit->may_hear_of(owner)) visit->add(bytes);
  }
}

void StatusServer::end_holders() {
  for (const auto& visit : std::vector(visits_)) {
    if (visit->is_by_secret()) visit->end();
  }
}

// Sends an SSE comment periodically while a client watches.
void StatusServer::keep_alive() {
  if (std::exchange(keeps_alive_, true)) return;
  keep_alive_.expires_after(
      std::chrono::duration_cast<asio::steady_timer::duration>(limits_.keep_alive));
  keep_alive_.async_wait([this](const asio::error_code& cancelled) {
    if (cancelled) return;
    keeps_alive_ = false;
    tell_watchers(":\n\n");
    if (watchers() > 0) keep_alive();
  });
}

bool StatusServer::make_room(AccessLevel newcomer) {
  std::vector<ConnectionSlot> places;
  places.reserve(visits_.size());
  for (const auto& visit : visits_) places.push_back(visit->place());
  const auto goes = who_gives_way(places, newcomer);
  if (!goes) return false;
  std::shared_ptr(visits_[*goes])->end();
  return true;
}

void StatusServer::forget(const Visit* visit) {
  std::erase_if(visits_, [visit](const auto& each) { return each.get() == visit; });
}

namespace {

constexpr std::size_t text_bytes_max = 256 * 1024;  // limit for reading each file

// Empty if the file is missing.
std::string text_of(const char* path) {
  const FileDescriptor file(::open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  std::string text;
  std::array<char, 4096> buffer;
  while (file && text.size() < text_bytes_max) {
    const ssize_t got = ::read(file.get(), buffer.data(), buffer.size());
    if (got <= 0) break;
    text.append(buffer.data(), static_cast<std::size_t>(got));
  }
  return text;
}

}  // namespace

HostNames own_host_names(HostNames given) {
  return host_names(std::move(given), {.host = machine_name(),
                                       .hosts = text_of("/etc/hosts"),
                                       .resolv = text_of("/etc/resolv.conf")});
}

}  // namespace cpprun
