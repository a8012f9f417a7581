// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// Certificates for tests, generated on the fly, and a server that presents them, without a network
// in between.

#include <doctest/doctest.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>

#include <memory>
#include <string>

namespace cpprun::test {

template <auto free>
struct FreeWith {
  template <class T>
  void operator()(T* it) const {
    free(it);
  }
};
using CertificateHandle = std::unique_ptr<X509, FreeWith<X509_free>>;
using KeyHandle = std::unique_ptr<EVP_PKEY, FreeWith<EVP_PKEY_free>>;
using BioHandle = std::unique_ptr<BIO, FreeWith<BIO_free>>;

// A certificate with its key.
struct Certified {
  CertificateHandle certificate;
  KeyHandle key;

  std::string certificate_pem() const {
    const BioHandle bio(BIO_new(BIO_s_mem()));
    PEM_write_bio_X509(bio.get(), certificate.get());
    return text_of(bio.get());
  }
  std::string key_pem() const {
    const BioHandle bio(BIO_new(BIO_s_mem()));
    PEM_write_bio_PrivateKey(bio.get(), key.get(), nullptr, nullptr, 0, nullptr, nullptr);
    return text_of(bio.get());
  }

 private:
  static std::string text_of(BIO* bio) {
    char* bytes = nullptr;
    const long size = BIO_get_mem_data(bio, &bytes);
    return {bytes, static_cast<std::size_t>(size)};
  }
};

// A certificate for that name and those alternative names ("IP:127.0.0.1,DNS:host"), signed by that
// issuer or by itself. `seconds` is its validity from now on; below zero it has expired.
inline Certified certify(const std::string& name, const std::string& others = {},
                         const Certified* authority = nullptr, long seconds = 3600) {
  Certified made{CertificateHandle(X509_new()), KeyHandle(EVP_EC_gen("P-256"))};
  X509* const certificate = made.certificate.get();
  X509_set_version(certificate, 2);
  static long serial = 1;
  ASN1_INTEGER_set(X509_get_serialNumber(certificate), serial++);
  X509_gmtime_adj(X509_getm_notBefore(certificate), -7200);
  X509_gmtime_adj(X509_getm_notAfter(certificate), seconds);
  X509_set_pubkey(certificate, made.key.get());
  X509_NAME* const subject = X509_get_subject_name(certificate);
  X509_NAME_add_entry_by_txt(subject, "CN", MBSTRING_ASC,
                             reinterpret_cast<const unsigned char*>(name.c_str()), -1, -1, 0);
  X509_set_issuer_name(certificate, authority == nullptr
                                        ? subject
                                        : X509_get_subject_name(authority->certificate.get()));
  const auto extend = [certificate](int what, const std::string& value) {
    X509_EXTENSION* const extension = X509V3_EXT_conf_nid(nullptr, nullptr, what, value.c_str());
    REQUIRE(extension != nullptr);
    X509_add_ext(certificate, extension, -1);
    X509_EXTENSION_free(extension);
  };
  if (!others.empty()) extend(NID_subject_alt_name, others);
  if (authority == nullptr) extend(NID_basic_constraints, "critical,CA:TRUE");
  EVP_PKEY* const signer = authority == nullptr ? made.key.get() : authority->key.get();
  REQUIRE(X509_sign(certificate, signer, EVP_sha256()) > 0);
  return made;
}

// The server: presents that certificate, and requests a client certificate of that authority, if
// one is given.
class TlsServer {
 public:
  explicit TlsServer(const Certified& own, const Certified* wanted = nullptr)
      : context_(SSL_CTX_new(TLS_server_method())) {
    REQUIRE(SSL_CTX_use_certificate(context_, own.certificate.get()) == 1);
    REQUIRE(SSL_CTX_use_PrivateKey(context_, own.key.get()) == 1);
    if (wanted != nullptr) {
      X509_STORE_add_cert(SSL_CTX_get_cert_store(context_), wanted->certificate.get());
      SSL_CTX_set_verify(context_, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, nullptr);
    }
    ssl_ = SSL_new(context_);
    incoming_ = BIO_new(BIO_s_mem());
    outgoing_ = BIO_new(BIO_s_mem());
    SSL_set_bio(ssl_, incoming_, outgoing_);
    SSL_set_accept_state(ssl_);
  }
  ~TlsServer() {
    SSL_free(ssl_);
    SSL_CTX_free(context_);
  }
  TlsServer(const TlsServer&) = delete;
  TlsServer& operator=(const TlsServer&) = delete;

  void hear(const std::string& bytes) {
    BIO_write(incoming_, bytes.data(), static_cast<int>(bytes.size()));
    if (SSL_is_init_finished(ssl_) == 0) (void)SSL_do_handshake(ssl_);
    char chunk[16 * 1024];
    int count = 0;
    while ((count = SSL_read(ssl_, chunk, sizeof chunk)) > 0) {
      heard_.append(chunk, static_cast<std::size_t>(count));
    }
    ERR_clear_error();
  }
  void say(const std::string& text) { SSL_write(ssl_, text.data(), static_cast<int>(text.size())); }
  void finish() { SSL_shutdown(ssl_); }
  std::string take_outgoing() {
    char* bytes = nullptr;
    const long size = BIO_get_mem_data(outgoing_, &bytes);
    std::string taken(bytes, static_cast<std::size_t>(size));
    (void)BIO_reset(outgoing_);
    return taken;
  }
  const std::string& heard() const { return heard_; }
  std::string asked_name() const {
    const char* const name = SSL_get_servername(ssl_, TLSEXT_NAMETYPE_host_name);
    return name == nullptr ? "" : name;
  }

 private:
  SSL_CTX* context_;
  SSL* ssl_ = nullptr;
  BIO* incoming_ = nullptr;
  BIO* outgoing_ = nullptr;
  std::string heard_;
};

}  // namespace cpprun::test
