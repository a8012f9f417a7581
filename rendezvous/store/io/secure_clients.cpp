// SPDX-License-Identifier: BSD-3-Clause
#include "rendezvous/store/io/secure_clients.h"

#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <new>
#include <span>
#include <system_error>
#include <utility>

#include "proto/text.h"
#include "rendezvous/byte_buffer.h"
#include "rendezvous/store/bounds.h"

namespace cpprun {

namespace {

constexpr std::uint64_t wake_event = 0;

}  // namespace

// To the store, a stream of plain bytes.
class SecureClients::Client : public StoreStream {
 public:
  Client(SecureClients& owner, std::uint64_t number, FileDescriptor socket, const PeerAddress& peer,
         TimePoint deadline)
      : owner_(owner),
        number_(number),
        peer_(peer),
        memory_(owner.connections_.shared_accounting(), peer),
        socket_(std::move(socket)),
        cipher_(owner.make_cipher_()),
        deadline_(deadline) {}

  // Why there is no memory for it; empty if there is.
  std::string reserve() {
    return memory_.hold(store_cipher_bytes + 2 * bounds::store_secure_buffer_bytes);
  }

  // --- for the store, in its turn ---
  std::size_t read(std::span<char> into) override {
    const std::size_t count = std::min(into.size(), heard_.size());
    if (count > 0) std::memcpy(into.data(), heard_.view().data(), count);
    heard_.drop_front(count);
    if (!has_left_) {
      watch();
    } else if (heard_.empty()) {
      owner_.connections_.tell_stream(id_, {.is_over = true});
    }
    return count;
  }
  std::size_t write(std::string_view bytes) override {
    if (has_left_) return bytes.size();
    if (outgoing_.size() >= bounds::store_secure_buffer_bytes) {
      wants_room_ = true;
      return 0;
    }
    const std::size_t count = std::min(bytes.size(), bounds::store_secure_buffer_bytes);
    wants_room_ = count < bytes.size();
    if (!cipher_->say(bytes.substr(0, count))) return bytes.size();  // receive() says why
    flush();
    return count;
  }
  void closed() override {
    is_closed_ = true;
    if (has_left_) return;
    owner_.closed_.push_back(number_);
    (void)eventfd_write(owner_.wake_.get(), 1);  // far from its maximum
  }

  // --- for its owner ---
  // Sends what can be sent.
  void flush() {
    outgoing_.append(cipher_->take_outgoing());
    while (!outgoing_.empty()) {
      const std::string_view bytes = outgoing_.view();
      const ssize_t count =
          ::send(socket_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
      if (count < 0 && errno == EINTR) continue;
      if (count < 0) break;  // receive() notices a broken connection
      outgoing_.drop_front(static_cast<std::size_t>(count));
    }
    if (wants_room_ && outgoing_.size() < bounds::store_secure_buffer_bytes / 2) {
      wants_room_ = false;
      if (id_ != ConnectionId{}) owner_.connections_.tell_stream(id_, {.has_room = true});
    }
    watch();
  }
  // What it waits for.
  void watch() {
    std::uint32_t wanted = 0;
    if (heard_.size() < bounds::store_secure_buffer_bytes) wanted |= EPOLLIN;
    if (!outgoing_.empty()) wanted |= EPOLLOUT;
    if (wanted == watched_) return;
    epoll_event event{.events = wanted, .data = {.u64 = number_}};
    // It fails only without memory; then the events are those of before.
    (void)epoll_ctl(owner_.epoll_.get(), EPOLL_CTL_MOD, socket_.get(), &event);
    watched_ = wanted;
  }

  SecureClients& owner_;
  const std::uint64_t number_;
  const PeerAddress peer_;
  PeerMemory memory_;
  FileDescriptor socket_;
  std::unique_ptr<StoreCipher> cipher_;
  std::optional<TimePoint> deadline_;  // of the handshake
  ConnectionId id_{};                  // {}: in the handshake
  ByteBuffer heard_;
  ByteBuffer outgoing_;
  std::uint32_t watched_ = 0;
  bool wants_room_ = false;
  bool has_left_ = false;   // and the store may still read what it has sent
  bool is_closed_ = false;  // by the store
};

SecureClients::SecureClients(ConnectionSet& connections, MakeCipher make_cipher,
                             Callbacks callbacks)
    : connections_(connections),
      make_cipher_(std::move(make_cipher)),
      callbacks_(std::move(callbacks)),
      epoll_(epoll_create1(EPOLL_CLOEXEC)),
      wake_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  epoll_event event{.events = EPOLLIN, .data = {.u64 = wake_event}};
  if (!epoll_ || !wake_ || epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, wake_.get(), &event) != 0) {
    throw std::system_error(errno, std::generic_category(), "cannot watch sockets");
  }
}

SecureClients::~SecureClients() = default;

void SecureClients::adopt(FileDescriptor socket, const PeerAddress& peer, std::string first_bytes) {
  if (handshakes_ >= bounds::store_secure_handshakes_max) {
    // The oldest makes room: it has had more time than the others.
    const auto oldest = std::ranges::find_if(
        clients_, [](const auto& each) { return each.second->deadline_.has_value(); });
    end(oldest->first, "not authenticated yet, and other clients are waiting");
  }
  const std::uint64_t number = ++last_number_;
  const auto client =
      std::make_shared<Client>(*this, number, std::move(socket), peer,
                               std::chrono::steady_clock::now() + bounds::store_secure_handshake);
  if (std::string objection = client->reserve(); !objection.empty()) {
    return callbacks_.closed(peer, objection);
  }
  epoll_event event{.events = 0, .data = {.u64 = number}};
  if (epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, client->socket_.get(), &event) != 0) {
    return callbacks_.closed(peer, errno_text(errno));
  }
  clients_.emplace(number, client);
  ++handshakes_;
  const bool goes_on = client->cipher_->hear(first_bytes);
  client->flush();
  if (!goes_on) end(number, client->cipher_->reason());
}

std::optional<TimePoint> SecureClients::next_deadline() const {
  // Those of older clients come first.
  const auto first = std::ranges::find_if(
      clients_, [](const auto& each) { return each.second->deadline_.has_value(); });
  if (handshakes_ == 0 || first == clients_.end()) return std::nullopt;
  return first->second->deadline_;
}

bool SecureClients::serve(TimePoint now) {
  std::array<epoll_event, 64> events{};
  const int count = epoll_wait(epoll_.get(), events.data(), static_cast<int>(events.size()), 0);
  for (int each = 0; each < count; ++each) {
    const epoll_event& event = events[static_cast<std::size_t>(each)];
    if (event.data.u64 != wake_event) handle(event.data.u64, event.events);
  }
  if (eventfd_t ignored = 0; !closed_.empty()) (void)eventfd_read(wake_.get(), &ignored);
  for (const std::uint64_t number : std::exchange(closed_, {})) end(number, "");
  for (auto deadline = next_deadline(); deadline && *deadline <= now; deadline = next_deadline()) {
    const auto first = std::ranges::find_if(
        clients_, [](const auto& each) { return each.second->deadline_.has_value(); });
    end(first->first, "it did not prove in time that it has the secret");
  }
  return count == static_cast<int>(events.size());
}

void SecureClients::handle(std::uint64_t number, std::uint32_t events) {
  const auto at = clients_.find(number);
  if (at == clients_.end()) return;
  const std::shared_ptr<Client> client = at->second;
  if ((events & EPOLLOUT) != 0) client->flush();
  if ((events & ~static_cast<std::uint32_t>(EPOLLOUT)) != 0) (void)receive(*client);
}

bool SecureClients::receive(Client& client) {
  std::array<char, 32 * 1024> bytes{};
  const ssize_t count = ::recv(client.socket_.get(), bytes.data(), bytes.size(), MSG_DONTWAIT);
  if (count < 0 && (errno == EAGAIN || errno == EINTR)) return true;
  const bool is_unproved = client.deadline_.has_value();
  if (count <= 0) {
    end(client.number_,
        is_unproved ? "the connection ended before it proved that it has the secret" : "");
    return false;
  }
  bool goes_on = false;
  try {
    goes_on = client.cipher_->hear({bytes.data(), static_cast<std::size_t>(count)});
    client.heard_.append(client.cipher_->take_heard());
  } catch (const std::bad_alloc&) {
    end(client.number_, "out of memory");
    return false;
  }
  client.flush();
  if (!goes_on || client.cipher_->is_finished()) {
    end(client.number_, goes_on ? "" : client.cipher_->reason());
    return false;
  }
  if (is_unproved && client.cipher_->is_established()) begin(client);
  if (client.id_ != ConnectionId{} && !client.heard_.empty()) {
    connections_.tell_stream(client.id_, {.has_bytes = true});
  }
  return true;
}

void SecureClients::begin(Client& client) {
  client.deadline_.reset();
  --handshakes_;
  if (const auto admitted = callbacks_.admit(client.peer_); !admitted) {
    return end(client.number_, admitted.error().reason);
  }
  const auto id = connections_.open_stream(listener_, client.peer_, clients_.at(client.number_));
  if (!id) return end(client.number_, id.error().reason);
  client.id_ = *id;
}

// An empty reason: the client has left, or the store has closed it and said why.
void SecureClients::end(std::uint64_t number, const std::string& reason) {
  const auto at = clients_.find(number);
  if (at == clients_.end()) return;
  const std::shared_ptr<Client> client = at->second;
  clients_.erase(at);
  if (client->deadline_) --handshakes_;
  if (client->id_ != ConnectionId{} && !client->is_closed_) {
    client->has_left_ = true;
    const bool is_read = client->heard_.empty();
    connections_.tell_stream(client->id_, {.has_bytes = !is_read, .is_over = is_read});
  }
  ::shutdown(client->socket_.get(), SHUT_RDWR);
  client->socket_.reset();
  if (!reason.empty()) callbacks_.closed(client->peer_, reason);
}

bool SecureClients::has(ConnectionId id) const {
  return std::ranges::any_of(clients_, [id](const auto& each) { return each.second->id_ == id; });
}

void SecureClients::shut_down() {
  for (const auto& [number, client] : clients_) ::shutdown(client->socket_.get(), SHUT_RDWR);
}

void SecureClients::close_copies() const {
  for (const auto& [number, client] : clients_) ::close(client->socket_.get());
  ::close(epoll_.get());
  ::close(wake_.get());
}

}  // namespace cpprun
