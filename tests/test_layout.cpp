// The structure of the source tree: who may include whom, and what lies at the top.
#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <map>
#include <regex>
#include <set>
#include <string>

namespace fs = std::filesystem;

TEST_CASE("folders include only what lies below them", "[layout]") {
  const std::map<std::string, std::set<std::string>> allowed{
      {"sim", {"sim"}},
      {"models", {"sim", "models"}},
      {"topologies", {"sim", "models", "topologies"}},
      {"strategies", {"sim", "models", "topologies", "strategies"}},
      {"scenarios", {"sim", "models", "topologies", "strategies", "scenarios"}},
      {"tools", {"sim", "models", "topologies", "strategies", "scenarios", "tools"}},
  };
  const std::set<std::string> libraries_of_sim{"simgrid", "Eigen", "boost", "fmt", "nlohmann"};
  const std::regex own("^#include \"([a-z_]+)/"), library("^#include <([A-Za-z0-9_+]+)/");
  int files = 0;
  for (const auto& [folder, below] : allowed)
    for (const auto& entry : fs::recursive_directory_iterator(fs::path(TRAINYARD_SOURCE_DIR) / folder)) {
      if (entry.path().extension() != ".cpp" && entry.path().extension() != ".hpp") continue;
      ++files;
      std::ifstream in(entry.path());
      for (std::string line; std::getline(in, line);) {
        std::smatch match;
        CAPTURE(entry.path().string(), line);
        if (std::regex_search(line, match, own)) CHECK(below.contains(match[1]));
        CHECK(line.find("\"tests/") == std::string::npos);  // nor read at run time
        if (folder == "sim" && std::regex_search(line, match, library) && match[1] != "sys")
          CHECK(libraries_of_sim.contains(match[1]));
      }
    }
  CHECK(files > 60);
}

TEST_CASE("sim knows no word of machine learning", "[layout]") {
  const std::regex words("\\b(gradient|epoch|transformer|attention|optimizer|batch|backward|tensor|layer)s?\\b",
                         std::regex::icase);
  for (const auto& entry : fs::recursive_directory_iterator(fs::path(TRAINYARD_SOURCE_DIR) / "sim")) {
    std::ifstream in(entry.path());
    for (std::string line; std::getline(in, line);) {
      CAPTURE(entry.path().string(), line);
      CHECK_FALSE(std::regex_search(line, words));
    }
  }
}
