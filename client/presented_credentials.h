// SPDX-License-Identifier: Apache-2.0

// The credentials of a client, which each of its streams presents as metadata, in the form of its
// values (rpc/proto/credentials.h).
//
// Thread-safety: all functions may be called from any thread.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "base/mutex.h"

namespace quorate::internal {

class PresentedCredentials {
 public:
  // Keeps space for a credential, which Confirm or Withdraw must follow. RESOURCE_EXHAUSTED: all
  // credentials together, with those whose space is kept, would exceed what a stream can present
  // (rpc/proto/credentials.h). The same credential takes space once.
  absl::Status Reserve(const std::string& text);
  // Makes later streams present the credential.
  void Confirm(const std::string& text);
  // Gives the space back, because the servers have refused the credential or the call has ended
  // without an answer.
  void Withdraw(const std::string& text);

  // Returns the confirmed credentials, in the order of their Reserve.
  std::vector<std::string> Texts() const;

 private:
  struct Entry {
    std::string text;
    int reserved = 0;  // calls of Reserve that neither Confirm nor Withdraw has followed
    bool is_confirmed = false;
  };

  Entry* Find(const std::string& text) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  mutable Mutex mutex_;
  std::vector<Entry> entries_ ABSL_GUARDED_BY(mutex_);
  size_t bytes_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace quorate::internal
