// SPDX-License-Identifier: Apache-2.0

// An audit log in a file that is removed at the end. For tests.
//
// Thread-safety: none.
#pragma once

#include <unistd.h>

#include <catch2/catch.hpp>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "rpc/audit/audit_log.h"
#include "rpc/audit/request_audit.h"

namespace quorate::rpc {

class RecordedAudit {
 public:
  RecordedAudit() {
    path_ = std::string(std::getenv("TEST_TMPDIR")) + "/audit.XXXXXX";
    const int descriptor = mkstemp(path_.data());
    REQUIRE(descriptor >= 0);
    close(descriptor);
    auto log = AuditLog::Open({.path = path_, .server_user = "server"}, Clock::System());
    REQUIRE(log.ok());
    log_ = *std::move(log);
    requests_ = std::make_unique<RequestAudit>(log_.get(), kAnySaslId);
  }
  ~RecordedAudit() { unlink(path_.c_str()); }
  RecordedAudit(const RecordedAudit&) = delete;
  RecordedAudit& operator=(const RecordedAudit&) = delete;

  // The id of letAnySaslUserDoX.
  static constexpr char kAnySaslId[] = "everyone";

  AuditLog* log() { return log_.get(); }
  RequestAudit* requests() { return requests_.get(); }

  // Returns the fields of the lines since the last call, with spaces in the place of tabs.
  std::vector<std::string> Lines() {
    REQUIRE(log_->Flush(std::chrono::seconds(20)));
    std::vector<std::string> lines;
    std::ifstream in(path_);
    size_t number = 0;
    for (std::string line; std::getline(in, line); ++number) {
      if (number < read_) continue;
      const size_t fields = line.find(": ");
      REQUIRE(fields != std::string::npos);
      CHECK((line.find(" ERROR ") < fields) == line.ends_with("result=failure"));
      line.erase(0, fields + 2);
      for (char& c : line) c = c == '\t' ? ' ' : c;
      lines.push_back(line);
    }
    read_ = number;
    return lines;
  }

 private:
  std::string path_;
  std::unique_ptr<AuditLog> log_;
  std::unique_ptr<RequestAudit> requests_;
  size_t read_ = 0;
};

}  // namespace quorate::rpc
