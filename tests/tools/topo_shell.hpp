#pragma once
#include <sys/wait.h>

#include <cstdlib>
#include <string>

#include "tests/temporary_folder.hpp"

namespace trainyard::test {

/// The exit code of a command (-1: ended by a signal) and its output.
struct TopoAnswer {
  int exit = 0;
  std::string out, err;
};

/// A temporary folder in which any verb of `trainyard` runs.
struct TopoFolder : TemporaryFolder {
  /// Runs `trainyard topo` with these arguments.
  TopoAnswer run(const std::string& arguments) const { return trainyard("topo " + arguments); }
  TopoAnswer trainyard(const std::string& arguments) const {
    const std::string line =
        "cd '" + path().string() + "' && exec '" TRAINYARD_BINARY "' " + arguments + " >.out 2>.err </dev/null";
    const int status = std::system(line.c_str());
    return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, text(".out"), text(".err")};
  }
};

}  // namespace trainyard::test
