// SPDX-License-Identifier: BSD-3-Clause
#include "proto/secure/tls.h"

#include <doctest/doctest.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>

#include <memory>
#include <string>

#include "proto/sniff.h"
#include "tests/proto/secure_pair.h"

namespace secure_channel_test {

using namespace cpprun;
using namespace cpprun::test;

namespace {

struct Pair {
  SecureChannel client;
  SecureChannel server;
  Pair(const std::shared_ptr<SecureContext>& one, const std::shared_ptr<SecureContext>& other)
      : client(one), server(other) {}
};

Pair pair_of(const Secret& secret) {
  return {client_of(secret), server_of({secret})};
}

// A TLS program other than cpprun, with the linked OpenSSL.
struct UnrelatedPeer {
  SSL_CTX* context;
  SSL* ssl;
  BIO* in = BIO_new(BIO_s_mem());
  BIO* out = BIO_new(BIO_s_mem());

  explicit UnrelatedPeer(bool is_server)
      : context(SSL_CTX_new(is_server ? TLS_server_method() : TLS_client_method())) {
    if (is_server) show_certificate();
    ssl = SSL_new(context);
    SSL_set_bio(ssl, in, out);
    is_server ? SSL_set_accept_state(ssl) : SSL_set_connect_state(ssl);
  }
  ~UnrelatedPeer() {
    SSL_free(ssl);
    SSL_CTX_free(context);
  }
  // A self-signed certificate.
  void show_certificate() const {
    EVP_PKEY* const key = EVP_EC_gen("P-256");
    X509* const certificate = X509_new();
    X509_gmtime_adj(X509_getm_notBefore(certificate), -60);
    X509_gmtime_adj(X509_getm_notAfter(certificate), 3600);
    X509_set_pubkey(certificate, key);
    X509_sign(certificate, key, EVP_sha256());
    SSL_CTX_use_certificate(context, certificate);
    SSL_CTX_use_PrivateKey(context, key);
    X509_free(certificate);
    EVP_PKEY_free(key);
  }
  bool talk_to(SecureChannel& channel) {
    for (int turn = 0; turn < 8; ++turn) {
      const std::string heard = channel.take_outgoing();
      BIO_write(in, heard.data(), static_cast<int>(heard.size()));
      const bool is_done = SSL_do_handshake(ssl) == 1;
      std::string said(static_cast<std::size_t>(BIO_pending(out)), '\0');
      BIO_read(out, said.data(), static_cast<int>(said.size()));
      if (!said.empty()) channel.hear(said);
      if (is_done && said.empty()) return true;
    }
    return false;
  }
};

}  // namespace

TEST_CASE("only two ends with the same secret can read each other") {
  Pair pair = pair_of(secret_named("blue"));
  CHECK(pair.client.say("the master's name"));  // before the server has sent a byte
  exchange(pair.client, pair.server);
  REQUIRE(pair.client.is_established());
  REQUIRE(pair.server.is_established());
  CHECK(pair.server.take_heard() == "the master's name");
  CHECK(pair.server.secret_id() == "blue");

  REQUIRE(pair.server.say("the answer"));
  const std::string wire = pair.server.take_outgoing();
  CHECK(wire.find("answer") == std::string::npos);
  REQUIRE(pair.client.hear(wire));
  CHECK(pair.client.take_heard() == "the answer");
  CHECK(pair.client.take_heard().empty());
}

TEST_CASE("the same data is received however the bytes are cut") {
  Pair pair = pair_of(secret_named("blue"));
  const auto carry = [](SecureChannel& from, SecureChannel& to) {
    for (const char byte : from.take_outgoing()) REQUIRE(to.hear({&byte, 1}));
  };
  const std::string long_text(100'000, 'x');
  REQUIRE(pair.client.say(long_text));
  for (int turn = 0; turn < 3; ++turn) {
    carry(pair.client, pair.server);
    carry(pair.server, pair.client);
  }
  CHECK(pair.server.take_heard() == long_text);
}

TEST_CASE("during a change of secrets both are accepted") {
  const Secret old_one = secret_named("old", 1);
  const Secret new_one = secret_named("new", 2);
  const auto server = server_of({new_one, old_one});
  for (const Secret& held : {old_one, new_one}) {
    Pair pair(client_of(held), server);
    exchange(pair.client, pair.server);
    CHECK(pair.server.is_established());
    CHECK(pair.server.secret_id() == held.id);
  }
  // An established channel outlives its secret; a new one does not start.
  Pair running(client_of(old_one), server);
  exchange(running.client, running.server);
  server->replace({new_one});
  REQUIRE(running.client.say("still here"));
  exchange(running.client, running.server);
  CHECK(running.server.take_heard() == "still here");
  CHECK_FALSE(running.server.is_valid_still());
  Pair fresh(client_of(new_one), server);
  exchange(fresh.client, fresh.server);
  CHECK(fresh.server.is_valid_still());
  server->replace({secret_named("new", 3)});  // another key with the same id
  CHECK_FALSE(fresh.server.is_valid_still());
  server->replace({new_one});
  Pair late(client_of(old_one), server);
  exchange(late.client, late.server);
  CHECK(!late.server.is_established());
  CHECK(late.server.reason() == "wrong secret: the client has \"old\", and the server has \"new\"");
}

TEST_CASE("a wrong secret is reported to both sides") {
  Pair unknown(client_of(secret_named("red")), server_of({secret_named("blue")}));
  REQUIRE(unknown.client.say("a job's name"));
  exchange(unknown.client, unknown.server);
  CHECK(unknown.server.reason() ==
        "wrong secret: the client has \"red\", and the server has \"blue\"");
  CHECK(unknown.client.reason() == "wrong secret: the server has no secret with the id \"red\"");
  CHECK(unknown.server.take_heard().empty());

  Pair differing(client_of(secret_named("blue", 1)), server_of({secret_named("blue", 2)}));
  exchange(differing.client, differing.server);
  CHECK(differing.server.reason() ==
        "wrong secret: both sides have the id \"blue\", but with different keys; copy the file "
        "from one to the other");
  CHECK(differing.client.reason() ==
        "wrong secret: both sides have the id \"blue\", but with different keys; copy the file "
        "from one to the other");
  CHECK(!differing.client.is_established());
  CHECK(!differing.server.is_established());
}

TEST_CASE("the alert for a wrong key of the right id is recognised from every version of OpenSSL") {
  for (const int alert : {SSL_AD_ILLEGAL_PARAMETER /* 3.0 */, SSL_AD_DECRYPT_ERROR /* 3.5 */}) {
    CAPTURE(alert);
    SecureChannel client(client_of(secret_named("blue")));
    const std::string record = {'\x15', 3, 3, 0, 2, 2, static_cast<char>(alert)};
    CHECK(!client.hear(record));
    CHECK(client.reason() ==
          "wrong secret: both sides have the id \"blue\", but with different keys; copy the file "
          "from one to the other");
  }
}

TEST_CASE("a client without a secret is distinguished from a client with a wrong one") {
  SecureChannel client(client_of(secret_named("blue")));
  CHECK(sniff(client.take_outgoing()) == Protocol::secure);
  CHECK(!client.hear(no_secret_here));
  CHECK(client.reason() ==
        "the client uses secret \"blue\", but the server has none; use the same secret on both, or "
        "no secret on either");
  CHECK(!client.hear("more"));
  CHECK(!client.say("more"));

  SecureChannel second(client_of(secret_named("blue")));
  CHECK(!second.hear("cpprun1\n{\"type\":\"...\"}"));
  CHECK(second.reason() ==
        "the response is not TLS; check that a cpprun master with a secret listens there");
}

TEST_CASE("TLS without the secret proves nothing, whatever certificate is presented") {
  SecureChannel server(server_of({secret_named("blue")}));
  UnrelatedPeer browser(/*is_server=*/false);
  CHECK(!browser.talk_to(server));
  CHECK(server.reason() == "a TLS client that has no cpprun secret");

  SecureChannel client(client_of(secret_named("blue")));
  CHECK(client.say("a job's name"));
  UnrelatedPeer impostor(/*is_server=*/true);
  impostor.talk_to(client);
  CHECK(!client.is_established());
  CHECK(!client.reason().empty());

  SecureChannel modern(server_of({secret_named("blue")}));
  UnrelatedPeer old(/*is_server=*/false);
  SSL_set_max_proto_version(old.ssl, TLS1_2_VERSION);
  CHECK(!old.talk_to(modern));
  CHECK(!modern.reason().empty());
}

TEST_CASE("a replayed first flight does not start a channel") {
  const Secret secret = secret_named("blue");
  const auto server = server_of({secret});
  SecureChannel client(client_of(secret));
  SecureChannel first(server);
  const std::string hello = client.take_outgoing();
  REQUIRE(first.hear(hello));
  REQUIRE(client.hear(first.take_outgoing()));
  REQUIRE(client.say("join"));
  const std::string rest = client.take_outgoing();
  REQUIRE(first.hear(rest));
  CHECK(first.take_heard() == "join");

  SecureChannel again(server);
  REQUIRE(again.hear(hello));
  CHECK(!again.hear(rest));
  CHECK(!again.is_established());
  CHECK(again.take_heard().empty());
  // Nor is a record of an established channel accepted twice.
  CHECK(!first.hear(rest.substr(rest.size() - 20)));
}

TEST_CASE("a byte changed in transit ends the channel, and its record is dropped") {
  for (std::size_t at = 0; at < 30; ++at) {
    Pair pair = pair_of(secret_named("blue"));
    exchange(pair.client, pair.server);
    REQUIRE(pair.client.say("eight by"));
    std::string wire = pair.client.take_outgoing();
    REQUIRE(wire.size() == 30);
    wire[at] = static_cast<char>(wire[at] ^ 1);
    // A changed length makes the record longer: then more bytes are waited for.
    const bool goes_on = pair.server.hear(wire);
    CHECK(pair.server.take_heard().empty());
    if (at < 3 || at > 4) CHECK(!goes_on);
  }
}

TEST_CASE("a channel ends only when the other side has sent its end") {
  Pair pair = pair_of(secret_named("blue"));
  exchange(pair.client, pair.server);
  pair.client.finish();
  CHECK(!pair.server.is_finished());
  exchange(pair.client, pair.server);
  CHECK(pair.server.is_finished());
  CHECK(pair.server.reason().empty());
}

}  // namespace secure_channel_test
