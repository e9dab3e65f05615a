// SPDX-License-Identifier: Apache-2.0

#include "rpc/member/member_security.h"

#include <fcntl.h>
#include <spdlog/spdlog.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "base/assert.h"
#include "rpc/poller/descriptor.h"
#include "rpc/tls/current_context.h"
#include "rpc/tls/names.h"

namespace quorate::rpc {
namespace {

absl::Status Problem(const std::string& path, absl::string_view problem) {
  return absl::InvalidArgumentError(absl::StrCat(path, ": ", problem));
}

// Warns if other members will refuse the certificate of this one.
void CheckOwnName(const Config& config, const tls::Context& context) {
  const auto own = config.servers.find(config.my_id);
  if (own == config.servers.end() || !config.quorum_ssl_hostname_verification) return;
  const std::string problem = tls::NameProblem(context.certificate(), own->second.host);
  if (problem.empty()) return;
  spdlog::warn(
      "other servers will refuse this one: {}, as the line server.{} says; make a certificate with "
      "that name or address in its subjectAltName, or set ssl.quorum.hostnameVerification=false on "
      "all servers",
      problem, config.my_id);
}

// Warns of settings with which a server that connects need not have a certificate.
void WarnOfStrangers(const Config& config, const PeerSecurity& security) {
  if (security.requires_proof() || security.accepts_plain) return;
  if (config.quorum_ssl_client_auth == "need") return;
  spdlog::warn(
      "ssl.quorum.clientAuth={}: who reaches the port for servers can act as a server of this "
      "cluster without a certificate; set need, or memberSecretFile",
      config.quorum_ssl_client_auth);
}

}  // namespace

tls::Options MemberTlsOptions(const Config& config) {
  ASSERT(config.ssl_quorum || config.peer_port_unification);
  tls::Options options;
  options.key_store = {config.quorum_ssl_key_store, config.quorum_ssl_key_store_password,
                       config.quorum_ssl_key_store_password_file, config.quorum_ssl_key_store_type};
  options.trust_store = {config.quorum_ssl_trust_store, config.quorum_ssl_trust_store_password,
                         config.quorum_ssl_trust_store_password_file,
                         config.quorum_ssl_trust_store_type};
  options.protocols = config.quorum_ssl_enabled_protocols;
  options.cipher_suites = config.quorum_ssl_cipher_suites;
  options.client_auth = config.quorum_ssl_client_auth == "none"   ? tls::ClientAuth::kNone
                        : config.quorum_ssl_client_auth == "want" ? tls::ClientAuth::kWant
                                                                  : tls::ClientAuth::kNeed;
  options.check_revocation = config.quorum_ssl_crl;
  options.connects = true;
  return options;
}

absl::StatusOr<std::string> ReadMemberSecret(const std::string& path) {
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!file.is_open()) {
    return Problem(path, absl::StrCat("cannot be opened: ", std::strerror(errno),
                                      "; it has to hold the secret that all servers share"));
  }
  struct stat facts {};
  if (::fstat(file.number(), &facts) != 0) return Problem(path, std::strerror(errno));
  if (!S_ISREG(facts.st_mode)) return Problem(path, "it is not a file");
  if ((facts.st_mode & (S_IRWXG | S_IRWXO)) != 0) {
    return Problem(
        path, absl::StrCat("others than its owner may use it (mode ",
                           absl::Hex((facts.st_mode >> 6) & 7), absl::Hex((facts.st_mode >> 3) & 7),
                           absl::Hex(facts.st_mode & 7), "); chmod 600 ", path));
  }
  std::string secret(kMemberSecretBytesMax + 2, '\0');  // and a newline, and one byte too many
  size_t size = 0;
  for (ssize_t count = 1; count > 0 && size < secret.size(); size += static_cast<size_t>(count)) {
    count = ::read(file.number(), secret.data() + size, secret.size() - size);
    if (count < 0) return Problem(path, absl::StrCat("cannot be read: ", std::strerror(errno)));
  }
  absl::string_view content(secret.data(), size);
  absl::ConsumeSuffix(&content, "\n");
  if (content.size() < kMemberSecretBytesMin || content.size() > kMemberSecretBytesMax) {
    return Problem(
        path, absl::StrCat("the secret has ", size > kMemberSecretBytesMax ? "more than " : "only ",
                           std::min(content.size(), kMemberSecretBytesMax),
                           " bytes, and has to have ", kMemberSecretBytesMin, " to ",
                           kMemberSecretBytesMax, "; make one with: openssl rand -hex 32"));
  }
  return std::string(content);
}

absl::StatusOr<PeerSecurity> MakePeerSecurity(const Config& config) {
  PeerSecurity security;
  security.connects_with_tls = config.ssl_quorum;
  security.accepts_tls = config.ssl_quorum || config.peer_port_unification;
  security.accepts_plain = !config.ssl_quorum || config.peer_port_unification;
  security.checks_names = config.quorum_ssl_hostname_verification;
  security.checks_names_of_connecting = config.quorum_ssl_client_hostname_verification;
  security.handshake_timeout =
      std::chrono::milliseconds(config.quorum_ssl_handshake_detection_timeout_ms);
  security.secret_required = config.member_secret_required;
  if (!config.member_secret_file.empty()) {
    auto secret = ReadMemberSecret(config.member_secret_file);
    if (!secret.ok()) {
      return absl::InvalidArgumentError(
          absl::StrCat(config.file, ": memberSecretFile: ", secret.status().message()));
    }
    security.secret = *std::move(secret);
  }
  if (!security.accepts_tls) return security;
  auto current = tls::CurrentContext::Create(MemberTlsOptions(config), config.quorum_cert_reload);
  if (!current.ok()) {
    return absl::InvalidArgumentError(absl::StrCat(
        config.file, ": TLS between servers (ssl.quorum.*): ", current.status().message()));
  }
  security.tls = std::shared_ptr<const tls::CurrentContext>(*std::move(current));
  CheckOwnName(config, *security.tls->Get());
  WarnOfStrangers(config, security);
  return security;
}

}  // namespace quorate::rpc
