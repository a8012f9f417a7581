// SPDX-License-Identifier: BSD-3-Clause
#include "rendezvous/etcd/io/etcd_client.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <asio/buffer.hpp>
#include <asio/post.hpp>

#include <algorithm>
#include <array>
#include <cassert>
#include <cerrno>
#include <utility>

#include "proto/http/client.h"
#include "proto/secure/io/openssl_library.h"
#include "proto/text.h"
#include "rendezvous/bounds.h"
#include "rendezvous/etcd/bounds.h"
#include "rendezvous/io/file_descriptor.h"

namespace cpprun {

using Kind = etcd::Failure::Kind;

namespace {

Result<TlsIdentity::Pem> read_pem(const std::string& path) {
  if (path.empty()) return TlsIdentity::Pem{};
  const auto cannot = [&path](const std::string& why) {
    return failure(fmt::format("cannot read \"{}\" for etcd: {}", path, why));
  };
  const FileDescriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!file) return cannot(errno_text(errno));
  TlsIdentity::Pem pem{{}, path};
  std::array<char, 16 * 1024> chunk;
  while (true) {
    const ssize_t count = ::read(file.get(), chunk.data(), chunk.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return cannot(errno_text(errno));
    if (count == 0) break;
    pem.text.append(chunk.data(), static_cast<std::size_t>(count));
    if (pem.text.size() > bounds::etcd_pem_bytes_max) {
      return cannot(fmt::format("more than {} bytes", bounds::etcd_pem_bytes_max));
    }
  }
  if (pem.text.empty()) return cannot("the file is empty");
  return pem;
}

}  // namespace

Result<std::shared_ptr<SecureContext>> open_tls(const EtcdAccess& access) {
  if (std::ranges::none_of(access.endpoints, &EtcdEndpoint::is_secure)) {
    if (access.authorities_file.empty() && access.certificate_file.empty() &&
        access.key_file.empty()) {
      return std::shared_ptr<SecureContext>();
    }
    return failure(
        "certificates for etcd are given, but no etcd endpoint begins with https://, so the "
        "connection would not be encrypted");
  }
  TlsIdentity identity;
  for (const auto& [pem, path] : {std::pair{&identity.authorities, &access.authorities_file},
                                  std::pair{&identity.certificate, &access.certificate_file},
                                  std::pair{&identity.key, &access.key_file}}) {
    auto read = read_pem(*path);
    if (!read) return tl::unexpected<Error>(read.error());
    *pem = *std::move(read);
  }
  const auto openssl = open_openssl("https://");
  if (!openssl) return tl::unexpected<Error>(openssl.error());
  return SecureContext::of_certificates(*openssl, identity);
}

EtcdConnection::EtcdConnection(asio::io_context& context, EtcdEndpoint endpoint,
                               std::shared_ptr<SecureContext> tls, KnownAddresses& addresses)
    : endpoint_(std::move(endpoint)),
      tls_(std::move(tls)),
      addresses_(addresses),
      resolver_(context),
      socket_(context),
      timer_(context) {}

void EtcdConnection::ask(std::string bytes, Duration timeout, Done done) {
  assert(!done_);
  question_ = std::move(bytes);
  timeout_ = timeout;
  done_ = std::move(done);
  reader_.emplace(bounds::etcd_answer_bytes_max);
  is_asked_ = false;
  timer_.expires_after(timeout);
  timer_.async_wait(
      [self = shared_from_this(), asked = ++asked_](const asio::error_code& cancelled) {
        if (cancelled || !self->done_ || asked != self->asked_) return;
        if (self->is_connecting_) (void)self->addresses_.turn();  // for the next request
        self->fail(self->is_asked_ ? Kind::silent : Kind::unreachable, self->silence());
      });
  is_new_ = !is_connected_;
  if (is_connected_) return say();
  dial();
}

std::string EtcdConnection::silence() const {
  return fmt::format("no response within {:.1f} s: {}", in_seconds(timeout_),
                     is_asked_ ? "the member is stopped, or cut off from the other members"
                               : "packets are dropped (a firewall or a wrong address), or the name "
                                 "server is not responding");
}

// For a connection that the server closed.
std::string EtcdConnection::why_closed() const {
  if (reader_->has_begun()) return "connection closed in the middle of the response";
  return fmt::format("connection closed without a response{}",
                     is_new_ && !tls_ ? "; try https://" : "");
}

void EtcdConnection::close() {
  done_ = nullptr;
  timer_.cancel();
  drop();
}

void EtcdConnection::drop() {
  ++life_;
  asio::error_code ignored;  // there may be nothing to close
  resolver_.cancel();
  socket_.close(ignored);
  channel_.reset();
  outbox_.clear();
  is_connecting_ = is_connected_ = is_reading_ = is_writing_ = false;
}

// --- connecting ----------------------------------------------------------------------------------

void EtcdConnection::dial() {
  drop();
  asio::error_code not_literal;
  const auto address = asio::ip::make_address(endpoint_.host, not_literal);
  if (!not_literal) {
    addresses_.found = {{address, static_cast<unsigned short>(endpoint_.port)}};
  }
  if (addresses_.found.empty()) return resolve();
  connect();
}

void EtcdConnection::resolve() {
  resolver_.async_resolve(
      endpoint_.host, std::to_string(endpoint_.port), tcp::resolver::numeric_service,
      [self = shared_from_this(), life = life_](const asio::error_code& error,
                                                const tcp::resolver::results_type& results) {
        if (life != self->life_) return;
        if (error) {
          return self->fail(Kind::unreachable,
                            fmt::format("cannot resolve \"{}\" ({}); use an address, or add the "
                                        "name to /etc/hosts or DNS",
                                        self->endpoint_.host, error.message()));
        }
        for (const auto& each : results) self->addresses_.found.push_back(each.endpoint());
        self->connect();
      });
}

// Starts with the address that was reached last, and rotates. An unresponsive address uses up the
// timeout of one request; the next request tries the next address.
void EtcdConnection::connect() {
  asio::error_code ignored;  // the socket of an earlier address is obsolete
  socket_.close(ignored);
  is_connecting_ = true;
  socket_.async_connect(addresses_.found[addresses_.next],
                        [self = shared_from_this(), life = life_](const asio::error_code& error) {
                          if (life != self->life_) return;
                          self->is_connecting_ = false;
                          if (!error) return self->establish();
                          if (self->addresses_.turn()) return self->connect();
                          self->fail(Kind::unreachable, connect_error_text(error));
                        });
}

void EtcdConnection::establish() {
  asio::error_code error;
  socket_.set_option(tcp::no_delay(true), error);
  socket_.non_blocking(true, error);
  if (error) return fail(Kind::unreachable, connect_error_text(error));
  is_connected_ = true;
  if (tls_) channel_ = std::make_unique<SecureChannel>(tls_, endpoint_.host);
  say();
}

// --- request and reply ---------------------------------------------------------------------------

void EtcdConnection::say() {
  if (channel_) {
    // Data sent before the server is authenticated does not count as a request.
    is_asked_ = channel_->is_established();
    channel_->say(std::exchange(question_, {}));
    outbox_ += channel_->take_outgoing();
  } else {
    is_asked_ = true;
    outbox_ += std::exchange(question_, {});
  }
  flush();
  wait_for_bytes();
}

void EtcdConnection::flush() {
  if (is_writing_) return;
  asio::error_code error;
  while (!outbox_.empty()) {
    const std::size_t written = socket_.write_some(asio::buffer(outbox_), error);
    if (error == asio::error::would_block) break;
    // The pending read reports the error, too.
    if (error) return outbox_.clear();
    outbox_.erase(0, written);
  }
  if (outbox_.empty()) return;
  is_writing_ = true;
  socket_.async_wait(tcp::socket::wait_write,
                     [self = shared_from_this(), life = life_](const asio::error_code& cancelled) {
                       if (life != self->life_) return;
                       self->is_writing_ = false;
                       if (!cancelled) self->flush();
                     });
}

// Also while no request is pending, so that a disconnect is noticed before the next request.
void EtcdConnection::wait_for_bytes() {
  if (is_reading_) return;
  is_reading_ = true;
  socket_.async_wait(tcp::socket::wait_read,
                     [self = shared_from_this(), life = life_](const asio::error_code& cancelled) {
                       if (life != self->life_) return;
                       self->is_reading_ = false;
                       if (!cancelled) self->read();
                     });
}

void EtcdConnection::read() {
  std::array<char, bounds::link_read_bytes> chunk;
  asio::error_code error;
  const std::size_t length = socket_.read_some(asio::buffer(chunk), error);
  if (error == asio::error::would_block) return wait_for_bytes();
  if (error) {
    if (!done_) return drop();
    const bool is_end = error == asio::error::eof;
    if (is_end && reader_->end() && reader_->is_whole()) {
      return finish(Reply{reader_->status(), reader_->take_body()});
    }
    return fail(is_asked_ ? Kind::silent : Kind::unreachable,
                is_end ? why_closed() : connect_error_text(error));
  }
  if (auto taken = take({chunk.data(), length}); !taken) {
    if (!done_) return drop();
    return fail(is_asked_ ? Kind::nonsense : Kind::unreachable, taken.error().reason);
  }
  if (done_ && reader_->is_whole()) {
    const bool is_kept = reader_->is_kept();
    Reply reply{reader_->status(), reader_->take_body()};
    if (is_kept) {
      wait_for_bytes();
    } else {
      drop();
    }
    return finish(std::move(reply));
  }
  wait_for_bytes();
}

Result<void> EtcdConnection::take(std::string_view bytes) {
  if (!channel_) {
    return done_ ? reader_->hear(bytes) : failure("received data without a request");
  }
  const bool goes_on = channel_->hear(bytes);
  const std::string heard = channel_->take_heard();
  outbox_ += channel_->take_outgoing();
  flush();
  if (channel_->is_established()) is_asked_ = true;
  if (!goes_on) return failure(channel_->reason());
  if (heard.empty()) return {};
  return done_ ? reader_->hear(heard) : failure("received data without a request");
}

void EtcdConnection::fail(Kind kind, std::string why) {
  drop();
  if (done_) finish(tl::unexpected(etcd::Failure{kind, std::move(why)}));
}

void EtcdConnection::finish(Heard heard) {
  timer_.cancel();
  reader_.reset();
  const Done done = std::exchange(done_, nullptr);
  done(std::move(heard));
}

EtcdClient::EtcdClient(asio::io_context& context, const EtcdAccess& access,
                       std::shared_ptr<SecureContext> tls)
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

void EtcdClient::ask(election::Lane which, std::size_t endpoint, etcd::Request request,
                     Duration timeout, Done done) {
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
            steady_clock::now() + std::chrono::duration_cast<steady_clock::duration>(timeout),
            std::move(done)};
  go_on(at);
}

void EtcdClient::go_on(std::size_t at) {
  if (const auto needed = credentials_.needed()) {
    return post(at, *needed, [this, at](etcd::Heard heard) {
      if (heard) {
        credentials_.hear(std::get<etcd::Authenticated>(*heard));
      } else if (!credentials_.hear(heard.error())) {
        // The pending request itself was never sent, so its outcome is not in doubt.
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
