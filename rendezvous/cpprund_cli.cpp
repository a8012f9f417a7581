#include "rendezvous/cpprund_cli.h"

#include <CLI/CLI.hpp>
#include <map>
#include <sstream>

namespace cpprun {
namespace {

constexpr int exit_usage = 2;

}  // namespace

std::variant<DaemonOptions, CommandLineEnd> parse_daemon_options(int argc, char** argv) {
  DaemonOptions options;
  CLI::App app{
      "The rendezvous daemon of cpprun: hosts the store on which the workers of a job "
      "meet.\nPyTorch clients of every version since 1.9 can use it."};
  app.name("cpprund");
  app.add_option("--host", options.host, "Address or name to listen on (default: every interface)");
  app.add_option("--port", options.port, "Port to listen on; 0 lets the system pick one")
      ->capture_default_str();
  auto* quiet = app.add_flag("--quiet", options.is_quiet, "No lines about closed clients");
  app.add_flag("--verbose", options.is_verbose, "Lines about clients that simply left, too")
      ->excludes(quiet);
  const std::map<std::string, c10d::Dialect> dialects{{"auto", c10d::Dialect::undecided},
                                                      {"1.x", c10d::Dialect::a},
                                                      {"2.1", c10d::Dialect::b},
                                                      {"2.2+", c10d::Dialect::d}};
  app.add_option("--store-dialect", options.dialect,
                 "PyTorch version of the clients, where it cannot be told from what they say")
      ->transform(CLI::CheckedTransformer(dialects).description("{auto,1.x,2.1,2.2+}"))
      ->default_str("auto");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    std::ostringstream out;
    std::ostringstream err;
    const int code = app.exit(error, out, err);
    if (code == 0) return CommandLineEnd{0, out.str()};
    return CommandLineEnd{exit_usage, "cpprund: " + err.str()};
  }
  return options;
}

}  // namespace cpprun
