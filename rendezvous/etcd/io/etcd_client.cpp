// SPDX-License-Identifier: BSD-3-Clause
#include "rendezvous/etcd/io/etcd_client.h"

#include <algorithm>
#include <cassert>
#include <utility>

#include "proto/http/client.h"

namespace cpprun {

EtcdClient::EtcdClient(asio::io_context& context, const EtcdAccess& access,
                       std::shared_ptr<TlsClientContext> tls)
    : context_(context),
      endpoints_(access.endpoints),
      tls_(std::move(tls)),
      addresses_(access.endpoints.size()),
      credentials_(access.user, access.password) {}

EtcdClient::~EtcdClient() {
  for (const LaneState& lane : lanes_) {
    if (lane.connection) lane.connection->close();
  }
}

void EtcdClient::ask(contest::Lane which, std::size_t endpoint, etcd::Request request,
                     Duration patience, Done done) {
  const auto at = static_cast<std::size_t>(which);
  LaneState& lane = lanes_[at];
  assert(!lane.asked);
  if (!lane.connection || lane.endpoint != endpoint) {
    if (lane.connection) lane.connection->close();
    lane.endpoint = endpoint;
    lane.connection = std::make_shared<EtcdConnection>(
        context_, endpoints_[endpoint], endpoints_[endpoint].is_secure ? tls_ : nullptr,
        addresses_[endpoint]);
  }
  lane.asked =
      Asked{std::move(request),
            steady_clock::now() + std::chrono::duration_cast<steady_clock::duration>(patience),
            std::move(done)};
  go_on(at);
}

void EtcdClient::go_on(std::size_t at) {
  if (const auto needed = credentials_.needed()) {
    return post(at, *needed, [this, at](etcd::Heard heard) {
      if (heard) {
        credentials_.hear(std::get<etcd::Authenticated>(*heard));
      } else if (!credentials_.hear(heard.error())) {
        // Whatever has become of that question, the one that waited for it was not asked.
        etcd::Failure failed = heard.error();
        if (etcd::may_have_happened(failed.kind)) failed.kind = etcd::Failure::Kind::unreachable;
        return finish(at, tl::unexpected(std::move(failed)));
      }
      go_on(at);
    });
  }
  post(at, lanes_[at].asked->request, [this, at, used = credentials_.token()](etcd::Heard heard) {
    hear(at, used, std::move(heard));
  });
}

void EtcdClient::post(std::size_t at, const etcd::Request& request,
                      std::function<void(etcd::Heard)> heard) {
  LaneState& lane = lanes_[at];
  etcd::Post post = etcd::to_post(request);
  const bool asks_for_token = std::holds_alternative<etcd::Authenticate>(request);
  const http::Question question{.method = http::Method::post,
                                .target = std::string(post.path),
                                .host = host_and_port(lane.connection->endpoint()),
                                .body = std::move(post.body),
                                .authorization = asks_for_token ? "" : credentials_.token(),
                                .is_kept = true};
  const Duration left = std::max<Duration>(lane.asked->deadline - steady_clock::now(), Duration{});
  lane.connection->ask(http::to_bytes(question), left,
                       [request, heard = std::move(heard)](EtcdConnection::Heard reply) {
                         if (!reply) return heard(tl::unexpected(reply.error()));
                         heard(etcd::read_answer(request, reply->status, reply->body));
                       });
}

void EtcdClient::hear(std::size_t at, const std::string& used, etcd::Heard heard) {
  Asked& asked = *lanes_[at].asked;
  if (!heard && !asked.is_second && credentials_.may_ask_again(heard.error(), used)) {
    asked.is_second = true;
    return go_on(at);
  }
  finish(at, std::move(heard));
}

void EtcdClient::finish(std::size_t at, etcd::Heard heard) {
  const Done done = std::move(lanes_[at].asked->done);
  lanes_[at].asked.reset();
  done(std::move(heard));
}

}  // namespace cpprun
