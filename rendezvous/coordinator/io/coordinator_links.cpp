// SPDX-License-Identifier: BSD-3-Clause
// How links begin: who has come as an agent, whether it has to prove that it holds the secret, and
// what a link makes us hold.

#include <fmt/format.h>
#include <sys/socket.h>

#include <algorithm>
#include <string>
#include <utility>

#include "proto/bounds.h"
#include "proto/link/codec.h"
#include "proto/sniff.h"
#include "rendezvous/coordinator/io/coordinator_server.h"
#include "rendezvous/io/secure_connection.h"
#include "rendezvous/store/ledger.h"

namespace cpprun {

namespace {

// What one link holds. Its address's limit counts for it, unless it holds little and the reserve
// for links has room: little is less for a link that has not said anything yet.
class LinkMemory {
 public:
  LinkMemory(const std::shared_ptr<Ledger>& ledger, const PeerAddress& peer,
             std::shared_ptr<std::uint64_t> reserve)
      : memory_(ledger, peer), reserve_(std::move(reserve)) {}
  ~LinkMemory() { *reserve_ += excused_; }
  LinkMemory(const LinkMemory&) = delete;
  LinkMemory& operator=(const LinkMemory&) = delete;

  void has_spoken() { most_excused_ = bounds::link_bytes_always; }
  // The reason why it must not be that much; empty: it may.
  std::string hold(std::size_t bytes) {
    const std::size_t with_link = bytes + bounds::link_idle_bytes;
    const bool is_more = with_link > memory_.bytes();
    std::string objection = memory_.hold(with_link);
    if (objection.empty()) return excuse(is_more ? 0 : std::min(excused_, with_link));
    const bool has_reserve = with_link <= *reserve_ + excused_;
    if (with_link > most_excused_ || !has_reserve) return objection;
    return excuse(with_link);
  }

 private:
  std::string excuse(std::size_t bytes) {
    *reserve_ = *reserve_ + excused_ - bytes;
    excused_ = bytes;
    return {};
  }

  PeerMemory memory_;
  std::size_t most_excused_ = bounds::link_idle_bytes;
  std::size_t excused_ = 0;
  std::shared_ptr<std::uint64_t> reserve_;  // what is left of it
};

// What carries a tool behind the secret to the status server: one of so many, and its buffers.
struct PumpPlace {
  PumpPlace(std::shared_ptr<int> of, const std::shared_ptr<Ledger>& ledger, const PeerAddress& peer)
      : place(std::move(of)), memory(ledger, peer) {}
  std::shared_ptr<int> place;
  PeerMemory memory;
};
constexpr std::size_t pump_bytes = bounds::secure_channel_bytes + 2 * bounds::link_read_bytes;

}  // namespace

void CoordinatorServer::require_secret(std::shared_ptr<SecureContext> secure, HolderOf whose) {
  holder_of_ = std::move(whose);
  const auto through = [this](SecureHandshake::Done done, const PeerAddress& peer) {
    if (!done.channel->is_valid_still()) {
      return refuse(peer, "its secret was taken away while it proved that it holds it");
    }
    const Protocol speaks = sniff(done.heard);
    if (speaks == Protocol::http && status_) return show_holder(std::move(done), peer);
    if (speaks != Protocol::link) {
      return refuse(peer, fmt::format("{} behind its secret", describe(done.heard)));
    }
    done.heard.erase(0, link::preamble.size());
    std::string owner = holder_of(holder_of_, done.channel->secret_id()).owner;
    begin_link(std::make_shared<LinkChannel>(std::move(done.socket), std::move(done.heard),
                                             std::move(done.channel)),
               peer, std::move(owner));
  };
  secure_door_.emplace(
      context_, std::move(secure),
      SecureDoor::Callbacks{through, [this](const PeerAddress& peer,
                                            const std::string& reason) { refuse(peer, reason); }},
      connections_.shared_ledger());
}

void CoordinatorServer::secrets_changed() {
  if (status_) status_->end_holders();
}

// A tool that holds the secret may look, and ask for whatever its user may ask for.
void CoordinatorServer::show_holder(SecureHandshake::Done done, const PeerAddress& peer) {
  auto credential = credential_of(done.channel->secret_id(), peer.host_text(), holder_of_);
  if (pumps_.use_count() > static_cast<long>(2 * bounds::status_connections_max)) {
    return refuse(peer, "too many tools are being answered");
  }
  const auto place = std::make_shared<PumpPlace>(pumps_, connections_.shared_ledger(), peer);
  (void)place->memory.hold(pump_bytes);  // There are few, and each has proven who it is.
  auto inner = SecurePump::start(std::move(done), place);
  if (!inner) return refuse(peer, inner.error().reason);
  status_->adopt_holder(*std::move(inner), std::move(credential));
}

void CoordinatorServer::refuse(const PeerAddress& peer, const std::string& why) {
  callbacks_.note(
      {.ordinary = false, .peer = peer, .text = "refused: " + why, .peer_is = "somebody at"});
}

std::optional<asio::ip::tcp::socket> CoordinatorServer::stream_of(FileDescriptor socket,
                                                                  const PeerAddress& peer) {
  sockaddr_storage address{};
  socklen_t length = sizeof address;
  const bool is_v6 =
      ::getsockname(socket.get(), reinterpret_cast<sockaddr*>(&address), &length) == 0 &&
      address.ss_family == AF_INET6;
  asio::ip::tcp::socket stream{context_};
  asio::error_code error;
  stream.assign(is_v6 ? asio::ip::tcp::v6() : asio::ip::tcp::v4(), socket.get(), error);
  if (error) {
    callbacks_.note({.ordinary = false,
                     .peer = peer,
                     .text = "cannot serve its link: " + error.message(),
                     .peer_is = "agent"});
    return std::nullopt;
  }
  (void)socket.release();  // The stream owns it now.
  return stream;
}

void CoordinatorServer::adopt_secure(FileDescriptor socket, const PeerAddress& peer,
                                     std::string first_bytes) {
  if (!secure_door_) {
    // Whoever holds a secret hears that there is none here; where that cannot be said, it sees the
    // connection closed.
    (void)::send(socket.get(), no_secret_here.data(), no_secret_here.size(),
                 MSG_NOSIGNAL | MSG_DONTWAIT);
    return refuse(peer, "it wants TLS, and this side holds no secret (--secret-file)");
  }
  if (auto stream = stream_of(std::move(socket), peer)) {
    secure_door_->adopt(*std::move(stream), peer, std::move(first_bytes));
  }
}

void CoordinatorServer::adopt_link(FileDescriptor socket, const PeerAddress& peer,
                                   std::string first_bytes) {
  if (secure_door_) return refuse_open_link(socket.get(), peer);
  auto stream = stream_of(std::move(socket), peer);
  if (!stream) return;
  first_bytes.erase(0, link::preamble.size());
  const auto channel = std::make_shared<LinkChannel>(*std::move(stream), std::move(first_bytes));
  channel->send_bytes(link::preamble);
  begin_link(channel, peer);
}

// What it has to say is not even read; it hears why, and nothing of any job.
void CoordinatorServer::refuse_open_link(int socket, const PeerAddress& peer) {
  const std::string answer =
      std::string(link::preamble) +
      link::encode(link::Refused{
          "whoever joins here has to hold the secret of this master: start cpprun with "
          "--secret-file, or with that secret in ~/.config/cpprun/secret"});
  // Where that cannot be said, it sees the connection closed.
  (void)::send(socket, answer.data(), answer.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
  refuse(peer, "it holds no secret, and this side takes only those who hold its own");
}

void CoordinatorServer::begin_link(const std::shared_ptr<LinkChannel>& channel,
                                   const PeerAddress& peer, std::string owner) {
  const auto memory =
      std::make_shared<LinkMemory>(connections_.shared_ledger(), peer, link_reserve_);
  if (channel->is_secure()) memory->has_spoken();  // it has proven that it holds the secret
  if (std::string objection = memory->hold(0); !objection.empty()) {
    channel->break_off();
    return refuse(peer, objection);
  }
  const LinkId link{++last_link_.value};
  channels_[link] = channel;
  channel->start(
      {.message =
           [this, link, peer, owner, memory](link::Message message) {
             memory->has_spoken();
             const auto* const follow = std::get_if<link::Follow>(&message);
             if (follow != nullptr && callbacks_.follower) {
               return adopt_follower(link, *follow, peer, owner);
             }
             tell(Coordinator::Said{link, std::move(message)});
           },
       .streams = [this, link,
                   peer](std::string_view frame) { return hear_streams(link, peer, frame); },
       .room = [this, link] { routes_.go_on(link); },
       .holds =
           [this, peer, memory](std::size_t bytes) {
             std::string objection = memory->hold(bytes);
             if (!objection.empty()) {
               callbacks_.note({.peer = peer, .text = "closed: " + objection, .peer_is = "agent"});
             }
             return objection;
           },
       .closed =
           [this, link](std::string reason) {
             const auto ended = channels_.extract(link);
             routes_.forget(link);
             const bool broke = !ended.empty() && ended.mapped()->broke();
             const bool has_missed = missed_something_.erase(link) > 0;
             const bool may_come_back = broke || has_missed || held_.holds_end_for(link);
             tell(Coordinator::Closed{link, std::move(reason), may_come_back});
           }});
  tell(Coordinator::Opened{
      {.link = link, .peer = peer.host_text(), .local = false, .owner = std::move(owner)}});
}

}  // namespace cpprun
