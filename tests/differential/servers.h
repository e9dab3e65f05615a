// The two servers, or clusters, that are compared, as processes.
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
  // `script` starts them: tests/differential/servers. `subject` is "quorate", or "zookeeper" to
  // compare the reference with itself.
  Servers(std::string script, std::string subject, int members)
      : script_(std::move(script)), subject_(std::move(subject)), members_(members) {}
  ~Servers();
  Servers(const Servers&) = delete;
  Servers& operator=(const Servers&) = delete;

  // Both run with empty trees when it returns. Errors: Unavailable if one did not come up.
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

// "a,b" taken apart.
std::vector<std::string> SplitList(const std::string& list);

}  // namespace quorate::differential
