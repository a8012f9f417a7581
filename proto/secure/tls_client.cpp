// SPDX-License-Identifier: BSD-3-Clause
#include "proto/secure/tls_client.h"

#include <fmt/format.h>
#include <openssl/pem.h>

#include <algorithm>
#include <cassert>
#include <new>
#include <utility>

#include "proto/secure/openssl.h"

namespace cpprun {

namespace {

constexpr int read_chunk_bytes = 16 * 1024;

// Nobody is there to be asked for a password.
int no_password(char*, int, int, void*) {
  return 0;
}

// The text of a PEM file as OpenSSL reads it.
class PemSource {
 public:
  PemSource(const OpenSsl& openssl, const std::string& text)
      : openssl_(openssl),
        bio_(openssl.BIO_new_mem_buf(text.data(), static_cast<int>(text.size()))) {
    if (bio_ == nullptr) throw std::bad_alloc();
  }
  ~PemSource() { openssl_.BIO_free(bio_); }
  PemSource(const PemSource&) = delete;
  PemSource& operator=(const PemSource&) = delete;

  // Nothing: there is none any more.
  X509* next_certificate() {
    return openssl_.PEM_read_bio_X509(bio_, nullptr, no_password, nullptr);
  }
  EVP_PKEY* key() { return openssl_.PEM_read_bio_PrivateKey(bio_, nullptr, no_password, nullptr); }

 private:
  const OpenSsl& openssl_;
  BIO* bio_;
};

tl::unexpected<Error> bad_file(const TlsIdentity::Pem& pem, std::string_view what) {
  return failure(fmt::format("\"{}\" {}", pem.name, what));
}

Result<void> trust(const OpenSsl& openssl, SSL_CTX* context, const TlsIdentity::Pem& authorities) {
  if (authorities.text.empty()) {
    if (openssl.SSL_CTX_set_default_verify_paths(context) == 1) return {};
    return failure(
        "OpenSSL knows of no certificates that this machine trusts: name a file of them");
  }
  PemSource source(openssl, authorities.text);
  int count = 0;
  while (X509* const certificate = source.next_certificate()) {
    // One that is there twice is no mistake.
    (void)openssl.X509_STORE_add_cert(openssl.SSL_CTX_get_cert_store(context), certificate);
    openssl.X509_free(certificate);
    ++count;
  }
  openssl.ERR_clear_error();
  if (count > 0) return {};
  return bad_file(authorities, "holds no certificate in PEM (\"-----BEGIN CERTIFICATE-----\")");
}

Result<void> show(const OpenSsl& openssl, SSL_CTX* context, const TlsIdentity& identity) {
  if (identity.certificate.text.empty() && identity.key.text.empty()) return {};
  if (identity.key.text.empty()) {
    return bad_file(identity.certificate, "is a certificate of ours, and its key is not named");
  }
  if (identity.certificate.text.empty()) {
    return bad_file(identity.key, "is a key, and the certificate that it belongs to is not named");
  }
  PemSource source(openssl, identity.certificate.text);
  bool is_first = true;
  while (X509* const certificate = source.next_certificate()) {
    const bool is_taken =
        is_first ? openssl.SSL_CTX_use_certificate(context, certificate) == 1
                 : openssl.SSL_CTX_ctrl(context, SSL_CTRL_CHAIN_CERT, 1, certificate) == 1;
    openssl.X509_free(certificate);
    if (!is_taken) return bad_file(identity.certificate, "has a certificate that OpenSSL refuses");
    is_first = false;
  }
  openssl.ERR_clear_error();
  if (is_first) {
    return bad_file(identity.certificate,
                    "holds no certificate in PEM (\"-----BEGIN CERTIFICATE-----\")");
  }
  EVP_PKEY* const key = PemSource(openssl, identity.key.text).key();
  openssl.ERR_clear_error();
  if (key == nullptr) {
    return bad_file(identity.key, "holds no private key in PEM, or one behind a password");
  }
  const bool is_taken = openssl.SSL_CTX_use_PrivateKey(context, key) == 1 &&
                        openssl.SSL_CTX_check_private_key(context) == 1;
  openssl.EVP_PKEY_free(key);
  openssl.ERR_clear_error();
  if (is_taken) return {};
  return bad_file(identity.key, fmt::format("is not the key of the certificate in \"{}\"",
                                            identity.certificate.name));
}

// Servers differ in which of these alerts they send for the same certificate, or for none.
bool is_about_our_certificate(int alert) {
  for (const int each :
       {SSL_AD_HANDSHAKE_FAILURE, SSL_AD_BAD_CERTIFICATE, SSL_AD_UNSUPPORTED_CERTIFICATE,
        SSL_AD_CERTIFICATE_REVOKED, SSL_AD_CERTIFICATE_EXPIRED, SSL_AD_CERTIFICATE_UNKNOWN,
        SSL_AD_UNKNOWN_CA, SSL_AD_ACCESS_DENIED, SSL_AD_CERTIFICATE_REQUIRED}) {
    if (alert == each) return true;
  }
  return false;
}

bool is_address(std::string_view host) {
  return host.find(':') != std::string_view::npos ||
         host.find_first_not_of("0123456789.") == std::string_view::npos;
}

}  // namespace

struct TlsClientContext::Inside {
  OpenSsl openssl;
  SSL_CTX* context;

  Inside(const OpenSsl& table, SSL_CTX* settings) : openssl(table), context(settings) {}
  Inside(const Inside&) = delete;
  Inside& operator=(const Inside&) = delete;
  ~Inside() { openssl.SSL_CTX_free(context); }
};

TlsClientContext::TlsClientContext(std::unique_ptr<Inside> inside) : inside_(std::move(inside)) {}
TlsClientContext::~TlsClientContext() = default;

Result<std::shared_ptr<TlsClientContext>> TlsClientContext::make(const OpenSsl& openssl,
                                                                 const TlsIdentity& identity) {
  openssl.ERR_clear_error();
  SSL_CTX* const context = openssl.SSL_CTX_new(openssl.TLS_client_method());
  if (context == nullptr) return failure("OpenSSL has no memory for its settings");
  auto inside = std::make_unique<Inside>(openssl, context);
  const bool is_set =
      openssl.SSL_CTX_ctrl(context, SSL_CTRL_SET_MIN_PROTO_VERSION, TLS1_2_VERSION, nullptr) == 1;
  if (!is_set) return failure("OpenSSL of this machine refuses TLS 1.2");
  openssl.SSL_CTX_ctrl(context, SSL_CTRL_MODE, SSL_MODE_RELEASE_BUFFERS, nullptr);
  openssl.SSL_CTX_set_verify(context, SSL_VERIFY_PEER, nullptr);
  if (auto done = trust(openssl, context, identity.authorities); !done) {
    return tl::unexpected<Error>(done.error());
  }
  if (auto done = show(openssl, context, identity); !done) {
    return tl::unexpected<Error>(done.error());
  }
  return std::shared_ptr<TlsClientContext>(new TlsClientContext(std::move(inside)));
}

struct TlsClientChannel::Inside {
  std::shared_ptr<TlsClientContext> context;
  const OpenSsl& openssl;
  std::string host;
  SSL* ssl = nullptr;
  BIO* incoming = nullptr;
  BIO* outgoing = nullptr;
  std::string heard = {};
  std::string unsaid = {};  // before it is established
  std::string reason = {};
  bool is_established = false;
  bool is_finished = false;

  Inside(std::shared_ptr<TlsClientContext> its, std::string name)
      : context(std::move(its)), openssl(context->inside_->openssl), host(std::move(name)) {}
  Inside(const Inside&) = delete;
  Inside& operator=(const Inside&) = delete;
  ~Inside() {
    if (ssl != nullptr) openssl.SSL_free(ssl);  // with both BIOs
  }

  bool open() {
    ssl = openssl.SSL_new(context->inside_->context);
    if (ssl == nullptr) return false;
    incoming = openssl.BIO_new(openssl.BIO_s_mem());
    outgoing = openssl.BIO_new(openssl.BIO_s_mem());
    if (incoming == nullptr || outgoing == nullptr) return false;
    openssl.SSL_set_bio(ssl, incoming, outgoing);
    openssl.SSL_set_connect_state(ssl);
    // Without its scope, which means nothing to anybody else.
    const std::string name = host.substr(0, host.find('%'));
    if (is_address(name)) {
      return openssl.X509_VERIFY_PARAM_set1_ip_asc(openssl.SSL_get0_param(ssl), name.c_str()) == 1;
    }
    return openssl.SSL_set1_host(ssl, name.c_str()) == 1 &&
           openssl.SSL_ctrl(ssl, SSL_CTRL_SET_TLSEXT_HOSTNAME, TLSEXT_NAMETYPE_host_name,
                            const_cast<char*>(name.c_str())) == 1;
  }

  // The handshake goes on as far as it can.
  bool shake_hands() {
    openssl.ERR_clear_error();
    const int result = openssl.SSL_do_handshake(ssl);
    if (result != 1) return is_only_waiting(result);
    is_established = true;
    const std::string first = std::exchange(unsaid, {});
    return first.empty() || write(first);
  }

  bool write(std::string_view bytes) {
    openssl.ERR_clear_error();
    const int result = openssl.SSL_write(ssl, bytes.data(), static_cast<int>(bytes.size()));
    // Memory takes all of it.
    return result > 0 || is_only_waiting(result);
  }

  bool read() {
    while (true) {
      const std::size_t before = heard.size();
      heard.resize(before + read_chunk_bytes);
      openssl.ERR_clear_error();
      const int result = openssl.SSL_read(ssl, heard.data() + before, read_chunk_bytes);
      heard.resize(before + static_cast<std::size_t>(std::max(result, 0)));
      if (result <= 0) return is_only_waiting(result);
    }
  }

  bool is_only_waiting(int result) {
    const int what = openssl.SSL_get_error(ssl, result);
    if (what == SSL_ERROR_WANT_READ) return true;
    if (what == SSL_ERROR_ZERO_RETURN) {
      is_finished = true;
      return true;
    }
    reason = why(openssl.ERR_get_error());
    return false;
  }

  std::string why(unsigned long error) const {
    const int number = ERR_GET_REASON(error);
    const char* const text = openssl.ERR_reason_error_string(error);
    const char* const known = text == nullptr ? "no reason is given" : text;
    if (number == SSL_R_CERTIFICATE_VERIFY_FAILED) return why_not_believed();
    if (number == SSL_R_WRONG_VERSION_NUMBER || number == SSL_R_PACKET_LENGTH_TOO_LONG) {
      return "what it answers is not TLS: is http:// meant?";
    }
    // It says so after we have shown what we have, or nothing.
    if (is_about_our_certificate(alert_of(error))) {
      return fmt::format(
          "it does not take the certificate that we show, or wants to see one ({}): give one that "
          "its CA has signed, with its key",
          known);
    }
    return fmt::format("its TLS is broken ({})", known);
  }

  std::string why_not_believed() const {
    const long verdict = openssl.SSL_get_verify_result(ssl);
    const char* const text = openssl.X509_verify_cert_error_string(verdict);
    if (verdict == X509_V_ERR_HOSTNAME_MISMATCH || verdict == X509_V_ERR_IP_ADDRESS_MISMATCH) {
      return fmt::format(
          "its certificate is not for \"{}\": ask for it by a name that stands there, or have it "
          "issued for this one too",
          host);
    }
    return fmt::format(
        "its certificate is not believed ({}): name the file with the CA's certificate that "
        "signed it",
        text == nullptr ? "no reason is given" : text);
  }
};

TlsClientChannel::TlsClientChannel(std::shared_ptr<TlsClientContext> context,
                                   const std::string& host)
    : inside_(std::make_unique<Inside>(std::move(context), host)) {
  if (!inside_->open()) throw std::bad_alloc();
  inside_->shake_hands();
}

TlsClientChannel::~TlsClientChannel() = default;

bool TlsClientChannel::hear(std::string_view bytes) {
  Inside& in = *inside_;
  if (!in.reason.empty()) return false;
  while (!bytes.empty()) {
    const std::string_view some = bytes.substr(0, read_chunk_bytes);
    bytes.remove_prefix(some.size());
    const int size = static_cast<int>(some.size());
    if (in.openssl.BIO_write(in.incoming, some.data(), size) != size) throw std::bad_alloc();
    if (!in.is_established && !in.shake_hands()) return false;
    if (in.is_established && !in.read()) return false;
  }
  return true;
}

bool TlsClientChannel::say(std::string_view bytes) {
  Inside& in = *inside_;
  if (!in.reason.empty()) return false;
  if (bytes.empty()) return true;
  if (in.is_established) return in.write(bytes);
  in.unsaid += bytes;
  return true;
}

std::string TlsClientChannel::take_heard() {
  return std::exchange(inside_->heard, {});
}

std::string TlsClientChannel::take_outgoing() {
  const OpenSsl& openssl = inside_->openssl;
  const auto waiting = openssl.BIO_ctrl(inside_->outgoing, BIO_CTRL_PENDING, 0, nullptr);
  std::string bytes(static_cast<std::size_t>(waiting), '\0');
  if (bytes.empty()) return bytes;
  const int taken =
      openssl.BIO_read(inside_->outgoing, bytes.data(), static_cast<int>(bytes.size()));
  assert(taken == static_cast<int>(bytes.size()));
  (void)taken;
  return bytes;
}

bool TlsClientChannel::is_established() const {
  return inside_->is_established;
}

bool TlsClientChannel::is_finished() const {
  return inside_->is_finished;
}

const std::string& TlsClientChannel::reason() const {
  return inside_->reason;
}

}  // namespace cpprun
