// SPDX-License-Identifier: Apache-2.0

#include "tools/zookeeper/byte_source.h"

#include <fcntl.h>
#include <snappy.h>
#include <unistd.h>
#include <zlib.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/bytes.h"

namespace quorate::tools::zookeeper {
namespace {

constexpr size_t kPieceBytes = 256u << 10;
constexpr std::string_view kGzipMagic = "\x1f\x8b";
// The magic bytes of a stream. Two int32 follow: the version, and the oldest version that can read
// the stream.
constexpr std::string_view kSnappyMagic("\x82SNAPPY\0", 8);
constexpr size_t kSnappyHeaderBytes = 16;
// Java's library writes blocks of 32 KiB. A length greater than this limit is damage.
constexpr size_t kSnappyBlockBytesMax = 64u << 20;

class FileSource : public ByteSource {
 public:
  FileSource(int descriptor, std::string path) : descriptor_(descriptor), path_(std::move(path)) {}
  ~FileSource() override { ::close(descriptor_); }
  FileSource(const FileSource&) = delete;
  FileSource& operator=(const FileSource&) = delete;

  absl::StatusOr<size_t> Read(char* to, size_t size) override {
    while (true) {
      const ssize_t count = ::read(descriptor_, to, size);
      if (count >= 0) return static_cast<size_t>(count);
      if (errno != EINTR) return absl::ErrnoToStatus(errno, absl::StrCat("cannot read ", path_));
    }
  }

 private:
  const int descriptor_;
  const std::string path_;
};

class MemorySource : public ByteSource {
 public:
  explicit MemorySource(std::string_view bytes) : rest_(bytes) {}

  absl::StatusOr<size_t> Read(char* to, size_t size) override {
    const size_t count = rest_.copy(to, size);
    rest_.remove_prefix(count);
    return count;
  }

 private:
  std::string_view rest_;
};

// A source that returns some bytes that were read already, and then the rest.
class PrefixedSource : public ByteSource {
 public:
  PrefixedSource(std::string prefix, std::unique_ptr<ByteSource> rest)
      : prefix_(std::move(prefix)), rest_(std::move(rest)) {}

  absl::StatusOr<size_t> Read(char* to, size_t size) override {
    if (at_ == prefix_.size()) return rest_->Read(to, size);
    const size_t count = prefix_.copy(to, size, at_);
    at_ += count;
    return count;
  }

 private:
  const std::string prefix_;
  size_t at_ = 0;
  const std::unique_ptr<ByteSource> rest_;
};

// Reads until `size` bytes are read or the end is reached.
absl::StatusOr<size_t> ReadFully(ByteSource* source, char* to, size_t size) {
  size_t done = 0;
  while (done < size) {
    const absl::StatusOr<size_t> count = source->Read(to + done, size - done);
    if (!count.ok()) return count.status();
    if (*count == 0) break;
    done += *count;
  }
  return done;
}

class GzipSource : public ByteSource {
 public:
  explicit GzipSource(std::unique_ptr<ByteSource> compressed)
      : compressed_(std::move(compressed)), in_(kPieceBytes, '\0') {
    constexpr int kGzipOnly = 16;
    is_open_ = inflateInit2(&stream_, MAX_WBITS + kGzipOnly) == Z_OK;
  }
  ~GzipSource() override {
    if (is_open_) inflateEnd(&stream_);
  }
  GzipSource(const GzipSource&) = delete;
  GzipSource& operator=(const GzipSource&) = delete;

  absl::StatusOr<size_t> Read(char* to, size_t size) override {
    if (!is_open_) return absl::ResourceExhaustedError("no memory to decompress gzip");
    const size_t wanted = std::min(size, kPieceBytes);
    stream_.next_out = reinterpret_cast<Bytef*>(to);
    stream_.avail_out = static_cast<uInt>(wanted);
    while (!at_end_ && stream_.avail_out == wanted) {
      if (stream_.avail_in == 0) {
        const absl::StatusOr<size_t> count = compressed_->Read(in_.data(), in_.size());
        if (!count.ok()) return count.status();
        if (*count == 0) return absl::DataLossError("the gzip stream is cut off");
        stream_.next_in = reinterpret_cast<Bytef*>(in_.data());
        stream_.avail_in = static_cast<uInt>(*count);
      }
      const int result = inflate(&stream_, Z_NO_FLUSH);
      if (result == Z_STREAM_END) {
        at_end_ = true;
      } else if (result != Z_OK && result != Z_BUF_ERROR) {
        return absl::DataLossError("the gzip stream is damaged");
      }
    }
    return wanted - stream_.avail_out;
  }

 private:
  const std::unique_ptr<ByteSource> compressed_;
  std::string in_;
  z_stream stream_{};
  bool is_open_ = false;
  bool at_end_ = false;
};

class SnappySource : public ByteSource {
 public:
  // `compressed` is positioned after the header.
  explicit SnappySource(std::unique_ptr<ByteSource> compressed)
      : compressed_(std::move(compressed)) {}

  absl::StatusOr<size_t> Read(char* to, size_t size) override {
    while (at_ == block_.size()) {
      absl::StatusOr<bool> more = NextBlock();
      if (!more.ok()) return more.status();
      if (!*more) return 0;
    }
    const size_t count = block_.copy(to, size, at_);
    at_ += count;
    return count;
  }

 private:
  absl::StatusOr<bool> NextBlock() {
    char prefix[sizeof(int32_t)];
    absl::StatusOr<size_t> count = ReadFully(compressed_.get(), prefix, sizeof(prefix));
    if (!count.ok()) return count.status();
    if (*count == 0) return false;
    if (*count < sizeof(prefix)) return absl::DataLossError("the snappy stream is cut off");
    const uint32_t size = LoadInt<std::endian::big, uint32_t>(prefix);
    if (size > snappy::MaxCompressedLength(kSnappyBlockBytesMax)) {
      return absl::DataLossError("the snappy stream has a block of an impossible size");
    }
    in_.resize(size);
    count = ReadFully(compressed_.get(), in_.data(), size);
    if (!count.ok()) return count.status();
    if (*count < size) return absl::DataLossError("the snappy stream is cut off");
    size_t uncompressed = 0;
    if (!snappy::GetUncompressedLength(in_.data(), size, &uncompressed) ||
        uncompressed > kSnappyBlockBytesMax || !snappy::Uncompress(in_.data(), size, &block_)) {
      return absl::DataLossError("the snappy stream is damaged");
    }
    at_ = 0;
    return true;
  }

  const std::unique_ptr<ByteSource> compressed_;
  std::string in_;
  std::string block_;
  size_t at_ = 0;
};

}  // namespace

absl::StatusOr<std::unique_ptr<ByteSource>> OpenFile(const std::string& path) {
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) return absl::ErrnoToStatus(errno, absl::StrCat("cannot open ", path));
  return std::make_unique<FileSource>(descriptor, path);
}

std::unique_ptr<ByteSource> OpenMemory(std::string_view bytes) {
  return std::make_unique<MemorySource>(bytes);
}

absl::StatusOr<std::unique_ptr<ByteSource>> Decompress(std::unique_ptr<ByteSource> compressed) {
  std::string start(kSnappyHeaderBytes, '\0');
  const absl::StatusOr<size_t> count = ReadFully(compressed.get(), start.data(), start.size());
  if (!count.ok()) return count.status();
  start.resize(*count);
  if (start.starts_with(kSnappyMagic)) {
    if (start.size() < kSnappyHeaderBytes) {
      return absl::DataLossError("the snappy stream is cut off");
    }
    return std::make_unique<SnappySource>(std::move(compressed));
  }
  const bool is_gzip = start.starts_with(kGzipMagic);
  auto whole = std::make_unique<PrefixedSource>(std::move(start), std::move(compressed));
  if (!is_gzip) return whole;
  return std::make_unique<GzipSource>(std::move(whole));
}

}  // namespace quorate::tools::zookeeper
