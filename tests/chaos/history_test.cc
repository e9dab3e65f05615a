// SPDX-License-Identifier: Apache-2.0

#include "tests/chaos/history.h"

#include <unistd.h>

#include <catch2/catch.hpp>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

namespace quorate::chaos {
namespace {

// A line with every field set.
Line Full() {
  Line line;
  line.time_ns = 81'200'312'345;
  line.process = 3;
  line.client = 14;
  line.what = What::kOk;
  line.operation = 17;
  line.workload = "register";
  line.function = "get";
  line.path = "/r/3";
  line.data = "a \"quoted\" \n line";
  line.version = 6;
  line.linearizable = true;
  line.mode = "ephemeral-sequential";
  line.kind = "recursive";
  line.delta = -2;
  line.paths = {"/a", "/b"};
  line.steps = {{"set", "/a", "1", 4, ""}, {"create", "/b", "", -1, "ephemeral"}};
  line.zxid = 9120;
  line.server = "10.8.0.2:2181";
  line.stat = Stat{1, 2, 3, 0, 5, INT64_MIN + 1, 7};
  line.children = {"n", "m"};
  line.results = {{"", "12", Stat{}, ""}, {"/b", "", std::nullopt, "NoNode"}};
  line.value = 99;
  line.error = "BadVersion";
  line.watch = 5;
  line.type = "changed";
  line.session = 0x7234567890abcdef;
  line.frontend = "native";
  line.new_session = true;
  line.timeout_ms = 4000;
  line.answered_ns = 81'200'000'000;
  line.reason = "told to move";
  return line;
}

std::string ErrorOf(std::string_view text) { return std::string(Parse(text).status().message()); }

TEST_CASE("A line is the same after it was printed and parsed") {
  const Line line = Full();
  CHECK(Parse(Print(line)).value() == line);
  for (int what = 0; what <= static_cast<int>(What::kEnd); ++what) {
    Line plain;
    plain.what = static_cast<What>(what);
    plain.time_ns = plain.process = plain.client = 1;
    plain.operation = what < 4 ? 1 : 0;
    CHECK(Parse(Print(plain)).value() == plain);
  }
}

TEST_CASE("Fields that do not apply are not written") {
  Line line;
  line.time_ns = 5;
  line.process = 1;
  line.client = 2;
  line.what = What::kEnd;
  CHECK(Print(line) == R"({"t":5,"p":1,"c":2,"e":"end"})");
  line.what = What::kOk;
  line.operation = 4;
  line.stat = Stat{};
  CHECK(Print(line) == R"({"t":5,"p":1,"c":2,"e":"ok","o":4,"stat":{"version":0}})");
}

TEST_CASE("Text that is not a line of a history is refused") {
  CHECK(ErrorOf("{\"t\":1") == "this is no JSON");
  CHECK(ErrorOf("[]") == "wrong field: (no object)");
  CHECK(ErrorOf(R"({"t":1,"p":1,"c":1})") == "no field e");
  CHECK(ErrorOf(R"({"t":1,"p":1,"c":1,"e":"okay"})") == "wrong field: e");
  CHECK(ErrorOf(R"({"t":1,"p":1,"c":1,"e":"ok"})") == "no field o");
  CHECK(ErrorOf(R"({"t":1,"p":5000000000,"c":1,"e":"end"})") == "wrong field: p");
  CHECK(ErrorOf(R"({"t":1,"p":1,"c":1,"e":"end","stat":{"version":"7"}})") == "wrong field: stat");
  CHECK(Parse(R"({"t":1,"p":1,"c":1,"e":"end","colour":7})").ok());
}

class File {
 public:
  File() {
    std::string name = (std::filesystem::temp_directory_path() / "historyXXXXXX").string();
    const int file = mkstemp(name.data());
    REQUIRE(file >= 0);
    close(file);
    path_ = name;
  }
  ~File() { std::filesystem::remove(path_); }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

TEST_CASE("A written history can be read; an incomplete last line is left out") {
  const File file;
  Line first = Full();
  {
    const auto writer = HistoryWriter::Open(file.path(), 3).value();
    writer->Write(first);
    CHECK(writer->NextOperation() == 1);
    CHECK(writer->NextOperation() == 2);
    Line now;
    now.client = 1;
    now.what = What::kEnd;
    writer->Write(now);
  }
  std::ofstream(file.path(), std::ios::app) << R"({"t":1,"p":1,"c":1,"e":"end"})";
  const auto reader = HistoryReader::Open(file.path()).value();
  Line line;
  REQUIRE(reader->Next(&line).value());
  CHECK(line == first);
  CHECK(reader->text() == Print(first));
  REQUIRE(reader->Next(&line).value());
  CHECK(line.time_ns > 0);
  CHECK(line.time_ns <= NowNs());
  CHECK(line.process == 3);
  CHECK(reader->line_number() == 2);
  CHECK(reader->offset() == static_cast<int64_t>(Print(first).size() + 1));
  CHECK_FALSE(reader->Next(&line).value());
}

TEST_CASE("The error about an invalid line names its file and line number") {
  const File file;
  std::ofstream(file.path()) << R"({"t":1,"p":1,"c":1,"e":"end"})"
                             << "\nrubbish\n";
  const auto reader = HistoryReader::Open(file.path()).value();
  Line line;
  REQUIRE(reader->Next(&line).value());
  CHECK(reader->Next(&line).status().message() == file.path() + ":2: this is no JSON");
  CHECK_FALSE(HistoryReader::Open(file.path() + ".none").ok());
}

}  // namespace
}  // namespace quorate::chaos
