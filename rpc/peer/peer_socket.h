// What both ends of a connection between servers have in common.
#pragma once

#include <boost/asio/ip/address.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <cstdint>
#include <string>

namespace quorate::rpc {

// Where a server is found by the others.
struct PeerAddress {
  std::string host;  // a name, or an address without brackets
  uint16_t port = 0;

  std::string ToString() const;  // host:port
};

// An address as text, the same for an IPv4 address on a socket of either family.
std::string HostText(boost::asio::ip::address address);

// Sends without delay, never blocks, and notices within seconds if the machine at the other end is
// gone without a word: a server that is back must not meet its old connection. The error is that of
// the socket, which is of no use then.
boost::system::error_code ConfigurePeerSocket(boost::asio::ip::tcp::socket* socket);

}  // namespace quorate::rpc
