// SPDX-License-Identifier: BSD-3-Clause
#include "proto/secure/tls.h"

#include <fmt/format.h>
#include <openssl/pem.h>
#include <string.h>

#include <algorithm>
#include <array>
#include <cassert>
#include <new>
#include <optional>
#include <utility>

#include "proto/bounds.h"
#include "proto/secure/openssl.h"

namespace cpprun {

namespace {

// The hash of an external pre-shared key is that of its cipher: SHA-256.
constexpr const char* cipher_name = "TLS_AES_128_GCM_SHA256";
constexpr std::array<unsigned char, 2> cipher_number = {0x13, 0x01};
// The purpose for deriving the link's key; OpenSSL never gets the secret itself.
constexpr std::string_view link_purpose = "cpprun link";
constexpr std::string_view identity_prefix = "cpprun1:";
constexpr int chunk_bytes = 16 * 1024;

struct FreeSession {
  const OpenSsl* openssl;
  void operator()(SSL_SESSION* session) const { openssl->SSL_SESSION_free(session); }
};
using Session = std::unique_ptr<SSL_SESSION, FreeSession>;

std::string names_of(const Secrets& secrets) {
  std::string names;
  for (const auto& each : secrets) {
    names += fmt::format("{}\"{}\"", names.empty() ? "" : ", ", each.id);
  }
  return names;
}

// A TLS connection as bytes in and bytes out: what both kinds of channels share.
struct TlsEngine {
  const std::shared_ptr<const void> owner;  // of the context and of the table of functions
  const OpenSsl& openssl;
  SSL* ssl = nullptr;
  BIO* incoming = nullptr;
  BIO* outgoing = nullptr;
  std::string heard = {};
  std::string unsaid = {};  // data to send before the handshake is done
  std::string reason = {};
  bool is_established = false;
  bool is_finished = false;

  TlsEngine(std::shared_ptr<const void> keeps, const OpenSsl& table, SSL_CTX* context)
      : owner(std::move(keeps)), openssl(table), ssl(openssl.SSL_new(context)) {
    if (ssl == nullptr) throw std::bad_alloc();
  }
  TlsEngine(const TlsEngine&) = delete;
  TlsEngine& operator=(const TlsEngine&) = delete;
  virtual ~TlsEngine() { openssl.SSL_free(ssl); }  // frees both BIOs

  // Advances the handshake as far as possible.
  virtual bool shake_hands() = 0;
  // The reason for the end of the connection, from OpenSSL's error.
  virtual std::string why(unsigned long error) const = 0;

  bool open() {
    incoming = openssl.BIO_new(openssl.BIO_s_mem());
    outgoing = openssl.BIO_new(openssl.BIO_s_mem());
    if (incoming == nullptr || outgoing == nullptr) return false;
    openssl.SSL_set_bio(ssl, incoming, outgoing);
    return true;
  }

  bool hear(std::string_view bytes) {
    if (!reason.empty()) return false;
    while (!bytes.empty()) {
      const std::string_view some = bytes.substr(0, chunk_bytes);
      bytes.remove_prefix(some.size());
      const int size = static_cast<int>(some.size());
      if (openssl.BIO_write(incoming, some.data(), size) != size) throw std::bad_alloc();
      if (!is_established && !shake_hands()) return false;
      if (is_established && !read()) return false;
    }
    return true;
  }

  bool say(std::string_view bytes) {
    if (!reason.empty()) return false;
    if (bytes.empty()) return true;
    if (is_established) return write(bytes);
    unsaid += bytes;
    return true;
  }

  // The handshake is done.
  bool establish() {
    is_established = true;
    const std::string first = std::exchange(unsaid, {});
    return first.empty() || write(first);
  }

  bool write(std::string_view bytes) {
    openssl.ERR_clear_error();
    const int result = openssl.SSL_write(ssl, bytes.data(), static_cast<int>(bytes.size()));
    // A memory BIO takes all of it.
    return result > 0 || is_only_waiting(result);
  }

  bool read() {
    while (true) {
      const std::size_t before = heard.size();
      heard.resize(before + chunk_bytes);
      openssl.ERR_clear_error();
      const int result = openssl.SSL_read(ssl, heard.data() + before, chunk_bytes);
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
    return end(why(openssl.ERR_get_error()));
  }

  bool end(std::string because) {
    reason = std::move(because);
    return false;
  }

  std::string take_outgoing() const {
    const auto waiting = openssl.BIO_ctrl(outgoing, BIO_CTRL_PENDING, 0, nullptr);
    std::string bytes(static_cast<std::size_t>(waiting), '\0');
    if (bytes.empty()) return bytes;
    const int taken = openssl.BIO_read(outgoing, bytes.data(), static_cast<int>(bytes.size()));
    assert(taken == static_cast<int>(bytes.size()));
    (void)taken;
    return bytes;
  }
};

}  // namespace

struct SecureContext::Inside {
  OpenSsl openssl;
  Secrets secrets;
  bool is_server;
  SSL_CTX* context;

  Inside(const OpenSsl& table, Secrets valid, bool serves, SSL_CTX* settings)
      : openssl(table), secrets(std::move(valid)), is_server(serves), context(settings) {}
  Inside(const Inside&) = delete;
  Inside& operator=(const Inside&) = delete;
  ~Inside() { openssl.SSL_CTX_free(context); }
};

struct SecureChannel::Inside : TlsEngine {
  const Secrets& secrets;
  const bool is_server;
  std::string secret_id = {};                 // in use, or offered and rejected
  std::string identity = {};                  // its identity as the client sends it
  std::shared_ptr<const Key> found_key = {};  // the key found for it
  bool was_offered = false;                   // the peer has named a secret
  bool is_known = false;                      // and it is one of this side's

  // OpenSSL's callbacks get no user argument: this is the channel of the current handshake.
  static thread_local Inside* shaking;

  explicit Inside(const std::shared_ptr<SecureContext>& its)
      : TlsEngine(its, its->inside_->openssl, its->inside_->context),
        secrets(its->inside_->secrets),
        is_server(its->inside_->is_server) {
    if (!open()) throw std::bad_alloc();
    if (is_server) {
      openssl.SSL_set_accept_state(ssl);
    } else {
      openssl.SSL_set_connect_state(ssl);
    }
  }

  Session session_of(const Secret& secret) const {
    Session session(openssl.SSL_SESSION_new(), FreeSession{&openssl});
    Key key = derive_key(openssl, *secret.key, link_purpose);
    const SSL_CIPHER* const cipher = openssl.SSL_CIPHER_find(ssl, cipher_number.data());
    const bool is_made =
        session && cipher != nullptr &&
        openssl.SSL_SESSION_set1_master_key(session.get(), key.data(), key.size()) == 1 &&
        openssl.SSL_SESSION_set_cipher(session.get(), cipher) == 1 &&
        openssl.SSL_SESSION_set_protocol_version(session.get(), TLS1_3_VERSION) == 1;
    explicit_bzero(key.data(), key.size());
    if (!is_made) session.reset();
    return session;
  }

  // Client: offers its secret.
  static int offer(SSL*, const EVP_MD* digest, const unsigned char** identity, std::size_t* length,
                   SSL_SESSION** session) {
    Inside& channel = *shaking;
    const Secret& secret = channel.secrets.front();
    Session made = channel.session_of(secret);
    *session = nullptr;
    *length = 0;
    if (!made) return 0;
    // Called again after the server chose a hash; only one is supported.
    const auto& openssl = channel.openssl;
    const SSL_CIPHER* const cipher = openssl.SSL_SESSION_get0_cipher(made.get());
    if (digest != nullptr && digest != openssl.SSL_CIPHER_get_handshake_digest(cipher)) return 1;
    channel.identity = fmt::format("{}{}", identity_prefix, secret.id);
    *identity = reinterpret_cast<const unsigned char*>(channel.identity.data());
    *length = channel.identity.size();
    *session = made.release();
    return 1;
  }

  // Server: finds the offered secret. Without one, OpenSSL looks for a certificate, and there is
  // none.
  static int find(SSL*, const unsigned char* identity, std::size_t length, SSL_SESSION** session) {
    Inside& channel = *shaking;
    *session = nullptr;
    std::string_view named(reinterpret_cast<const char*>(identity), length);
    if (!named.starts_with(identity_prefix)) return 1;
    named.remove_prefix(identity_prefix.size());
    if (!is_secret_id(named)) return 1;
    channel.was_offered = true;
    channel.secret_id = named;
    const Secret* const secret = find_secret(channel.secrets, named);
    if (secret == nullptr) return 1;
    channel.is_known = true;
    channel.found_key = secret->key;
    *session = channel.session_of(*secret).release();
    return *session == nullptr ? 0 : 1;
  }

  bool shake_hands() override {
    openssl.ERR_clear_error();
    shaking = this;
    const int result = openssl.SSL_do_handshake(ssl);
    shaking = nullptr;
    if (result != 1) return is_only_waiting(result);
    // OpenSSL would also have accepted a certificate.
    if (openssl.SSL_session_reused(ssl) != 1)
      return end("the peer has not proved that it has the secret");
    forget_key();
    return establish();
  }

  // OpenSSL keeps the key for session resumption, and a core file would contain it.
  void forget_key() const {
    const Key nothing{};
    openssl.SSL_SESSION_set1_master_key(openssl.SSL_get_session(ssl), nothing.data(),
                                        nothing.size());
  }

  std::string why(unsigned long error) const override {
    const int number = ERR_GET_REASON(error);
    if (!is_established) {
      if (auto known = is_server ? why_refused(number) : why_not_taken(error)) return *known;
    }
    const char* const text = openssl.ERR_reason_error_string(error);
    return fmt::format("TLS error ({})", text == nullptr ? "no reason given" : text);
  }

  // Server: why the client was rejected.
  std::optional<std::string> why_refused(int number) const {
    if (number == SSL_R_BINDER_DOES_NOT_VERIFY) {
      return fmt::format(
          "wrong secret: both sides have the id \"{}\", but with different keys; copy the file "
          "from one to the other",
          secret_id);
    }
    if (was_offered && !is_known) {
      return fmt::format("wrong secret: the client has \"{}\", and this side has {}", secret_id,
                         names_of(secrets));
    }
    if (!was_offered) return "a TLS client that has no cpprun secret";
    return std::nullopt;
  }

  // Client: why the server rejected this side, by the alert it sent.
  std::optional<std::string> why_not_taken(unsigned long error) const {
    const int alert = alert_of(error);
    if (alert == SSL_AD_UNKNOWN_PSK_IDENTITY) {
      return fmt::format(
          "this side uses secret \"{}\", but the server has none; use the same secret on both, or "
          "no secret on either",
          secret_id);
    }
    if (alert == SSL_AD_HANDSHAKE_FAILURE) {
      return fmt::format("wrong secret: the server does not have \"{}\"", secret_id);
    }
    // OpenSSL before 3.5 sends the first, OpenSSL 3.5 and RFC 8446 the second.
    if (alert == SSL_AD_ILLEGAL_PARAMETER || alert == SSL_AD_DECRYPT_ERROR) {
      return fmt::format(
          "wrong secret: both sides have the id \"{}\", but with different keys; copy the file "
          "from one to the other",
          secret_id);
    }
    const int number = ERR_GET_REASON(error);
    if (number == SSL_R_WRONG_VERSION_NUMBER || number == SSL_R_PACKET_LENGTH_TOO_LONG) {
      return "the response is not TLS; check that a cpprun master with a secret listens there";
    }
    return std::nullopt;
  }
};

thread_local SecureChannel::Inside* SecureChannel::Inside::shaking = nullptr;

SecureContext::SecureContext(std::unique_ptr<Inside> inside) : inside_(std::move(inside)) {}
SecureContext::~SecureContext() = default;

Result<std::shared_ptr<SecureContext>> SecureContext::of_client(const OpenSsl& openssl,
                                                                Secret secret) {
  return make(openssl, {std::move(secret)}, /*is_server=*/false);
}

Result<std::shared_ptr<SecureContext>> SecureContext::of_server(const OpenSsl& openssl,
                                                                Secrets secrets) {
  return make(openssl, std::move(secrets), /*is_server=*/true);
}

Result<std::shared_ptr<SecureContext>> SecureContext::make(const OpenSsl& openssl, Secrets secrets,
                                                           bool is_server) {
  const auto* const method = is_server ? openssl.TLS_server_method() : openssl.TLS_client_method();
  SSL_CTX* const context = openssl.SSL_CTX_new(method);
  if (context == nullptr) return failure("OpenSSL is out of memory");
  auto inside = std::make_unique<Inside>(openssl, std::move(secrets), is_server, context);
  const auto control = [&](int what, long number, const void* pointer) {
    return openssl.SSL_CTX_ctrl(context, what, number, const_cast<void*>(pointer)) != 0;
  };
  const bool is_set = control(SSL_CTRL_SET_MIN_PROTO_VERSION, TLS1_3_VERSION, nullptr) &&
                      openssl.SSL_CTX_set_ciphersuites(context, cipher_name) == 1 &&
                      control(SSL_CTRL_SET_GROUPS_LIST, 0, "X25519") &&
                      openssl.SSL_CTX_set_num_tickets(context, 0) == 1;
  if (!is_set)
    return failure(
        "the OpenSSL of this machine does not support TLS 1.3 with X25519 and AES-128-GCM");
  // Idle connections keep no buffers.
  control(SSL_CTRL_MODE, SSL_MODE_RELEASE_BUFFERS, nullptr);
  control(SSL_CTRL_SET_SESS_CACHE_MODE, SSL_SESS_CACHE_OFF, nullptr);
  if (is_server) {
    openssl.SSL_CTX_set_psk_find_session_callback(context, &SecureChannel::Inside::find);
  } else {
    // A server that presents a certificate instead is rejected, since no CA is trusted here.
    openssl.SSL_CTX_set_verify(context, SSL_VERIFY_PEER, nullptr);
    openssl.SSL_CTX_set_psk_use_session_callback(context, &SecureChannel::Inside::offer);
  }
  return std::shared_ptr<SecureContext>(new SecureContext(std::move(inside)));
}

const Secrets& SecureContext::secrets() const {
  return inside_->secrets;
}

const OpenSsl& SecureContext::openssl() const {
  return inside_->openssl;
}

void SecureContext::replace(Secrets secrets) {
  inside_->secrets = std::move(secrets);
}

SecureChannel::SecureChannel(const std::shared_ptr<SecureContext>& context)
    : inside_(std::make_unique<Inside>(context)) {
  if (inside_->is_server) return;
  inside_->secret_id = inside_->secrets.front().id;
  inside_->shake_hands();
}

SecureChannel::~SecureChannel() = default;

bool SecureChannel::hear(std::string_view bytes) {
  return inside_->hear(bytes);
}

bool SecureChannel::say(std::string_view bytes) {
  return inside_->say(bytes);
}

void SecureChannel::finish() {
  if (inside_->is_established && inside_->reason.empty()) {
    // Sends close_notify; the reply is not awaited.
    (void)inside_->openssl.SSL_shutdown(inside_->ssl);
  }
}

std::string SecureChannel::take_heard() {
  return std::exchange(inside_->heard, {});
}

std::string SecureChannel::take_outgoing() {
  return inside_->take_outgoing();
}

bool SecureChannel::is_established() const {
  return inside_->is_established;
}

bool SecureChannel::is_finished() const {
  return inside_->is_finished;
}

std::size_t SecureChannel::bytes_held() const {
  const bool has_torn_record = inside_->openssl.SSL_has_pending(inside_->ssl) == 1;
  return bounds::secure_channel_bytes + (has_torn_record ? bounds::secure_record_bytes : 0);
}

const std::string& SecureChannel::secret_id() const {
  return inside_->secret_id;
}

bool SecureChannel::is_valid_still() const {
  const Secret* const secret = find_secret(inside_->secrets, inside_->secret_id);
  return secret != nullptr && (!inside_->found_key || *secret->key == *inside_->found_key);
}

const std::string& SecureChannel::reason() const {
  return inside_->reason;
}

namespace {

// There is no user to ask for a password.
int no_password(char*, int, int, void*) {
  return 0;
}

// A PEM text as a source for OpenSSL.
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

  // Null after the last one.
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
    return failure("OpenSSL finds no trusted CA certificates on this machine; give a CA file");
  }
  PemSource source(openssl, authorities.text);
  int count = 0;
  while (X509* const certificate = source.next_certificate()) {
    // A duplicate certificate is not an error.
    (void)openssl.X509_STORE_add_cert(openssl.SSL_CTX_get_cert_store(context), certificate);
    openssl.X509_free(certificate);
    ++count;
  }
  openssl.ERR_clear_error();
  if (count > 0) return {};
  return bad_file(authorities, "has no PEM certificate (\"-----BEGIN CERTIFICATE-----\")");
}

Result<void> show(const OpenSsl& openssl, SSL_CTX* context, const TlsIdentity& identity) {
  if (identity.certificate.text.empty() && identity.key.text.empty()) return {};
  if (identity.key.text.empty()) {
    return bad_file(identity.certificate, "is a client certificate, but its key is missing");
  }
  if (identity.certificate.text.empty()) {
    return bad_file(identity.key, "is a key, but its client certificate is missing");
  }
  PemSource source(openssl, identity.certificate.text);
  bool is_first = true;
  while (X509* const certificate = source.next_certificate()) {
    const bool is_taken =
        is_first ? openssl.SSL_CTX_use_certificate(context, certificate) == 1
                 : openssl.SSL_CTX_ctrl(context, SSL_CTRL_CHAIN_CERT, 1, certificate) == 1;
    openssl.X509_free(certificate);
    if (!is_taken) return bad_file(identity.certificate, "has a certificate that OpenSSL rejects");
    is_first = false;
  }
  openssl.ERR_clear_error();
  if (is_first) {
    return bad_file(identity.certificate,
                    "has no PEM certificate (\"-----BEGIN CERTIFICATE-----\")");
  }
  EVP_PKEY* const key = PemSource(openssl, identity.key.text).key();
  openssl.ERR_clear_error();
  if (key == nullptr) {
    return bad_file(identity.key, "has no PEM private key, or an encrypted one");
  }
  const bool is_taken = openssl.SSL_CTX_use_PrivateKey(context, key) == 1 &&
                        openssl.SSL_CTX_check_private_key(context) == 1;
  openssl.EVP_PKEY_free(key);
  openssl.ERR_clear_error();
  if (is_taken) return {};
  return bad_file(identity.key, fmt::format("is not the key of the certificate in \"{}\"",
                                            identity.certificate.name));
}

// Servers differ in the alert that they send about a client certificate, or about a missing one.
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
  if (context == nullptr) return failure("OpenSSL is out of memory");
  auto inside = std::make_unique<Inside>(openssl, context);
  const bool is_set =
      openssl.SSL_CTX_ctrl(context, SSL_CTRL_SET_MIN_PROTO_VERSION, TLS1_2_VERSION, nullptr) == 1;
  if (!is_set) return failure("the OpenSSL of this machine does not support TLS 1.2");
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

struct TlsClientChannel::Inside : TlsEngine {
  std::string host;

  Inside(const std::shared_ptr<TlsClientContext>& its, std::string name)
      : TlsEngine(its, its->inside_->openssl, its->inside_->context), host(std::move(name)) {
    if (!open() || !expect_host()) throw std::bad_alloc();
    openssl.SSL_set_connect_state(ssl);
  }

  bool expect_host() const {
    // Without the scope id, which only has a meaning on this machine.
    const std::string name = host.substr(0, host.find('%'));
    if (is_address(name)) {
      return openssl.X509_VERIFY_PARAM_set1_ip_asc(openssl.SSL_get0_param(ssl), name.c_str()) == 1;
    }
    return openssl.SSL_set1_host(ssl, name.c_str()) == 1 &&
           openssl.SSL_ctrl(ssl, SSL_CTRL_SET_TLSEXT_HOSTNAME, TLSEXT_NAMETYPE_host_name,
                            const_cast<char*>(name.c_str())) == 1;
  }

  bool shake_hands() override {
    openssl.ERR_clear_error();
    const int result = openssl.SSL_do_handshake(ssl);
    return result == 1 ? establish() : is_only_waiting(result);
  }

  std::string why(unsigned long error) const override {
    const int number = ERR_GET_REASON(error);
    const char* const text = openssl.ERR_reason_error_string(error);
    const char* const known = text == nullptr ? "no reason given" : text;
    if (number == SSL_R_CERTIFICATE_VERIFY_FAILED) return why_not_believed();
    if (number == SSL_R_WRONG_VERSION_NUMBER || number == SSL_R_PACKET_LENGTH_TOO_LONG) {
      return "the response is not TLS; try http://";
    }
    // Sent by the server after this side has presented its certificate, or none.
    if (is_about_our_certificate(alert_of(error))) {
      return fmt::format(
          "the server rejected the client certificate, or requires one ({}); give a certificate "
          "that its CA has signed, and the key",
          known);
    }
    return fmt::format("TLS error ({})", known);
  }

  std::string why_not_believed() const {
    const long verdict = openssl.SSL_get_verify_result(ssl);
    const char* const text = openssl.X509_verify_cert_error_string(verdict);
    if (verdict == X509_V_ERR_HOSTNAME_MISMATCH || verdict == X509_V_ERR_IP_ADDRESS_MISMATCH) {
      return fmt::format(
          "the certificate of the server is not for \"{}\"; use a name that it contains, or issue "
          "it for this name too",
          host);
    }
    return fmt::format(
        "the certificate of the server is not trusted ({}); give the file of the CA that signed it",
        text == nullptr ? "no reason given" : text);
  }
};

TlsClientChannel::TlsClientChannel(const std::shared_ptr<TlsClientContext>& context,
                                   const std::string& host)
    : inside_(std::make_unique<Inside>(context, host)) {
  inside_->shake_hands();
}

TlsClientChannel::~TlsClientChannel() = default;

bool TlsClientChannel::hear(std::string_view bytes) {
  return inside_->hear(bytes);
}

bool TlsClientChannel::say(std::string_view bytes) {
  return inside_->say(bytes);
}

std::string TlsClientChannel::take_heard() {
  return std::exchange(inside_->heard, {});
}

std::string TlsClientChannel::take_outgoing() {
  return inside_->take_outgoing();
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
