// SPDX-License-Identifier: Apache-2.0

#include "rpc/peer/peer_socket.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <cerrno>

namespace quorate::rpc {
namespace {

using boost::asio::ip::tcp;
using boost::system::error_code;

struct Option {
  int level;
  int name;
  int value;
};

// The limit of the bytes that the kernel has accepted, but not begun to send. Control frames cannot
// overtake these bytes; with a lower limit, the network may have to wait for this process.
constexpr int kUnsentBytesMax = 128 << 10;

constexpr Option kOptions[] = {
    {IPPROTO_TCP, TCP_NODELAY, 1},
    {SOL_SOCKET, SO_KEEPALIVE, 1},
    {IPPROTO_TCP, TCP_KEEPIDLE, 2},          // seconds of silence before the first probe
    {IPPROTO_TCP, TCP_KEEPINTVL, 1},         // seconds between probes
    {IPPROTO_TCP, TCP_KEEPCNT, 2},           // unanswered probes until it fails
    {IPPROTO_TCP, TCP_USER_TIMEOUT, 4'000},  // milliseconds that sent data may stay unconfirmed
    {IPPROTO_TCP, TCP_NOTSENT_LOWAT, kUnsentBytesMax},
};

tcp::endpoint EndOf(decltype(&::getsockname) get, int descriptor, error_code* error) {
  tcp::endpoint end;
  auto bytes = static_cast<socklen_t>(end.capacity());
  if (get(descriptor, end.data(), &bytes) != 0) {
    *error = LastError();
    return {};
  }
  end.resize(bytes);
  return end;
}

}  // namespace

std::string HostText(boost::asio::ip::address address) {
  if (address.is_v6() && address.to_v6().is_v4_mapped()) {
    address = boost::asio::ip::make_address_v4(boost::asio::ip::v4_mapped, address.to_v6());
  }
  return address.to_string();
}

error_code ConfigurePeerSocket(int descriptor) {
  for (const Option& option : kOptions) {
    if (::setsockopt(descriptor, option.level, option.name, &option.value, sizeof(option.value)) !=
        0) {
      return LastError();
    }
  }
  return {};
}

tcp::endpoint OwnEnd(int descriptor, error_code* error) {
  return EndOf(&::getsockname, descriptor, error);
}

tcp::endpoint OtherEnd(int descriptor, error_code* error) {
  return EndOf(&::getpeername, descriptor, error);
}

error_code LastError() { return {errno, boost::system::system_category()}; }

}  // namespace quorate::rpc
