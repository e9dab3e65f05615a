// SPDX-License-Identifier: Apache-2.0

// tree_memory [NODES [SHAPE...]]: measures the memory of a znode of the tree, in bytes of the
// process.
//
// Each shape is measured in a separate process, because one shape would use memory that the
// previous one freed.

#include <malloc.h>
#include <sys/wait.h>
#include <unistd.h>

#include <charconv>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <string>
#include <string_view>
#include <vector>

#include "bench/grown_tree.h"

namespace quorate::bench {
namespace {

// Returns the resident bytes of the process.
size_t ResidentBytes() {
  std::ifstream statm("/proc/self/statm");
  size_t total = 0;
  size_t resident = 0;
  statm >> total >> resident;
  return resident * static_cast<size_t>(sysconf(_SC_PAGESIZE));
}

// Returns the bytes of malloc blocks in use, with their headers; without the memory that the tree
// maps itself.
size_t MallocBytes() {
  const struct mallinfo2 info = mallinfo2();
  return info.uordblks + info.hblkhd;
}

void Measure(const std::string& name, Shape shape, uint64_t nodes) {
  GrownTree grown(shape);
  malloc_trim(0);
  const size_t resident_before = ResidentBytes();
  const size_t malloc_before = MallocBytes();
  const size_t data_before = grown.tree().data_bytes();
  grown.GrowTo(nodes);
  // Empties the list of changes, as a checkpoint does.
  grown.tree().BeginDelta();
  while (grown.tree().NextDeltaRecords(1 << 20, [](auto, auto) {})) {
  }
  while (grown.tree().EndDelta(/*durable=*/true, 1 << 20)) {
  }
  malloc_trim(0);
  const double count = static_cast<double>(nodes);
  const double resident = static_cast<double>(ResidentBytes() - resident_before) / count;
  const double data = static_cast<double>(grown.tree().data_bytes() - data_before) / count;
  const double heap = static_cast<double>(MallocBytes()) - static_cast<double>(malloc_before);
  std::printf(
      "%-12s %9llu nodes: %6.1f bytes a node resident, %6.1f of them beside name and data, "
      "%5.1f from malloc\n",
      name.c_str(), static_cast<unsigned long long>(nodes), resident, resident - data,
      heap / count);
  std::fflush(stdout);
  _exit(0);  // Skips the freeing of a million nodes.
}

int Run(const std::vector<std::string_view>& args) {
  uint64_t nodes = 1'000'000;
  if (!args.empty()) {
    const auto [end, error] =
        std::from_chars(args[0].data(), args[0].data() + args[0].size(), nodes);
    if (error != std::errc{} || *end != '\0' || nodes == 0) {
      std::fprintf(stderr, "usage: tree_memory [NODES [flat|chains|directories ...]]\n");
      return 2;
    }
  }
  std::vector<std::string_view> shapes(args.begin() + (args.empty() ? 0 : 1), args.end());
  if (shapes.empty()) shapes = {"flat", "chains", "directories"};
  for (const std::string_view name : shapes) {
    const std::optional<Shape> shape = ShapeOf(name);
    if (!shape.has_value()) {
      std::fprintf(stderr, "tree_memory: no such shape: %s\n", std::string(name).c_str());
      return 2;
    }
    const pid_t child = fork();
    if (child == 0) Measure(std::string(name), *shape, nodes);
    int status = 0;
    if (child < 0 || waitpid(child, &status, 0) != child || status != 0) return 1;
  }
  return 0;
}

}  // namespace
}  // namespace quorate::bench

int main(int argc, char** argv) {
  return quorate::bench::Run(std::vector<std::string_view>(argv + 1, argv + argc));
}
