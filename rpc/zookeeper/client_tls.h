// SPDX-License-Identifier: Apache-2.0

// TLS of ZooKeeper clients, as the configuration sets it up.
//
// Thread-safety: any thread.
#pragma once

#include "rpc/config/config.h"
#include "rpc/tls/options.h"

namespace quorate::rpc::zk {

// Returns the settings for a tls::Context. REQUIRES: config.has_client_tls().
tls::Options ClientTlsOptions(const Config& config);

}  // namespace quorate::rpc::zk
