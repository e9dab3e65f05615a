// SPDX-License-Identifier: Apache-2.0

// Runs the two servers, or clusters, that are compared.
//
// Thread-safety: belongs to one thread.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "absl/status/status.h"

namespace quorate::differential {

struct Addresses {
  std::vector<std::string> ours;  // host:port, one a member
  std::vector<std::string> reference;
};

class Servers {
 public:
  // `script` is the path of tests/differential/servers, which starts them. `subject` is "quorate",
  // or "zookeeper" to compare the reference with itself.
  Servers(std::string script, std::string subject, int members)
      : script_(std::move(script)), subject_(std::move(subject)), members_(members) {}
  ~Servers();
  Servers(const Servers&) = delete;
  Servers& operator=(const Servers&) = delete;

  // Starts both, with empty trees, and waits until they serve. Unavailable if one did not come up.
  absl::Status Start(Addresses* addresses);

 private:
  absl::Status Spawn();

  const std::string script_;
  const std::string subject_;
  const int members_;
  pid_t pid_ = 0;
  int to_script_ = -1;
  int from_script_ = -1;
};

// Splits a list such as "a,b".
std::vector<std::string> SplitList(const std::string& list);

}  // namespace quorate::differential
