// SPDX-License-Identifier: BSD-3-Clause
#include "rendezvous/daemon/activation.h"

#include <fmt/format.h>

#include <cstddef>
#include <string_view>

#include "proto/text.h"

namespace cpprun {

namespace {

using Kind = PassedFacts::Kind;

constexpr std::size_t quoted_bytes_max = 40;  // of a variable that makes no sense

std::string quoted(std::string_view name, std::string_view value) {
  return fmt::format("{}={}", name, plain_line(value, quoted_bytes_max));
}

tl::unexpected<Error> no_number(std::string_view name, std::string_view value,
                                std::string_view what) {
  return failure(
      fmt::format("cannot tell which sockets were passed: {} is no {}; unset LISTEN_FDS and "
                  "LISTEN_PID, or let a .socket unit start cpprund",
                  quoted(name, value), what));
}

std::string kind_text(const PassedFacts& facts) {
  const auto at = facts.address.empty() ? std::string() : " on " + facts.address;
  switch (facts.kind) {
    case Kind::not_open:
      return "not open";
    case Kind::no_socket:
      return "no socket";
    case Kind::tcp:
      return (facts.listens ? "a listening TCP socket" : "a TCP socket that does not listen") + at;
    case Kind::udp:
      return "a UDP socket" + at;
    case Kind::unix_socket:
      return "a Unix socket";
    case Kind::other_socket:
      break;
  }
  return "a socket of another protocol";
}

std::string_view cure_for(Kind kind) {
  switch (kind) {
    case Kind::not_open:
    case Kind::no_socket:
      return "let a .socket unit start cpprund, or unset LISTEN_FDS and LISTEN_PID";
    case Kind::tcp:
      return "set Accept=no in its .socket unit";
    case Kind::udp:
      return "write ListenStream= instead of ListenDatagram= in its .socket unit";
    case Kind::unix_socket:
    case Kind::other_socket:
      break;
  }
  return "give ListenStream= in its .socket unit a TCP port, as ListenStream=29400";
}

}  // namespace

Result<Activation> activation_of(const Environment& environment, int pid) {
  const std::string* const whose = find_variable(environment, "LISTEN_PID");
  const std::string* const fds = find_variable(environment, "LISTEN_FDS");
  if (whose == nullptr || fds == nullptr) return Activation{};
  const auto owner = exact_number<int>(*whose);
  if (!owner || *owner <= 0) return no_number("LISTEN_PID", *whose, "process id");
  if (*owner != pid) {
    return Activation{
        .count = 0,
        .remark = fmt::format("the sockets of LISTEN_FDS are those of process {}, not of this one, "
                              "{}: start cpprund without a shell around it, or by exec",
                              *owner, pid)};
  }
  const auto count = exact_number<int>(*fds);
  if (!count || *count < 0) return no_number("LISTEN_FDS", *fds, "count");
  return Activation{.count = *count, .remark = {}};
}

std::string passed_text(int descriptor, const PassedFacts& facts) {
  return fmt::format("descriptor {} is {}", descriptor, kind_text(facts));
}

Result<void> judge_passed(int count, const std::vector<PassedFacts>& facts) {
  std::string what;
  for (std::size_t at = 0; at < facts.size(); ++at) {
    if (at > 0) what += ", ";
    what += passed_text(first_passed_descriptor + static_cast<int>(at), facts[at]);
  }
  if (count > static_cast<int>(facts.size())) what += ", ...";
  if (count != 1 || facts.size() != 1) {
    return failure(
        fmt::format("cannot serve on {} passed sockets ({}): cpprund serves on one; leave one "
                    "ListenStream= in its .socket unit",
                    count, what));
  }
  const PassedFacts& only = facts.front();
  if (only.kind == Kind::tcp && only.listens) return {};
  return failure(
      fmt::format("cannot serve on the socket that was passed: {}; {}", what, cure_for(only.kind)));
}

}  // namespace cpprun
