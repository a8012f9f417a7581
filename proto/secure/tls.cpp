// SPDX-License-Identifier: BSD-3-Clause
#include "proto/secure/tls.h"

#include <fmt/format.h>
#include <openssl/pem.h>
#include <string.h>

#include <algorithm>
#include <array>
#include <cassert>
#include <new>
#include <utility>

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

// The reply is no TLS at all.
bool is_no_tls(int number) {
  return number == SSL_R_WRONG_VERSION_NUMBER || number == SSL_R_PACKET_LENGTH_TOO_LONG;
}

const char* text_or_none(const char* text) {
  return text == nullptr ? "no reason given" : text;
}

}  // namespace

// How both sides find the secret. OpenSSL's callbacks get no user argument: `shaking` is the
// channel of the current handshake.
struct PskCallbacks {
  static thread_local SecureChannel* shaking;

  static Session session_of(const SecureChannel& channel, const Secret& secret) {
    const OpenSsl& openssl = channel.openssl_;
    Session session(openssl.SSL_SESSION_new(), FreeSession{&openssl});
    Key key = derive_key(openssl, *secret.key, link_purpose);
    const SSL_CIPHER* const cipher =
        openssl.SSL_CIPHER_find(channel.ssl_.get(), cipher_number.data());
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
    SecureChannel& channel = *shaking;
    const Secret& secret = channel.context_->secrets().front();
    Session made = session_of(channel, secret);
    *session = nullptr;
    *length = 0;
    if (!made) return 0;
    // Called again after the server chose a hash; only one is supported.
    const OpenSsl& openssl = channel.openssl_;
    const SSL_CIPHER* const cipher = openssl.SSL_SESSION_get0_cipher(made.get());
    if (digest != nullptr && digest != openssl.SSL_CIPHER_get_handshake_digest(cipher)) return 1;
    channel.identity_ = fmt::format("{}{}", identity_prefix, secret.id);
    *identity = reinterpret_cast<const unsigned char*>(channel.identity_.data());
    *length = channel.identity_.size();
    *session = made.release();
    return 1;
  }

  // Server: finds the offered secret. Without one, OpenSSL looks for a certificate, and there is
  // none.
  static int find(SSL*, const unsigned char* identity, std::size_t length, SSL_SESSION** session) {
    SecureChannel& channel = *shaking;
    *session = nullptr;
    std::string_view named(reinterpret_cast<const char*>(identity), length);
    if (!named.starts_with(identity_prefix)) return 1;
    named.remove_prefix(identity_prefix.size());
    if (!is_secret_id(named)) return 1;
    channel.was_offered_ = true;
    channel.secret_id_ = named;
    const Secret* const secret = find_secret(channel.context_->secrets(), named);
    if (secret == nullptr) return 1;
    channel.is_known_ = true;
    channel.found_key_ = secret->key;
    *session = session_of(channel, *secret).release();
    return *session == nullptr ? 0 : 1;
  }
};

thread_local SecureChannel* PskCallbacks::shaking = nullptr;

void SecureContext::Free::operator()(ssl_ctx_st* settings) const {
  openssl->SSL_CTX_free(settings);
}

SecureContext::SecureContext(const OpenSsl& openssl, Kind kind, Secrets secrets)
    : openssl_(std::make_shared<OpenSsl>(openssl)),
      kind_(kind),
      secrets_(std::move(secrets)),
      settings_(openssl.SSL_CTX_new(kind == Kind::server ? openssl.TLS_server_method()
                                                         : openssl.TLS_client_method()),
                Free{openssl_.get()}) {}

Result<std::shared_ptr<SecureContext>> SecureContext::of_client(const OpenSsl& openssl,
                                                                Secret secret) {
  return of_secrets(openssl, Kind::client, {std::move(secret)});
}

Result<std::shared_ptr<SecureContext>> SecureContext::of_server(const OpenSsl& openssl,
                                                                Secrets secrets) {
  return of_secrets(openssl, Kind::server, std::move(secrets));
}

Result<std::shared_ptr<SecureContext>> SecureContext::of_secrets(const OpenSsl& openssl, Kind kind,
                                                                 Secrets secrets) {
  std::shared_ptr<SecureContext> made(new SecureContext(openssl, kind, std::move(secrets)));
  SSL_CTX* const context = made->settings_.get();
  if (context == nullptr) return failure("OpenSSL is out of memory");
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
  if (kind == Kind::server) {
    openssl.SSL_CTX_set_psk_find_session_callback(context, &PskCallbacks::find);
  } else {
    // A server that presents a certificate instead is rejected, since no CA is trusted here.
    openssl.SSL_CTX_set_verify(context, SSL_VERIFY_PEER, nullptr);
    openssl.SSL_CTX_set_psk_use_session_callback(context, &PskCallbacks::offer);
  }
  return made;
}

Result<std::shared_ptr<SecureContext>> SecureContext::of_certificates(const OpenSsl& openssl,
                                                                      const TlsIdentity& identity) {
  openssl.ERR_clear_error();
  std::shared_ptr<SecureContext> made(new SecureContext(openssl, Kind::client_of_certificate, {}));
  SSL_CTX* const context = made->settings_.get();
  if (context == nullptr) return failure("OpenSSL is out of memory");
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
  return made;
}

void SecureChannel::Free::operator()(ssl_st* connection) const {
  openssl->SSL_free(connection);  // frees both BIOs
}

SecureChannel::SecureChannel(std::shared_ptr<SecureContext> context, std::string host)
    : context_(std::move(context)),
      openssl_(context_->openssl()),
      host_(std::move(host)),
      ssl_(openssl_.SSL_new(context_->settings_.get()), Free{&openssl_}) {
  if (!ssl_) throw std::bad_alloc();
  incoming_ = openssl_.BIO_new(openssl_.BIO_s_mem());
  outgoing_ = openssl_.BIO_new(openssl_.BIO_s_mem());
  if (incoming_ == nullptr || outgoing_ == nullptr) throw std::bad_alloc();
  openssl_.SSL_set_bio(ssl_.get(), incoming_, outgoing_);
  if (context_->kind_ == SecureContext::Kind::server) {
    openssl_.SSL_set_accept_state(ssl_.get());
    return;
  }
  if (context_->kind_ == SecureContext::Kind::client) {
    secret_id_ = context_->secrets().front().id;
  } else if (!expect_host()) {
    throw std::bad_alloc();
  }
  openssl_.SSL_set_connect_state(ssl_.get());
  shake_hands();
}

bool SecureChannel::expect_host() const {
  // Without the scope id, which only has a meaning on this machine.
  const std::string name = host_.substr(0, host_.find('%'));
  if (is_address(name)) {
    X509_VERIFY_PARAM* const expected = openssl_.SSL_get0_param(ssl_.get());
    return openssl_.X509_VERIFY_PARAM_set1_ip_asc(expected, name.c_str()) == 1;
  }
  return openssl_.SSL_set1_host(ssl_.get(), name.c_str()) == 1 &&
         openssl_.SSL_ctrl(ssl_.get(), SSL_CTRL_SET_TLSEXT_HOSTNAME, TLSEXT_NAMETYPE_host_name,
                           const_cast<char*>(name.c_str())) == 1;
}

bool SecureChannel::hear(std::string_view bytes) {
  if (!reason_.empty()) return false;
  while (!bytes.empty()) {
    const std::string_view some = bytes.substr(0, chunk_bytes);
    bytes.remove_prefix(some.size());
    const int size = static_cast<int>(some.size());
    if (openssl_.BIO_write(incoming_, some.data(), size) != size) throw std::bad_alloc();
    if (!is_established_ && !shake_hands()) return false;
    if (is_established_ && !read()) return false;
  }
  return true;
}

bool SecureChannel::say(std::string_view bytes) {
  if (!reason_.empty()) return false;
  if (bytes.empty()) return true;
  if (is_established_) return write(bytes);
  unsaid_ += bytes;
  return true;
}

void SecureChannel::finish() {
  if (is_established_ && reason_.empty()) {
    // Sends close_notify; the reply is not awaited.
    (void)openssl_.SSL_shutdown(ssl_.get());
  }
}

std::string SecureChannel::take_outgoing() {
  const auto waiting = openssl_.BIO_ctrl(outgoing_, BIO_CTRL_PENDING, 0, nullptr);
  std::string bytes(static_cast<std::size_t>(waiting), '\0');
  if (bytes.empty()) return bytes;
  const int taken = openssl_.BIO_read(outgoing_, bytes.data(), static_cast<int>(bytes.size()));
  assert(taken == static_cast<int>(bytes.size()));
  (void)taken;
  return bytes;
}

std::size_t SecureChannel::bytes_held() const {
  const bool has_torn_record = openssl_.SSL_has_pending(ssl_.get()) == 1;
  return bounds::secure_channel_bytes + (has_torn_record ? bounds::secure_record_bytes : 0);
}

bool SecureChannel::is_valid_still() const {
  const Secret* const secret = find_secret(context_->secrets(), secret_id_);
  return secret != nullptr && (!found_key_ || *secret->key == *found_key_);
}

// Advances the handshake as far as possible.
bool SecureChannel::shake_hands() {
  openssl_.ERR_clear_error();
  PskCallbacks::shaking = this;
  const int result = openssl_.SSL_do_handshake(ssl_.get());
  PskCallbacks::shaking = nullptr;
  if (result != 1) return is_only_waiting(result);
  if (context_->kind_ != SecureContext::Kind::client_of_certificate) {
    // OpenSSL would also have accepted a certificate.
    if (openssl_.SSL_session_reused(ssl_.get()) != 1)
      return end("the peer has not proved that it has the secret");
    forget_key();
  }
  return establish();
}

// The handshake is done.
bool SecureChannel::establish() {
  is_established_ = true;
  const std::string first = std::exchange(unsaid_, {});
  return first.empty() || write(first);
}

// OpenSSL keeps the key for session resumption, and a core file would contain it.
void SecureChannel::forget_key() const {
  const Key nothing{};
  openssl_.SSL_SESSION_set1_master_key(openssl_.SSL_get_session(ssl_.get()), nothing.data(),
                                       nothing.size());
}

bool SecureChannel::read() {
  while (true) {
    const std::size_t before = heard_.size();
    heard_.resize(before + chunk_bytes);
    openssl_.ERR_clear_error();
    const int result = openssl_.SSL_read(ssl_.get(), heard_.data() + before, chunk_bytes);
    heard_.resize(before + static_cast<std::size_t>(std::max(result, 0)));
    if (result <= 0) return is_only_waiting(result);
  }
}

bool SecureChannel::write(std::string_view bytes) {
  openssl_.ERR_clear_error();
  const int result = openssl_.SSL_write(ssl_.get(), bytes.data(), static_cast<int>(bytes.size()));
  // A memory BIO takes all of it.
  return result > 0 || is_only_waiting(result);
}

bool SecureChannel::is_only_waiting(int result) {
  const int what = openssl_.SSL_get_error(ssl_.get(), result);
  if (what == SSL_ERROR_WANT_READ) return true;
  if (what == SSL_ERROR_ZERO_RETURN) {
    is_finished_ = true;
    return true;
  }
  return end(why(openssl_.ERR_get_error()));
}

bool SecureChannel::end(std::string because) {
  reason_ = std::move(because);
  return false;
}

// The reason for the end of the connection, from OpenSSL's error.
std::string SecureChannel::why(unsigned long error) const {
  std::string known;
  if (context_->kind_ == SecureContext::Kind::client_of_certificate) {
    known = why_not_trusted(error);
  } else if (!is_established_) {
    known = context_->kind_ == SecureContext::Kind::server ? why_refused(ERR_GET_REASON(error))
                                                           : why_not_taken(error);
  }
  if (!known.empty()) return known;
  return fmt::format("TLS error ({})", text_or_none(openssl_.ERR_reason_error_string(error)));
}

// Server: why the client was rejected.
std::string SecureChannel::why_refused(int number) const {
  if (number == SSL_R_BINDER_DOES_NOT_VERIFY) {
    return fmt::format(
        "wrong secret: both sides have the id \"{}\", but with different keys; copy the file "
        "from one to the other",
        secret_id_);
  }
  if (was_offered_ && !is_known_) {
    return fmt::format("wrong secret: the client has \"{}\", and the server has {}", secret_id_,
                       names_of(context_->secrets()));
  }
  return was_offered_ ? "" : "a TLS client that has no cpprun secret";
}

// Client: why the server rejected this side, by the alert it sent.
std::string SecureChannel::why_not_taken(unsigned long error) const {
  const int alert = alert_of(error);
  if (alert == SSL_AD_UNKNOWN_PSK_IDENTITY) {
    return fmt::format(
        "the client uses secret \"{}\", but the server has none; use the same secret on both, or "
        "no secret on either",
        secret_id_);
  }
  if (alert == SSL_AD_HANDSHAKE_FAILURE) {
    return fmt::format("wrong secret: the server has no secret with the id \"{}\"", secret_id_);
  }
  // OpenSSL before 3.5 sends the first, OpenSSL 3.5 and RFC 8446 the second.
  if (alert == SSL_AD_ILLEGAL_PARAMETER || alert == SSL_AD_DECRYPT_ERROR) {
    return fmt::format(
        "wrong secret: both sides have the id \"{}\", but with different keys; copy the file "
        "from one to the other",
        secret_id_);
  }
  if (is_no_tls(ERR_GET_REASON(error))) {
    return "the response is not TLS; check that a cpprun master with a secret listens there";
  }
  return {};
}

// Client of a server with a certificate: why one side rejected the other.
std::string SecureChannel::why_not_trusted(unsigned long error) const {
  const int number = ERR_GET_REASON(error);
  if (is_no_tls(number)) return "the response is not TLS; try http://";
  // Sent by the server after this side has presented its certificate, or none.
  if (is_about_our_certificate(alert_of(error))) {
    return fmt::format(
        "the server rejected the client certificate, or requires one ({}); give a certificate "
        "that its CA has signed, and the key",
        text_or_none(openssl_.ERR_reason_error_string(error)));
  }
  if (number != SSL_R_CERTIFICATE_VERIFY_FAILED) return {};
  const long verdict = openssl_.SSL_get_verify_result(ssl_.get());
  if (verdict == X509_V_ERR_HOSTNAME_MISMATCH || verdict == X509_V_ERR_IP_ADDRESS_MISMATCH) {
    return fmt::format(
        "the certificate of the server is not for \"{}\"; use a name that it contains, or issue "
        "it for this name too",
        host_);
  }
  return fmt::format(
      "the certificate of the server is not trusted ({}); give the file of the CA that signed it",
      text_or_none(openssl_.X509_verify_cert_error_string(verdict)));
}

}  // namespace cpprun
