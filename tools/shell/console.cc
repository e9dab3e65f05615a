// SPDX-License-Identifier: Apache-2.0

#include "tools/shell/console.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <utility>

#include "base/assert.h"
#include "base/escape.h"

namespace quorate::tools::shell {

Console::Console(bool shows_controls_escaped)
    : shows_controls_escaped_(shows_controls_escaped),
      waiting_file_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  ASSERT(waiting_file_ >= 0);
}

Console::~Console() { close(waiting_file_); }

void Console::Print(std::string_view text) {
  std::lock_guard<std::mutex> lock(mutex_);
  Write(STDOUT_FILENO, text);
}

void Console::PrintError(std::string_view text) {
  std::lock_guard<std::mutex> lock(mutex_);
  Write(STDERR_FILENO, text);
}

void Console::PrintEvent(std::string_view text) {
  std::lock_guard<std::mutex> lock(mutex_);
  if (!is_editing_) return Write(STDOUT_FILENO, text);
  waiting_.append(text);
  const uint64_t one = 1;
  [[maybe_unused]] const ssize_t written = write(waiting_file_, &one, sizeof one);
}

void Console::SetEditing(bool is_editing) {
  std::lock_guard<std::mutex> lock(mutex_);
  is_editing_ = is_editing;
  if (!is_editing && !waiting_.empty()) Write(STDOUT_FILENO, std::exchange(waiting_, {}));
}

std::string Console::TakeWaiting() {
  std::lock_guard<std::mutex> lock(mutex_);
  uint64_t count = 0;
  [[maybe_unused]] const ssize_t taken = read(waiting_file_, &count, sizeof count);
  std::string text = std::exchange(waiting_, {});
  return shows_controls_escaped_ ? EscapeControls(text) : text;
}

void Console::Write(int file, std::string_view text) {
  // Errors are for people, so they are always escaped.
  const bool is_escaped = shows_controls_escaped_ || file == STDERR_FILENO;
  const std::string escaped = is_escaped ? EscapeControls(text) : std::string();
  if (is_escaped) text = escaped;
  while (!text.empty()) {
    const ssize_t written = write(file, text.data(), text.size());
    if (written < 0 && errno == EINTR) continue;
    // The reader has closed the file: the rest is lost, as with SIGPIPE.
    if (written < 0) return;
    text.remove_prefix(static_cast<size_t>(written));
  }
}

}  // namespace quorate::tools::shell
