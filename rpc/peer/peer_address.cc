// SPDX-License-Identifier: Apache-2.0

#include "rpc/peer/peer_address.h"

#include "absl/strings/str_cat.h"

namespace quorate::rpc {

std::string PeerAddress::ToString() const {
  const bool is_v6 = host.find(':') != std::string::npos;
  return absl::StrCat(is_v6 ? "[" : "", host, is_v6 ? "]:" : ":", port);
}

}  // namespace quorate::rpc
