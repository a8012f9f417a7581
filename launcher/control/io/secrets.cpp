// SPDX-License-Identifier: BSD-3-Clause
#include "launcher/control/io/secrets.h"

#include <fmt/format.h>
#include <string.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstddef>
#include <span>
#include <string>
#include <utility>

#include "launcher/control/io/console.h"
#include "launcher/control/io/key_file.h"
#include "launcher/control/key_text.h"
#include "launcher/io/wall_clock.h"
#include "proto/secure/io/key_memory.h"
#include "proto/secure/io/openssl_library.h"
#include "proto/secure/token.h"
#include "proto/text.h"
#include "rendezvous/io/file_descriptor.h"
#include "rendezvous/io/random_bytes.h"
#include "rendezvous/io/secret_file.h"
#include "rendezvous/secret_place.h"

namespace cpprun::io {

namespace {

constexpr std::string_view standard_output = "-";

int give_up(const std::string& why) {
  complain("error: " + why);
  return control_code::refused;
}

Result<Secret> random_secret(const std::string& id) {
  auto key = make_key_memory();
  IdBytes name{};
  for (const std::span<unsigned char> bytes : {std::span<unsigned char>(*key), {name}}) {
    if (auto filled = fill_randomly(bytes); !filled)
      return tl::unexpected(std::move(filled.error()));
  }
  return Secret{id.empty() ? secret_id(wall_now(), name) : id, std::move(key)};
}

// Wiped when it goes.
struct KeyText {
  explicit KeyText(const Secret& secret) : text(secrets_text({secret})) {}
  ~KeyText() { ::explicit_bzero(text.data(), text.size()); }
  KeyText(const KeyText&) = delete;
  KeyText& operator=(const KeyText&) = delete;
  std::string text;
};

int print_secret(const Secret& secret) {
  const KeyText key(secret);
  if (!print(key.text)) return give_up("cannot write the secret to stdout: " + errno_text(errno));
  (void)write_all(STDERR_FILENO, fmt::format("cpprunctl: made the secret {}\n", secret.id));
  return control_code::done;
}

}  // namespace

int make_secret(const Wish& wish, const Environment& environment) {
  const auto secret = random_secret(wish.id);
  if (!secret) return give_up(secret.error().reason);
  if (wish.subject == standard_output) return print_secret(*secret);
  const std::string path =
      secret_place(wish.subject.empty() ? wish.secret_file : wish.subject, environment).path;
  if (path.empty()) return give_up("HOME says no folder of yours; say where: keygen FILE");
  if (wish.adds) {
    const auto old = add_to_key_file(path, *secret);
    if (!old) return give_up(old.error().reason);
    print(added_text(secret->id, path, old->id));
    return control_code::done;
  }
  const KeyText key(*secret);
  if (const auto made = create_key_file(path, key.text); !made) return give_up(made.error().reason);
  print(made_text(secret->id, path));
  return control_code::done;
}

int print_token(const Wish& wish, const Environment& environment) {
  const auto secrets = find_secrets(wish.secret_file, environment);
  if (!secrets) return give_up(secrets.error().reason);
  if (secrets->empty()) {
    return give_up(
        "there is no secret that a token could be made with: \"cpprunctl keygen\" makes "
        "one, --secret-file FILE names one");
  }
  const auto openssl = open_openssl();
  if (!openssl) return give_up(openssl.error().reason);
  const auto now = std::chrono::duration_cast<std::chrono::seconds>(wall_now().time_since_epoch());
  const auto purpose = wish.token_orders ? TokenPurpose::order : TokenPurpose::read;
  const auto token = make_token(*openssl, secrets->front(),
                                {.purpose = purpose,
                                 .expiry_unix_seconds = now.count() + wish.for_seconds.value_or(0),
                                 .job = wish.job});
  if (!print(token + "\n")) return give_up("cannot write the token to stdout");
  return control_code::done;
}

}  // namespace cpprun::io
