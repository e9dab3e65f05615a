// SPDX-License-Identifier: Apache-2.0

// Reads lines that are typed at a terminal, with editing, history and completion. Prints events
// above the line that is being typed.
//
// Thread-safety: one thread at a time.
#pragma once

#include <histedit.h>

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "tools/shell/completion.h"
#include "tools/shell/console.h"

namespace quorate::tools::shell {

class LineEditor {
 public:
  using Completer = std::function<Completion(const std::string& line)>;

  // `history_file` need not exist, and is created readable only for its owner. If it is empty, no
  // file is used. `console` must outlive the editor. REQUIRES: standard input is a terminal.
  LineEditor(Console* console, Completer completer, std::string history_file);
  ~LineEditor();
  LineEditor(const LineEditor&) = delete;
  LineEditor& operator=(const LineEditor&) = delete;

  // Reads a line, without the newline. Returns nothing at the end of the input.
  std::optional<std::string> ReadLine(const std::string& prompt);
  // Adds the line to the history for the arrow keys; writes it to the file only if `is_kept`.
  void Remember(const std::string& line, bool is_kept);

 private:
  static LineEditor& Of(EditLine* edit);
  static int ReadCharacter(EditLine* edit, wchar_t* character);
  static unsigned char OnTab(EditLine* edit, int key);
  static unsigned char OnEvents(EditLine* edit, int key);
  static unsigned char OnInterrupt(EditLine* edit, int key);

  unsigned char Insert(const Completion& completion, const std::string& typed);
  void ShowCandidates(const std::vector<Candidate>& candidates);
  void LoadHistory();

  Console* const console_;
  const Completer completer_;
  const std::string history_file_;
  std::string prompt_;
  History* history_;
  EditLine* edit_;
};

}  // namespace quorate::tools::shell
