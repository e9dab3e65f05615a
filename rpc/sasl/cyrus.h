// SPDX-License-Identifier: Apache-2.0

// The server's side of one exchange by the library Cyrus SASL, which has the mechanisms as plug-ins.
//
// The library and its plug-ins have state for the whole process, and take their settings from files.
// Here they get all settings from this component, and read no file but the plug-ins: those in the
// directory sasl2 beside libsasl2, where Debian's packages and the archive of deploy/package have
// them. All that belongs to one server or one client belongs to an exchange.
//
// Thread-safety: Require may be called from any thread. Exchanges may run in many threads at
// once, each in one thread at a time.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "rpc/sasl/exchange.h"

namespace quorate::rpc::sasl {

enum class Mechanism { kDigestMd5, kGssapi };

// An exchange without a security layer, with the service "zookeeper" and, for DIGEST-MD5, the realm
// "zk-sasl-md5". Derived classes say which passwords and which ids there are.
class CyrusExchange : public ServerExchange {
 public:
  ~CyrusExchange() override;

  // Initialises the library at the first call in a process. Returns FailedPrecondition with the directory
  // and the Debian package if the plug-in of `mechanism` cannot be loaded. A plug-in that is installed
  // later is found after a restart of the process.
  static absl::Status Require(Mechanism mechanism);

  absl::StatusOr<Reply> OnToken(std::string_view token) override;

 protected:
  // REQUIRES: Require(mechanism) has returned OK. `credential` is the gss_cred_id_t with which
  // clients of GSSAPI are accepted; it must outlive the object. It is null for DIGEST-MD5.
  CyrusExchange(Mechanism mechanism, const void* credential);

 private:
  class Connection;

  // Returns the password with which the client's response is compared, for the user that it names. A
  // failure ends the exchange with that status. Is called at most once.
  virtual absl::StatusOr<std::string> PasswordOf(std::string_view user) = 0;

  // Returns the id of a client that has proved to be `name`, and asks to act as `wanted`, which is empty
  // if that is the same. A failure ends the exchange with that status. Is called at most once.
  virtual absl::StatusOr<std::string> IdOf(std::string_view name, std::string_view wanted) = 0;

  const std::unique_ptr<Connection> connection_;
};

}  // namespace quorate::rpc::sasl
