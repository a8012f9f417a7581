// SPDX-License-Identifier: BSD-3-Clause
#include <fmt/format.h>

#include <chrono>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "launcher/agent/io/upgrade_state.h"
#include "proto/fields_json.h"
#include "proto/link/codec.h"

namespace cpprun::io {

namespace {

using nlohmann::json;

// MessagePack of an object with the members of the struct: its strings take any bytes. The number
// grows when a member changes its meaning or a new one is needed. A program that expects another
// number refuses the state, and the old one goes on.
constexpr int format_number = 1;
constexpr const char* format_name = "cpprun_upgrade";

// A part that is not what it should be.
struct BadPart {
  std::string reason;
};

template <class T>
T decoded(const json& frame) {
  const auto decoded = link::decode(frame.get<std::string>());
  if (!decoded) throw BadPart{decoded.error().reason};
  const T* const message = *decoded ? std::get_if<T>(&(*decoded)->message) : nullptr;
  if (message == nullptr) throw BadPart{"it holds another message"};
  return *message;
}

struct StateFormat {
  void fields(auto& f, Of<Endpoint> auto& m) const { f("host", m.host), f("port", m.port); }
  void fields(auto& f, Of<agent::LinkUp> auto& m) const {
    f("local_address", m.local_address), f("master_addresses", m.master_addresses);
    f("local_store_port", m.local_store_port);
  }
  void fields(auto& f, Of<AgentPast::Worker> auto& m) const {
    f("local_rank", m.local_rank), f("pid", m.pid), f("started", m.started);
    f("since", m.since);
    f("has_succeeded", m.has_succeeded), f("is_swept", m.is_swept);
  }
  void fields(auto& f, Of<HeartbeatMonitor::StepTimes> auto& m) const {
    f("first", m.first), f("slowest", m.slowest);
  }
  void fields(auto& f, Of<AgentPast> auto& m) const {
    f("master", m.master), f("up", m.up), f("proof", m.proof), f("sealed", m.sealed);
    f("sealed_at", m.sealed_at), f("members", m.members), f("standby", m.standby);
    f("workers", m.workers), f("step_times", m.step_times);
  }
  void fields(auto& f, Of<Watchdog::Carried> auto& m) const {
    f("pid", m.pid), f("pipe", m.pipe), f("fired", m.fired), f("directories", m.directories);
    f("hangs", m.hangs), f("groups", m.groups), f("fence", m.fence), f("door", m.door);
  }
  void fields(auto& f, Of<FileWriterProcess::Carried> auto& m) const {
    f("pipe", m.pipe), f("news", m.news), f("count", m.count);
  }
  void fields(auto& f, Of<LogWriter::Carried> auto& m) const {
    f("paths", m.paths), f("process", m.process), f("queue", m.queue);
  }
  void fields(auto& f, Of<Console::Carried> auto& m) const {
    f("queue", m.queue), f("inside", m.inside), f("writer", m.writer);
  }
  void fields(auto& f, Of<LineSplitter::State> auto& m) const {
    f("kept", m.kept), f("shown", m.shown), f("inside_line", m.inside_line);
  }
  void fields(auto& f, Of<LastLines::State> auto& m) const {
    f("lines", m.lines), f("is_open", m.is_open);
  }
  void fields(auto& f, Of<OutputCarried::Stream> auto& m) const {
    f("local_rank", m.local_rank), f("is_stderr", m.is_stderr), f("pipe", m.pipe);
    f("splitter", m.splitter), f("last", m.last), f("spoke_at", m.spoke_at);
  }
  void fields(auto& f, Of<OutputCarried> auto& m) const {
    f("out", m.out), f("err", m.err), f("files", m.files), f("streams", m.streams);
  }
  void fields(auto& f, Of<WorkerProcesses::Carried::Worker> auto& m) const {
    f("local_rank", m.local_rank), f("pid", m.pid), f("has_exited", m.has_exited);
  }
  void fields(auto& f, Of<WorkerProcesses::Carried> auto& m) const {
    f("workers", m.workers), f("spared", m.spared), f("unrelated_below", m.unrelated_below);
    f("warm_parent", m.warm_parent);
  }
  void fields(auto& f, Of<LogDir::Carried> auto& m) const {
    f("run_directory", m.run_directory), f("error_directory", m.error_directory);
    f("attempts", m.attempts), f("is_fresh", m.is_fresh);
  }
  void fields(auto& f, Of<WorkerRuntime::Carried> auto& m) const {
    f("processes", m.processes), f("logs", m.logs), f("output", m.output);
    f("heartbeat_files", m.heartbeat_files), f("has_probes", m.has_probes);
  }
  void fields(auto& f, Of<EventFile::Carried> auto& m) const {
    f("path", m.path), f("at_hand", m.at_hand), f("process", m.process), f("queue", m.queue);
    f("lost", m.lost), f("is_over", m.is_over);
  }
  void fields(auto& f, Of<OutputFiles::Carried> auto& m) const {
    f("report_path", m.report_path), f("report_name", m.report_name);
    f("announced", m.announced), f("events", m.events);
  }
  void fields(auto& f, Of<Attempt> auto& m) const {
    f("round", m.round), f("restart", m.restart), f("began", m.began), f("ended", m.ended);
    f("reason", m.reason), f("failure", m.failure);
  }
  void fields(auto& f, Of<CarriedCoordinator::Client> auto& m) const {
    f("id", m.id), f("socket", m.socket), f("ip", m.peer.ip), f("port", m.peer.port);
    f("conversation", m.conversation), f("is_local", m.is_local);
  }
  void fields(auto& f, Of<CarriedCoordinator> auto& m) const {
    f("port", m.port), f("hosts", m.hosts), f("local_port", m.local_port), f("record", m.record);
    f("store", m.store), f("clients", m.clients), f("store_was_asked", m.store_was_asked);
    f("door", m.door), f("door_path", m.door_path);
  }
  void fields(auto& f, Of<StoreForwarder::Carried::Stream> auto& m) const {
    f("stream", m.stream), f("socket", m.socket), f("taken_here", m.taken_here);
    f("taken_there", m.taken_there), f("is_closed", m.is_closed);
    f("is_known_there", m.is_known_there), f("outgoing", m.outgoing);
  }
  void fields(auto& f, Of<StoreForwarder::Carried> auto& m) const {
    f("port", m.port), f("round", m.round), f("newest", m.newest), f("streams", m.streams);
  }
  void fields(auto& f, Of<WorkerMark> auto& m) const { f("value", m.value); }
  void fields(auto& f, Of<rlimit> auto& m) const { f("soft", m.rlim_cur), f("hard", m.rlim_max); }
  void fields(auto& f, Of<UpgradeState> auto& m) const {
    f("version", m.version), f("begun", m.begun), f("request", m.request), f("job", m.job);
    f("agent_number", m.agent_number), f("node_token", m.node_token), f("mark", m.mark);
    f("started", m.started), f("local_world_size", m.local_world_size);
    f("config_files", m.config_files), f("secrets", m.secrets), f("open_files", m.open_files);
    f("niceness", m.niceness), f("agent", m.agent), f("helpers", m.helpers);
    f("watchdogs_started", m.watchdogs_started), f("watchdog", m.watchdog);
    f("workers", m.workers), f("output_files", m.output_files), f("restarts", m.restarts);
    f("attempts", m.attempts), f("attempts_left_out", m.attempts_left_out);
    f("coordinator", m.coordinator), f("local_store", m.local_store);
  }

  // Values with a form of their own.

  static json write(const TimePoint& value) { return value.time_since_epoch().count(); }
  static json write(const Duration& value) { return value.count(); }
  static json write(const WallTime& value) { return value.time_since_epoch().count(); }
  static json write(const link::Sealed& value) { return link::encode(value); }
  static json write(const link::Members& value) { return link::encode(value); }
  static json write(const link::Standby& value) { return link::encode(value); }
  static json write(const link::Failure& value) {
    return link::encode(link::Failed{.failure = value});
  }
  static json write(const std::map<LocalRank, int>& value) {
    json rows = json::array();
    for (const auto& [rank, number] : value) rows.push_back({rank.value, number});
    return rows;
  }

  static void read(const char*, const json& said, TimePoint& value) {
    value = TimePoint{Duration{said.get<std::int64_t>()}};
  }
  static void read(const char*, const json& said, Duration& value) {
    value = Duration{said.get<std::int64_t>()};
  }
  static void read(const char*, const json& said, WallTime& value) {
    value = WallTime{WallTime::duration{said.get<std::int64_t>()}};
  }
  static void read(const char*, const json& said, link::Sealed& value) {
    value = decoded<link::Sealed>(said);
  }
  static void read(const char*, const json& said, link::Members& value) {
    value = decoded<link::Members>(said);
  }
  static void read(const char*, const json& said, link::Standby& value) {
    value = decoded<link::Standby>(said);
  }
  static void read(const char*, const json& said, link::Failure& value) {
    value = decoded<link::Failed>(said).failure;
  }
  static void read(const char*, const json& said, std::map<LocalRank, int>& value) {
    value.clear();
    for (const json& row : said) value[LocalRank{row.at(0).get<int>()}] = row.at(1).get<int>();
  }
};

void add(std::vector<int>& all, const std::optional<FileWriterProcess::Carried>& writer) {
  if (writer) all.insert(all.end(), {writer->pipe, writer->news});
}

}  // namespace

std::vector<int> descriptors_of(const UpgradeState& state) {
  std::vector<int> all = {state.watchdog.pipe, state.watchdog.fired,
                          state.output_files.events.at_hand};
  add(all, state.output_files.events.process);
  const OutputCarried& output = state.workers.output;
  for (const auto* console : {&output.out, &output.err}) {
    if (*console) add(all, (*console)->writer);
  }
  if (output.files) add(all, output.files->process);
  for (const auto& stream : output.streams) all.push_back(stream.pipe);
  for (const auto& [rank, file] : state.workers.heartbeat_files) all.push_back(file);
  if (const auto& coordinator = state.coordinator) {
    all.insert(all.end(), coordinator->port.begin(), coordinator->port.end());
    all.insert(all.end(), coordinator->local_port.begin(), coordinator->local_port.end());
    for (const auto& client : coordinator->clients) all.push_back(client.socket);
    all.push_back(coordinator->door);
  }
  if (const auto& store = state.local_store) {
    all.push_back(store->port);
    for (const auto& stream : store->streams) all.push_back(stream.socket);
  }
  std::erase_if(all, [](int descriptor) { return descriptor < 0; });
  return all;
}

std::string upgrade_state_bytes(const UpgradeState& state) {
  json object = json_of<json>(StateFormat{}, state);
  object[format_name] = format_number;
  std::string bytes;
  json::to_msgpack(object, bytes);
  return bytes;
}

Result<UpgradeState> read_upgrade_state(std::string_view bytes) {
  const json object = json::from_msgpack(bytes, /*strict=*/true, /*allow_exceptions=*/false);
  const json format = member_or_null(object, format_name);
  if (!format.is_number_integer()) return failure("is not of a cpprun");
  if (format != format_number) {
    return failure(fmt::format("has format {}, and this version reads format {}", format.dump(),
                               format_number));
  }
  try {
    return value_of_json<UpgradeState>(StateFormat{}, object);
  } catch (const BadPart& bad) {
    return failure("is invalid: " + bad.reason);
  } catch (const json::exception& bad) {
    return failure(fmt::format("is invalid: {}", bad.what()));
  }
}

}  // namespace cpprun::io
