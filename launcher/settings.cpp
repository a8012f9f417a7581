#include "launcher/settings.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <csignal>
#include <cstdlib>
#include <limits>
#include <utility>

#include "launcher/rendezvous_conf.h"
#include "launcher/signal_names.h"
#include "proto/bounds.h"

namespace cpprun {

namespace {

constexpr int count_max = std::numeric_limits<int>::max();
constexpr int static_port = 29500;
constexpr int port_max = 65535;
constexpr std::string_view default_signals = "SIGTERM,SIGINT,SIGHUP,SIGQUIT";
constexpr int endpoint_port = 29400;  // c10d's, where the endpoint names none
// Static rendezvous has always been this patient under torchrun, and queues in clusters are long.
constexpr auto static_join_timeout = std::chrono::seconds(900);

std::vector<std::string_view> split(std::string_view text, char between) {
  std::vector<std::string_view> parts;
  while (true) {
    const auto at = text.find(between);
    parts.push_back(text.substr(0, at));
    if (at == std::string_view::npos) return parts;
    text = text.substr(at + 1);
  }
}

std::optional<int> whole_number(std::string_view text) {
  int number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return number;
}

// Fills in the Config field by field. The order is that of dependence: sizes, then how nodes meet.
class Checker {
 public:
  Checker(const Settings& settings, const CommandLine& line, std::vector<std::string>& mistakes)
      : settings_(settings), line_(line), mistakes_(mistakes) {}

  Config check() {
    check_sizes();
    check_patience();
    check_meeting();
    check_program();
    check_logs();
    check_signals();
    check_without_effect();
    refuse_what_is_not_there();
    return std::move(config_);
  }

 private:
  void check_sizes() {
    read_nodes();
    read_workers();
    config_.node_rank = number("node-rank", 0, count_max);
    if (config_.node_rank && *config_.node_rank >= config_.nodes_max && nodes_known_) {
      complain("{}={} is beyond the last of {} nodes, which has rank {}", source("node-rank"),
               *config_.node_rank, config_.nodes_max, config_.nodes_max - 1);
    }
    config_.restarts_max = number("max-restarts", 0, count_max).value_or(0);
    if (const auto* role = settings_.find("role")) config_.role = role->value;
  }

  void read_nodes() {
    const auto* nodes = settings_.find("nnodes");
    if (nodes == nullptr) return;
    const auto parts = split(nodes->value, ':');
    const auto lowest = whole_number(parts.front());
    const auto highest = whole_number(parts.back());
    if (parts.size() > 2 || !lowest || !highest || *lowest < 1 || *highest < *lowest) {
      nodes_known_ = false;
      return complain("{}={} is neither a number of nodes, as 2, nor a range, as 2:4",
                      nodes->source, nodes->value);
    }
    config_.nodes_min = *lowest;
    config_.nodes_max = *highest;
  }

  void read_workers() {
    const auto* workers = settings_.find("nproc-per-node");
    if (workers == nullptr) return;
    const auto& value = workers->value;
    if (value == "cpu") {
      config_.local_world_size = line_.cpu_count;
    } else if (value == "auto") {
      config_.local_world_size = line_.device_count > 0 ? line_.device_count : line_.cpu_count;
    } else if (value == "gpu") {
      config_.local_world_size = line_.device_count;
      if (line_.device_count == 0) {
        complain(
            "{}=gpu finds no GPU on this machine (no /dev/nvidia0, or CUDA_VISIBLE_DEVICES "
            "hides them); give a number, or auto",
            workers->source);
      }
    } else if (const auto count = whole_number(value);
               count && *count >= 1 && *count <= bounds::local_world_size_max) {
      config_.local_world_size = *count;
    } else {
      complain("{}={} is neither a number from 1 to {} nor cpu, gpu or auto", workers->source,
               value, bounds::local_world_size_max);
    }
  }

  void check_patience() {
    const auto* conf = settings_.find("rdzv-conf");
    const auto patience =
        conf == nullptr ? Patience{} : read_rendezvous_conf(conf->value, conf->source, mistakes_);
    const auto* backend = settings_.find("rdzv-backend");
    if (backend == nullptr || backend->value == "static") {
      config_.join_timeout = static_join_timeout;
    }
    config_.join_timeout = patience.join_timeout.value_or(config_.join_timeout);
    config_.keep_alive_interval =
        patience.keep_alive_interval.value_or(config_.keep_alive_interval);
    config_.keep_alive_attempts_max =
        patience.keep_alive_attempts.value_or(config_.keep_alive_attempts_max);
    config_.last_call = patience.last_call_timeout.value_or(config_.last_call);
    config_.is_host = patience.is_host;

    constexpr std::string_view grace_variable = "TORCH_ELASTIC_SHUTDOWN_TIMEOUT";
    if (const auto seconds = number("shutdown-timeout", 0, count_max)) {
      config_.grace = std::chrono::seconds(*seconds);
    } else if (const auto* text = find_variable(line_.environment, grace_variable)) {
      const auto given = whole_number(*text);
      if (given && *given >= 0) config_.grace = std::chrono::seconds(*given);
      if (!given || *given < 0) {
        complain("{}={} is not a number of seconds from 0", grace_variable, *text);
      }
    }
  }

  // torchrun-behaviour §1.5, and design decision: a job id that was given is kept.
  void check_meeting() {
    const auto* backend = settings_.find("rdzv-backend");
    const auto name = backend == nullptr ? std::string("static") : backend->value;
    const bool one_node = config_.nodes_max == 1;
    const auto* endpoint = settings_.find("rdzv-endpoint");
    if (name == "etcd" || name == "etcd-v2") {
      complain("{}={} is not there; cpprun hosts its own store, leave the flag out",
               backend->source, name);
    } else if (name != "static" && name != "c10d") {
      complain("{}={} is no rendezvous; static and c10d are", backend->source, name);
    }
    if (settings_.has("standalone")) {
      if (!one_node) {
        complain("{} is one node by itself, and {}={} asks for more; leave one of them out",
                 source("standalone"), source("nnodes"), config_.nodes_max);
      }
      for (const char* unused : {"rdzv-endpoint", "master-addr", "master-port"}) {
        if (settings_.has(unused)) note("{} is ignored with --standalone", source(unused));
      }
      stand_alone();
    } else if (name == "c10d" && !one_node && endpoint == nullptr) {
      complain("{}=c10d with {} nodes needs --rdzv-endpoint=HOST[:PORT], the same on every node",
               backend->source, config_.nodes_max);
    } else if (one_node && endpoint == nullptr &&
               (name == "c10d" || !settings_.has("master-port"))) {
      stand_alone();
    } else {
      meet_at(endpoint, name == "c10d");
    }
    if (const auto* id = settings_.find("rdzv-id")) config_.job = id->value;
    if (const auto* address = settings_.find("local-addr")) {
      config_.local_addr = host(*address);
    }
  }

  void stand_alone() {
    config_.rendezvous = RendezvousMode::standalone;
    config_.endpoint = {"127.0.0.1", 0};
    config_.job = line_.random_id;
  }

  void meet_at(const Setting* endpoint, bool by_endpoint) {
    config_.rendezvous = by_endpoint ? RendezvousMode::endpoint : RendezvousMode::fixed_master;
    config_.endpoint = {"127.0.0.1", static_port};
    if (const auto* address = settings_.find("master-addr")) config_.endpoint.host = host(*address);
    if (const auto port = number("master-port", 0, port_max)) config_.endpoint.port = *port;
    if (endpoint != nullptr) {
      for (const char* unused : {"master-addr", "master-port"}) {
        if (settings_.has(unused))
          note("{} is ignored, {} says where", source(unused), endpoint->source);
      }
      const auto parsed =
          parse_endpoint(endpoint->value, by_endpoint ? endpoint_port : static_port);
      if (!parsed) return complain("{}: {}", endpoint->source, parsed.error().reason);
      config_.endpoint = *parsed;
    }
    if (config_.endpoint.port != 0) return;
    if (config_.nodes_max == 1) return stand_alone();
    complain("{}: port 0 means any free one, which the other nodes could not know; give a number",
             endpoint != nullptr ? endpoint->source : source("master-port"));
  }

  std::string host(const Setting& setting) {
    const auto parsed = parse_host(setting.value);
    if (!parsed) complain("{}: {}", setting.source, parsed.error().reason);
    return parsed.value_or("");
  }

  void check_program() {
    const bool module = settings_.has("module");
    if (module && settings_.has("no-python")) {
      complain("{} and {} exclude each other; leave one of them out", source("module"),
               source("no-python"));
    }
    config_.program.kind = module                       ? ProgramKind::module
                           : settings_.has("no-python") ? ProgramKind::no_python
                                                        : ProgramKind::automatic;
  }

  void check_logs() {
    if (const auto* folder = settings_.find("log-dir")) {
      config_.logs.disabled = folder->value == "/dev/null";
      if (!config_.logs.disabled) config_.logs.root = folder->value;
    }
    config_.logs.redirects = streams("redirects");
    config_.logs.tee = streams("tee");
    if (const auto* filter = settings_.find("local-ranks-filter")) {
      config_.logs.console_ranks = ranks(*filter);
    }
    const auto* prefix = find_variable(line_.environment, "TORCHELASTIC_LOG_LINE_PREFIX_TEMPLATE");
    if (prefix != nullptr) config_.logs.prefix_template = *prefix;
  }

  StreamChoices streams(std::string_view flag) {
    const auto* setting = settings_.find(flag);
    if (setting == nullptr) return {};
    auto parsed = parse_stream_choices(setting->value);
    if (!parsed) complain("{}: {}", setting->source, parsed.error().reason);
    return parsed.value_or(StreamChoices{});
  }

  std::vector<int> ranks(const Setting& setting) {
    std::vector<int> result;
    for (const auto part : split(setting.value, ',')) {
      const auto rank = whole_number(part);
      if (!rank || *rank < 0) {
        complain("{}={} is not a list of local ranks, as 0,2", setting.source, setting.value);
        return {};
      }
      result.push_back(*rank);
    }
    return result;
  }

  void check_signals() {
    const auto* wanted = settings_.find("signals-to-handle");
    config_.signals_text = wanted == nullptr ? std::string(default_signals) : wanted->value;
    for (auto name : split(config_.signals_text, ',')) {
      while (name.starts_with(' ')) name.remove_prefix(1);
      while (name.ends_with(' ')) name.remove_suffix(1);
      if (name.empty()) continue;
      const auto signal = signal_number(name);
      // As torchrun: a name that this system does not know is worth a word, not the job.
      if (!signal || *signal == SIGKILL || *signal == SIGSTOP || *signal == SIGCHLD) {
        note("{} cannot be handled and is left out of --signals-to-handle", name);
      } else if (std::find(config_.signals.begin(), config_.signals.end(), *signal) ==
                 config_.signals.end()) {
        config_.signals.push_back(*signal);
      }
    }
  }

  void check_without_effect() {
    if (const auto* interval = settings_.find("monitor-interval")) {
      char* end = nullptr;
      const double seconds = std::strtod(interval->value.c_str(), &end);
      if (interval->value.empty() || *end != '\0' || !(seconds > 0)) {
        complain("{}={} is not a number of seconds above 0", interval->source, interval->value);
      } else if (seconds != 0.1) {
        note("{} has no effect: cpprun does not poll, it is told at once", interval->source);
      }
    }
    if (const auto* method = settings_.find("start-method")) {
      const auto& value = method->value;
      if (value != "spawn" && value != "fork" && value != "forkserver") {
        complain("{}={} is none of spawn, fork, forkserver", method->source, value);
      } else if (value != "spawn") {
        note("{} has no effect: workers are always executed as programs", method->source);
      }
    }
  }

  void refuse_what_is_not_there() {
    if (settings_.has("run-path")) {
      complain(
          "{} runs a script inside a Python launcher, and there is none in cpprun; leave it out",
          source("run-path"));
    }
    if (settings_.has("virtual-local-rank")) {
      complain("{} is not there yet; leave it out", source("virtual-local-rank"));
    }
    refuse_unless("numa-binding", {});
    refuse_unless("logs-specs", {"default"});
    refuse_unless("event-log-handler", {"null", "dynamic_rendezvous"});
    refuse_unless("duplicate-stdout-filters", {""});
    refuse_unless("duplicate-stderr-filters", {""});
  }

  void refuse_unless(std::string_view flag, std::initializer_list<std::string_view> harmless) {
    const auto* setting = settings_.find(flag);
    if (setting == nullptr) return;
    if (std::find(harmless.begin(), harmless.end(), setting->value) != harmless.end()) return;
    complain("{}={} is not there yet; leave it out", setting->source, setting->value);
  }

  std::optional<int> number(std::string_view flag, int lowest, int highest) {
    const auto* setting = settings_.find(flag);
    if (setting == nullptr) return std::nullopt;
    const auto value = whole_number(setting->value);
    if (value && *value >= lowest && *value <= highest) return value;
    if (highest == count_max) {
      complain("{}={} is not a whole number from {}", setting->source, setting->value, lowest);
    } else {
      complain("{}={} is not a whole number from {} to {}", setting->source, setting->value, lowest,
               highest);
    }
    return std::nullopt;
  }

  std::string source(std::string_view flag) const {
    const auto* setting = settings_.find(flag);
    return setting == nullptr ? fmt::format("--{}", flag) : setting->source;
  }

  template <class... Values>
  void complain(fmt::format_string<Values...> text, Values&&... values) {
    mistakes_.push_back(fmt::format(text, std::forward<Values>(values)...));
  }

  template <class... Values>
  void note(fmt::format_string<Values...> text, Values&&... values) {
    config_.notes.push_back(fmt::format(text, std::forward<Values>(values)...));
  }

  const Settings& settings_;
  const CommandLine& line_;
  std::vector<std::string>& mistakes_;
  Config config_;
  bool nodes_known_ = true;
};

}  // namespace

Config config_of(const Settings& settings, const CommandLine& line,
                 std::vector<std::string>& mistakes) {
  return Checker(settings, line, mistakes).check();
}

}  // namespace cpprun
