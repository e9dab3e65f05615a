// SPDX-License-Identifier: Apache-2.0

// Clients that authenticate by the SASL mechanism GSSAPI (RFC 4752) with Kerberos, without a security
// layer. Cyrus SASL has the mechanism; each exchange gives it the credential of its section.
//
// Accepting a client needs the keytab and the tables of this process, and no network. The file of
// the keytab is read for each client, so that a keytab with new keys is used at once. Tokens that
// were accepted are remembered in memory as long as they are valid, so that a token that was
// recorded on the network cannot be used again; a restart forgets them, as with ZooKeeper.
//
// Thread-safety: Gssapi may be used by any thread.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "rpc/sasl/exchange.h"
#include "rpc/sasl/names.h"

namespace quorate::rpc::sasl {

struct KerberosOptions {
  std::string principal;      // of this server: "zookeeper/host@REALM"
  std::string keytab;         // a path; empty: the default of krb5.conf
  bool allows_super = false;  // a client may have the id "super"
};

class Gssapi : public Authenticator {
 public:
  // Returns InvalidArgument or FailedPrecondition with the reason if the keytab cannot be used.
  static absl::StatusOr<std::unique_ptr<Gssapi>> Create(const KerberosOptions& options,
                                                        IdMapping ids);
  ~Gssapi() override;
  Gssapi(const Gssapi&) = delete;
  Gssapi& operator=(const Gssapi&) = delete;

  std::unique_ptr<ServerExchange> Begin(std::string_view address) override;

 private:
  class Exchange;
  struct Credential;

  Gssapi(std::unique_ptr<Credential> credential, bool allows_super, IdMapping ids);

  const std::unique_ptr<Credential> credential_;
  const bool allows_super_;
  const IdMapping ids_;
};

// Returns the default realm of krb5.conf; empty if there is none.
std::string DefaultRealm();

}  // namespace quorate::rpc::sasl
