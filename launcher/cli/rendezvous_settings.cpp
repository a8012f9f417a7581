// SPDX-License-Identifier: BSD-3-Clause
#include "launcher/cli/rendezvous_settings.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <limits>
#include <string_view>

#include "launcher/cli/settings.h"
#include "launcher/plan/meeting_place.h"
#include "proto/text.h"
#include "rendezvous/command_line.h"
#include "rendezvous/endpoint.h"
#include "rendezvous/etcd/bounds.h"
#include "rendezvous/job/bounds.h"

namespace cpprun {

namespace {

constexpr int static_port = 29500;
// torchrun's default for static rendezvous; cluster queues can be long.
constexpr auto static_join_timeout = std::chrono::seconds(900);

// Fills in the Config field by field, in order of dependence: sizes, then how nodes meet.
class Checker {
 public:
  Checker(SettingReader& reader, const std::string& random_id, Config& config)
      : reader_(reader), random_id_(random_id), config_(config) {}

  void check() {
    const auto& flags = reader_.flags();
    if (flags.nnodes.value) {
      config_.nodes_min = flags.nnodes.value->lowest;
      config_.nodes_max = flags.nnodes.value->highest;
    }
    const bool nodes_known = flags.nnodes.value || !flags.nnodes.given;
    config_.node_rank = flags.node_rank.value;
    if (config_.node_rank && *config_.node_rank >= config_.nodes_max && nodes_known) {
      reader_.report_error(flags.node_rank, "={} is too large: the job has {} nodes, ranks 0 to {}",
                           *config_.node_rank, config_.nodes_max, config_.nodes_max - 1);
    }
    read_timeouts();
    read_meeting();
    read_standby();
  }

 private:
  void read_timeouts() {
    const auto& conf = reader_.flags().rdzv_conf;
    std::vector<std::string> diagnostics;
    const auto from_conf =
        conf.value ? read_rendezvous_conf(*conf.value, conf.source, diagnostics) : Timeouts{};
    for (auto& error : diagnostics) reader_.report_sentence(conf, std::move(error));
    if (backend() == "static") config_.join_timeout = static_join_timeout;
    config_.join_timeout = from_conf.join_timeout.value_or(config_.join_timeout);
    config_.keep_alive_interval =
        from_conf.keep_alive_interval.value_or(config_.keep_alive_interval);
    config_.keep_alive_attempts_max =
        from_conf.keep_alive_attempts.value_or(config_.keep_alive_attempts_max);
    config_.last_call = from_conf.last_call_timeout.value_or(config_.last_call);
    config_.is_host = from_conf.is_host;
    etcd_ = from_conf.etcd;
    etcd_protocol_ = from_conf.etcd_protocol;
    if (config_.lease() >= bounds::lease_min) return;
    reader_.report_error(
        conf,
        ": keep_alive_interval={} times keep_alive_max_attempt={} is a lease of {} s, "
        "below the minimum of {} s",
        in_seconds(config_.keep_alive_interval), config_.keep_alive_attempts_max,
        in_seconds(config_.lease()), in_seconds(bounds::lease_min));
  }

  // Of two nodes the survivor has no majority. In a job of fixed size the next round would wait for
  // the replacement of the lost node, which only knows the address of the coordinator.
  void read_standby() {
    const auto& standby = reader_.flags().standby;
    if (!standby.value) return;
    if (*standby.value != "auto" && *standby.value != "none") {
      reader_.report_error(standby, "={} is neither auto nor none", *standby.value);
    }
    config_.standby = *standby.value == "auto";
    if (!config_.standby || config_.may_have_standby()) return;
    if (config_.etcd) {
      return reader_.note(
          standby,
          "=auto has no effect: with etcd, another node always takes over from a lost leader");
    }
    if (config_.meets_at_a_set()) {
      return reader_.note(standby,
                          "=auto has no effect: another cpprund of the cluster, not a node, takes "
                          "over from a lost leader");
    }
    reader_.note(
        standby,
        "=auto has no effect: it needs an elastic job of {} nodes or more, such as --nnodes=2:{}",
        bounds::standby_nodes_min, bounds::standby_nodes_min);
  }

  // A list of endpoints means several cpprunds, which are used as with c10d.
  std::string backend() const {
    return reader_.flags().rdzv_backend.value.value_or(names_a_set() ? "c10d" : "static");
  }

  bool names_a_set() const {
    const auto place = endpoint();
    return place && place->find(',') != std::string::npos;
  }

  // nullopt if empty, which is torchrun's default.
  std::optional<std::string> endpoint() const {
    const auto& given = reader_.flags().rdzv_endpoint.value;
    return given && !given->empty() ? given : std::nullopt;
  }

  // Chooses the rendezvous by torchrun's rules, but keeps an explicitly given job id.
  void read_meeting() {
    const auto& flags = reader_.flags();
    const auto name = backend();
    const bool one_node = config_.nodes_max == 1;
    const bool by_etcd = name == "etcd" || name == "etcd-v2";
    if (!by_etcd && name != "static" && name != "c10d") {
      reader_.report_error(flags.rdzv_backend,
                           "={} is not a rendezvous backend\n  hint: use static, c10d or etcd",
                           name);
    }
    const bool wants_etcd = etcd_ != EtcdMeeting{} || !etcd_protocol_.empty();
    if (!by_etcd && wants_etcd && !is_beaten(flags.rdzv_conf, "etcd keys")) {
      reader_.report_error(flags.rdzv_conf,
                           ": protocol, cacert, cert, key, user, password_file, etcd_prefix and "
                           "etcd_lease need --rdzv-backend=etcd, not {}",
                           name);
    }
    if (is_on(flags.standalone)) {
      if (!one_node) {
        reader_.report_error(
            flags.standalone,
            " runs a single node, but {}={} needs more\n  hint: use only one of them",
            flags.nnodes.source, config_.nodes_max);
      }
      ignore(flags.rdzv_endpoint, "with --standalone");
      ignore(flags.master_addr, "with --standalone");
      ignore(flags.master_port, "with --standalone");
      stand_alone();
    } else if (by_etcd) {
      meet_by_etcd(name);
    } else if (name == "c10d" && !one_node && !endpoint()) {
      reader_.report_error(
          flags.rdzv_backend,
          "=c10d with {} nodes needs --rdzv-endpoint=HOST[:PORT], the same on every "
          "node",
          config_.nodes_max);
    } else if (one_node && !endpoint() && (name == "c10d" || !flags.master_port.given)) {
      stand_alone();
    } else {
      meet_at(name == "c10d");
    }
    if (config_.is_host == false && config_.rendezvous == RendezvousMode::standalone &&
        !drops_is_host()) {
      reader_.report_error(
          flags.rdzv_conf,
          ": is_host=false, but a single node must host its own rendezvous\n  hint: "
          "remove is_host, "
          "or set the host with --rdzv-endpoint");
    }
    config_.job = flags.rdzv_id.value.value_or(config_.job);
    config_.local_addr = flags.local_addr.value;
  }

  void stand_alone() {
    config_.rendezvous = RendezvousMode::standalone;
    config_.endpoint = {"127.0.0.1", 0};
    config_.job = random_id_;
  }

  void meet_at(bool by_endpoint) {
    const auto& flags = reader_.flags();
    config_.rendezvous = by_endpoint ? RendezvousMode::endpoint : RendezvousMode::fixed_master;
    config_.endpoint = {flags.master_addr.value.value_or("127.0.0.1"),
                        flags.master_port.value.value_or(static_port)};
    const auto place = endpoint();
    if (names_a_set()) return meet_at_a_set(*place);
    if (place) {
      ignore_master();
      const auto parsed =
          parse_endpoint(*place, by_endpoint ? rendezvous_port_default : static_port);
      if (!parsed) return reader_.report_error(flags.rdzv_endpoint, ": {}", parsed.error().reason);
      config_.endpoint = *parsed;
      config_.place_by_endpoint = true;
    }
    if (config_.endpoint.port != 0) return;
    if (config_.nodes_max == 1) return stand_alone();
    place ? refuse_any_port(flags.rdzv_endpoint) : refuse_any_port(flags.master_port);
  }

  // The coordinator runs in a cluster of cpprunds, not on a node.
  void meet_at_a_set(const std::string& text) {
    const auto& flags = reader_.flags();
    ignore_master();
    const auto places = parse_endpoints(text, rendezvous_port_default);
    if (!places) return reader_.report_error(flags.rdzv_endpoint, ": {}", places.error().reason);
    config_.rendezvous = RendezvousMode::endpoint;
    config_.places = *places;
    config_.endpoint = places->front();
    config_.place_by_endpoint = true;
    if (backend() == "static") {
      reader_.report_error(
          flags.rdzv_backend,
          "=static needs a single endpoint, but {} lists {} cpprunds\n  hint: use one "
          "endpoint, or --rdzv-backend=c10d",
          flags.rdzv_endpoint.source, places->size());
    }
    if (config_.is_host == true && !drops_is_host()) {
      reader_.report_error(
          flags.rdzv_conf,
          ": is_host=true, but the rendezvous is hosted by one of the {} cpprunds in {}\n"
          "  hint: remove is_host, or set the endpoint to this machine only",
          places->size(), flags.rdzv_endpoint.source);
    }
    const auto is_any = [](const Endpoint& each) { return each.port == 0; };
    if (std::ranges::any_of(*places, is_any)) refuse_any_port(flags.rdzv_endpoint);
  }

  // Any node may host the coordinator; etcd stores which one does.
  void meet_by_etcd(const std::string& name) {
    const auto& flags = reader_.flags();
    ignore_master();
    const auto place = endpoint();
    if (!place) {
      return reader_.report_error(
          flags.rdzv_backend, "={} needs --rdzv-endpoint=HOST[:PORT],... with the members of etcd",
          name);
    }
    const auto members = etcd_endpoints(*place, etcd_protocol_ == "https");
    if (!members) return reader_.report_error(flags.rdzv_endpoint, ": {}", members.error().reason);
    config_.rendezvous = RendezvousMode::endpoint;
    config_.endpoint = members->first;
    config_.place_by_endpoint = true;
    config_.etcd = etcd_;
    config_.etcd->endpoints = members->all;
    if (etcd_.certificate_file.empty() != etcd_.key_file.empty()) {
      reader_.report_error(flags.rdzv_conf,
                           ": cert and key must be used together, but {} is missing",
                           etcd_.key_file.empty() ? "key" : "cert");
    }
    if (etcd_.user.empty() != etcd_.password_file.empty()) {
      reader_.report_error(flags.rdzv_conf,
                           ": user and password_file must be used together, but {} is missing",
                           etcd_.user.empty() ? "user" : "password_file");
    }
    if (config_.is_host && !drops_is_host()) {
      reader_.report_error(
          flags.rdzv_conf,
          ": is_host={}, but etcd elects the node that hosts the rendezvous\n  hint: "
          "remove is_host",
          *config_.is_host);
    }
  }

  // Whether a stronger setting than --rdzv-conf defines how nodes meet. If so, adds a note that
  // `what` from the conf is ignored.
  bool is_beaten(const Flag<std::string>& conf, std::string_view what) {
    const auto& flags = reader_.flags();
    std::string stronger;
    const auto look = [&](const auto& flag) {
      if (stronger.empty() && flag.given && flag.origin > conf.origin) stronger = flag.source;
    };
    look(flags.standalone);
    look(flags.rdzv_backend);
    look(flags.rdzv_endpoint);
    look(flags.nnodes);
    if (stronger.empty()) return false;
    reader_.note(
        fmt::format("note: {}: {} is ignored: {} takes precedence", conf.source, what, stronger));
    return true;
  }

  bool drops_is_host() {
    if (!is_beaten(reader_.flags().rdzv_conf, "is_host")) return false;
    config_.is_host.reset();
    return true;
  }

  void ignore_master() {
    const auto& flags = reader_.flags();
    const auto why = fmt::format("{} takes precedence", flags.rdzv_endpoint.source);
    if (flags.master_addr.given) reader_.note(flags.master_addr, " is ignored: {}", why);
    if (flags.master_port.given) reader_.note(flags.master_port, " is ignored: {}", why);
  }

  template <class T>
  void refuse_any_port(const Flag<T>& flag) {
    reader_.report_error(
        flag,
        ": port 0 means any free port, which the other nodes cannot know\n  hint: use "
        "a fixed port");
  }

  template <class T>
  void ignore(const Flag<T>& flag, std::string_view why) {
    if (flag.given) reader_.note(flag, " is ignored {}", why);
  }

  SettingReader& reader_;
  const std::string& random_id_;
  Config& config_;
  EtcdMeeting etcd_;
  std::string etcd_protocol_;
};

}  // namespace

void read_rendezvous_settings(SettingReader& reader, const std::string& random_id, Config& config) {
  Checker(reader, random_id, config).check();
}

namespace {

// A lease is the interval times the attempts. The lease and the last call are sent as int
// milliseconds, which these limits keep in range.
constexpr double seconds_max = 2'000'000;
constexpr double interval_seconds_max = 20'000;
constexpr int attempts_max = 100;
// A shorter heartbeat interval would only add load.
constexpr double seconds_min = 0.01;

// Keys of torchrun that have no effect here: the coordinator does not poll and has no phases that
// time out.
constexpr std::array<std::string_view, 4> without_effect = {"close_timeout", "heartbeat_timeout",
                                                            "read_timeout", "use_libuv"};

template <class N>
std::optional<N> between(N least, N most, std::string_view text) {
  const auto number = exact_number<N>(text);
  // Written so that NaN fails the check.
  return number && *number >= least && *number <= most ? number : std::nullopt;
}

struct TimeRange {
  double least;
  double most;
};
TimeRange range_of(std::string_view key) {
  if (key == "keep_alive_interval") return {seconds_min, interval_seconds_max};
  if (key == "etcd_lease") {
    return {static_cast<double>(bounds::etcd_lease_min.count()),
            static_cast<double>(bounds::etcd_lease_max.count())};
  }
  return {seconds_min, seconds_max};
}

// The member that a key with a duration sets; null for any other key.
std::optional<Duration>* time_named(std::string_view key, Timeouts& timeouts) {
  if (key == "etcd_lease") return &timeouts.etcd.lease;
  if (key == "keep_alive_interval") return &timeouts.keep_alive_interval;
  if (key == "last_call_timeout") return &timeouts.last_call_timeout;
  // Static rendezvous calls it `timeout`.
  if (key == "join_timeout" || key == "timeout") return &timeouts.join_timeout;
  return nullptr;
}

// The member that an etcd key with a text sets; accepts the names used by etcd and by etcd-v2. Null
// for any other key.
std::string* word_named(std::string_view key, Timeouts& timeouts) {
  EtcdMeeting& etcd = timeouts.etcd;
  if (key == "protocol") return &timeouts.etcd_protocol;
  if (key == "cacert" || key == "ca_cert") return &etcd.authorities_file;
  if (key == "cert" || key == "ssl_cert") return &etcd.certificate_file;
  if (key == "key" || key == "ssl_cert_key") return &etcd.key_file;
  if (key == "etcd_prefix") return &etcd.prefix;
  if (key == "user") return &etcd.user;
  if (key == "password_file") return &etcd.password_file;
  return nullptr;
}

void read_pair(std::string_view key, std::string_view value, const std::string& source,
               Timeouts& timeouts, std::vector<std::string>& diagnostics) {
  if (auto* const time = time_named(key, timeouts)) {
    const auto [least, most] = range_of(key);
    const auto seconds = between(least, most, value);
    if (!seconds) {
      diagnostics.push_back(fmt::format("{}: {}={} is not a number of seconds from {} to {:.0f}",
                                        source, key, value, least, most));
    } else if (key != "timeout" || !*time) {  // join_timeout overrides timeout
      *time = std::chrono::round<Duration>(std::chrono::duration<double>(*seconds));
    }
    return;
  }
  if (key == "keep_alive_max_attempt") {
    timeouts.keep_alive_attempts = between(1, attempts_max, value);
    if (!timeouts.keep_alive_attempts) {
      diagnostics.push_back(fmt::format("{}: {}={} is not a whole number from 1 to {}", source, key,
                                        value, attempts_max));
    }
    return;
  }
  if (key == "is_host") {
    timeouts.is_host = yes_or_no(value);
    if (!timeouts.is_host) {
      diagnostics.push_back(fmt::format("{}: is_host={} is neither true nor false", source, value));
    }
    return;
  }
  if (auto* const word = word_named(key, timeouts)) {
    *word = value;
    if (key == "protocol" && value != "http" && value != "https") {
      diagnostics.push_back(
          fmt::format("{}: protocol={} is neither http nor https", source, value));
    }
    return;
  }
  if (key == "cas_backoff_max_seconds") {
    // torchrun waits up to this long after a lost compare-and-set; cpprun's rendezvous has none.
    if (!between(0.0, std::numeric_limits<double>::max(), value)) {
      diagnostics.push_back(
          fmt::format("{}: {}={} is not a number of seconds, 0 or more", source, key, value));
    }
    return;
  }
  const bool has_no_effect = std::ranges::find(without_effect, key) != without_effect.end();
  if (has_no_effect || (key == "store_type" && value == "tcp")) return;
  if (key == "rank") {
    diagnostics.push_back(fmt::format(
        "{}: rank={} is not supported here\n  hint: use --node-rank={}", source, value, value));
  } else if (key == "store_type") {
    diagnostics.push_back(
        fmt::format("{}: unsupported store_type \"{}\" (only tcp)", source, value));
  } else {
    diagnostics.push_back(fmt::format(
        "{}: unknown key \"{}\" (valid: join_timeout, timeout, last_call_timeout, "
        "keep_alive_interval, keep_alive_max_attempt, is_host; for etcd also protocol, cacert, "
        "cert, "
        "key, user, password_file, etcd_prefix, etcd_lease; other keys of torchrun have no effect)",
        source, key));
  }
}

}  // namespace

Timeouts read_rendezvous_conf(std::string_view text, const std::string& source,
                              std::vector<std::string>& diagnostics) {
  Timeouts timeouts;
  std::string_view rest = text;
  while (!trimmed(rest).empty()) {
    const auto comma = rest.find(',');
    const auto pair = trimmed(rest.substr(0, comma));
    rest = comma == std::string_view::npos ? std::string_view{} : rest.substr(comma + 1);
    const auto equals = pair.find('=');
    const auto key = trimmed(pair.substr(0, equals));
    const auto value =
        equals == std::string_view::npos ? std::string_view{} : trimmed(pair.substr(equals + 1));
    if (key.empty() || value.empty()) {
      diagnostics.push_back(
          fmt::format("{}: \"{}\" is not key=value, such as join_timeout=600", source, pair));
      continue;
    }
    read_pair(key, value, source, timeouts, diagnostics);
  }
  return timeouts;
}

}  // namespace cpprun
