#pragma once
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "scenarios/src/lessons/claims.hpp"
#include "tools/verbs/lessons/lesson_run.hpp"

namespace trainyard {

/// A change of a row's scenario, and what it does to the figures.
struct InventoryChange {
  std::string command;           ///< the command after the change
  std::string of;                ///< the run of the lesson that is changed; empty: the row's command as a whole
  std::string refused;           ///< words of the error with which the command must end; empty: it gives an answer
  std::vector<Criterion> holds;  ///< criteria on `before.FIGURE` and `after.FIGURE`
};

/// A row of tests/seeds/inventory.yaml: a command that shows a system of the sources, and what its answer must be.
struct InventoryRow {
  std::string id, command;
  std::vector<Criterion> holds;  ///< criteria on the command's JSON; for a lesson, on the figures of its runs
  std::vector<InventoryChange> changes;
  std::string lacks;        ///< what the source asks for and the program does not have
  std::string page, words;  ///< the page and its words, if the system is out of scope
  Place place;
};
std::vector<InventoryRow> read_inventory(const std::filesystem::path&);

struct JudgedRow {
  std::vector<Verdict> verdicts;
  std::string error;      ///< the message if a command failed or a figure is missing; else empty
  bool compares = false;  ///< the row changes its scenario, or compares two runs

  bool holds() const;
};

/// The JSON of commands; each command runs once. `{folder}` in a command is a temporary folder that all of them share.
class InventoryAnswers {
 public:
  /// Returns the JSON of a command. Throws its errors.
  const nlohmann::ordered_json& of(const std::string& command);

 private:
  AnswerFolder folder_;
  std::map<std::string, nlohmann::ordered_json> answers_;
};

JudgedRow judge(const InventoryRow&, InventoryAnswers&);

}  // namespace trainyard
