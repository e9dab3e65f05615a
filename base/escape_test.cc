// SPDX-License-Identifier: Apache-2.0

#include "base/escape.h"

#include <catch2/catch.hpp>
#include <string>

namespace quorate {
namespace {

TEST_CASE("an escaped name is one line that a terminal only shows") {
  CHECK(Escape("/plain/\xC3\xA4") == "/plain/\xC3\xA4");
  CHECK(Escape("a\nb\tc\\d\re") == "a\\nb\\tc\\\\d\\x0de");
  CHECK(Escape("\x1b[2J\x07") == "\\x1b[2J\\x07");
  CHECK(Escape("\xC2\x9B") == "\\xc2\\x9b");           // one character that begins a sequence
  CHECK(Escape("\xE2\x80\xAE") == "\\xe2\\x80\\xae");  // reverses the direction of writing
  CHECK(Escape("\xE2\x80\xA8") == "\\xe2\\x80\\xa8");  // separates lines
  CHECK(Escape("\xff\xC3") == "\\xff\\xc3");
  CHECK(Escape("\xC0\x8A\xED\xA0\x80") == "\\xc0\\x8a\\xed\\xa0\\x80");  // overlong; a surrogate
  CHECK(Escape(std::string_view("\0\x7f", 2)) == "\\x00\\x7f");
}

TEST_CASE("different names have different escaped forms") {
  CHECK(Escape("a\nb") != Escape("a\\nb"));
  CHECK(Escape("\xff") != Escape("\\xff"));
}

TEST_CASE("an escaped line keeps backslashes, and escaped text keeps lines too") {
  CHECK(EscapeLine("a\\b\nc\td\x1b") == "a\\b\\nc\\td\\x1b");
  CHECK(EscapeControls("a\\b\nc\td\x1b\xff") == "a\\b\nc\td\\x1b\\xff");
}

TEST_CASE("whether text needs to be escaped for a line agrees with the escaped line") {
  for (const std::string text : {"", "plain \\ text", "\xC3\xA4", "a\n", "\t", "\x1b", "\xff",
                                 "\xE2\x80\xAE", "\xE2\x82\xAC", "\xE2\x82"}) {
    INFO(text);
    CHECK(NeedsEscapeLine(text) == (EscapeLine(text) != text));
  }
}

TEST_CASE("of a name that is too long the beginning is shown, and its length") {
  const auto shown = [](std::string_view bytes, size_t max) {
    std::string out = "<";
    AppendEscaped(bytes, max, &out);
    return out;
  };
  CHECK(shown("abcd", 4) == "<abcd");
  CHECK(shown("abcde", 4) == "<abcd...(5 bytes)");
  CHECK(shown("abc\xC3\xA4", 4) == "<abc...(5 bytes)");  // no character is cut
  CHECK(shown("a\xF0\x9F\x98\x80z", 4) == "<a...(6 bytes)");
  CHECK(shown("\n\n\n", 2) == "<\\n\\n...(3 bytes)");
  CHECK(shown(std::string(8, '\x80'), 4) == "<\\x80...(8 bytes)");
}

TEST_CASE("text is what a terminal can show as it is") {
  CHECK(IsText("two\nlines\t\xC3\xA4"));
  CHECK_FALSE(IsText("\x1b"));
  CHECK_FALSE(IsText("\xff"));
  CHECK_FALSE(IsText("\xC2\x85"));
}

}  // namespace
}  // namespace quorate
