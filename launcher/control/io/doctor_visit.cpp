// SPDX-License-Identifier: BSD-3-Clause
#include "launcher/control/io/doctor_visit.h"

#include <fmt/format.h>

#include "launcher/control/io/console.h"
#include "launcher/doctor/doctor_text.h"
#include "launcher/doctor/findings.h"
#include "launcher/doctor/io/doctor.h"
#include "launcher/fanout/host_choice.h"
#include "launcher/plan/io/host.h"
#include "proto/bounds.h"
#include "proto/version.h"

namespace cpprun::io {

namespace {

// What is wrong with the hosts has been told where there is nothing.
std::optional<DoctorOrder> order_of(const DoctorWish& wish, const Environment& environment) {
  const auto read = [](const std::string& path) {
    return read_text_file(path, bounds::config_file_bytes_max);
  };
  const HostList hosts = wish.hosts ? fanout::hosts_of(*wish.hosts, environment)
                                    : fanout::hosts_in_file(wish.host_file, "--hostfile", read);
  if (!hosts) {
    for (const auto& mistake : hosts.error()) {
      complain(wish.hosts ? "error: --hosts: " + mistake : "error: " + mistake);
    }
    return std::nullopt;
  }
  DoctorOrder order{.members = fanout::members_of(*hosts),
                    .shell = fanout::remote_shell(wish.remote_shell, wish.hosts),
                    .port = wish.port,
                    .ship = wish.ship};
  if (!order.shell.empty()) return order;
  complain("error: --remote-shell names no program");
  return std::nullopt;
}

}  // namespace

int examine(const Wish& wish, const Environment& environment) {
  Examined examined;
  if (wish.doctor.hosts || !wish.doctor.host_file.empty()) {
    const auto order = order_of(wish.doctor, environment);
    if (!order) return control_code::misuse;
    examined = examine_hosts(*order, environment);
    if (examined.interrupted != 0) return examined.interrupted;
  } else {
    examined = examine_here(wish.doctor.port, environment);
  }
  const auto findings = doctor::findings_of(
      examined.hosts, {.version = std::string(version_text()), .is_shipped = wish.doctor.ship});
  const bool is_told = print(
      wish.as_json ? doctor::doctor_json(examined.hosts, findings)
                   : doctor::doctor_text(examined.hosts, findings, canvas_of_stdout(environment)));
  return findings.empty() && is_told ? control_code::done : control_code::refused;
}

}  // namespace cpprun::io
