// SPDX-License-Identifier: BSD-3-Clause
#include "launcher/cli/secret_settings.h"

#include "rendezvous/secret_place.h"

namespace cpprun {

namespace {

bool is_required(SettingReader& reader) {
  const auto required = secret_required(reader.environment());
  if (!required) reader.complain_whole(reader.flags().secret_file, required.error().reason);
  return required.value_or(false);
}

StoreWay store_way(SettingReader& reader) {
  const auto& kind = reader.flags().store;
  if (!kind.value) return StoreWay::automatic;
  if (*kind.value == "local") return StoreWay::local;
  if (*kind.value != "direct") {
    reader.complain(kind,
                    "={} is neither local (workers reach the store through cpprun of their own "
                    "node, the default with a secret) nor direct (they connect to the master, the "
                    "default without one)",
                    *kind.value);
  }
  return StoreWay::direct;
}

}  // namespace

void read_secret_settings(SettingReader& reader, Config& config) {
  const auto& flags = reader.flags();
  config.secret_file = flags.secret_file.value.value_or("");
  config.insecure = is_on(flags.insecure);
  config.store = store_way(reader);
  config.require_secret = is_required(reader);
  if (!config.insecure) return;
  if (config.require_secret) {
    reader.complain(flags.insecure,
                    " wants no word about a job without a secret, and CPPRUN_REQUIRE_SECRET=1 "
                    "refuses such a job; leave one of them out");
  } else if (!config.secret_file.empty()) {
    reader.note(flags.insecure, " has no effect, {} names a secret", flags.secret_file.source);
  }
}

}  // namespace cpprun
