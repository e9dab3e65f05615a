// SPDX-License-Identifier: Apache-2.0

#include "tools/cli/progress_bar.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/escape.h"
#include "tools/cli/text.h"

namespace quorate::tools {
namespace {

constexpr auto kBarInterval = std::chrono::milliseconds(200);
constexpr auto kLineInterval = std::chrono::seconds(2);
constexpr size_t kBarWidth = 24;

}  // namespace

ProgressBar::ProgressBar(std::string what) : terminal_(isatty(STDERR_FILENO) != 0) {
  Restart(std::move(what));
}

ProgressBar::~ProgressBar() { ClearBar(); }

void ProgressBar::Restart(std::string what) {
  ClearBar();
  what_ = std::move(what);
  began_ = Clock::now();
  next_ = began_ + (terminal_ ? Clock::duration(kBarInterval) : Clock::duration(kLineInterval));
  done_ = total_ = bytes_ = 0;
  changed_ = false;
}

void ProgressBar::Update(uint64_t done, uint64_t total, uint64_t bytes) {
  done_ = done;
  total_ = total;
  bytes_ = bytes;
  changed_ = true;
  if (Clock::now() >= next_) Show();
}

void ProgressBar::Finish() {
  if (changed_) Show();
  if (bar_shown_) std::fputc('\n', stderr);
  bar_shown_ = false;
}

void ProgressBar::Say(const std::string& text) {
  ClearBar();
  std::fprintf(stderr, "%s\n", EscapeControls(text).c_str());
}

void ProgressBar::ClearBar() {
  if (bar_shown_) std::fputs("\r\x1b[K", stderr);
  bar_shown_ = false;
}

void ProgressBar::Show() {
  const auto now = Clock::now();
  const double seconds = std::chrono::duration<double>(now - began_).count();
  const double ratio =
      total_ == 0 ? 0 : std::min(1.0, static_cast<double>(done_) / static_cast<double>(total_));
  std::string line = absl::StrCat(what_, ": ");
  if (terminal_) {
    const auto full = static_cast<size_t>(ratio * kBarWidth);
    absl::StrAppend(&line, "[", std::string(full, '#'), std::string(kBarWidth - full, ' '), "] ");
  }
  absl::StrAppendFormat(&line, "%3.0f%%  %s", ratio * 100, Bytes(bytes_));
  if (seconds > 0.1) {
    absl::StrAppend(&line, "  ",
                    Bytes(static_cast<uint64_t>(static_cast<double>(bytes_) / seconds)), "/s");
  }
  if (terminal_) {
    std::fprintf(stderr, "\r\x1b[K%s", line.c_str());
    bar_shown_ = true;
  } else {
    std::fprintf(stderr, "%s\n", line.c_str());
  }
  std::fflush(stderr);
  next_ = now + (terminal_ ? Clock::duration(kBarInterval) : Clock::duration(kLineInterval));
  changed_ = false;
}

}  // namespace quorate::tools
