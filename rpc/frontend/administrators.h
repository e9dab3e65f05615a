// SPDX-License-Identifier: Apache-2.0

// Decides who is an administrator, by the keys administratorTokenFile, administrator.subjects,
// X509AuthenticationProvider.superUser and DigestAuthenticationProvider.superDigest, and which calls
// (authorization.h) a caller may make. One object serves all front ends of a server.
//
// Wrong credentials are counted, and an address that sends many of them has to wait: its credentials
// are refused without a look at them, so that they cannot be guessed. The password of superDigest also
// makes a ZooKeeper or gRPC client the super user; those attempts have a limit of their own, which is
// Service::super_failures.
//
// Thread-safety: any thread, except where a function says otherwise.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/clock.h"
#include "base/failure_limit.h"
#include "base/file_stamp.h"
#include "base/mutex.h"
#include "rpc/config/config.h"
#include "rpc/frontend/authorization.h"

namespace quorate::rpc {

// A token of administratorTokenFile. The token itself is not kept.
struct AdministratorToken {
  std::string name;
  std::array<unsigned char, 32> sha256;
};

// Returns the tokens in the text of an administratorTokenFile. Each line is a token or NAME:TOKEN;
// empty lines and lines that begin with # are skipped. A token without a name is called "lineN".
// InvalidArgument, without any token in the message: there is none, there are more than
// kAdministratorTokensMax, a token is shorter than kAdministratorTokenBytesMin or longer than
// kAdministratorTokenBytesMax or has other characters than printable ones of ASCII, or a name is not
// made of letters, digits and ._@-.
inline constexpr size_t kAdministratorTokensMax = 1000;
inline constexpr size_t kAdministratorTokenBytesMin = 16;
inline constexpr size_t kAdministratorTokenBytesMax = 1024;
absl::StatusOr<std::vector<AdministratorToken>> ParseAdministratorTokens(std::string_view text);

class Administrators {
 public:
  // The arguments must outlive the object. `failure_counter` counts refused credentials too, unless
  // it is nullptr.
  Administrators(const Config& config, const Clock* clock,
                 std::atomic<int64_t>* failure_counter = nullptr);
  Administrators(const Administrators&) = delete;
  Administrators& operator=(const Administrators&) = delete;

  // Reads administratorTokenFile, if it is configured. InvalidArgument or FailedPrecondition, with
  // the key, the reason and the way out: it cannot be read, others than its owner and group can
  // read it, or its content is not allowed.
  absl::Status Open();

  // Adds to `principal` what `authorization` proves: "Bearer TOKEN", or "Basic BASE64", the base64
  // of "user:password", with the credentials of superDigest. `authorization` is the value of the
  // metadata or header of that name; nothing is done if it is empty. Unauthenticated: it is wrong.
  // Unavailable: its address has to wait, and it was not looked at.
  absl::Status Authenticate(std::string_view authorization, Principal* principal);
  // Adds to `principal` what "user:password" proves as a credential of access control lists: that it
  // is the super user. Those of any other user prove nothing to administrators. Unauthenticated: the
  // password of the super user is wrong. Unavailable: its address has to wait, and it was not looked
  // at.
  absl::Status AddDigest(std::string_view credentials, Principal* principal);
  // Counts credentials that a front end itself has refused, as too many in one call.
  absl::Status RefuseCredentials(std::string_view why, const Principal& principal);

  // Returns whether the principal may make calls that need an administrator.
  bool IsAdministrator(const Principal& principal) const;
  // Returns OK if the principal may begin the operation. What access control lists, the list of
  // words or the session decide is not checked here. kHttpSnapshot is nobody's as long as no
  // administrator is configured. PermissionDenied, or Unauthenticated for a principal that has proved
  // nothing, says what to send or configure.
  absl::Status Check(Operation operation, const Principal& principal);

  // Sets a function that is called with the peer of each call that is admitted, in the form of
  // grpc::ServerContext::peer(). REQUIRES: no thread makes calls yet.
  void SetAdmissions(std::function<void(std::string_view peer)> admissions) {
    admissions_ = std::move(admissions);
  }
  void OnAdmitted(std::string_view peer) {
    if (admissions_) admissions_(peer);
  }

  // Returns whether a key names administrators, so that a connection from this machine is not
  // enough.
  bool is_configured() const { return is_configured_; }
  // Returns a sentence for the log about who is an administrator.
  std::string Description() const;
  // Returns the number of credentials that were refused. Never decreases.
  int64_t failures() const { return failures_.load(std::memory_order_relaxed); }

 private:
  // Counts a failure, and returns its status.
  absl::Status Fail(absl::StatusCode code, std::string_view why, const Principal& principal);
  absl::Status CheckToken(std::string_view token, Principal* principal)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status CheckBasic(std::string_view base64, Principal* principal) const;
  // As CheckBasic, for the decoded "user:password".
  absl::Status CheckSuper(std::string_view credentials, Principal* principal) const;
  // Reads the tokens again if their file has changed, or could not be used at the last try. A change
  // that cannot be used is logged once, and the tokens before stay.
  void RefreshTokens() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::StatusOr<std::vector<AdministratorToken>> ReadTokens() const;
  std::string HowToAuthenticate() const;

  const Config& config_;
  std::atomic<int64_t>* const failure_counter_;
  const bool is_configured_;
  std::atomic<int64_t> failures_{0};
  std::function<void(std::string_view peer)> admissions_;

  FailureLimit limit_;  // of wrong credentials; without users
  Mutex mutex_;
  std::vector<AdministratorToken> tokens_ ABSL_GUARDED_BY(mutex_);
  FileStamp stamp_ ABSL_GUARDED_BY(mutex_);           // of the file that was read last
  bool has_problem_ ABSL_GUARDED_BY(mutex_) = false;  // that file could not be used
};

}  // namespace quorate::rpc
