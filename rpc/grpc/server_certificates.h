// SPDX-License-Identifier: Apache-2.0

// The key and certificates of the gRPC server, from the stores of TLS (rpc/tls/stores.h), in the
// form that gRPC takes. If the files of the stores change, they are read again: new connections use
// them, and connections that are open stay. Files that cannot be used are logged, and those before
// stay in use.
//
// gRPC takes TLS 1.2 and 1.3, with the ciphers of cipher_suites.h, and checks no revocation lists.
//
// Thread-safety: any thread.
#pragma once

#include <grpcpp/security/server_credentials.h>

#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/statusor.h"
#include "base/condition_variable.h"
#include "base/mutex.h"
#include "rpc/config/config.h"
#include "rpc/tls/context.h"
#include "rpc/tls/options.h"

namespace quorate::rpc {

// Returns the settings of TLS for gRPC. REQUIRES: config.grpc_tls.
tls::Options GrpcTlsOptions(const Config& config);

class ServerCertificates {
 public:
  // Reads the stores. An error names the file, the reason and what to do. With `reloads`, a thread
  // of the object looks for changes of the files every two seconds.
  static absl::StatusOr<std::unique_ptr<ServerCertificates>> Create(const tls::Options& options,
                                                                    bool reloads);
  ~ServerCertificates();
  ServerCertificates(const ServerCertificates&) = delete;
  ServerCertificates& operator=(const ServerCertificates&) = delete;

  // Returns credentials for one port to listen on. The caller keeps them until the server is
  // destroyed, and this object longer.
  std::shared_ptr<grpc::ServerCredentials> NewCredentials();

  // Reads the stores again if their files have changed since they were read last, or could not be
  // used then. Returns whether they are new.
  bool Refresh();

 private:
  class Credentials;
  // The texts in PEM.
  struct Pems {
    std::string key;
    std::string chain;
    std::string authorities;  // of clients' certificates
    uint64_t version = 0;
  };

  ServerCertificates(const tls::Options& options, std::vector<FileStamp> stamps,
                     std::shared_ptr<const Pems> pems);
  static absl::StatusOr<std::shared_ptr<const Pems>> Read(const tls::Options& options,
                                                          uint64_t version);
  std::shared_ptr<const Pems> pems() const;
  void Run();

  const tls::Options options_;
  // These are used by Refresh alone.
  std::vector<FileStamp> stamps_;  // of the files that were read last
  absl::Status problem_;           // why they could not be used; OK if they could
  mutable Mutex mutex_;
  std::shared_ptr<const Pems> pems_ ABSL_GUARDED_BY(mutex_);
  bool stops_ ABSL_GUARDED_BY(mutex_) = false;
  ConditionVariable stopping_;
  std::thread thread_;
};

}  // namespace quorate::rpc
