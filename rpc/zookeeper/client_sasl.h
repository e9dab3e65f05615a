// SPDX-License-Identifier: Apache-2.0

// SASL of ZooKeeper clients, as the configuration sets it up.
//
// Thread-safety: functions without state.
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "rpc/config/config.h"
#include "rpc/sasl/exchange.h"

namespace quorate::rpc::zk {

// Reads the JAAS file, and logs what SASL is set up or what has no effect. Returns nullptr if there
// is no SASL. Returns InvalidArgument or FailedPrecondition, with the key and the reason, if the
// configuration asks for SASL that cannot be served. `config` must outlive the result.
//
// The result reads the file again when it has changed, as it sees at the beginning of each exchange.
// A changed file that cannot be used is logged, and the users from before stay. Counts of failures
// begin again with a new file.
absl::StatusOr<std::unique_ptr<sasl::Authenticator>> MakeAuthenticator(const Config& config);

}  // namespace quorate::rpc::zk
