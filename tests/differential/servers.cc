// SPDX-License-Identifier: Apache-2.0

#include "tests/differential/servers.h"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace quorate::differential {

std::vector<std::string> SplitList(const std::string& list) {
  return absl::StrSplit(list, ',', absl::SkipEmpty());
}

Servers::~Servers() {
  if (pid_ == 0) return;
  close(to_script_);  // tells it to remove the servers
  close(from_script_);
  waitpid(pid_, nullptr, 0);
}

absl::Status Servers::Start(Addresses* addresses) {
  if (pid_ == 0) {
    if (absl::Status s = Spawn(); !s.ok()) return s;
  } else if (write(to_script_, "\n", 1) != 1) {
    return absl::UnavailableError(absl::StrCat(script_, " has ended"));
  }
  std::string line;
  for (char c = 0; c != '\n'; line += c) {
    if (read(from_script_, &c, 1) != 1) {
      return absl::UnavailableError(absl::StrCat(script_, " did not start the servers: ", line));
    }
  }
  const std::vector<std::string> words = absl::StrSplit(line, absl::ByAnyChar(" \n"));
  addresses->ours = SplitList(words[0]);
  addresses->reference = SplitList(words.size() > 1 ? words[1] : "");
  if (addresses->ours.empty() || addresses->reference.empty()) {
    return absl::UnavailableError(absl::StrCat(script_, " says \"", line, "\""));
  }
  return absl::OkStatus();
}

absl::Status Servers::Spawn() {
  int in[2], out[2];
  if (pipe2(in, O_CLOEXEC) != 0 || pipe2(out, O_CLOEXEC) != 0) {
    return absl::ErrnoToStatus(errno, "pipe");
  }
  const std::string members = absl::StrCat(members_);
  pid_ = fork();
  if (pid_ == 0) {
    dup2(in[0], STDIN_FILENO);
    dup2(out[1], STDOUT_FILENO);
    execl(script_.c_str(), script_.c_str(), subject_.c_str(), "zookeeper", members.c_str(),
          static_cast<char*>(nullptr));
    _exit(127);
  }
  close(in[0]);
  close(out[1]);
  to_script_ = in[1];
  from_script_ = out[0];
  return pid_ > 0 ? absl::OkStatus() : absl::ErrnoToStatus(errno, "fork");
}

}  // namespace quorate::differential
