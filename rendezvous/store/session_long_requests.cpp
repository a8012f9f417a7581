// SPDX-License-Identifier: BSD-3-Clause
// A request of very many keys, which takes longer than one turn may. It is carried out in parts,
// with the links served in between and no client of any store: nobody sees half of it.

#include <algorithm>
#include <utility>

#include "proto/machine.h"
#include "rendezvous/store/store_sessions.h"

namespace cpprun {
namespace {

std::size_t key_count_of(const c10d::Request& request) {
  return std::visit(Overloaded{
                        [](const c10d::Check& check) { return check.keys.size(); },
                        [](const c10d::Wait& wait) { return wait.keys.size(); },
                        [](const c10d::MultiGet& get) { return get.keys.size(); },
                        [](const c10d::MultiSet& set) { return set.entries.size(); },
                        [](const auto&) { return std::size_t{0}; },
                    },
                    request);
}

template <class Things>
Things part_of(Things things, std::size_t done) {
  return things.subspan(done, std::min(things.size() - done, bounds::store_keys_in_part));
}

}  // namespace

// So many keys fill more than what is received at once, so their bytes are in memory that can be
// kept until all is done.
bool StoreSessions::is_long(const c10d::Complete& complete) const {
  return memory_ != nullptr && key_count_of(complete.request) > bounds::store_keys_at_once_max;
}

void StoreSessions::begin_long(Session& session, const c10d::Complete& complete) {
  const Origin origin{session.account, memory_};
  begin_deciding();
  const std::string objection =
      store_of(session)->begin_parts(session.id, complete.request, origin, decided_);
  perform(decided_);
  if (!objection.empty()) return end(session.id, objection);
  if (StoreJournal* const journal = journal_of(session)) {
    journal->decided(session.id, complete.size);
  }
  long_ = LongRequest{
      .from = session.id, .request = complete.request, .origin = origin, .reply = {session.id, {}}};
}

// One part of it. Its end is an ordinary turn of that connection.
bool StoreSessions::go_on_with_long() {
  if (!long_) return false;
  LongRequest& request = *long_;
  Session* const session = heard(request.from);
  Store* const store = session == nullptr ? nullptr : store_of(*session);
  if (store == nullptr) {
    long_.reset();  // and its store is emptied or closed with it
    return true;
  }
  const std::uint32_t port = session->port;
  begin_deciding();
  std::visit(Overloaded{
                 [&](const c10d::Check& check) {
                   const auto part = part_of(check.keys, request.done);
                   request.has_all = request.has_all && store->has_all(part);
                 },
                 [&](const c10d::Wait& wait) {
                   store->wait_for_part(request.from, part_of(wait.keys, request.done),
                                        request.origin);
                 },
                 [&](const c10d::MultiGet& get) {
                   store->show_part(part_of(get.keys, request.done), request.reply.reply);
                 },
                 [&](const c10d::MultiSet& set) {
                   const c10d::MultiSet part{part_of(set.entries, request.done)};
                   store->apply(request.from, part, decided_, request.origin);
                 },
                 [](const auto&) {},  // no other has many keys
             },
             request.request);
  perform(decided_);
  if (!long_) return true;
  notice_unfinished(port);
  request.done += bounds::store_keys_in_part;
  if (request.done >= key_count_of(request.request)) end_long();
  return true;
}

void StoreSessions::end_long() {
  const LongRequest request = std::move(*long_);
  long_.reset();
  Session* const session = heard(request.from);
  const Store* const store = session == nullptr ? nullptr : store_of(*session);
  if (store == nullptr) return;
  queue_turn(*session);
  if (std::holds_alternative<c10d::Check>(request.request)) {
    deliver(Answer{request.from, c10d::Checked{request.has_all}});
  } else if (std::holds_alternative<c10d::MultiGet>(request.request)) {
    deliver(request.reply);
  } else if (std::holds_alternative<c10d::Wait>(request.request) &&
             !store->is_waiting(request.from)) {
    deliver(Answer{request.from, c10d::Waited{}});
  }
}

}  // namespace cpprun
