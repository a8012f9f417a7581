// SPDX-License-Identifier: BSD-3-Clause
#include "rendezvous/daemon/io/set_ports.h"

#include <utility>

#include "rendezvous/client/io/link_client.h"
#include "rendezvous/etcd/io/contest_host.h"
#include "rendezvous/io/asio_loop.h"
#include "rendezvous/io/random_bytes.h"

namespace cpprun {

SetPorts ports_of(asio::io_context& context, SideProcesses& side, LeaseGuard::Say say,
                  std::function<Result<std::shared_ptr<SecureContext>>()> security) {
  using LinkPointer = std::unique_ptr<DialledLink>;
  using ContestPointer = std::unique_ptr<Contestant>;
  return {.loop = loop_of(context),
          .wall_now =
              [] {
                return std::chrono::time_point_cast<WallTime::duration>(
                    std::chrono::system_clock::now());
              },
          .link_to = [&context, security = std::move(security)](
                         const std::string& host, int port,
                         DialCallbacks callbacks) -> Result<LinkPointer> {
            auto secure = security();
            if (!secure) return tl::unexpected<Error>(secure.error());
            return std::make_unique<LinkClient>(context, host, port, std::move(callbacks),
                                                *std::move(secure));
          },
          .contest = [&context, &side, say = std::move(say)](
                         ContestOptions options, const EtcdAccess& access,
                         Contestant::Told told) -> Result<ContestPointer> {
            auto tls = open_tls(access);
            if (!tls) return tl::unexpected<Error>(tls.error());
            options.seed = random_word();
            auto guard = std::make_unique<LeaseGuard>(
                context, side, LeaseGuard::Options{access, *tls, options.keys, options.ttl}, say);
            return std::make_unique<ContestHost>(context, std::move(options), access,
                                                 *std::move(tls), std::move(told),
                                                 std::move(guard));
          }};
}

}  // namespace cpprun
