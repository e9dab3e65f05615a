// SPDX-License-Identifier: Apache-2.0

#include "rpc/listen/listen.h"

#include <boost/asio/ip/v6_only.hpp>

namespace quorate::rpc {

using boost::asio::ip::tcp;
using boost::system::error_code;

error_code ListenOn(const tcp::endpoint& endpoint, Families families, tcp::acceptor* acceptor) {
  error_code error;
  acceptor->open(endpoint.protocol(), error);
  if (!error) acceptor->set_option(tcp::acceptor::reuse_address(true), error);
  if (!error && endpoint.protocol() == tcp::v6()) {
    acceptor->set_option(boost::asio::ip::v6_only(families == Families::kOwn), error);
  }
  if (!error) acceptor->bind(endpoint, error);
  if (!error) acceptor->listen(tcp::acceptor::max_listen_connections, error);
  return error;
}

error_code ListenOnAll(uint16_t port, tcp::acceptor* acceptor) {
  const error_code error = ListenOn({tcp::v6(), port}, Families::kBoth, acceptor);
  if (error != boost::system::errc::address_family_not_supported) return error;
  return ListenOn({tcp::v4(), port}, Families::kOwn, acceptor);
}

}  // namespace quorate::rpc
