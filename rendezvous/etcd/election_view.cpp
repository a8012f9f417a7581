// SPDX-License-Identifier: BSD-3-Clause
#include "rendezvous/etcd/election_view.h"

#include <fmt/format.h>

#include <algorithm>

#include "proto/text.h"
#include "rendezvous/etcd/bounds.h"

namespace cpprun {

Result<ElectionKeys> ElectionKeys::make(std::string_view name) {
  const auto is_plain = [](char byte) { return byte > ' ' && byte <= '~'; };
  const std::string prefix = "/cpprun/" + std::string(name) + "/";
  if (name.empty()) return failure("the cluster has no name");
  if (prefix.size() > bounds::etcd_prefix_bytes_max) {
    return failure(fmt::format("the etcd key prefix has {} bytes, and the maximum is {}",
                               prefix.size(), bounds::etcd_prefix_bytes_max));
  }
  if (!std::ranges::all_of(prefix, is_plain)) {
    return failure(
        fmt::format("invalid etcd key prefix \"{}\"; use ASCII letters, digits and punctuation",
                    plain_line(prefix, 80)));
  }
  if (name.find('/') != std::string_view::npos) {
    return failure(fmt::format("invalid cluster name \"{}\": a slash is not allowed", name));
  }
  return ElectionKeys(prefix);
}

std::optional<std::string> ElectionKeys::name_of_record(std::string_view key) const {
  const std::string before = records();
  if (!key.starts_with(before) || key.size() == before.size()) return std::nullopt;
  return std::string(key.substr(before.size()));
}

namespace {

constexpr std::size_t shown_bytes_max = 64;

// The only pair in the result of reading one key; null: no such key.
const etcd::KeyValue* only(const etcd::Outcome& outcome) {
  return outcome.pairs.empty() ? nullptr : &outcome.pairs.front();
}

tl::unexpected<Error> strange(const std::string& key, const std::string& why) {
  return failure(
      fmt::format("the etcd key \"{}\" has unexpected content ({}); use another "
                  "--cluster (cpprun: --rdzv-id), or remove the key",
                  key, why));
}

}  // namespace

std::vector<etcd::Operation> view_reads(const ElectionKeys& keys) {
  return {etcd::Read{keys.leader()}, etcd::Read{keys.synced()}, etcd::Read{keys.cluster()}};
}

Result<ElectionView> read_view(const ElectionKeys& keys, const etcd::Header& header,
                               std::span<const etcd::Outcome> outcomes) {
  ElectionView view{.header = header};
  if (const auto* const leader = only(outcomes[0])) {
    auto card = read_leader_card(leader->value);
    if (!card) return strange(keys.leader(), card.error().reason);
    view.leader = {leader->created, leader->lease, *std::move(card)};
  }
  if (const auto* const synced = only(outcomes[1])) {
    auto read = read_synced(synced->value);
    if (!read) return strange(keys.synced(), read.error().reason);
    view.synced = *std::move(read);
    view.synced_changed = synced->changed;
    if (view.synced->epoch == 0) view.synced->epoch = synced->changed;
  }
  if (const auto* const cluster = only(outcomes[2])) view.cluster = cluster->value;
  return view;
}

std::optional<std::string> objection_to(const ElectionView& view, const ElectionMemory& memory,
                                        const ElectionKeys& keys) {
  if (!memory.cluster.empty() && view.cluster != memory.cluster) {
    return view.cluster.empty()
               ? fmt::format(
                     "etcd has no data for \"{}\", but had cluster {} before: it was emptied, or "
                     "it is another etcd; restart every cpprund of this cluster",
                     keys.prefix(), memory.cluster)
               : fmt::format(
                     "cluster {} is under \"{}\" in etcd instead of {}: it is another etcd, or two "
                     "clusters have the same name",
                     plain_line(view.cluster, shown_bytes_max), keys.prefix(), memory.cluster);
  }
  // A winner always writes "synced", so an etcd that lost that epoch is detected here.
  const auto newest = std::max(view.leader ? view.leader->epoch : 0, view.synced_changed);
  if (newest < memory.epoch) {
    return fmt::format(
        "etcd has epoch {} for \"{}\", but had epoch {} before: etcd was restored from an old "
        "snapshot, or keys were removed; restart every cpprund of this cluster",
        newest, keys.prefix(), memory.epoch);
  }
  return std::nullopt;
}

bool begins_anew(const ElectionView& view, const ElectionMemory& memory) {
  if (view.cluster.empty()) return !view.leader && !view.synced;
  return view.cluster != memory.cluster && view.synced_changed > memory.epoch;
}

Duration wait_to_run(const ElectionView& view, const std::string& name, Duration ttl) {
  if (!view.synced) return Duration{};
  const Synced& synced = *view.synced;
  const bool may_decide_yet = !synced.is_vacant && synced.term != view.header.term;
  const Duration right = may_decide_yet ? synced.ttl : Duration{};
  const bool is_first =
      synced.is_vacant && !synced.successor.empty()
          ? synced.successor == name
          : synced.complete().empty() || std::ranges::count(synced.complete(), name) > 0;
  return right + (is_first ? Duration{} : ttl);
}

}  // namespace cpprun
