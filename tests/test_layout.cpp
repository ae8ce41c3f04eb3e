// The structure of the source tree: who may include whom, and what lies at the top.
#include <algorithm>
#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <regex>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace test_layout {

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
        CHECK(line.find("\"tests/") == std::string::npos);  // no include of a test, and no path to one
        const bool of_library = std::regex_search(line, match, library);
        if (folder == "sim" && of_library && match[1] != "sys") CHECK(libraries_of_sim.contains(match[1]));
        if (of_library && match[1] == "simgrid")  // only the folder simgrid uses SimGrid
          CHECK(entry.path().parent_path().filename() == "simgrid");
      }
    }
  CHECK(files > 60);
}

TEST_CASE("the interfaces of the executor stay small", "[layout]") {
  const std::map<std::string, std::pair<std::string, int>> most{{"Program", {"sim/program.hpp", 10}},
                                                                {"Observer", {"sim/observer.hpp", 11}},
                                                                {"Machine", {"sim/machine.hpp", 9}}};
  for (const auto& [name, limit] : most) {
    std::ifstream in(fs::path(TRAINYARD_SOURCE_DIR) / limit.first);
    int functions = 0;
    bool inside = false;
    for (std::string line; std::getline(in, line);) {
      inside = line == "class " + name + " {" || (inside && line != "};");
      functions += inside && line.starts_with("  virtual ") && !line.starts_with("  virtual ~") ? 1 : 0;
    }
    CAPTURE(name);
    CHECK(functions > 0);
    CHECK(functions <= limit.second);
  }
}

TEST_CASE("algorithms of collectives name no parts of the simulation", "[layout]") {
  const std::regex inside("repeat|emitter|probe|hash", std::regex::icase);
  int files = 0;
  for (const auto& entry :
       fs::directory_iterator(fs::path(TRAINYARD_SOURCE_DIR) / "strategies/collectives/algorithms")) {
    ++files;
    std::ifstream in(entry.path());
    int lines = 0;
    for (std::string line; std::getline(in, line); ++lines) {
      CAPTURE(entry.path().string(), line);
      CHECK(!std::regex_search(line, inside));
    }
    if (entry.path().filename() == "ring.cpp") CHECK(lines < 80);
  }
  CHECK(files > 20);
}

namespace {

/// The project's files that each file includes, by path.
using Includes = std::map<std::string, std::set<std::string>>;

const std::vector<std::string> kFolders{"sim", "models", "topologies", "strategies", "scenarios", "tools"};

Includes own_includes() {
  const std::regex own("^#include \"([a-z_]+/[^\"]+)\"");
  Includes includes;
  for (const std::string& folder : kFolders)
    for (const auto& entry : fs::recursive_directory_iterator(fs::path(TRAINYARD_SOURCE_DIR) / folder)) {
      if (entry.path().extension() != ".cpp" && entry.path().extension() != ".hpp") continue;
      std::ifstream in(entry.path());
      std::set<std::string>& included = includes[fs::relative(entry.path(), TRAINYARD_SOURCE_DIR).string()];
      std::smatch match;
      for (std::string line; std::getline(in, line);)
        if (std::regex_search(line, match, own)) included.insert(match[1]);
    }
  return includes;
}

/// Returns the folders at which two paths part, for example "scenarios/src/running" and "scenarios/src/studies". A file
/// that lies in no room of sim has the folder "sim/.". Both are "" if the files lie in one folder.
std::pair<std::string, std::string> parting(const std::string& a, const std::string& b) {
  const auto first = [](const std::string& path, std::size_t from) {
    const std::size_t end = path.find('/', from);
    return end == std::string::npos ? "" : path.substr(0, end);  // a file of the folder itself has no room
  };
  std::size_t from = 0;
  while (true) {
    const std::string x = first(a, from), y = first(b, from);
    if (x.empty() && y.empty()) return {"", ""};
    if (x != y) return {x.empty() ? a.substr(0, from) + "." : x, y.empty() ? a.substr(0, from) + "." : y};
    from = x.size() + 1;
  }
}

/// Returns a circle of the graph, for example "a > b > a", or "" if it has none.
std::string circle_in(const Includes& graph) {
  std::map<std::string, int> state;  // 1: on the current path, 2: done
  std::string found;
  const std::function<void(const std::string&, const std::string&)> visit = [&](const std::string& at,
                                                                                const std::string& path_here) {
    state[at] = 1;
    if (const auto next = graph.find(at); next != graph.end())
      for (const std::string& to : next->second) {
        if (!found.empty()) return;
        if (state[to] == 1) found = path_here + " > " + to;
        if (state[to] == 0) visit(to, path_here + " > " + to);
      }
    state[at] = 2;
  };
  for (const auto& [at, to] : graph)
    if (found.empty() && state[at] == 0) visit(at, at);
  return found;
}

std::string unit_of(const std::string& path) { return path.substr(0, path.rfind('.')); }

}  // namespace

TEST_CASE("rooms of a folder include only those before them", "[layout]") {
  const std::map<std::string, std::vector<std::string>> rooms{
      {"strategies", {"collectives", "pipelines", "compression", "plan", "values", "step", "mechanisms", "failures"}},
      {"scenarios/src",
       {"answer", "reading", "collectives", "post_training", "planning", "running", "traces", "pictures", "studies",
        "search", "sizing", "lessons"}},
  };
  for (const auto& [file, included] : own_includes())
    for (const std::string& to : included) {
      const auto [from_room, to_room] = parting(file, to);
      // A room of a room, and a file that lies in no room, have no order.
      const auto order = rooms.find(fs::path(from_room).parent_path().string());
      if (order == rooms.end() || !to_room.starts_with(order->first + "/")) continue;
      const auto place = [&](const std::string& room) {
        return std::find(order->second.begin(), order->second.end(), fs::path(room).filename().string());
      };
      CAPTURE(file, to);
      REQUIRE(place(from_room) != order->second.end());
      CHECK(place(to_room) < place(from_room));
    }
}

TEST_CASE("there are no circles between folders, however deep", "[layout]") {
  Includes rooms;
  for (const auto& [file, included] : own_includes())
    for (const std::string& to : included)
      if (const auto [a, b] = parting(file, to); !a.empty()) rooms[a].insert(b);
  CHECK(circle_in(rooms) == "");
}

TEST_CASE("there are no circles between files, a header and its source being one", "[layout]") {
  Includes units;
  for (const auto& [file, included] : own_includes())
    for (const std::string& to : included)
      if (!file.starts_with("sim/") && unit_of(file) != unit_of(to)) units[unit_of(file)].insert(unit_of(to));
  CHECK(circle_in(units) == "");
}

TEST_CASE("simulations are put together in one place", "[layout]") {
  const std::regex construction("\\bSimulation [a-z_]+[({;]");
  std::vector<std::string> files;
  for (const auto& [file, included] : own_includes()) {
    std::ifstream in(fs::path(TRAINYARD_SOURCE_DIR) / file);
    for (std::string line; std::getline(in, line);)
      if (std::regex_search(line, construction)) files.push_back(file);
  }
  CHECK(files == std::vector<std::string>{"sim/executor/simulation.cpp"});
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

namespace {

/// Qualified names of the types that a file defines outside anonymous namespaces.
std::vector<std::string> shared_types(std::istream& in) {
  const std::regex begin("^namespace ?([\\w:]*) ?\\{"), end("^\\}  // (anonymous )?namespace");
  const std::regex type("^(struct|class|enum class) (\\w+)( final)?( : [^;]*)? \\{");
  std::vector<std::string> namespaces, types;
  for (std::string line; std::getline(in, line);) {
    std::smatch match;
    if (std::regex_search(line, match, begin)) {
      namespaces.push_back(match[1]);
    } else if (std::regex_search(line, end)) {
      if (!namespaces.empty()) namespaces.pop_back();
    } else if (std::regex_search(line, match, type) &&
               std::find(namespaces.begin(), namespaces.end(), "") == namespaces.end()) {
      std::string name = match[2];
      for (auto outer = namespaces.rbegin(); outer != namespaces.rend(); ++outer) name = *outer + "::" + name;
      types.push_back(name);
    }
  }
  return types;
}

}  // namespace

// The linker takes two types with the same qualified name for one type: it keeps one version of the functions of, say,
// their vectors.
TEST_CASE("no two files define types with the same qualified name", "[layout]") {
  std::map<std::string, std::string> defined_in;
  for (const std::string& folder : kFolders)
    for (const auto& entry : fs::recursive_directory_iterator(fs::path(TRAINYARD_SOURCE_DIR) / folder)) {
      if (entry.path().extension() != ".cpp" && entry.path().extension() != ".hpp") continue;
      std::ifstream in(entry.path());
      for (const std::string& type : shared_types(in)) {
        const auto [other, fresh] = defined_in.emplace(type, entry.path().string());
        CAPTURE(type, other->second, entry.path().string());
        CHECK(fresh);
      }
    }
  CHECK(defined_in.size() > 500);
}

namespace {

std::vector<std::string> lines_of(const fs::path& file) {
  std::ifstream in(file);
  std::vector<std::string> lines;
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

}  // namespace

TEST_CASE("every room with code states its question", "[layout]") {
  for (const std::string& folder : kFolders)
    for (const auto& entry : fs::recursive_directory_iterator(fs::path(TRAINYARD_SOURCE_DIR) / folder)) {
      if (entry.path().extension() != ".cpp") continue;
      CAPTURE(entry.path().string());
      const std::vector<std::string> lines = lines_of(entry.path().parent_path() / "README.md");
      REQUIRE_FALSE(lines.empty());
      CHECK(lines.front().find('?') != std::string::npos);
    }
}

TEST_CASE("the pages for contributors name and quote only code that exists", "[layout]") {
  const fs::path root(TRAINYARD_SOURCE_DIR);
  const std::regex named(
      "`([A-Za-z_]+)`[^`]{0,4}\\(?(?:in )?\\(?`((?:sim|models|topologies|strategies|scenarios|tools|tests)/[^`]+)`"),
      path("`((?:sim|models|topologies|strategies|scenarios|tools|tests)/[^`*]*)`"), quoted("From `([^`]+)`:");
  int names = 0, quotes = 0;
  for (const char* page : {"ARCHITECTURE.md", "CONTRIBUTING.md"}) {
    const std::vector<std::string> lines = lines_of(root / ".github" / page);
    std::string text;
    for (const std::string& line : lines) text += line + " ";
    for (std::sregex_iterator at(text.begin(), text.end(), path), end; at != end; ++at) {
      CAPTURE(page, at->str());
      CHECK(fs::exists(root / (*at)[1].str()));
    }
    for (std::sregex_iterator at(text.begin(), text.end(), named), end; at != end; ++at, ++names) {
      CAPTURE(page, at->str());
      const std::vector<std::string> file = lines_of(root / (*at)[2].str());
      const std::regex word("\\b" + (*at)[1].str() + "\\b");
      CHECK(std::any_of(file.begin(), file.end(),
                        [&](const std::string& line) { return std::regex_search(line, word); }));
    }
    // The lines of a quoted block stand in its file, in the same order. "…" replaces lines that the page leaves out.
    std::smatch match;
    for (std::size_t i = 0; i < lines.size(); ++i) {
      if (!std::regex_search(lines[i], match, quoted)) continue;
      ++quotes;
      const std::vector<std::string> file = lines_of(root / match[1].str());
      auto from = file.begin();
      for (i += 3; lines.at(i) != "```"; ++i) {
        if (lines[i].ends_with("…") || lines[i].empty()) continue;
        CAPTURE(page, lines[i]);
        from = std::find(from, file.end(), lines[i]);
        REQUIRE(from != file.end());
      }
    }
  }
  CHECK(names >= 25);
  CHECK(quotes >= 7);
}

}  // namespace test_layout
