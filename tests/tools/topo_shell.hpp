#pragma once
#include <stdlib.h>
#include <sys/wait.h>

#include <catch2/catch.hpp>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

namespace trainyard::test {

struct TopoAnswer {
  int exit = 0;
  std::string out, err;
};

/// A folder of its own in which commands run.
struct TopoFolder {
  std::filesystem::path folder;
  TopoFolder() {
    std::string name = (std::filesystem::temp_directory_path() / "trainyard-XXXXXX").string();
    REQUIRE(mkdtemp(name.data()) != nullptr);
    folder = name;
  }
  TopoFolder(const TopoFolder&) = delete;
  ~TopoFolder() { std::filesystem::remove_all(folder); }
  void write(const std::string& name, const std::string& text) const { std::ofstream(folder / name) << text; }
  std::string text(const std::string& name) const {
    std::ifstream in(folder / name);
    return {std::istreambuf_iterator<char>(in), {}};
  }
  TopoAnswer run(const std::string& arguments) const { return trainyard("topo " + arguments); }
  TopoAnswer trainyard(const std::string& arguments) const {
    const std::string line =
        "cd '" + folder.string() + "' && exec '" TRAINYARD_BINARY "' " + arguments + " >.out 2>.err </dev/null";
    const int status = std::system(line.c_str());
    return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, text(".out"), text(".err")};
  }
};

}  // namespace trainyard::test
