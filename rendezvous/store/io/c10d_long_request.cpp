// SPDX-License-Identifier: BSD-3-Clause
// A request of very many keys, which takes longer than one turn may. It is carried out in parts,
// with the links served in between and no client of any store: nobody sees half of it.

#include <algorithm>
#include <utility>

#include "proto/machine.h"
#include "rendezvous/store/io/connection_set_impl.h"

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
bool ConnectionSet::Impl::is_long(const c10d::Complete& complete) const {
  return memory_ != nullptr && key_count_of(complete.request) > bounds::store_keys_at_once_max;
}

void ConnectionSet::Impl::begin_long(Connection& connection, const c10d::Complete& complete) {
  const Origin origin{connection.account, memory_};
  actions_.clear();
  const std::string objection =
      host_of(connection).store().begin_parts(connection.id, complete.request, origin, actions_);
  perform(actions_);
  if (!objection.empty()) return end(connection.id, objection);
  long_ = LongRequest{.from = connection.id,
                      .request = complete.request,
                      .origin = origin,
                      .reply = {connection.id, {}}};
}

// One part of it. Its end is an ordinary turn of that connection.
void ConnectionSet::Impl::go_on_with_long() {
  LongRequest& request = *long_;
  Connection* connection = heard(request.from);
  if (connection == nullptr) return long_.reset();  // and its store is emptied or closed with it
  const std::uint32_t listener = connection->listener;
  Store& store = host_of(*connection).store();
  actions_.clear();
  std::visit(Overloaded{
                 [&](const c10d::Check& check) {
                   const auto part = part_of(check.keys, request.done);
                   request.has_all = request.has_all && store.has_all(part);
                 },
                 [&](const c10d::Wait& wait) {
                   store.wait_for_part(request.from, part_of(wait.keys, request.done),
                                       request.origin);
                 },
                 [&](const c10d::MultiGet& get) {
                   store.show_part(part_of(get.keys, request.done), request.reply.reply);
                 },
                 [&](const c10d::MultiSet& set) {
                   const c10d::MultiSet part{part_of(set.entries, request.done)};
                   store.apply(request.from, part, actions_, request.origin);
                 },
                 [](const auto&) {},  // no other has many keys
             },
             request.request);
  perform(actions_);
  if (!long_) return;
  notice_unfinished(listener);
  request.done += bounds::store_keys_in_part;
  if (request.done >= key_count_of(request.request)) end_long();
}

void ConnectionSet::Impl::end_long() {
  const LongRequest request = std::move(*long_);
  long_.reset();
  Connection* connection = heard(request.from);
  if (connection == nullptr) return;
  queue_turn(*connection);
  if (std::holds_alternative<c10d::Check>(request.request)) {
    deliver(Answer{request.from, c10d::Checked{request.has_all}});
  } else if (std::holds_alternative<c10d::MultiGet>(request.request)) {
    deliver(request.reply);
  } else if (std::holds_alternative<c10d::Wait>(request.request) &&
             !host_of(*connection).store().is_waiting(request.from)) {
    deliver(Answer{request.from, c10d::Waited{}});
  }
}

}  // namespace cpprun
