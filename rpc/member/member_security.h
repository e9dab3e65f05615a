// SPDX-License-Identifier: Apache-2.0

// How this member and the others make sure of each other, as the configuration sets it up.
//
// Thread-safety: functions without state.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "rpc/config/config.h"
#include "rpc/peer/peer_security.h"
#include "rpc/tls/options.h"

namespace quorate::rpc {

// The limits of a secret, in bytes.
inline constexpr size_t kMemberSecretBytesMin = 16;
inline constexpr size_t kMemberSecretBytesMax = 4096;

// Reads the stores and the secret that `config` names. An error names the configuration file, the
// key, the reason and what to do. Logs settings that let other servers in without a certificate,
// and a certificate of this member that other members will refuse.
absl::StatusOr<PeerSecurity> MakePeerSecurity(const Config& config);

// Returns the settings of TLS between servers. REQUIRES: config.ssl_quorum or
// config.peer_port_unification.
tls::Options MemberTlsOptions(const Config& config);

// Returns the secret in a file: its content without one newline at the end. The error says what is
// wrong with the file: it must be a file that only its owner can read, of kMemberSecretBytesMin to
// kMemberSecretBytesMax bytes.
absl::StatusOr<std::string> ReadMemberSecret(const std::string& path);

}  // namespace quorate::rpc
