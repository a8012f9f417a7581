// SPDX-License-Identifier: BSD-3-Clause
#include "tests/sim/hosted_stores.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <poll.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "tests/sim/hosted_stores_inside.h"

namespace cpprun::sim {

using namespace std::chrono_literals;

namespace {

constexpr int turns_max = 100'000;  // in a row: there is never that much to do

// A connection id that is not used by any client, for reading a store.
constexpr ConnectionId onlooker{std::uint64_t{1} << 62};

PeerAddress peer_at(const std::string& address) {
  PeerAddress peer;
  std::array<unsigned char, 4> bytes{};
  if (::inet_pton(AF_INET, address.c_str(), bytes.data()) == 1) {
    // ::ffff:a.b.c.d
    peer.ip[10] = peer.ip[11] = 0xff;
    std::copy(bytes.begin(), bytes.end(), peer.ip.begin() + 12);
  }
  return peer;
}

}  // namespace

// A worker on the coordinator's own machine.
class HostedStores::Local : public StoreStream, public std::enable_shared_from_this<Local> {
 public:
  Local(HostedStores& stores, std::shared_ptr<Loopback> worker)
      : stores_(stores), worker_(std::move(worker)) {}

  void begin(ConnectionId id) {
    id_ = id;
    const std::weak_ptr<Local> weak = weak_from_this();
    worker_->readable = [weak] {
      if (const auto self = weak.lock()) self->tell();
    };
    worker_->writable = [weak] {
      if (const auto self = weak.lock()) self->tell({.has_room = true});
    };
    tell();
  }

  std::size_t read(std::span<char> into) override {
    const std::string_view bytes = worker_->unread().substr(0, into.size());
    std::memcpy(into.data(), bytes.data(), bytes.size());
    const std::size_t count = bytes.size();
    worker_->take(count);
    return count;
  }
  std::size_t write(std::string_view bytes) override { return worker_->write(bytes); }
  void closed() override { worker_->close(); }

 private:
  void tell() { tell({.has_bytes = !worker_->unread().empty(), .is_over = worker_->has_left()}); }
  void tell(StreamNews news);

  HostedStores& stores_;
  std::shared_ptr<Loopback> worker_;
  ConnectionId id_{};
};

void HostedStores::Local::tell(StreamNews news) {
  if (!stores_.served_) return;
  stores_.served_->connections.tell_stream(id_, std::move(news));
  stores_.served_->connections.serve_streams(stores_.hooks_.now());
  stores_.look();
}

HostedStores::HostedStores(Universe& universe, Program& program, Hooks hooks)
    : universe_(universe), program_(program), hooks_(std::move(hooks)) {}

HostedStores::~HostedStores() = default;

void HostedStores::begin(const std::optional<std::string>& only, LogKeeper* keeper) {
  end();
  if (!universe_.scenario.stores) return;
  served_ = std::make_unique<Served>(*this);
  if (keeper != nullptr) served_->logs.attach(*keeper);
  if (only) listen(*only);
}

void HostedStores::end() {
  ++life_;
  is_turning_ = false;
  if (!served_) return;
  for (const auto& worker : served_->locals) worker->close();
  served_.reset();
}

StreamRoutes::Callbacks HostedStores::callbacks_of_routes() {
  return {.seat_of =
              [this](LinkId link) {
                Coordinator* const coordinator = hooks_.coordinator();
                return coordinator == nullptr ? std::nullopt : coordinator->seat_of(link);
              },
          .listener_of = [this](const std::string& job) { return served_->jobs.at(job).listener; },
          .loop = {.has_room = hooks_.has_room,
                   .send =
                       [this](LinkId link, std::string_view frame) {
                         served_->logs.flush();
                         hooks_.send(link, frame);
                       },
                   .soon =
                       [this](std::function<void()> what) {
                         served_->soon.push_back(std::move(what));
                         look();
                       },
                   .now = hooks_.now},
          .log_of = [this](const std::string& job) { return served_->logs.log_of(job); }};
}

StoreLogs::Callbacks HostedStores::callbacks_of_logs() {
  return {.listener_of = [this](const std::string& job) { return served_->jobs.at(job).listener; },
          .store_of = [this](const std::string& job) -> const Store& {
            return served_->jobs.at(job).host->store();
          },
          .soon =
              [this](std::function<void()> what) {
                served_->soon.push_back(std::move(what));
                look();
              }};
}

// --- stores --------------------------------------------------------------------------------------

void HostedStores::listen(const std::string& job) {
  Job opened{.host = std::make_unique<Host>(*this, job)};
  for (ListenerId* const place : {&opened.listener, &opened.local}) {
    const auto listening = served_->connections.listen(*opened.host, {.streams_only = true});
    universe_.judge.must(listening.has_value(), "a store that has no port cannot be opened");
    if (listening) *place = listening->id;
  }
  served_->jobs[job] = std::move(opened);
}

void HostedStores::open(const std::string& job) {
  if (served_) listen(job);
}

void HostedStores::reset(const std::string& job, const std::string& reason) {
  if (!served_) return;
  Job& its = served_->jobs.at(job);
  its.round.reset();  // its previous content is gone
  its.host->store().clear();
  served_->logs.end(job);
  served_->routes.forget(job);
  served_->connections.close_clients(its.listener, reason);
  served_->connections.close_clients(its.local, reason);
  its.round = hooks_.round_of(job);
  served_->logs.begin(job, hooks_.coordinator()->find(job)->round().number());
  look();
}

void HostedStores::close(const std::string& job, const std::string& reason) {
  if (!served_) return;
  const auto its = served_->jobs.find(job);
  if (its == served_->jobs.end()) return;
  served_->logs.end(job);
  served_->routes.forget(job);
  served_->connections.stop_listening(its->second.listener, reason);
  served_->connections.stop_listening(its->second.local, reason);
  served_->jobs.erase(its);
  look();
}

// --- links and workers ---------------------------------------------------------------------------

std::string HostedStores::hear(LinkId link, const std::string& address, std::string_view frame) {
  if (!served_) return {};
  std::string reason = served_->routes.hear(link, peer_at(address), frame);
  served_->logs.flush();
  universe_.judge.must(reason.empty(),
                       fmt::format("the coordinator ends the link of {} for a frame of streams: {}",
                                   address, reason));
  look();
  return reason;
}

void HostedStores::go_on(LinkId link) {
  if (!served_) return;
  served_->routes.go_on(link);
  look();
}

void HostedStores::forget(LinkId link) {
  if (served_) served_->routes.forget(link);
}

void HostedStores::accept(const std::string& job, const std::shared_ptr<Loopback>& worker) {
  const auto its = served_ ? served_->jobs.find(job) : decltype(served_->jobs.end()){};
  if (!served_ || its == served_->jobs.end()) return worker->close();
  const auto client = std::make_shared<Local>(*this, worker);
  const auto id = served_->connections.open_stream(its->second.local, peer_at("127.0.0.1"), client);
  if (!id) return worker->close();
  std::erase_if(served_->locals, [](const auto& each) { return !each->is_open(); });
  served_->locals.push_back(worker);
  client->begin(*id);
}

// --- the loop ------------------------------------------------------------------------------------

// As a real event loop drives a ConnectionSet: it is served when its descriptor is ready.
void HostedStores::look() {
  show_stores();
  arm();
  pollfd watched{.fd = served_->connections.descriptor(), .events = POLLIN, .revents = 0};
  const bool wants_turn = !served_->soon.empty() || ::poll(&watched, 1, 0) > 0;
  if (!wants_turn || std::exchange(is_turning_, true)) return;
  universe_.time.later(0ns, [this, life = life_] {
    if (life != life_) return;
    program_.receive([this, life] {
      if (life == life_) turn();
    });
  });
}

void HostedStores::turn() {
  for (auto all = std::exchange(served_->soon, {}); const auto& what : all) what();
  int turns = 0;
  // Posted tasks run between two turns: an image of a store, which blocks it.
  while (served_->connections.serve(hooks_.now()) && served_->soon.empty() && ++turns < turns_max) {
    continue;
  }
  universe_.judge.must(turns < turns_max, "a store is never done");
  is_turning_ = false;
  if (served_->soon.empty()) examine();
  look();
}

void HostedStores::arm() {
  const auto deadline = served_->connections.next_deadline();
  if (!deadline) return;
  const TimePoint due = std::max(hooks_.truth(*deadline), universe_.time.now());
  if (served_->armed && *served_->armed <= due) return;
  served_->armed = due;
  universe_.time.at(due, [this, due, life = life_] {
    if (life != life_ || served_->armed != due) return;
    program_.receive(
        [this, life] {
          if (life != life_) return;
          served_->armed.reset();
          turn();
        },
        true);
  });
}

// --- checks --------------------------------------------------------------------------------------

// Every client belongs to a running round.
void HostedStores::examine() {
  const auto open = std::count_if(served_->locals.begin(), served_->locals.end(),
                                  [](const auto& each) { return each->is_open(); });
  const std::size_t known = served_->routes.clients() + static_cast<std::size_t>(open);
  const std::size_t served = served_->connections.connection_count();
  universe_.judge.must(served == known,
                       fmt::format("{} clients of stores are served, and {} are of a round that "
                                   "runs",
                                   served, known));
}

// Reads the stores: the result counts if the round ends right afterwards.
void HostedStores::show_stores() {
  Coordinator* const coordinator = hooks_.coordinator();
  if (!hooks_.is_in_force()) return;
  for (const auto& [name, job] : served_->jobs) {
    if (!job.round || coordinator == nullptr || !coordinator->knows(name)) continue;
    // The next round is decided and about to be announced.
    if (coordinator->find(name)->round().number() != job.round->second.number) continue;
    Store& store = coordinator->store(name);
    if (store.has_unfinished()) continue;
    const auto ask = [&store](const c10d::Request& request) {
      Actions actions;
      store.apply(onlooker, request, actions);
      return actions;
    };
    universe_.stores.look(job.round->first, job.round->second, [&ask](const std::string& key) {
      KeyAtEnd found;
      const Actions values = ask(c10d::Get{key});
      if (const auto* answer = std::get_if<Answer>(&values.at(0))) {
        found.value = std::get<c10d::Value>(answer->reply).value;
      } else {
        // The length comes first.
        found.value =
            std::get<SharedReply>(values.at(0)).reply.text().substr(sizeof(std::uint64_t));
      }
      const Actions lengths = ask(c10d::QueueLen{key});
      found.length = std::get<c10d::Number>(std::get<Answer>(lengths.at(0)).reply).number;
      return found;
    });
  }
}

}  // namespace cpprun::sim
