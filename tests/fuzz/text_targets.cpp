// SPDX-License-Identifier: BSD-3-Clause
#include "tests/fuzz/text_targets.h"

#include <algorithm>
#include <string>
#include <variant>
#include <vector>

#include "launcher/cli/cli.h"
#include "launcher/cli/rendezvous_settings.h"
#include "launcher/config.h"
#include "launcher/output/bounds.h"
#include "launcher/output/lines.h"
#include "rendezvous/endpoint.h"
#include "tests/fuzz/targets.h"

namespace cpprun::fuzz {

namespace {

struct Words {
  std::string pieces;   // all of them, one after the other, with the newlines that end them
  std::string console;  // the console that two streams share
};

Words cut(std::string_view bytes, std::size_t piece_size) {
  Words words;
  LineSplitter splitter;
  LineMux mux;
  LastLines last;
  const auto sink = [&](const Piece& piece) {
    promise(piece.text.size() <= bounds::line_bytes_max, "a piece over its bound");
    words.pieces += piece.text;
    if (piece.ends_line) words.pieces += '\n';
    mux.add(0, "[a]:", piece, words.console);
    last.add(piece);
    static_cast<void>(duplicate_of(piece, "[a]:", {"e", "Traceback"}));
  };
  for (std::size_t at = 0; at < bytes.size(); at += piece_size) {
    splitter.take(bytes.substr(at, piece_size), sink);
  }
  splitter.finish(sink);
  static_cast<void>(last.get());
  return words;
}

}  // namespace

void rendezvous_conf(std::string_view bytes) {
  std::vector<std::string> diagnostics;
  const Timeouts timeouts = read_rendezvous_conf(bytes, "--rdzv-conf", diagnostics);
  for (const std::string& error : diagnostics) {
    promise(error.starts_with("--rdzv-conf"), "an error that does not name its flag");
  }
  for (const auto& duration :
       {timeouts.join_timeout, timeouts.keep_alive_interval, timeouts.last_call_timeout}) {
    promise(!duration || *duration >= Duration{}, "a negative time");
  }
}

void config_file(std::string_view bytes) {
  const auto outcome = read_command_line(
      {.words = {"--config=file", "script"},
       .environment = {},
       .count_cpus = [] { return 4; },
       .count_devices = [] { return 2; },
       .random_id = "id",
       .version = "1",
       .read_file = [&](const std::string&) -> Result<std::string> { return std::string(bytes); },
       .probe_file = [](const std::string&) { return FileKind::executable; }});
  if (const auto* wrong = std::get_if<CliDiagnostics>(&outcome)) {
    promise(!wrong->diagnostics.empty(), "a refusal without a reason");
    for (const std::string& error : wrong->diagnostics) {
      const std::string fact = error.substr(0, error.find("\n  hint: "));
      const std::string hint = error.substr(std::min(fact.size() + 1, error.size()));
      promise(!fact.empty() && (fact + hint).find('\n') == std::string::npos,
              "neither a line nor a line with a hint");
    }
    return;
  }
  const auto* config = std::get_if<Config>(&outcome);
  promise(config != nullptr, "a file that asks for a text");
  promise(config->program.script == "script", "a file that says what to run");
  promise(1 <= config->nodes_min && config->nodes_min <= config->nodes_max, "no range of nodes");
}

void endpoint_text(std::string_view bytes) {
  static_cast<void>(parse_stream_choices(bytes));
  if (const auto host = parse_host(bytes)) static_cast<void>(is_loopback(*host));
  const auto endpoint = parse_endpoint(bytes, 29500);
  if (!endpoint) {
    promise(!endpoint.error().reason.empty(), "a refusal without a reason");
    return;
  }
  promise(endpoint->port >= 0 && endpoint->port <= 65'535, "an invalid port");
  const auto again = parse_endpoint(to_string(*endpoint), 29500);
  promise(again && *again == *endpoint, "another endpoint after writing and reading");
}

void worker_output(std::string_view bytes) {
  const Words whole = cut(bytes, bytes.size() + 1);
  const Words pieces = cut(bytes, 1 + bytes.size() / 7);
  // The output is the same however the bytes arrive. Over-long lines are cut where the bytes were
  // cut.
  if (bytes.size() < bounds::line_bytes_max) {
    promise(whole.pieces == pieces.pieces, "other output when cut");
  }
  std::size_t at = 0;
  for (const char each : bytes) {
    at = whole.pieces.find(each, at);
    promise(at != std::string::npos || each == '\n', "a byte was lost");
    if (at == std::string::npos) break;
    ++at;
  }
}

}  // namespace cpprun::fuzz
