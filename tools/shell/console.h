// Where the shell prints: answers, errors, and events, which come at any time.
//
// Thread-safety: all functions from any thread, except TakeWaiting.
#pragma once

#include <mutex>
#include <string>
#include <string_view>

namespace quorate::tools::shell {

class Console {
 public:
  // `shows_controls_escaped`: standard output is a terminal, which control characters of data could
  // confuse; they are shown as \xNN (tools/escape.h). On standard error they always are.
  explicit Console(bool shows_controls_escaped);
  ~Console();
  Console(const Console&) = delete;
  Console& operator=(const Console&) = delete;

  // To standard output.
  void Print(std::string_view text);
  // To standard error.
  void PrintError(std::string_view text);
  // To standard output; between SetEditing(true) and SetEditing(false), when a line is being typed,
  // it is kept for TakeWaiting, and the file below becomes readable.
  void PrintEvent(std::string_view text);

  void SetEditing(bool is_editing);
  // What came while a line was being typed.
  std::string TakeWaiting();
  int waiting_file() const { return waiting_file_; }

 private:
  void Write(int file, std::string_view text);

  const bool shows_controls_escaped_;
  const int waiting_file_;  // an eventfd
  std::mutex mutex_;
  bool is_editing_ = false;
  std::string waiting_;
};

}  // namespace quorate::tools::shell
