// SPDX-License-Identifier: BSD-3-Clause
// Elections in an etcd that requires authentication: by password or by certificate.

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <utility>

#include "rendezvous/etcd/codec.h"
#include "tests/integration/directory.h"
#include "tests/rendezvous/etcd/io/election_stage.h"
#include "tests/rendezvous/etcd/io/etcd_cluster.h"

namespace etcd_access_test {

using namespace cpprun;
using namespace cpprun::test;
using namespace std::chrono_literals;
using integration::contains;

namespace {

// Adds a user who may access the election's keys and nothing else.
void demand_passwords(const EtcdCluster& etcd) {
  const auto ask = [&etcd](const std::string& path, const std::string& body) {
    const auto answer = etcd.ask(0, "/v3/auth/" + path, body);
    REQUIRE_MESSAGE(!contains(answer, "\"error\""), path << ": " << answer);
  };
  ask("user/add", R"({"name":"root","password":"toor"})");
  ask("role/add", R"({"name":"root"})");
  ask("user/grant", R"({"user":"root","role":"root"})");
  ask("user/add", R"({"name":"cpprun","password":"secret word"})");
  ask("role/add", R"({"name":"contest"})");
  ask("role/grant",
      fmt::format(
          R"({{"name":"contest","perm":{{"permType":"READWRITE","key":"{}","range_end":"{}"}}}})",
          base64_of("/cpprun/test/"), base64_of("/cpprun/test0")));
  ask("user/grant", R"({"user":"cpprun","role":"contest"})");
  ask("enable", "{}");
}

std::string why_unreachable(Stage& stage, const std::string& name) {
  Candidate& candidate = stage.add(name);
  candidate.tell(election::Enter{});
  stage.await([&] { return candidate.count<election::Unreachable>() == 1; }, name);
  const auto reason = candidate.last<election::Unreachable>()->reason;
  CHECK_FALSE(candidate.leads());
  stage.kill(candidate);
  return reason;
}

// A CA with certificates for a server at 127.0.0.1 and for a client.
class Certificates {
 public:
  Certificates() {
    is_made_ = make_authority("ca") && make_authority("other") &&
               make_signed("server",
                           "subjectAltName=IP:127.0.0.1\n"
                           "extendedKeyUsage=serverAuth,clientAuth\n") &&
               make_signed("client", "extendedKeyUsage=clientAuth\n");
  }
  bool is_made() const { return is_made_; }
  std::string path(const std::string& name) const { return directory_.path() + "/" + name; }

 private:
  bool make_authority(const std::string& name) const {
    return run_quietly({"openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2",
                        "-subj", "/CN=" + name, "-keyout", path(name + ".key"), "-out",
                        path(name + ".pem")}) == 0;
  }
  bool make_signed(const std::string& name, const std::string& extensions) const {
    directory_.write(name + ".ext", extensions);
    return run_quietly({"openssl", "req", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=" + name,
                        "-keyout", path(name + ".key"), "-out", path(name + ".csr")}) == 0 &&
           run_quietly({"openssl", "x509", "-req", "-days", "2", "-in", path(name + ".csr"), "-CA",
                        path("ca.pem"), "-CAkey", path("ca.key"), "-CAcreateserial", "-extfile",
                        path(name + ".ext"), "-out", path(name + ".pem")}) == 0;
  }

  integration::Directory directory_;
  bool is_made_ = false;
};

}  // namespace

TEST_CASE("a user with a password leads, even after etcd has expired the token") {
  if (skips_without_etcd()) return;
  EtcdCluster etcd(EtcdCluster::Options{.words = {"--auth-token-ttl=2"}});
  demand_passwords(etcd);
  Stage stage({.endpoints = etcd.endpoints()});
  CHECK(contains(why_unreachable(stage, "anonymous"), "requires authentication"));
  stage.reach({.endpoints = etcd.endpoints(), .user = "cpprun", .password = "wrong"});
  CHECK(contains(why_unreachable(stage, "mistyped"), "check the user and the password"));

  stage.reach({.endpoints = etcd.endpoints(), .user = "cpprun", .password = "secret word"});
  Candidate& alpha = stage.add("alpha");
  alpha.tell(election::Enter{});
  stage.await([&] { return alpha.leads(); }, "alpha leads");
  // A restarted member has no tokens.
  for (int member = 0; member < etcd.size(); ++member) {
    etcd.kill(member);
    stage.run_for(300ms);
    etcd.begin_again(member);
  }
  // On a busy machine it may have to win again meanwhile.
  etcd::Revision written_epoch = 0;
  std::uint64_t number = 0;
  stage.await(
      [&] {
        if (alpha.leads() && std::exchange(written_epoch, alpha.epoch()) != alpha.epoch()) {
          alpha.tell(election::Keep{"job", "record", ++number});
        }
        return alpha.count<election::Written>() > 0;
      },
      "it writes");
  alpha.tell(election::Withdraw{});
  stage.await([&] { return alpha.count<election::Withdrawn>() == 1; }, "it withdraws");
}

TEST_CASE("a user without access to the keys is reported") {
  if (skips_without_etcd()) return;
  EtcdCluster etcd(EtcdCluster::Options{.members = 1});
  const auto answer = etcd.ask(0, "/v3/auth/user/add", R"({"name":"guest","password":"guest"})");
  REQUIRE_FALSE(contains(answer, "\"error\""));
  demand_passwords(etcd);
  Stage stage({.endpoints = etcd.endpoints(), .user = "guest", .password = "guest"});
  CHECK(
      contains(why_unreachable(stage, "guest"), "this user may read and write the keys of cpprun"));
}

TEST_CASE("only a client with a valid certificate leads behind TLS") {
  if (skips_without_etcd()) return;
  const Certificates certificates;
  if (!certificates.is_made()) return integration::skip("openssl, the program, is not installed");
  const auto path = [&](const std::string& name) { return certificates.path(name); };
  EtcdCluster etcd(EtcdCluster::Options{
      .words = {"--cert-file=" + path("server.pem"), "--key-file=" + path("server.key"),
                "--trusted-ca-file=" + path("ca.pem"), "--client-cert-auth"},
      .is_secure = true});
  const EtcdAccess right{.endpoints = etcd.endpoints(),
                         .authorities_file = path("ca.pem"),
                         .certificate_file = path("client.pem"),
                         .key_file = path("client.key")};
  Stage stage(right);
  Candidate& alpha = stage.add("alpha");
  stage.await([&] { return alpha.count<election::NoLeader>() == 1; }, "etcd is ready");
  const auto begun = boot_now();
  alpha.tell(election::Enter{});
  stage.await([&] { return alpha.leads(); }, "alpha leads");
  fmt::print("behind TLS the first leads after {:.0f} ms\n", 1000 * in_seconds(boot_now() - begun));
  alpha.tell(election::Keep{"job", std::string(500'000, 'r'), 1});
  stage.await([&] { return alpha.count<election::Written>() == 1; }, "a large record is written");

  EtcdAccess wrong = right;
  wrong.authorities_file = path("other.pem");
  stage.reach(wrong);
  CHECK(contains(why_unreachable(stage, "distrustful"),
                 "the certificate of the server is not trusted"));
  wrong = right;
  wrong.certificate_file.clear();
  wrong.key_file.clear();
  stage.reach(wrong);
  CHECK(contains(why_unreachable(stage, "nameless"), "rejected the client certificate"));
  wrong = right;
  wrong.endpoints = {{true, "localhost", etcd.port(0)}};
  stage.reach(wrong);
  CHECK(contains(why_unreachable(stage, "elsewhere"),
                 "the certificate of the server is not for \"localhost\""));
  wrong.endpoints = {{false, "127.0.0.1", etcd.port(0)}};
  wrong.authorities_file.clear();
  wrong.certificate_file.clear();
  wrong.key_file.clear();
  stage.reach(wrong);
  CHECK(contains(why_unreachable(stage, "plain"), "; try https://"));
  CHECK(alpha.leads());

  EtcdAccess bad = right;
  bad.key_file = path("server.key");
  CHECK(contains(open_tls(bad).error().reason, "is not the key of the certificate in"));
  bad.key_file = path("client.pem");
  CHECK(contains(open_tls(bad).error().reason, "has no PEM private key"));
  bad.key_file = path("nothing");
  CHECK(contains(open_tls(bad).error().reason, "No such file or directory"));
  bad = right;
  bad.authorities_file = path("client.key");
  CHECK(contains(open_tls(bad).error().reason, "has no PEM certificate"));
  bad.key_file.clear();
  bad.authorities_file = path("ca.pem");
  CHECK(contains(open_tls(bad).error().reason, "its key is missing"));
  bad.endpoints = {{false, "127.0.0.1", 1}};
  CHECK(contains(open_tls(bad).error().reason, "would not be encrypted"));
}

}  // namespace etcd_access_test
