// SPDX-License-Identifier: Apache-2.0

// How the commands reach the gRPC ports of servers: TLS, and an administrator's token.
//
// Thread-safety: an object does not change, and may be used by all threads.
#pragma once

#include <grpcpp/grpcpp.h>

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "client/channel.h"
#include "client/tls.h"

namespace quorate::tools {

class Access {
 public:
  // Without TLS and token.
  Access() = default;
  // Reads the files. `token_file` has a token on its first line that is not empty and does not begin
  // with #, as TOKEN or NAME:TOKEN; empty: none. InvalidArgument: a file cannot be used, others can
  // read the token, or it would be sent unencrypted to one of `servers` on another machine.
  static absl::StatusOr<Access> Load(const TlsOptions& tls, const std::string& token_file,
                                     const std::vector<std::string>& servers);

  const internal::ChannelFactory& channels() const { return channels_; }
  // Adds the token to the metadata of a call of the service Cluster.
  void Authorize(grpc::ClientContext* context) const;

 private:
  internal::ChannelFactory channels_;
  std::string authorization_;  // empty: none
};

// Returns the token in the text of a token file. InvalidArgument, without the text: there is none,
// or it has a character that is not a printable one of ASCII.
absl::StatusOr<std::string> ParseToken(std::string_view text);

// Returns whether a server at `address`, host:port or unix:PATH, is on this machine.
bool IsOnThisMachine(std::string_view address);

}  // namespace quorate::tools
