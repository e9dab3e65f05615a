// SPDX-License-Identifier: Apache-2.0

#include "rpc/sasl/jaas.h"

#include <array>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/strings.h"

namespace quorate::rpc::sasl {
namespace {

constexpr std::array<absl::string_view, 4> kFlags = {"required", "requisite", "sufficient",
                                                     "optional"};
// How much of an unexpected word is shown.
constexpr size_t kShownBytes = 40;
// The longest text that a value with properties stands for.
constexpr size_t kValueBytesMax = 64u << 10;

enum class Kind : uint8_t { kEnd, kWord, kQuoted, kSign };

struct Token {
  Kind kind = Kind::kEnd;
  std::string text;
  int line = 1;

  bool Is(char sign) const { return kind == Kind::kSign && text[0] == sign; }
  bool IsText() const { return kind == Kind::kWord || kind == Kind::kQuoted; }
};

bool IsWordByte(char c) {
  return absl::ascii_isalnum(static_cast<unsigned char>(c)) || absl::StrContains("._-$*", c) ||
         static_cast<unsigned char>(c) >= 0x80;
}

class Parser {
 public:
  Parser(std::string_view file, std::string_view text, const PropertyLookup& property)
      : file_(file), rest_(text), property_(property) {}

  absl::StatusOr<JaasFile> Parse() {
    JaasFile found;
    if (absl::Status s = Advance(); !s.ok()) return s;
    while (token_.kind != Kind::kEnd) {
      if (!token_.IsText()) return Unexpected("the name of a section");
      const std::string name = token_.text;
      if (found.contains(name)) {
        return Error("there are two sections with this name; remove one");
      }
      std::vector<LoginModule> modules;
      if (absl::Status s = ParseSection(&modules); !s.ok()) return s;
      found.emplace(name, std::move(modules));
    }
    return found;
  }

 private:
  absl::Status Error(absl::string_view problem) const { return ErrorAt(token_.line, problem); }
  absl::Status ErrorAt(int line, absl::string_view problem) const {
    return absl::InvalidArgumentError(absl::StrCat(ToAbsl(file_), ":", line, ": ", problem));
  }

  // Text between quotes may be a password, and a word may be part of one whose quotes are wrong or
  // missing. Neither is shown.
  absl::Status Unexpected(absl::string_view wanted) const {
    std::string found = "the end of the file";
    if (token_.kind == Kind::kQuoted) found = "a text in quotes";
    if (token_.kind == Kind::kWord) found = "a word";
    if (token_.kind == Kind::kSign) {
      found = absl::StrCat("\"", absl::CHexEscape(token_.text.substr(0, kShownBytes)), "\"");
    }
    return Error(absl::StrCat("here is ", found, ", where ", wanted,
                              " has to be; a section is NAME { CLASS required KEY=\"VALUE\"; };"));
  }

  // Parses from the section's name, which is the current token, to behind its end.
  absl::Status ParseSection(std::vector<LoginModule>* modules) {
    if (absl::Status s = Advance(); !s.ok()) return s;
    if (absl::Status s = Skip('{', "a { after the name of a section"); !s.ok()) return s;
    while (!token_.Is('}')) {
      if (absl::Status s = ParseModule(&modules->emplace_back()); !s.ok()) return s;
    }
    if (modules->empty()) return Error("the section has no module");
    if (absl::Status s = Advance(); !s.ok()) return s;
    return Skip(';', "a ; after the } of a section");
  }

  absl::Status ParseModule(LoginModule* module) {
    if (token_.kind != Kind::kWord) return Unexpected("the class of a module");
    module->java_class = token_.text;
    if (absl::Status s = Advance(); !s.ok()) return s;
    bool is_flag = false;
    for (absl::string_view flag : kFlags) {
      is_flag |= token_.kind == Kind::kWord && absl::EqualsIgnoreCase(token_.text, flag);
    }
    if (!is_flag) return Unexpected("required, requisite, sufficient or optional");
    if (absl::Status s = Advance(); !s.ok()) return s;
    while (!token_.Is(';')) {
      if (token_.kind != Kind::kWord) return Unexpected("an option, or a ; after the last one,");
      const std::string key = token_.text;
      if (absl::Status s = Advance(); !s.ok()) return s;
      if (absl::Status s = Skip('=', "a = after the key of an option"); !s.ok()) return s;
      if (!token_.IsText()) return Unexpected("the value of an option (in quotes)");
      absl::StatusOr<std::string> value = Expanded(token_.text);
      if (!value.ok()) return value.status();
      module->options[key] = *std::move(value);  // as in Java, the last of two equal keys counts
      if (absl::Status s = Advance(); !s.ok()) return s;
    }
    return Advance();
  }

  absl::Status Skip(char sign, absl::string_view wanted) {
    return token_.Is(sign) ? Advance() : Unexpected(wanted);
  }

  // Returns `value` with its properties replaced.
  absl::StatusOr<std::string> Expanded(const std::string& value) const {
    std::string text;
    for (size_t at = 0; at < value.size();) {
      const size_t begin = value.find("${", at);
      text.append(value, at, begin == value.npos ? value.npos : begin - at);
      if (begin == value.npos) break;
      const size_t end = value.find('}', begin);
      if (end == value.npos) return Error("a ${ in a value has no }");
      const std::string name = value.substr(begin + 2, end - begin - 2);
      const std::optional<std::string> replacement =
          name == "/" ? std::optional<std::string>("/") : property_(name);
      if (!replacement.has_value()) {
        return Error(absl::StrCat("the property ", absl::CHexEscape(name.substr(0, kShownBytes)),
                                  " is not set; set it by -D in JVMFLAGS, or write the value"));
      }
      text += *replacement;
      if (text.size() > kValueBytesMax) return Error("the value is too long");
      at = end + 1;
    }
    return text;
  }

  // --- Tokens ------------------------------------------------------------------------------------

  // Reads the next token.
  absl::Status Advance() {
    if (absl::Status s = SkipSpace(); !s.ok()) return s;
    token_ = {.kind = Kind::kEnd, .text = {}, .line = line_};
    if (rest_.empty()) return absl::OkStatus();
    const char c = rest_[0];
    if (c == '"' || c == '\'') return ReadQuoted(c);
    if (IsWordByte(c)) {
      size_t size = 1;
      while (size < rest_.size() && IsWordByte(rest_[size])) ++size;
      token_.kind = Kind::kWord;
      token_.text = std::string(rest_.substr(0, size));
      rest_.remove_prefix(size);
      return absl::OkStatus();
    }
    token_.kind = Kind::kSign;
    token_.text = std::string(1, c);
    rest_.remove_prefix(1);
    if (absl::StrContains("{}=;", c)) return absl::OkStatus();
    return Error(absl::StrCat("the character \"", absl::CHexEscape(token_.text),
                              "\" is not allowed here; write values in quotes"));
  }

  void SkipLine() {
    const size_t end = rest_.find('\n');
    rest_.remove_prefix(end == rest_.npos ? rest_.size() : end);
  }

  absl::Status SkipSpace() {
    while (!rest_.empty()) {
      if (rest_[0] == '\n') ++line_;
      if (static_cast<unsigned char>(rest_[0]) <= ' ') {
        rest_.remove_prefix(1);
      } else if (rest_.starts_with("//") || rest_[0] == '#') {
        SkipLine();
      } else if (rest_.starts_with("/*")) {
        const size_t end = rest_.find("*/", 2);
        if (end == rest_.npos) return ErrorAt(line_, "a /* has no */");
        for (char c : rest_.substr(0, end)) line_ += c == '\n' ? 1 : 0;
        rest_.remove_prefix(end + 2);
      } else {
        return absl::OkStatus();
      }
    }
    return absl::OkStatus();
  }

  absl::Status ReadQuoted(char quote) {
    token_.kind = Kind::kQuoted;
    rest_.remove_prefix(1);
    while (!rest_.empty() && rest_[0] != '\n' && rest_[0] != '\r') {
      const char c = rest_[0];
      rest_.remove_prefix(1);
      if (c == quote) return absl::OkStatus();
      token_.text += c == '\\' ? ReadEscape() : c;
    }
    return Error("a text in quotes does not end on its line");
  }

  // Returns the character for the escape that follows a backslash, as Java's StreamTokenizer does.
  char ReadEscape() {
    if (rest_.empty() || rest_[0] == '\n' || rest_[0] == '\r') return '\\';
    const char c = rest_[0];
    if (c >= '0' && c <= '7') {
      // Up to three digits; the first of three is at most 3.
      int number = 0;
      const size_t digits_max = c <= '3' ? 3 : 2;
      for (size_t i = 0; i < digits_max && !rest_.empty() && rest_[0] >= '0' && rest_[0] <= '7';
           ++i) {
        number = number * 8 + (rest_[0] - '0');
        rest_.remove_prefix(1);
      }
      return static_cast<char>(number);
    }
    rest_.remove_prefix(1);
    constexpr absl::string_view kLetters = "abfnrtv";
    constexpr absl::string_view kMeanings = "\a\b\f\n\r\t\v";
    const size_t at = kLetters.find(c);
    return at == kLetters.npos ? c : kMeanings[at];
  }

  const std::string_view file_;
  std::string_view rest_;  // behind the current token
  const PropertyLookup& property_;
  int line_ = 1;
  Token token_;
};

}  // namespace

absl::StatusOr<JaasFile> ParseJaas(std::string_view file, std::string_view text,
                                   const PropertyLookup& property) {
  if (text.size() > kJaasBytesMax) {
    return absl::InvalidArgumentError(
        absl::StrCat(ToAbsl(file), ": the file is larger than ", kJaasBytesMax, " bytes"));
  }
  return Parser(file, text, property).Parse();
}

}  // namespace quorate::rpc::sasl
