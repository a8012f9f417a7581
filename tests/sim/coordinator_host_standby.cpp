// SPDX-License-Identifier: BSD-3-Clause
// The handover from a simulated coordinator to its standby node.

#include <string>
#include <utility>

#include "proto/link/codec.h"
#include "rendezvous/job/job_record_json.h"
#include "tests/sim/coordinator_host.h"

namespace cpprun::sim {

void CoordinatorHost::stand_by(const std::string& bytes) {
  if (!coordinator_.running()) begin({}, true);
  nodes_seen_[0].is_of_another = true;
  auto record = read_job_record(bytes, moment());
  universe_.judge.must(record.has_value(), "what a coordinator would leave cannot be read");
  if (!record) return;
  const LinkId first{universe_.last_link.value + 1};
  for (const cpprun::JobRecord::Node& node : record->nodes) {
    nodes_[LinkId{++universe_.last_link.value}] = std::stoi(node.join.host.substr(4));
  }
  tell(Coordinator::RecordReceived{*std::move(record), first});
}

void CoordinatorHost::asked(const link::WhoHosts& question, const std::string& address) {
  if (!coordinator_.running()) return;
  const LinkId link{++universe_.last_link.value};
  tell(Coordinator::Opened{{.link = link, .peer = address, .local = false}});
  tell(Coordinator::Said{link, question});
  tell(Coordinator::Closed{link, "query answered"});
}

// In parts that are smaller than the real ones: a job here has few nodes.
void CoordinatorHost::show_record(const coordinator::ShowRecord& show) {
  const ConnectionRef connection = network_->find(show.link);
  if (!connection) return;
  const auto record = coordinator_.machine().record_of(show.job);
  const std::string bytes = job_record_bytes(record, moment());
  constexpr std::size_t most = 700;
  const std::size_t parts = (bytes.size() + most - 1) / most;
  for (std::size_t part = 0; part < parts; ++part) {
    network_->send(connection, Side::agent,
                   {.kind = Packet::Kind::frame,
                    .bytes = link::encode(link::Record{.round = record.round,
                                                       .part = static_cast<int>(part),
                                                       .parts = static_cast<int>(parts),
                                                       .bytes = bytes.substr(part * most, most)})});
  }
}

}  // namespace cpprun::sim
