// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// The JSON members of every message, for the codec only.

#include <chrono>
#include <concepts>
#include <string_view>
#include <type_traits>

#include "proto/clock.h"
#include "proto/link/message.h"

namespace cpprun::link {

// Members whose JSON value differs from their type.

// Two flags as one number, to keep a Join short: 0, 1 for idle, 2 for idle and done.
template <class Flag>
struct Idle {
  Flag& idle;
  Flag& done;
};
template <class Flag>
Idle(Flag&, Flag&) -> Idle<Flag>;

// Binary data as hexadecimal digits, which JSON strings require.
template <class Text>
struct Hex {
  Text& bytes;
};
template <class Text>
Hex(Text&) -> Hex<Text>;

// A flag that is sent as 1 if set, and omitted otherwise.
template <class Bool>
struct Flag {
  Bool& is_set;
};
template <class Bool>
Flag(Bool&) -> Flag<Bool>;

// A duration sent as a whole number of that unit; the remainder is dropped.
template <class Unit, class Value>
struct Whole {
  Value& duration;
};
template <class Value>
Whole<std::chrono::milliseconds, Value> milliseconds(Value& duration) {
  return {duration};
}
template <class Value>
Whole<std::chrono::microseconds, Value> microseconds(Value& duration) {
  return {duration};
}

// The members of every message with their JSON names.

// Each message lists its members once, for both writing and reading.
template <class M, class F>
void each_member(M& m, F&& f)
  requires std::same_as<std::remove_const_t<M>, Failure>
{
  f("rank", m.rank.value), f("local_rank", m.local_rank.value), f("node", m.group_rank.value);
  f("host", m.host), f("pid", m.pid), f("signalled", m.status.signalled);
  f("status", m.status.value), f("time", m.time), f("message", m.message);
  f("cause", m.cause), f("consequence", m.consequence);
}

template <class M, class F>
void each_member(M& m, F&& f)
  requires std::same_as<std::remove_const_t<M>, Join>
{
  f("job", m.job), f("host", m.host), f("pid", m.pid), f("agent", m.agent),
      f("node_rank", m.node_rank);
  f("min", m.nodes_min), f("max", m.nodes_max), f("workers", m.local_world_size);
  f("role", m.role), f("restarts", m.restarts.max),
      f("backoff_ms", milliseconds(m.restarts.backoff));
  f("window_ms", milliseconds(m.restarts.window)), f("final", m.restarts.final_codes);
  f("addresses", m.addresses), f("lease_ms", milliseconds(m.lease));
  f("last_call_ms", milliseconds(m.last_call)), f("after", m.after.value),
      f("idle", Idle{m.idle, m.done});
  f("sent", m.sent), f.where_known("local_store", m.store_is_local);
  f.where_known("budgets", m.restarts.budgets);
  f.where_known("free", m.restarts.free_codes),
      f.where_known("fruitless", m.restarts.fruitless_max);
  f.where_known("host_failures", m.restarts.host_limit.failures);
  f.where_known("host_window_ms", milliseconds(m.restarts.host_limit.window));
  f.where_known("go", Flag{m.can_lead}), f.where_known("vote", m.vote.value);
  f.where_known("turns", Flag{m.turns}), f.where_known("epoch", m.epoch);
  f.where_known("fresh", Flag{m.fresh});
}

template <class M, class F>
void each_member(M& m, F&& f)
  requires std::same_as<std::remove_const_t<M>, Failed>
{
  f("round", m.round.value), f("failure", m.failure), f("noticed", m.noticed);
  f.where_known("late", Flag{m.late});
}

template <class M, class F>
void each_member(M& m, F&& f)
  requires std::same_as<std::remove_const_t<M>, Succeeded>
{
  f("round", m.round.value);
}

template <class M, class F>
void each_member(M& m, F&& f)
  requires std::same_as<std::remove_const_t<M>, Drained>
{
  f("round", m.round.value), f.where_known("unsaved_ms", milliseconds(m.unsaved));
  f.where_known("step", m.reached.step), f.where_known("saved", m.reached.checkpoint_step);
  f.where_known("asked", m.asked);
}

template <class M, class F>
void each_member(M& m, F&& f)
  requires std::same_as<std::remove_const_t<M>, Status>
{
  f("round", m.round.value), f("workers", m.workers);
}

template <class M, class F>
void each_member(M& m, F&& f)
  requires std::same_as<std::remove_const_t<M>, Leave>
{
  f("signal", m.signal), f("reason", m.reason), f.where_known("asked", m.asked);
}

template <class M, class F>
void each_member(M& m, F&& f)
  requires std::same_as<std::remove_const_t<M>, Heartbeat>
{
  f("sent", m.sent), f("trip", microseconds(m.round_trip));
  f.where_known("watch_ms", milliseconds(m.watch)), f.where_known("moment", m.moment);
  f.where_known("notice", m.notice);
}

template <class M, class F>
void each_member(M& m, F&& f)
  requires std::same_as<std::remove_const_t<M>, Waiting>
{
  f("reason", m.reason), f("spare", m.spare);
}

template <class M, class F>
void each_member(M& m, F&& f)
  requires std::same_as<std::remove_const_t<M>, Refused> ||
           std::same_as<std::remove_const_t<M>, Dismissed>
{
  f("reason", m.reason);
}

template <class M, class F>
void each_member(M& m, F&& f)
  requires std::same_as<std::remove_const_t<M>, NotLeading>
{
  f("reason", m.reason);
  f.where_known("address", m.address), f.where_known("port", m.port);
  f.where_known("epoch", m.epoch);
}

template <class M, class F>
void each_member(M& m, F&& f)
  requires std::same_as<std::remove_const_t<M>, Members>
{
  f("epoch", m.epoch), f("places", m.places), f("patience_ms", milliseconds(m.patience));
  f.where_known("keeps_round", Flag{m.keeps_round});
}

template <class M, class F>
void each_member(M& m, F&& f)
  requires std::same_as<std::remove_const_t<M>, Follow> ||
           std::same_as<std::remove_const_t<M>, Leads>
{
  f("name", m.name), f("cluster", m.cluster), f("version", m.version);
  f("features", m.features), f("epoch", m.epoch);
  if constexpr (requires { m.address; }) f("address", m.address);
  f.where_known("etcd", Flag{m.has_etcd});
}

template <class M, class F>
void each_member(M& m, F&& f)
  requires std::same_as<std::remove_const_t<M>, TakeOver>
{
  f("epoch", m.epoch);
}

template <class M, class F>
void each_member(M& m, F&& f)
  requires std::same_as<std::remove_const_t<M>, Sealed>
{
  f("round", m.round.value), f("restart", m.restart_count), f("node", m.group_rank.value);
  f("nodes", m.group_world_size), f("base", m.base_rank.value), f("world", m.world_size);
  f("role_base", m.role_base_rank), f("role_world", m.role_world_size);
  f("store_port", m.store_port), f("neighbour", m.neighbour);
  f("failed_before", m.failed_before);
}

template <class M, class F>
void each_member(M& m, F&& f)
  requires std::same_as<std::remove_const_t<M>, Drain>
{
  f("round", m.round.value), f("reason", m.reason);
  f.where_known("keeps_vote", Flag{m.keeps_vote}), f.where_known("ends_job", Flag{m.ends_job});
}

template <class M, class F>
void each_member(M& m, F&& f)
  requires std::same_as<std::remove_const_t<M>, Save>
{
  f("round", m.round.value), f("signal", m.signal), f("at", m.at);
}

template <class M, class F>
void each_member(M& m, F&& f)
  requires std::same_as<std::remove_const_t<M>, Finish>
{
  f("code", m.exit_code), f("reason", m.reason), f("root", m.root);
  f("others", m.consequences), f("other_count", m.consequence_count), f("time", m.time);
}

template <class M, class F>
void each_member(M& m, F&& f)
  requires std::same_as<std::remove_const_t<M>, WhoHosts>
{
  f("job", m.job), f("host", m.host), f("pid", m.pid), f("agent", m.agent);
  f.where_known("joins", m.joins);
  f.where_known("leads_at", m.leads_address), f.where_known("leads_port", m.leads_port);
}

template <class M, class F>
void each_member(M& m, F&& f)
  requires std::same_as<std::remove_const_t<M>, Hosts>
{
  f("job", m.job), f("host", m.host), f("pid", m.pid), f("itself", m.itself);
}

template <class M, class F>
void each_member(M& m, F&& f)
  requires std::same_as<std::remove_const_t<M>, Record>
{
  f("round", m.round.value), f("part", m.part), f("parts", m.parts), f("bytes", Hex{m.bytes});
}

template <class M, class F>
void each_member(M& m, F&& f)
  requires std::same_as<std::remove_const_t<M>, Stands>
{
  f("round", m.round.value), f("port", m.port);
}

template <class M, class F>
void each_member(M& m, F&& f)
  requires std::same_as<std::remove_const_t<M>, Standby>
{
  f("round", m.round.value), f("address", m.address), f("port", m.port);
}

template <class M, class F>
void each_member(M& m, F&& f)
  requires std::same_as<std::remove_const_t<M>, Led>
{
  f("address", m.address), f("port", m.port);
}

template <class M>
constexpr std::string_view name_of() {
  if constexpr (std::same_as<M, Join>) return "join";
  if constexpr (std::same_as<M, Failed>) return "failed";
  if constexpr (std::same_as<M, Succeeded>) return "succeeded";
  if constexpr (std::same_as<M, Drained>) return "drained";
  if constexpr (std::same_as<M, Leave>) return "leave";
  if constexpr (std::same_as<M, Heartbeat>) return "heartbeat";
  if constexpr (std::same_as<M, Waiting>) return "waiting";
  if constexpr (std::same_as<M, Refused>) return "refused";
  if constexpr (std::same_as<M, Sealed>) return "sealed";
  if constexpr (std::same_as<M, Drain>) return "drain";
  if constexpr (std::same_as<M, Finish>) return "finish";
  if constexpr (std::same_as<M, WhoHosts>) return "who_hosts";
  if constexpr (std::same_as<M, Hosts>) return "hosts";
  if constexpr (std::same_as<M, Save>) return "save";
  if constexpr (std::same_as<M, Dismissed>) return "dismissed";
  if constexpr (std::same_as<M, Status>) return "status";
  if constexpr (std::same_as<M, Record>) return "record";
  if constexpr (std::same_as<M, Stands>) return "stands";
  if constexpr (std::same_as<M, Standby>) return "standby";
  if constexpr (std::same_as<M, NotLeading>) return "not_leading";
  if constexpr (std::same_as<M, Led>) return "led";
  if constexpr (std::same_as<M, Members>) return "members";
  if constexpr (std::same_as<M, Follow>) return "follow";
  if constexpr (std::same_as<M, Leads>) return "leads";
  if constexpr (std::same_as<M, TakeOver>) return "take_over";
}

}  // namespace cpprun::link
