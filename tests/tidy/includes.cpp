// SPDX-License-Identifier: BSD-3-Clause
#include "tests/tidy/includes.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>

#include "tests/tidy/layers.h"

namespace cpprun::tidy {

namespace {

struct Include {
  int line = 0;
  std::string_view name;
  bool quoted = false;
};

std::optional<Include> read_include(std::string_view line, int number) {
  const auto begin = line.find_first_not_of(" \t");
  if (begin == std::string_view::npos || !line.substr(begin).starts_with("#")) return std::nullopt;
  const auto word = line.find("include", begin);
  const auto open = line.find_first_of("\"<", begin);
  if (word == std::string_view::npos || open == std::string_view::npos || open < word) {
    return std::nullopt;
  }
  const bool quoted = line[open] == '"';
  const auto close = line.find(quoted ? '"' : '>', open + 1);
  if (close == std::string_view::npos) return std::nullopt;
  return Include{number, line.substr(open + 1, close - open - 1), quoted};
}

// The names are views into `code`, which has to outlive them.
std::vector<Include> includes_of(const std::string& code) {
  std::vector<Include> includes;
  int number = 0;
  for (const auto line : lines_of(code)) {
    if (const auto include = read_include(line, ++number)) includes.push_back(*include);
  }
  return includes;
}

std::optional<Violation> judge_direction(const Source& source, const Include& include) {
  if (auto violation = judge_layers(source, include.line, include.name)) return violation;
  const bool may_act = in_io(source.path) || is_program(source.path) || is_test(source.path) ||
                       touches_torch(source.path);
  if (in_io(include.name) && !may_act) {
    return Violation{source.path, include.line, "a root includes from an io/ folder",
                     "return an action and let io/ perform it"};
  }
  return std::nullopt;
}

// A library or system header and the only places that may include it.
struct Home {
  std::string_view prefix;  // of the included name
  bool (*welcome)(std::string_view path);
  std::string_view cure;
};

bool acts(std::string_view path) {
  return in_io(path) || is_program(path) || is_test(path) || touches_torch(path);
}
bool is_cli(std::string_view path) {
  return path == "tests/sim/sim_main.cpp" || path == "worker/examples/command_line.cpp";
}
bool is_codec(std::string_view path) {
  return path.ends_with("/codec.cpp") || path.ends_with("_json.cpp") || path.ends_with("_json.h") ||
         is_test(path);
}
bool is_worker(std::string_view path) {
  return touches_torch(path) || path.starts_with("tests/worker/") ||
         path.starts_with("tests/embed/worker/") ||
         path.starts_with("tests/embed/from_libtorch/") || path.starts_with("tests/conformance/") ||
         path.starts_with("tests/bench/");
}
bool speaks_asio(std::string_view path) {
  return in_io(path) || is_test(path);
}

bool speaks_http(std::string_view path) {
  return path == "proto/http/session.cpp" || path == "proto/http/client.cpp";
}

bool uses_boost(std::string_view path) {
  return speaks_http(path) || path == "rendezvous/daemon/state_file.cpp";
}

bool speaks_tls(std::string_view path) {
  // The simulator seeds its random numbers.
  return path.starts_with("proto/secure/") || path.starts_with("tests/proto/secure_") ||
         path == "tests/sim/secure_wire.cpp";
}

constexpr std::string_view in_io_only = "effects live in io/: hand the value in";

const std::array homes = {
    Home{"asio", speaks_asio, "Asio appears only under io/"},
    Home{"boost/", uses_boost,
         "Boost.Beast reads and writes HTTP in proto/http's session.cpp and client.cpp alone, and "
         "Boost.CRC checks records in rendezvous/daemon/state_file.cpp"},
    Home{"CLI/", is_cli,
         "CLI11 is for the simulator and the examples: use rendezvous/command_line.h"},
    Home{"nlohmann/", is_codec, "JSON is read and written only in codec.cpp and *_json files"},
    Home{"openssl/", speaks_tls, "OpenSSL appears only in proto/secure"},
    Home{"torch/", is_worker, "LibTorch appears only in worker/torch and worker/examples"},
    Home{"ATen/", is_worker, "LibTorch appears only in worker/torch and worker/examples"},
    Home{"c10/", is_worker, "LibTorch appears only in worker/torch and worker/examples"},
    Home{"gloo/", is_worker, "LibTorch appears only in worker/torch and worker/examples"},
    Home{"doctest/", is_test, "tests live under tests/"},
    Home{"thread", acts, "one thread per process; what truly needs one lives in io/"},
    Home{"mutex", acts, "one thread per process; what truly needs one lives in io/"},
    Home{"future", acts, "one thread per process; what truly needs one lives in io/"},
    Home{"iostream", acts, in_io_only},
    Home{"fstream", acts, in_io_only},
    Home{"filesystem", acts, in_io_only},
    Home{"random", acts, "take the seed or the number as an argument"},
    Home{"unistd.h", acts, in_io_only},
    Home{"fcntl.h", acts, in_io_only},
    Home{"poll.h", acts, in_io_only},
    Home{"sys/", acts, in_io_only},
    Home{"dlfcn.h", acts, in_io_only},
    Home{"netdb.h", acts, in_io_only},
    Home{"ifaddrs.h", acts, in_io_only},
    Home{"net/", acts, in_io_only},
    Home{"linux/", acts, in_io_only},
};

bool matches(std::string_view name, std::string_view prefix) {
  if (!name.starts_with(prefix)) return false;
  // "thread" is a whole name, "asio" stands for asio.hpp and asio/…, "sys/" for a directory.
  return prefix.ends_with('/') || name.size() == prefix.size() || name[prefix.size()] == '/' ||
         name.substr(prefix.size()) == ".hpp";
}

}  // namespace

std::vector<Violation> check_directions(const Source& source) {
  std::vector<Violation> violations;
  if (!is_cpp(source.path)) return violations;
  const std::string code = code_of(source.text);
  for (const auto& include : includes_of(code)) {
    if (!include.quoted) continue;
    if (auto violation = judge_direction(source, include))
      violations.push_back(std::move(*violation));
  }
  return violations;
}

std::vector<Violation> check_libraries(const Source& source) {
  std::vector<Violation> violations;
  if (!is_cpp(source.path)) return violations;
  const std::string code = code_of(source.text);
  for (const auto& include : includes_of(code)) {
    if (include.quoted) continue;
    for (const auto& home : homes) {
      if (!matches(include.name, home.prefix) || home.welcome(source.path)) continue;
      violations.push_back({source.path, include.line,
                            fmt::format("<{}> is included here", include.name),
                            std::string(home.cure)});
    }
  }
  return violations;
}

std::vector<Violation> check_own_header(const Source& source, bool has_header) {
  const std::string code = code_of(source.text);
  if (source.path.ends_with(".h")) {
    for (const auto line : lines_of(code)) {
      if (line.find_first_not_of(' ') == std::string_view::npos) continue;
      if (line.starts_with("#pragma once")) return {};
      break;
    }
    return {{source.path, 1, "a header without #pragma once", "put it on the first line"}};
  }
  if (!source.path.ends_with(".cpp") || !has_header) return {};
  const std::string own = source.path.substr(0, source.path.size() - 4) + ".h";
  const auto includes = includes_of(code);
  if (!includes.empty() && includes.front().name == own) return {};
  return {{source.path, includes.empty() ? 0 : includes.front().line,
           "a source does not include its own header first",
           fmt::format("begin with #include \"{}\"", own)}};
}

}  // namespace cpprun::tidy
