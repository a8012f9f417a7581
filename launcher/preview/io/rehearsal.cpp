// SPDX-License-Identifier: BSD-3-Clause
#include "launcher/preview/io/rehearsal.h"

#include <fmt/format.h>

#include <cstdio>
#include <map>
#include <utility>

#include "launcher/agent/io/preparation.h"
#include "launcher/fanout/io/fan_out.h"
#include "launcher/plan/io/host.h"
#include "launcher/preview/preview.h"
#include "proto/version.h"
#include "rendezvous/io/program.h"

namespace cpprun::io {

namespace {

void print(const Preview& preview, bool as_json) {
  (void)print_or_exit("cpprun", as_json ? to_json(preview) : preview_text(preview));
}

// The coordinator's addresses from the name service. A single node does not use it.
std::vector<std::string> master_addresses(const Config& config) {
  if (config.nodes_max > 1) return addresses_of(config.endpoint.host);
  const auto literal = literal_address(config.endpoint.host);
  return literal ? std::vector<std::string>{*literal} : std::vector<std::string>{};
}

}  // namespace

int rehearse(RunInputs inputs, bool as_json) {
  if (const auto refusal = examine_host(inputs)) return refuse(inputs, *refusal);
  const Config& config = inputs.config;
  const auto hosting = decide_hosting(
      config,
      {.host_name = inputs.host, .interfaces = inputs.interfaces, .addresses_of = addresses_of});
  if (!hosting) return refuse(inputs, {hosting.error().reason});
  PreviewFacts facts{.version = std::string(version_text()),
                     .machine = collect_host_facts(inputs.environment),
                     .directory = working_directory(),
                     .environment = inputs.environment,
                     .interfaces = inputs.interfaces,
                     .master_addresses = master_addresses(config),
                     .local_address = {},
                     .hosting = *hosting,
                     .cpus = inputs.cpus,
                     .devices = device_count(inputs.environment),
                     .has_secret = !inputs.secrets.empty()};
  if (!facts.master_addresses.empty()) {
    facts.local_address =
        local_address_towards(facts.master_addresses.front(), config.endpoint.port)
            .value_or(std::string{});
  }
  const auto preview = preview_of(config, inputs.program, facts);
  if (!preview) return refuse(inputs, {preview.error().reason, usage_exit_code});
  print(*preview, as_json);
  return 0;
}

int rehearse_on_hosts(fanout::Request request, const RunInputs& inputs, bool as_json) {
  std::map<int, std::string> said;
  const ConsoleMessages messages{inputs.style};
  const auto say = [&](const std::string& sentence, bool is_error) {
    const auto text = messages.message(is_error ? LogLevel::warning : LogLevel::info, sentence);
    std::fputs(text.c_str(), stderr);
  };
  const auto members = request.wanted.members;
  const bool is_port_given = request.wanted.port != 0;
  // A host that is not available now cannot report what it would start, so all hosts are required.
  request.wanted.nodes_min = static_cast<int>(members.size());
  request.wanted.elastic = false;
  request.wanted.is_rehearsal = true;
  const int code = run_console(std::move(request), inputs.environment, say,
                               [&](int number, std::string_view text) { said[number] += text; });
  std::vector<HostPreview> hosts;
  for (const auto& member : members) {
    if (said[member.number].empty()) continue;  // the host has reported the reason on stderr
    auto preview = read_preview(said[member.number]);
    if (!preview) {
      say(fmt::format("{}: {}", member.name, preview.error().reason), true);
      return code == 0 ? 1 : code;
    }
    hosts.push_back({member.name, *std::move(preview)});
  }
  if (hosts.empty()) return code == 0 ? 1 : code;
  print(joint_preview(std::move(hosts), is_port_given), as_json);
  return code;
}

}  // namespace cpprun::io
