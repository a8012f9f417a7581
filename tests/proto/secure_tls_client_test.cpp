// SPDX-License-Identifier: BSD-3-Clause
#include "proto/secure/tls.h"

#include <doctest/doctest.h>

#include "tests/proto/secure_certificates.h"
#include "tests/proto/secure_pair.h"

namespace secure_tls_client_test {

using namespace cpprun;
using namespace cpprun::test;

namespace {

const Certified& authority() {
  static const Certified made = certify("a CA");
  return made;
}
const Certified& unidentified() {
  static const Certified made = certify("another CA");
  return made;
}

std::shared_ptr<SecureContext> trusting(const Certified& one, const Certified* own = nullptr) {
  TlsIdentity identity{.authorities = {one.certificate_pem(), "ca.pem"}};
  if (own != nullptr) {
    identity.certificate = {own->certificate_pem(), "client.pem"};
    identity.key = {own->key_pem(), "client.key"};
  }
  auto made = SecureContext::of_certificates(openssl(), identity);
  REQUIRE_MESSAGE(made.has_value(), made.error().reason);
  return *made;
}

void exchange(SecureChannel& client, TlsServer& server) {
  while (true) {
    const std::string there = client.take_outgoing();
    const std::string back = server.take_outgoing();
    if (there.empty() && back.empty()) return;
    if (!there.empty()) server.hear(there);
    if (!back.empty()) client.hear(back);
  }
}

// Why the client rejects a server with that certificate; "" if it accepts it.
std::string why(const Certified& shown, const std::string& host) {
  TlsServer server(shown);
  SecureChannel client(trusting(authority()), host);
  exchange(client, server);
  CHECK(client.is_established() == client.reason().empty());
  return client.reason();
}

std::string why_not_made(const TlsIdentity& identity) {
  const auto made = SecureContext::of_certificates(openssl(), identity);
  return made ? "" : made.error().reason;
}

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("data is delivered only after the server has authenticated") {
  const Certified own = certify("etcd", "DNS:etcd.example,IP:127.0.0.1", &authority());
  TlsServer server(own);
  SecureChannel client(trusting(authority()), "etcd.example");
  CHECK(client.say("hello "));
  CHECK(client.say("there"));
  CHECK_FALSE(client.is_established());
  exchange(client, server);
  REQUIRE(client.is_established());
  CHECK(server.heard() == "hello there");
  CHECK(server.asked_name() == "etcd.example");
  server.say(std::string(100'000, 'x'));
  exchange(client, server);
  CHECK(client.take_heard() == std::string(100'000, 'x'));
  CHECK_FALSE(client.is_finished());
  server.finish();
  exchange(client, server);
  CHECK(client.is_finished());
  CHECK(client.reason().empty());
}

TEST_CASE("bytes may be cut anywhere") {
  const Certified own = certify("etcd", "DNS:etcd.example", &authority());
  TlsServer server(own);
  SecureChannel client(trusting(authority()), "etcd.example");
  client.say("hello");
  for (int round = 0; round < 100'000 && server.heard() != "hello"; ++round) {
    for (const char byte : client.take_outgoing()) server.hear(std::string(1, byte));
    for (const char byte : server.take_outgoing()) REQUIRE(client.hear(std::string(1, byte)));
  }
  CHECK(server.heard() == "hello");
}

TEST_CASE("a server is accepted only for the names in its certificate") {
  const Certified own = certify("etcd", "DNS:etcd.example,IP:127.0.0.1,IP:::1", &authority());
  CHECK(why(own, "etcd.example") == "");
  CHECK(why(own, "127.0.0.1") == "");
  CHECK(why(own, "::1") == "");
  CHECK(why(own, "::1%lo") == "");
  for (const char* host : {"other.example", "127.0.0.2", "etcd"}) {
    CAPTURE(host);
    CHECK(contains(why(own, host),
                   "the certificate of the server is not for \"" + std::string(host) + "\""));
  }
}

TEST_CASE("a certificate that is expired or not signed by a trusted authority is rejected") {
  const Certified foreign = certify("etcd", "DNS:etcd.example", &unidentified());
  CHECK(contains(why(foreign, "etcd.example"),
                 "is not trusted (unable to get local issuer certificate); give the file"));
  CHECK(contains(why(certify("etcd", "DNS:etcd.example"), "etcd.example"), "is not trusted"));
  const Certified over = certify("etcd", "DNS:etcd.example", &authority(), -60);
  CHECK(contains(why(over, "etcd.example"), "certificate has expired"));
}

TEST_CASE("a server that requests a certificate gets one or rejects the client with a reason") {
  const Certified own = certify("etcd", "DNS:etcd.example", &authority());
  const Certified client = certify("cpprun", "", &authority());
  const Certified foreign = certify("cpprun", "", &unidentified());
  const auto reason_with = [&own](const Certified* shown) {
    TlsServer server(own, &authority());
    SecureChannel channel(trusting(authority(), shown), "etcd.example");
    channel.say("hello");
    exchange(channel, server);
    CHECK((server.heard() == "hello") == channel.reason().empty());
    return channel.reason();
  };
  CHECK(reason_with(&client) == "");
  CHECK(contains(reason_with(nullptr), "or requires one"));
  CHECK(contains(reason_with(&foreign), "the server rejected the client certificate"));
}

TEST_CASE("every alert with which a server rejects a certificate is recognised by its number") {
  // Go, OpenSSL and Java choose among these: RFC 8446, 6.2.
  for (const int alert : {40, 42, 43, 44, 45, 46, 48, 49, 116}) {
    CAPTURE(alert);
    SecureChannel client(trusting(authority()), "etcd.example");
    const std::string record = {'\x15', 3, 3, 0, 2, 2, static_cast<char>(alert)};
    CHECK_FALSE(client.hear(record));
    CHECK(contains(client.reason(), "the server rejected the client certificate"));
  }
}

TEST_CASE("a server without TLS is distinguished from one with TLS") {
  SecureChannel client(trusting(authority()), "etcd.example");
  CHECK_FALSE(client.hear("HTTP/1.0 400 Bad Request\r\n\r\n"));
  CHECK(client.reason() == "the response is not TLS; try http://");
  CHECK_FALSE(client.hear("more"));
  CHECK_FALSE(client.say("more"));
}

TEST_CASE("invalid certificate files are named") {
  const Certified own = certify("cpprun", "", &authority());
  const TlsIdentity::Pem ca{authority().certificate_pem(), "ca.pem"};
  const TlsIdentity::Pem certificate{own.certificate_pem(), "client.pem"};
  const TlsIdentity::Pem key{own.key_pem(), "client.key"};
  CHECK(why_not_made({.authorities = ca, .certificate = certificate, .key = key}) == "");
  CHECK(why_not_made({}) == "");
  CHECK(contains(why_not_made({.authorities = {"hello", "ca.pem"}}),
                 "\"ca.pem\" has no PEM certificate"));
  CHECK(contains(why_not_made({.authorities = ca, .certificate = certificate}),
                 "\"client.pem\" is a client certificate, but its key is missing"));
  CHECK(contains(why_not_made({.authorities = ca, .key = key}),
                 "is a key, but its client certificate is missing"));
  CHECK(contains(why_not_made({.authorities = ca, .certificate = key, .key = key}),
                 "\"client.key\" has no PEM certificate"));
  CHECK(contains(why_not_made({.authorities = ca, .certificate = certificate, .key = certificate}),
                 "\"client.pem\" has no PEM private key"));
  CHECK(contains(why_not_made({.authorities = ca,
                               .certificate = certificate,
                               .key = {authority().key_pem(), "ca.key"}}),
                 "\"ca.key\" is not the key of the certificate in \"client.pem\""));
}

}  // namespace secure_tls_client_test
