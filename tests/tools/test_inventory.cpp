// Checks tests/seeds/inventory.yaml, which says what shows each system of the sources.
#include <catch2/catch.hpp>
#include <fstream>
#include <set>
#include <string>

#include "models/reading/document.hpp"
#include "scenarios/src/lessons/numbered_files.hpp"
#include "tests/tools/topo_shell.hpp"

namespace tools_test_inventory {

using namespace trainyard;

namespace {

/// The words of the file, with single spaces in place of line breaks.
std::string words_of_file(const std::string& file) {
  std::ifstream in(TRAINYARD_SOURCE_DIR "/" + file);
  std::string text;
  for (std::string word; in >> word;) text += (text.empty() ? "" : " ") + word;
  return text;
}

}  // namespace

TEST_CASE("a command shows every system of the sources, or a page says that it is out of scope",
          "[seeds][inventory][cli]") {
  const Node inventory = read_document(TRAINYARD_SOURCE_DIR "/tests/seeds/inventory.yaml");
  CHECK(inventory.fields.size() == 240);
  std::set<std::string> lessons, commands;
  for (const NumberedFile& file : numbered_files("scenarios/lessons")) lessons.insert(file.name);
  int out_of_scope = 0;
  const std::string lesson = "lesson ";
  for (const auto& [row, shown] : inventory.fields) {
    CAPTURE(row);
    if (shown.kind == Node::Kind::map) {
      REQUIRE(shown.find("says"));
      CHECK_THAT(words_of_file(shown.find("says")->scalar), Catch::Matchers::Contains(shown.find("words")->scalar));
      ++out_of_scope;
    } else if (shown.scalar.starts_with(lesson)) {
      CHECK(lessons.contains(shown.scalar.substr(lesson.size())));  // the tests of lessons run it
    } else {
      commands.insert(shown.scalar);
    }
  }
  CHECK(out_of_scope == 1);
  const test::TopoFolder shell;
  for (std::string command : commands) {
    const std::size_t at = command.find("scenarios/");
    if (at != std::string::npos) command.insert(at, TRAINYARD_SOURCE_DIR "/");
    INFO(command);
    const test::TopoAnswer answer = shell.trainyard(command);
    CHECK(answer.err == "");
    CHECK(answer.exit == 0);
  }
}

}  // namespace tools_test_inventory
