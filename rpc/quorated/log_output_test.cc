// SPDX-License-Identifier: Apache-2.0

#include "rpc/quorated/log_output.h"

#include <fcntl.h>
#include <spdlog/spdlog.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <array>
#include <catch2/catch.hpp>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace quorate::rpc {
namespace {

constexpr size_t kQueuedBytesMax = 10'000;

// A pipe, with the lines that were read from it.
class Pipe {
 public:
  Pipe() { REQUIRE(pipe2(ends_.data(), O_CLOEXEC) == 0); }
  ~Pipe() {
    CloseWriter();
    close(ends_[0]);
  }
  int writer() const { return ends_[1]; }
  void CloseWriter() {
    if (ends_[1] >= 0) close(ends_[1]);
    ends_[1] = -1;
  }
  // Reads the next line and returns it without its end. REQUIRES: there will be a line.
  std::string ReadLine() {
    for (;;) {
      if (const size_t end = bytes_.find('\n'); end != std::string::npos) {
        std::string line = bytes_.substr(0, end);
        bytes_.erase(0, end + 1);
        return line;
      }
      REQUIRE(ReadSome());
    }
  }
  std::vector<std::string> ReadToEnd() {
    while (ReadSome()) {
    }
    std::vector<std::string> lines;
    while (bytes_.find('\n') != std::string::npos) lines.push_back(ReadLine());
    return lines;
  }

 private:
  bool ReadSome() {
    char part[4096];
    const ssize_t size = read(ends_[0], part, sizeof(part));
    REQUIRE(size >= 0);
    bytes_.append(part, static_cast<size_t>(size));
    return size > 0;
  }

  std::array<int, 2> ends_{};
  std::string bytes_;
};

// Returns the number of dropped messages that `line` has; 0 if it is another line.
uint64_t DroppedIn(const std::string& line) {
  if (!line.starts_with("warning messages of this log were dropped")) return 0;
  return std::stoull(line.substr(line.rfind(' ')));
}

struct Log {
  explicit Log(int descriptor, size_t queued_bytes_max = kQueuedBytesMax)
      : output(std::make_shared<LogOutput>(descriptor, queued_bytes_max)), logger("", output) {
    logger.set_pattern("%l %v");
  }
  std::shared_ptr<LogOutput> output;
  spdlog::logger logger;
};

TEST_CASE("a name in a message can neither begin a line nor act on a terminal") {
  Pipe pipe;
  {
    Log log(pipe.writer(), LogOutput::kQueuedBytesMax);
    log.logger.info("refusing {}", "a\n2026-01-01T00:00:00 info forged\r\x1b[2J\xff\tb");
    log.logger.info("refusing {}", std::string(LogOutput::kMessageBytesMax, '\n'));
    log.logger.info("plain \\ \xC3\xA4");
  }
  pipe.CloseWriter();
  const std::vector<std::string> lines = pipe.ReadToEnd();
  REQUIRE(lines.size() == 3);
  CHECK(lines[0] == "info refusing a\\n2026-01-01T00:00:00 info forged\\x0d\\x1b[2J\\xff\\tb");
  CHECK(lines[1].starts_with("info refusing \\n\\n"));
  CHECK(lines[1].ends_with("...(16393 bytes)"));
  CHECK(lines[2] == "info plain \\ \xC3\xA4");
}

TEST_CASE("a formatter of lines gets whole messages") {
  struct Sizes final : spdlog::formatter {
    void format(const spdlog::details::log_msg& message, spdlog::memory_buf_t& to) override {
      const std::string line = std::to_string(message.payload.size()) + "\n";
      to.append(line.data(), line.data() + line.size());
    }
    std::unique_ptr<spdlog::formatter> clone() const override { return std::make_unique<Sizes>(); }
  };
  Pipe pipe;
  {
    Log log(pipe.writer(), LogOutput::kQueuedBytesMax);
    log.output->SetLineFormatter(std::make_unique<Sizes>());
    log.logger.info("{}", std::string(2 * LogOutput::kMessageBytesMax, '\n'));
    log.output->set_formatter(std::make_unique<Sizes>());
    log.logger.info("\n");
  }
  pipe.CloseWriter();
  CHECK(pipe.ReadToEnd() == std::vector<std::string>{"32768", "2"});
}

TEST_CASE("logging does not wait for a pipe that is not read, and dropped messages are counted") {
  Pipe pipe;
  std::optional<Log> log(std::in_place, pipe.writer());
  // These are far more messages than the pipe and the queue hold. With a sink that writes itself,
  // this loop would never end.
  constexpr uint64_t kMessages = 20'000;
  for (uint64_t i = 0; i < kMessages; ++i) log->logger.info("message {}", i);
  const uint64_t dropped = log->output->dropped();
  REQUIRE(dropped > 0);
  REQUIRE(dropped < kMessages);
  // The queued messages arrive in order, and lines between them have the number of dropped
  // messages.
  uint64_t next = 0;
  for (uint64_t taken = 0; taken < kMessages - dropped;) {
    const std::string line = pipe.ReadLine();
    if (const uint64_t count = DroppedIn(line); count > 0) {
      next += count;
    } else {
      REQUIRE(line == "info message " + std::to_string(next++));
      ++taken;
    }
  }
  // Now the queue has space for the last line about dropped messages, if one is due.
  log->logger.flush();
  log->logger.info("behind them");
  log.reset();
  pipe.CloseWriter();
  const std::vector<std::string> rest = pipe.ReadToEnd();
  REQUIRE(!rest.empty());
  for (size_t i = 0; i + 1 < rest.size(); ++i) next += DroppedIn(rest[i]);
  CHECK(next == kMessages);
  CHECK(rest.back() == "info behind them");
}

TEST_CASE("messages logged before the end are written, and a flush waits for them") {
  Pipe pipe;
  std::optional<Log> log(std::in_place, pipe.writer());
  log->logger.critical("the server ends");
  log->logger.flush();
  int available = 0;
  REQUIRE(ioctl(pipe.writer(), FIONREAD, &available) == 0);
  CHECK(available > 0);
  CHECK(pipe.ReadLine() == "critical the server ends");
  log->logger.info("stopped");
  log.reset();
  pipe.CloseWriter();
  CHECK(pipe.ReadToEnd() == std::vector<std::string>{"info stopped"});
}

TEST_CASE("the end of the log does not wait for ever for a pipe that is not read") {
  Pipe pipe;
  std::optional<Log> log(std::in_place, pipe.writer());
  uint64_t logged = 0;
  for (; log->output->dropped() == 0; ++logged) log->logger.info("like all the others");
  log.reset();
  // The thread continues to write while the pipe is read.
  for (uint64_t line = 1; line < logged; ++line)
    CHECK(pipe.ReadLine() == "info like all the others");
}

TEST_CASE("a log that cannot be written causes no error") {
  Log log(open("/dev/full", O_WRONLY | O_CLOEXEC));
  log.logger.info("to nowhere");
  log.logger.flush();
  CHECK(log.output->dropped() == 0);
}

}  // namespace
}  // namespace quorate::rpc
