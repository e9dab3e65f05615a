// SPDX-License-Identifier: Apache-2.0

#include "rpc/quorated/log_files.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <string>

namespace quorate::rpc {
namespace {

std::string Read(const std::string& path) {
  std::ifstream in(path);
  return std::string(std::istreambuf_iterator<char>(in), {});
}

// Restores descriptors 1 and 2 after a test has changed them.
class KeptDescriptors {
 public:
  KeptDescriptors() : out_(dup(1)), error_(dup(2)) {}
  ~KeptDescriptors() {
    dup2(out_, 1);
    dup2(error_, 2);
    close(out_);
    close(error_);
  }

 private:
  int out_, error_;
};

void Write(int descriptor, const std::string& text) {
  if (write(descriptor, text.data(), text.size()) != static_cast<ssize_t>(text.size())) abort();
}

TEST_CASE("a log file that was moved is created again, and only new lines go there") {
  const std::string path = std::string(std::getenv("TEST_TMPDIR")) + "/server.log";
  std::string moved_text, new_text, error_text;
  {
    const KeptDescriptors kept;
    const int file = open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
    fchmod(file, 0640);
    dup2(file, 1);
    close(file);
    int pipe_ends[2];
    if (pipe(pipe_ends) != 0) abort();
    dup2(pipe_ends[1], 2);
    close(pipe_ends[1]);
    LogFiles files;
    Write(1, "old\n");
    std::rename(path.c_str(), (path + ".1").c_str());
    const absl::Status reopened = files.Reopen();
    Write(1, "new\n");
    Write(2, "to the pipe\n");
    char buffer[64];
    const ssize_t size = read(pipe_ends[0], buffer, sizeof(buffer));
    if (size > 0) error_text.assign(buffer, static_cast<size_t>(size));
    close(pipe_ends[0]);
    moved_text = Read(path + ".1");
    new_text = Read(path);
    if (!reopened.ok()) new_text = std::string(reopened.message());
  }
  struct stat info {};
  REQUIRE(stat(path.c_str(), &info) == 0);
  CHECK((info.st_mode & 0777) == 0640);  // as the file before, whatever the umask is
  CHECK(moved_text == "old\n");
  CHECK(new_text == "new\n");
  CHECK(error_text == "to the pipe\n");  // a pipe is not reopened
}

}  // namespace
}  // namespace quorate::rpc
