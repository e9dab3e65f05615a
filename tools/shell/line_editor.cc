// SPDX-License-Identifier: Apache-2.0

#include "tools/shell/line_editor.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cwchar>
#include <fstream>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/assert.h"
#include "base/escape.h"

namespace quorate::tools::shell {
namespace {

constexpr int kHistoryLines = 1000;
constexpr size_t kCandidatesShown = 200;
constexpr size_t kLineWidth = 80;
// The key that the editor inserts when there are events to print: Ctrl-], which users do not type.
constexpr wchar_t kEventsKey = L'\x1d';

// Returns the number of characters, not of bytes, because libedit counts characters.
size_t CharactersOf(const std::string& text) {
  return static_cast<size_t>(std::count_if(
      text.begin(), text.end(), [](char c) { return (static_cast<unsigned char>(c) >> 6) != 2; }));
}

std::string CommonBeginning(const std::vector<Candidate>& candidates) {
  std::string common = candidates.front().word;
  for (const Candidate& candidate : candidates) {
    const auto [end, other] =
        std::mismatch(common.begin(), common.end(), candidate.word.begin(), candidate.word.end());
    common.erase(end, common.end());
  }
  // Does not end within a character, or after a backslash without the character that it escapes.
  while (!common.empty() && common.size() < candidates.front().word.size() &&
         (static_cast<unsigned char>(candidates.front().word[common.size()]) >> 6) == 2) {
    common.pop_back();
  }
  if (!common.empty() && common.back() == '\\') common.pop_back();
  return common;
}

// Writes to the terminal directly, not through the console, which may be holding back events.
void WriteOut(const std::string& text) {
  std::fwrite(text.data(), 1, text.size(), stdout);
  std::fflush(stdout);
}

}  // namespace

LineEditor::LineEditor(Console* console, Completer completer, std::string history_file)
    : console_(console),
      completer_(std::move(completer)),
      history_file_(std::move(history_file)),
      history_(history_init()),
      edit_(el_init("quorate", stdin, stdout, stderr)) {
  ASSERT(history_ != nullptr);
  ASSERT(edit_ != nullptr);
  HistEvent event;
  history(history_, &event, H_SETSIZE, kHistoryLines);
  history(history_, &event, H_SETUNIQUE, 1);
  el_set(edit_, EL_CLIENTDATA, this);
  el_set(edit_, EL_EDITOR, "emacs");
  el_set(edit_, EL_HIST, history, history_);
  el_set(
      edit_, EL_PROMPT, +[](EditLine* edit) { return Of(edit).prompt_.data(); });
  el_set(edit_, EL_GETCFN, &ReadCharacter);
  // Ctrl-C is a key that ends the line instead of the program.
  el_set(edit_, EL_SETTY, "-d", "-isig", nullptr);
  el_set(edit_, EL_ADDFN, "quorate-complete", "Completes a word", &OnTab);
  el_set(edit_, EL_ADDFN, "quorate-events", "Prints what has happened", &OnEvents);
  el_set(edit_, EL_ADDFN, "quorate-interrupt", "Gives the line up", &OnInterrupt);
  el_set(edit_, EL_BIND, "^R", "em-inc-search-prev", nullptr);
  el_set(edit_, EL_BIND, "\\e[3~", "ed-delete-next-char", nullptr);
  el_source(edit_, nullptr);  // ~/.editrc
  el_set(edit_, EL_BIND, "^I", "quorate-complete", nullptr);
  el_set(edit_, EL_BIND, "^C", "quorate-interrupt", nullptr);
  el_set(edit_, EL_BIND, "^]", "quorate-events", nullptr);
  LoadHistory();
}

LineEditor::~LineEditor() {
  el_end(edit_);
  history_end(history_);
}

LineEditor& LineEditor::Of(EditLine* edit) {
  void* data = nullptr;
  el_get(edit, EL_CLIENTDATA, &data);
  return *static_cast<LineEditor*>(data);
}

std::optional<std::string> LineEditor::ReadLine(const std::string& prompt) {
  prompt_ = prompt;
  console_->SetEditing(true);
  // Sets the terminal before the prompt is printed, so that text typed at the prompt is read as
  // keys. The terminal would otherwise consume Ctrl-D as the end of a line.
  el_set(edit_, EL_PREP_TERM, 1);
  int count = 0;
  const char* text = el_gets(edit_, &count);
  std::optional<std::string> line;
  if (text != nullptr && count > 0) {
    line.emplace(text, static_cast<size_t>(count));
    while (!line->empty() && line->back() == '\n') line->pop_back();
  } else {
    WriteOut("\n");
  }
  console_->SetEditing(false);
  return line;
}

void LineEditor::Remember(const std::string& line, bool is_kept) {
  HistEvent event;
  history(history_, &event, H_ENTER, line.c_str());
  if (!is_kept || history_file_.empty()) return;
  const int file = open(history_file_.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
  if (file < 0) return;
  // A file of an earlier version, or of another program, may be open to others.
  [[maybe_unused]] const int changed = fchmod(file, S_IRUSR | S_IWUSR);
  const std::string text = line + "\n";
  [[maybe_unused]] const ssize_t written = write(file, text.data(), text.size());
  close(file);
}

void LineEditor::LoadHistory() {
  if (history_file_.empty()) return;
  std::vector<std::string> lines;
  {
    std::ifstream file(history_file_);
    for (std::string line; std::getline(file, line);) lines.push_back(line);
  }
  if (lines.size() > 2 * size_t{kHistoryLines}) {
    lines.erase(lines.begin(), lines.end() - kHistoryLines);
    // Sets the permissions of the new file before it replaces the old one.
    const std::string shorter = history_file_ + ".new";
    const int made = open(shorter.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (made >= 0) close(made);
    std::ofstream file(shorter);
    for (const std::string& line : lines) file << line << "\n";
    file.close();
    if (file) std::rename(shorter.c_str(), history_file_.c_str());
  }
  HistEvent event;
  for (const std::string& line : lines) history(history_, &event, H_ENTER, line.c_str());
}

int LineEditor::ReadCharacter(EditLine* edit, wchar_t* character) {
  const int waiting = Of(edit).console_->waiting_file();
  std::mbstate_t state{};
  while (true) {
    std::array<pollfd, 2> files = {{{STDIN_FILENO, POLLIN, 0}, {waiting, POLLIN, 0}}};
    if (poll(files.data(), files.size(), -1) < 0) {
      if (errno == EINTR) continue;
      return -1;
    }
    if (files[0].revents == 0) {
      *character = kEventsKey;
      return 1;
    }
    char byte = 0;
    const ssize_t size = read(STDIN_FILENO, &byte, 1);
    if (size < 0 && errno == EINTR) continue;
    if (size <= 0) return static_cast<int>(size);
    const size_t used = std::mbrtowc(character, &byte, 1, &state);
    if (used == static_cast<size_t>(-2)) continue;  // the character is incomplete
    if (used == static_cast<size_t>(-1)) {
      state = {};
      continue;
    }
    if (used == 0) *character = L'\0';
    return 1;
  }
}

unsigned char LineEditor::OnEvents(EditLine* edit, int) {
  const std::string text = Of(edit).console_->TakeWaiting();
  if (text.empty()) return CC_NORM;
  WriteOut(absl::StrCat("\r\x1b[K", text));
  return CC_REDISPLAY;
}

unsigned char LineEditor::OnInterrupt(EditLine* edit, int) {
  WriteOut("^C\n");
  const LineInfo* line = el_line(edit);
  el_cursor(edit, static_cast<int>(line->lastchar - line->cursor));
  line = el_line(edit);
  const std::string typed(line->buffer, line->cursor);
  el_deletestr(edit, static_cast<int>(CharactersOf(typed)));
  return CC_REDISPLAY;
}

unsigned char LineEditor::OnTab(EditLine* edit, int) {
  LineEditor& editor = Of(edit);
  const LineInfo* line = el_line(edit);
  const std::string typed(line->buffer, line->cursor);
  const Completion completion = editor.completer_(typed);
  if (completion.candidates.empty()) return CC_REFRESH_BEEP;
  return editor.Insert(completion, typed.substr(completion.word_begin));
}

unsigned char LineEditor::Insert(const Completion& completion, const std::string& typed) {
  std::string text = CommonBeginning(completion.candidates);
  if (completion.candidates.size() == 1) {
    text = completion.candidates.front().word + completion.suffix;
  }
  if (text == typed || text.size() < typed.size()) {
    ShowCandidates(completion.candidates);
    return CC_REDISPLAY;
  }
  el_deletestr(edit_, static_cast<int>(CharactersOf(typed)));
  return el_insertstr(edit_, text.c_str()) == 0 ? CC_REFRESH : CC_REFRESH_BEEP;
}

void LineEditor::ShowCandidates(const std::vector<Candidate>& candidates) {
  const size_t shown = std::min(candidates.size(), kCandidatesShown);
  size_t width = 0;
  for (size_t i = 0; i < shown; ++i) {
    width = std::max(width, CharactersOf(candidates[i].label) + 2);
  }
  const size_t columns = std::max<size_t>(1, kLineWidth / width);
  std::string text = "\n";
  for (size_t i = 0; i < shown; ++i) {
    absl::StrAppend(&text, Escape(candidates[i].label));
    const bool ends_row = (i + 1) % columns == 0 || i + 1 == shown;
    text += ends_row ? "\n" : std::string(width - CharactersOf(candidates[i].label), ' ');
  }
  if (shown < candidates.size()) {
    absl::StrAppend(&text, "... and ", candidates.size() - shown, " more\n");
  }
  WriteOut(text);
}

}  // namespace quorate::tools::shell
