// SPDX-License-Identifier: Apache-2.0

#include "client/presented_credentials.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "rpc/proto/credentials.h"

namespace quorate::internal {
absl::Status PresentedCredentials::Reserve(const std::string& text) {
  MutexLock lock(&mutex_);
  if (Entry* known = Find(text)) {
    ++known->reserved;
    return absl::OkStatus();
  }
  if (!v1::CheckCredentialLimits(entries_.size() + 1, bytes_ + text.size()).ok()) {
    return absl::ResourceExhaustedError(absl::StrCat("a client may have ", v1::kCredentialsMax,
                                                     " credentials of together ",
                                                     v1::kCredentialBytesMax, " bytes in base64"));
  }
  bytes_ += text.size();
  entries_.push_back({.text = text, .reserved = 1});
  return absl::OkStatus();
}

void PresentedCredentials::Confirm(const std::string& text) {
  MutexLock lock(&mutex_);
  Entry* const entry = Find(text);
  --entry->reserved;
  entry->is_confirmed = true;
}

void PresentedCredentials::Withdraw(const std::string& text) {
  MutexLock lock(&mutex_);
  Entry* const entry = Find(text);
  if (--entry->reserved > 0 || entry->is_confirmed) return;
  bytes_ -= entry->text.size();
  entries_.erase(entries_.begin() + (entry - entries_.data()));
}

std::vector<std::string> PresentedCredentials::Texts() const {
  MutexLock lock(&mutex_);
  std::vector<std::string> texts;
  for (const Entry& entry : entries_) {
    if (entry.is_confirmed) texts.push_back(entry.text);
  }
  return texts;
}

PresentedCredentials::Entry* PresentedCredentials::Find(const std::string& text) {
  const auto found =
      std::ranges::find_if(entries_, [&text](const Entry& entry) { return entry.text == text; });
  return found == entries_.end() ? nullptr : &*found;
}

}  // namespace quorate::internal
