// SPDX-License-Identifier: Apache-2.0

// How servers make sure of each other: TLS with certificates, a shared secret, both, or neither.
//
// Thread-safety: plain values, which do not change while a PeerNetwork has them.
#pragma once

#include <chrono>
#include <memory>
#include <string>

#include "rpc/tls/current_context.h"

namespace quorate::rpc {

struct PeerSecurity {
  // The keys of TLS; null: neither kind of connection can have TLS. Its contexts can connect
  // (tls::Options::connects).
  std::shared_ptr<const tls::CurrentContext> tls;
  // The server connects to others with TLS.
  bool connects_with_tls = false;
  // The server takes connections with TLS, and without. At least one is true.
  bool accepts_tls = false;
  bool accepts_plain = true;
  // The certificate of a server must name the host in its server.N line: of a server that this one
  // connects to, and of a server that connects. Names of addresses are never looked up.
  bool checks_names = true;
  bool checks_names_of_connecting = true;
  // The time for the handshake of TLS on an accepted connection.
  std::chrono::milliseconds handshake_timeout{5000};
  // The secret that all servers share (rpc/peer/member_secret.h); empty: there is none.
  std::string secret;
  // A server that does not prove the secret is refused. If this is false, and it does not, or proves
  // another one, that is logged.
  bool secret_required = true;

  bool requires_proof() const { return !secret.empty() && secret_required; }
};

}  // namespace quorate::rpc
