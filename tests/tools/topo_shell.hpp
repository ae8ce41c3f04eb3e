#pragma once
#include <sys/wait.h>

#include <algorithm>
#include <cstdlib>
#include <sstream>
#include <string>

#include "tests/temporary_folder.hpp"

namespace trainyard::test {

/// The exit code of a command (-1: ended by a signal) and its output.
struct TopoAnswer {
  int exit = 0;
  std::string out, err;
};

/// Returns the number of columns of the widest line of UTF-8 text.
inline long widest_line(const std::string& text) {
  long widest = 0;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);)
    widest = std::max(
        widest, std::ranges::count_if(line, [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; }));
  return widest;
}

/// A temporary folder in which any verb of `trainyard` runs.
struct TopoFolder : TemporaryFolder {
  /// Runs `trainyard topo` with these arguments.
  TopoAnswer run(const std::string& arguments) const { return trainyard("topo " + arguments); }
  TopoAnswer trainyard(const std::string& arguments) const {
    const int status = std::system(line(arguments).c_str());
    return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, text(".out"), text(".err")};
  }
  /// The line of the shell that runs `trainyard` with these arguments.
  std::string line(const std::string& arguments) const {
    return "cd '" + path().string() + "' && unset TRAINYARD_DATA && exec '" TRAINYARD_BINARY "' " + arguments +
           " >.out 2>.err </dev/null";
  }
  /// Checks that the command is refused with exit code 2 and this line on stderr, and writes nothing else.
  void check_refused(const std::string& arguments, const std::string& error) const {
    INFO(arguments);
    const std::set<std::string> before = files();
    const TopoAnswer answer = trainyard(arguments);
    CHECK(answer.exit == 2);
    CHECK(answer.err == error + "\n");
    CHECK(answer.out.empty());
    CHECK(files() == before);
  }
};

}  // namespace trainyard::test
