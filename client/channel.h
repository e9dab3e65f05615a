// SPDX-License-Identifier: Apache-2.0

// How clients and tools connect to the gRPC ports of servers.
//
// Thread-safety: an object does not change, and may be used by all threads.
#pragma once

#include <grpcpp/grpcpp.h>

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "client/tls.h"

namespace quorate::internal {

// Makes channels to servers. The files of TLS are read once.
class ChannelFactory {
 public:
  // Without TLS.
  ChannelFactory() = default;
  // InvalidArgument, with the file and the reason: a file cannot be read or has no certificate or
  // key in PEM, the key is not that of the certificate, or one of the two is missing.
  static absl::StatusOr<ChannelFactory> Create(const TlsOptions& options);

  // Returns a new channel to `address`: host:port, or unix:PATH, which never uses TLS.
  std::shared_ptr<grpc::Channel> NewChannel(const std::string& address,
                                            grpc::ChannelArguments arguments) const;

 private:
  std::shared_ptr<grpc::ChannelCredentials> credentials_;  // of TLS; nullptr: without
  std::string server_name_;
};

}  // namespace quorate::internal
