// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// OpenSSL's functions as a table, and key derivation.

#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>

#include <new>
#include <string_view>

#include "proto/secure/secret.h"

namespace cpprun {

// The OpenSSL functions used here, as a table: nothing is linked, and opening the library fills it
// (io/openssl_library.h). Members have the names of their functions; OpenSSL's headers document
// them.
// clang-format off
#define CPPRUN_OPENSSL_FUNCTIONS(each) \
  each(OPENSSL_init_ssl) \
  each(TLS_server_method) \
  each(TLS_client_method) \
  each(SSL_CTX_new) \
  each(SSL_CTX_free) \
  each(SSL_CTX_ctrl) \
  each(SSL_CTX_set_ciphersuites) \
  each(SSL_CTX_set_num_tickets) \
  each(SSL_CTX_set_verify) \
  each(SSL_CTX_set_psk_find_session_callback) \
  each(SSL_CTX_set_psk_use_session_callback) \
  each(SSL_new) \
  each(SSL_free) \
  each(SSL_set_bio) \
  each(SSL_set_accept_state) \
  each(SSL_set_connect_state) \
  each(SSL_do_handshake) \
  each(SSL_read) \
  each(SSL_write) \
  each(SSL_shutdown) \
  each(SSL_get_error) \
  each(SSL_has_pending) \
  each(SSL_get_session) \
  each(SSL_session_reused) \
  each(SSL_SESSION_new) \
  each(SSL_SESSION_free) \
  each(SSL_SESSION_set1_master_key) \
  each(SSL_SESSION_set_cipher) \
  each(SSL_SESSION_set_protocol_version) \
  each(SSL_SESSION_get0_cipher) \
  each(SSL_CIPHER_find) \
  each(SSL_CIPHER_get_handshake_digest) \
  each(BIO_new) \
  each(BIO_s_mem) \
  each(BIO_read) \
  each(BIO_write) \
  each(BIO_ctrl) \
  each(ERR_get_error) \
  each(ERR_clear_error) \
  each(ERR_reason_error_string) \
  each(EVP_sha256) \
  each(HMAC) \
  each(SSL_CTX_set_default_verify_paths) \
  each(SSL_CTX_get_cert_store) \
  each(SSL_CTX_use_certificate) \
  each(SSL_CTX_use_PrivateKey) \
  each(SSL_CTX_check_private_key) \
  each(SSL_ctrl) \
  each(SSL_set1_host) \
  each(SSL_get0_param) \
  each(SSL_get_verify_result) \
  each(X509_VERIFY_PARAM_set1_ip_asc) \
  each(X509_verify_cert_error_string) \
  each(X509_STORE_add_cert) \
  each(X509_free) \
  each(EVP_PKEY_free) \
  each(PEM_read_bio_X509) \
  each(PEM_read_bio_PrivateKey) \
  each(BIO_new_mem_buf) \
  each(BIO_free)
// clang-format on

struct OpenSsl {
#define CPPRUN_OPENSSL_MEMBER(name) decltype(&::name) name = nullptr;
  CPPRUN_OPENSSL_FUNCTIONS(CPPRUN_OPENSSL_MEMBER)
#undef CPPRUN_OPENSSL_MEMBER
};

// The TLS alert (SSL_AD_…) that the peer sent, -1 if the error is not an alert of the peer. Its
// number is the same in all versions of OpenSSL. Which alert is sent for an error, and the names
// and texts of alerts, differ between 1.1.1 and 3.5.
inline int alert_of(unsigned long error) {
  const int reason = ERR_GET_REASON(error);
  const bool is_alert = ERR_GET_LIB(error) == ERR_LIB_SSL && reason >= SSL_AD_REASON_OFFSET &&
                        reason < SSL_AD_REASON_OFFSET + 256;
  return is_alert ? reason - SSL_AD_REASON_OFFSET : -1;
}

// Derives a separate key for each use of a secret, so that one use reveals nothing about another or
// about the secret. HMAC-SHA256 of `purpose` under `key`. Throws std::bad_alloc if OpenSSL has no
// memory.
inline Key derive_key(const OpenSsl& openssl, const Key& key, std::string_view purpose) {
  Key derived;
  unsigned int size = 0;
  const auto* const text = reinterpret_cast<const unsigned char*>(purpose.data());
  const unsigned char* const done =
      openssl.HMAC(openssl.EVP_sha256(), key.data(), static_cast<int>(key.size()), text,
                   purpose.size(), derived.data(), &size);
  if (done == nullptr || size != derived.size()) throw std::bad_alloc();
  return derived;
}

}  // namespace cpprun
