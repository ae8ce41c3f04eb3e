#pragma once
#include <algorithm>
#include <string>

#include "tests/tools/topo_shell.hpp"

namespace trainyard::test {

/// A folder in which `trainyard teach` runs.
struct Teacher : TopoFolder {
  TopoAnswer teach(const std::string& arguments) const { return trainyard("teach " + arguments); }
  void check_refused(const std::string& arguments, const std::string& words) const {
    TopoFolder::check_refused("teach " + arguments, words);
  }
};

/// Number of characters of the longest line.
inline std::size_t widest(const std::string& text) {
  std::size_t width = 0, most = 0;
  for (const char c : text) {
    width = c == '\n' ? 0 : width + ((static_cast<unsigned char>(c) & 0xc0U) != 0x80 ? 1 : 0);
    most = std::max(most, width);
  }
  return most;
}

}  // namespace trainyard::test
