// Checks tests/seeds/inventory.yaml: for each system of the sources, a command and the figures of its answer.
#include <catch2/catch.hpp>
#include <fstream>
#include <map>
#include <string>

#include "tests/seeds/inventory.hpp"
#include "tests/temporary_folder.hpp"

namespace tools_test_inventory {

using namespace trainyard;

namespace {

constexpr int kShares = 8;

std::vector<InventoryRow> inventory() { return read_inventory(TRAINYARD_SOURCE_DIR "/tests/seeds/inventory.yaml"); }

/// The words of the file, with single spaces in place of line breaks.
std::string words_of_file(const std::string& file) {
  std::ifstream in(TRAINYARD_SOURCE_DIR "/" + file);
  std::string text;
  for (std::string word; in >> word;) text += (text.empty() ? "" : " ") + word;
  return text;
}

JudgedRow judged(const std::string& row) {
  const test::TemporaryFolder folder;
  InventoryAnswers answers;
  return judge(read_inventory(folder.write("inventory.yaml", "X-01: " + row + "\n")).at(0), answers);
}

}  // namespace

TEST_CASE("each row of the inventory asserts figures, or a page says that the row is out of scope",
          "[seeds][inventory]") {
  const std::vector<InventoryRow> rows = inventory();
  CHECK(rows.size() == 240);
  int out_of_scope = 0;
  for (const InventoryRow& row : rows) {
    CAPTURE(row.id);
    if (row.page.empty()) {
      CHECK_FALSE(row.holds.empty());
    } else {
      CHECK_THAT(words_of_file(row.page), Catch::Matchers::Contains(row.words));
      ++out_of_scope;
    }
  }
  CHECK(out_of_scope == 1);
}

TEMPLATE_TEST_CASE_SIG("the command of each row of the inventory gives the figures that the row asserts",
                       "[seeds][inventory][cli]", ((int share), share), 0, 1, 2, 3, 4, 5, 6, 7) {
  std::map<std::string, std::vector<InventoryRow>> rows_of_command;
  for (InventoryRow& row : inventory()) rows_of_command[row.command].push_back(std::move(row));
  int number = 0;
  InventoryAnswers answers;
  for (const auto& [command, rows] : rows_of_command) {
    if (number++ % kShares != share) continue;
    for (const InventoryRow& row : rows) {
      const JudgedRow outcome = judge(row, answers);
      INFO(row.id << " " << command);
      CHECK(outcome.error == "");
      for (const Verdict& verdict : outcome.verdicts) {
        INFO(verdict.text);
        CHECK(verdict.holds);
      }
    }
  }
}

TEST_CASE("a row whose figure is wrong, missing or does not change is noticed", "[seeds][inventory]") {
  const std::string run = "run: teach threads --items 3 --threads 4, holds: [{figure: slots, ";
  CHECK(judged("{" + run + "equals: 1}]}").holds());
  CHECK_FALSE(judged("{" + run + "equals: 2}]}").holds());
  CHECK_FALSE(judged("{run: teach threads --items 3 --threads 4, holds: [{figure: slotz, equals: 1}]}").holds());
  const std::string change = run + "equals: 1}], change: {run: teach threads --items 3 --threads 1, holds: [{figure: ";
  CHECK(judged("{" + change + "after.slots, above: before.slots}]}}").holds());
  CHECK_FALSE(judged("{" + change + "after.items, above: before.items}]}}").holds());
  CHECK(judged("{" + run + "equals: 1}], change: {run: teach threads --items 0, refused: items}}").holds());
  CHECK_FALSE(judged("{" + run + "equals: 1}], change: {run: teach threads, refused: items}}").holds());
  CHECK_THROWS_WITH(judged("{run: teach threads, change: {run: teach threads}}"),
                    Catch::Contains("either holds or refused expected"));
}

}  // namespace tools_test_inventory
