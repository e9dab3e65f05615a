// SPDX-License-Identifier: Apache-2.0

// Captures the messages of the program's log while the object exists. For tests.
//
// Thread-safety: none; no other thread may log while the object exists.
#pragma once

#include <spdlog/sinks/ostream_sink.h>
#include <spdlog/spdlog.h>

#include <memory>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

namespace quorate::rpc {

class CapturedLog {
 public:
  CapturedLog() : sink_(std::make_shared<spdlog::sinks::ostream_sink_st>(text_)) {
    sink_->set_pattern("%v");
    spdlog::default_logger()->sinks().push_back(sink_);
  }
  ~CapturedLog() { std::erase(spdlog::default_logger()->sinks(), sink_); }
  CapturedLog(const CapturedLog&) = delete;
  CapturedLog& operator=(const CapturedLog&) = delete;

  // Returns the captured lines that start with `begin`, in their order.
  std::vector<std::string> Lines(std::string_view begin) const {
    std::vector<std::string> lines;
    std::istringstream text(text_.str());
    for (std::string line; std::getline(text, line);) {
      if (line.starts_with(begin)) lines.push_back(line);
    }
    return lines;
  }

 private:
  std::ostringstream text_;
  const spdlog::sink_ptr sink_;
};

}  // namespace quorate::rpc
