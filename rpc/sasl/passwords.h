// SPDX-License-Identifier: Apache-2.0

// Users with passwords, who authenticate by the SASL mechanism DIGEST-MD5 (RFC 2831) as ZooKeeper has it:
// realm and host "zk-sasl-md5", service "zookeeper", authentication only, and no subsequent
// authentication.
//
// Thread-safety: Passwords may be used by any thread.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "base/clock.h"
#include "base/failure_limit.h"
#include "base/random.h"
#include "rpc/sasl/exchange.h"
#include "rpc/sasl/names.h"

namespace quorate::rpc::sasl {

class Passwords : public Authenticator {
 public:
  using Users = std::map<std::string, std::string, std::less<>>;  // passwords

  // Names and passwords are UTF-8, and have no zero byte. `random` and `clock` must outlive the object.
  // Returns FailedPrecondition with the reason if this machine has no DIGEST-MD5.
  static absl::StatusOr<std::unique_ptr<Passwords>> Create(Users users, IdMapping ids,
                                                           RandomBytes* random, const Clock* clock);

  std::unique_ptr<ServerExchange> Begin(std::string_view address) override;

 private:
  class Exchange;

  Passwords(Users users, IdMapping ids, RandomBytes* random, const Clock* clock);

  const Users users_;
  const IdMapping ids_;
  RandomBytes* const random_;
  FailureLimit limit_;
};

}  // namespace quorate::rpc::sasl
