#include "rendezvous/io/keeper_server.h"

#include <fmt/format.h>
#include <sys/socket.h>

#include <asio/post.hpp>
#include <utility>

#include "proto/link/codec.h"

namespace cpprun {

namespace {

TimePoint now() {
  return std::chrono::steady_clock::now();
}

}  // namespace

KeeperServer::KeeperServer(asio::io_context& context, Callbacks callbacks)
    : context_(context), callbacks_(std::move(callbacks)), timer_(context) {}

KeeperServer::~KeeperServer() {
  for (auto& [link, channel] : channels_) channel->forget();
}

Result<int> KeeperServer::open(const std::string& host, int port, KeeperOptions options) {
  auto listening =
      connections_.listen(*this, {.host = host, .port = static_cast<std::uint16_t>(port)});
  if (!listening) return tl::unexpected<Error>(listening.error());
  listening_ = *listening;
  options.options.store_port = listening->port;
  keeper_.emplace(std::move(options));
  driver_.emplace(context_, connections_);
  return listening->port;
}

void KeeperServer::hear_local_agent(const link::Message& message) {
  if (!local_link_) {
    local_link_ = LinkId{++last_link_.value};
    tell(Keeper::Opened{{.link = *local_link_, .peer = "127.0.0.1", .local = true}});
  }
  tell(Keeper::Said{*local_link_, message});
}

void KeeperServer::local_agent_left() {
  if (!local_link_) return;
  tell(Keeper::Closed{*std::exchange(local_link_, std::nullopt), "its cpprun ends"});
}

Result<void> KeeperServer::admit(const PeerAddress& peer) {
  return keeper_->admit(peer.host_text());
}

void KeeperServer::adopt_link(FileDescriptor socket, PeerAddress peer, std::string first_bytes) {
  sockaddr_storage address{};
  socklen_t length = sizeof address;
  const bool is_v6 =
      ::getsockname(socket.get(), reinterpret_cast<sockaddr*>(&address), &length) == 0 &&
      address.ss_family == AF_INET6;
  asio::ip::tcp::socket stream{context_};
  asio::error_code error;
  stream.assign(is_v6 ? asio::ip::tcp::v6() : asio::ip::tcp::v4(), socket.get(), error);
  if (error) {
    callbacks_.note(
        fmt::format("cannot serve the link from {}: {}", peer.host_text(), error.message()));
    return;
  }
  (void)socket.release();  // The stream owns it now.
  const LinkId link{++last_link_.value};
  first_bytes.erase(0, link::preamble.size());
  auto channel = std::make_shared<LinkChannel>(std::move(stream), std::move(first_bytes));
  channels_[link] = channel;
  channel->send_bytes(link::preamble);
  channel->start({.message =
                      [this, link](link::Message message) {
                        tell(Keeper::Said{link, std::move(message)});
                      },
                  .closed =
                      [this, link](std::string reason) {
                        channels_.erase(link);
                        tell(Keeper::Closed{link, std::move(reason)});
                      }});
  tell(Keeper::Opened{{.link = link, .peer = peer.host_text(), .local = false}});
}

void KeeperServer::note(Note note) {
  if (note.ordinary) return;
  callbacks_.note(note.peer ? fmt::format("store client {}: {}", note.peer->text(), note.text)
                            : note.text);
}

void KeeperServer::tell(Keeper::Event event) {
  for (const Keeper::Action& action : keeper_->handle(now(), event)) perform(action);
  arm();
}

void KeeperServer::perform(const Keeper::Action& action) {
  std::visit(Overloaded{
                 [this](const keeper::Say& say) {
                   if (say.link == local_link_) {
                     callbacks_.to_local_agent(say.message);
                   } else if (const auto found = channels_.find(say.link);
                              found != channels_.end()) {
                     found->second->send(say.message);
                   }
                 },
                 [this](const keeper::HangUp& hang_up) {
                   const auto found = channels_.find(hang_up.link);
                   if (found != channels_.end()) found->second->hang_up(hang_up.reason);
                 },
                 [this](const keeper::ResetStore& reset) {
                   connections_.close_clients(listening_->id, reset.reason);
                 },
                 [this](const keeper::Note& note_action) { callbacks_.note(note_action.line); },
             },
             action);
}

void KeeperServer::arm() {
  if (keeper_->done() && !told_done_) {
    told_done_ = true;
    asio::post(context_, [this] { callbacks_.done(); });
  }
  const auto deadline = keeper_->next_deadline();
  if (!deadline) {
    timer_.cancel();
    return;
  }
  timer_.expires_at(std::chrono::time_point_cast<std::chrono::steady_clock::duration>(*deadline));
  timer_.async_wait([this](const asio::error_code& cancelled) {
    if (cancelled) return;
    for (const Keeper::Action& action : keeper_->advance(now())) perform(action);
    arm();
  });
}

}  // namespace cpprun
