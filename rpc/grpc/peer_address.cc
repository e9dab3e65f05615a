// SPDX-License-Identifier: Apache-2.0

#include "rpc/grpc/peer_address.h"

namespace quorate::rpc {

std::string AddressOf(std::string_view peer) {
  if (peer.starts_with("unix")) return "127.0.0.1";
  std::string_view rest = peer.substr(peer.find(':') + 1);
  const bool has_port = peer.starts_with("ipv4:") || peer.starts_with("ipv6:");
  if (has_port) rest = rest.substr(0, rest.rfind(':'));
  for (std::string_view bracket : {"[", "%5B"}) {
    if (rest.starts_with(bracket)) rest.remove_prefix(bracket.size());
  }
  for (std::string_view bracket : {"]", "%5D"}) {
    if (rest.ends_with(bracket)) rest.remove_suffix(bracket.size());
  }
  // An IPv4 client has the same address through an IPv6 socket.
  constexpr std::string_view kMapped = "::ffff:";
  if (rest.starts_with(kMapped) && rest.find('.') != std::string_view::npos) {
    rest.remove_prefix(kMapped.size());
  }
  return std::string(rest);
}

}  // namespace quorate::rpc
