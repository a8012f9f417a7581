// SPDX-License-Identifier: BSD-3-Clause
#include "rendezvous/status/io/status_server.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "rendezvous/io/socket_owner.h"
#include "rendezvous/status/io/status_visit.h"

namespace cpprun {

namespace {

// Of the places for watchers, those that are never for owners of a daemon: operators come late.
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
  const Comer comer{peer, visitor_of(socket.get(), peer), peer.text()};
  receive(std::move(socket), comer, std::move(first_bytes));
}

void StatusServer::adopt_local(FileDescriptor socket, std::uint32_t user) {
  Visitor visitor;
  visitor.by_loopback = true;
  visitor.user = user;
  receive(std::move(socket), {{}, std::move(visitor), fmt::format("uid {}", user)}, {});
}

void StatusServer::adopt_holder(FileDescriptor socket, Credential credential) {
  std::string name = credential.holder;
  receive(std::move(socket),
          {{},
           {.by_loopback = true, .user = failure(name), .credential = std::move(credential)},
           std::move(name)},
          {});
}

void StatusServer::receive(FileDescriptor socket, const Comer& comer, std::string first_bytes) {
  const auto may = may_look(access_, comer.visitor, ::geteuid());
  const bool is_known = comer.visitor.credential || comer.visitor.user;
  const Standing standing = !may       ? Standing::stranger
                            : is_known ? Standing::proven
                                       : Standing::admitted;
  if (visits_.size() >= limits_.connections && !make_room(standing)) {
    return callbacks_.refused(fmt::format("{} may not look now: {} others are being answered",
                                          comer.name, visits_.size()));
  }
  const std::string objection = may ? std::string() : may.error().reason;
  if (!may && callbacks_.credential == nullptr) {
    callbacks_.refused(fmt::format("{} may not look: {}", comer.name, objection));
  }
  const auto visit = std::make_shared<Visit>(*this, comer, standing, std::move(first_bytes));
  if (const std::string why = visit->take(std::move(socket)); !why.empty()) {
    return callbacks_.refused(fmt::format("{} cannot be answered: {}", comer.name, why));
  }
  visits_.push_back(visit);
  visit->begin(objection);
}

Visitor StatusServer::visitor_of(int socket, const PeerAddress& peer) const {
  Visitor visitor{.by_loopback = peer.is_loopback(), .user = failure("nobody has asked")};
  if (asks_whose(access_, visitor.by_loopback)) visitor.user = owner_of_peer(socket, peer);
  return visitor;
}

std::size_t StatusServer::watchers() const {
  return static_cast<std::size_t>(
      std::ranges::count_if(visits_, [](const auto& visit) { return visit->watches(); }));
}

// One owner of a daemon takes half of the places at most, and all of them leave some.
std::string StatusServer::objection_to_watching(const std::optional<std::string>& owner) const {
  const std::size_t all = watchers();
  if (all >= limits_.watchers) return fmt::format("{} others watch already", all);
  if (!owner) return {};
  std::size_t own = 0;
  std::size_t owners = 0;
  for (const auto& visit : visits_) {
    if (!visit->watches() || !visit->watched_owner()) continue;
    ++owners;
    if (visit->watched_owner() == owner) ++own;
  }
  if (own >= (limits_.watchers + 1) / 2) {
    return fmt::format("{} others watch already with a secret of \"{}\"", own, *owner);
  }
  if (owners + operators_watch >= limits_.watchers) {
    return fmt::format("{} others watch already; the places that are left are for \"admin\"", all);
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

// A word now and then, as long as somebody watches.
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

bool StatusServer::make_room(Standing newcomer) {
  std::vector<VisitPlace> places;
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

}  // namespace cpprun
