// SPDX-License-Identifier: Apache-2.0

// How clients and tools reach the gRPC ports of servers: TLS, and an administrator's token.
//
// Thread-safety: an object does not change, and may be used by all threads.
#pragma once

#include <grpcpp/grpcpp.h>

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/channel.h"
#include "client/tls.h"

namespace quorate::internal {

// Where an administrator's token comes from; at most one of the two is set.
struct TokenSource {
  std::string token{};
  // The path of a file. The token is on the first line that is not empty and does not begin with #, as
  // TOKEN or NAME:TOKEN.
  std::string file{};
};

class Access {
 public:
  // Without TLS and token.
  Access() = default;
  // Reads the files. InvalidArgument, without the token: a file cannot be used, others can read the
  // token, both sources are set, the token has other characters than printable ones of ASCII, or it
  // would be sent unencrypted to one of `servers` on another machine.
  static absl::StatusOr<Access> Load(const TlsOptions& tls, const TokenSource& source,
                                     const std::vector<std::string>& servers);

  // Returns INVALID_ARGUMENT if the token would be sent unencrypted to one of `servers` on another
  // machine.
  absl::Status Check(const std::vector<std::string>& servers) const;

  const ChannelFactory& channels() const { return channels_; }
  // Adds the token to the metadata of a call, as servers expect it of administrators.
  void Authorize(grpc::ClientContext* context) const;

 private:
  ChannelFactory channels_;
  std::string authorization_;  // empty: none
  bool is_encrypted_ = false;
};

// Returns the token in the text of a token file. InvalidArgument, without the text: there is none,
// or it has a character that is not a printable one of ASCII.
absl::StatusOr<std::string> ParseToken(std::string_view text);

// Returns whether a server at `address`, host:port or unix:PATH, is on this machine.
bool IsOnThisMachine(std::string_view address);

}  // namespace quorate::internal
