#include "tests/seeds/inventory.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <regex>
#include <set>

#include "models/reading/document_text.hpp"
#include "scenarios/src/lessons/course_files.hpp"
#include "sim/json_text.hpp"
#include "tools/verbs/lessons/lesson_run.hpp"

namespace trainyard {
namespace {

using nlohmann::ordered_json;

const std::string kLesson = "lesson ";

std::vector<LessonRun> runs_of(const std::string& command) {
  if (!command.starts_with(kLesson)) return {};
  return read_lesson(find_numbered(numbered_files("scenarios/lessons"), "lesson", command.substr(kLesson.size()))).runs;
}

/// Returns the command that `of` names: a run of the row's lesson, or the row's own command if `of` is empty.
std::string changed_command(const InventoryRow& row, const std::string& of, const Place& place) {
  const std::vector<LessonRun> runs = runs_of(row.command);
  const auto run = std::find_if(runs.begin(), runs.end(), [&of](const LessonRun& r) { return r.name == of; });
  if (run != runs.end()) return run->command;
  if (!runs.empty() || !of.empty()) fail(place, fmt::format("change.of: \"{}\" is no run of {}", of, row.command));
  return row.command;
}

std::vector<Criterion> read_criteria(Fields& fields) {
  std::vector<Criterion> criteria;
  if (const std::vector<Node>* holds = fields.list("holds"))
    for (const Node& item : *holds) criteria.push_back(read_criterion(item));
  return criteria;
}

InventoryChange read_change(const Node& node, const InventoryRow& row) {
  Fields fields(node, "change");
  InventoryChange change{fields.text("run", ""), fields.text("of", ""), fields.text("refused", ""),
                         read_criteria(fields)};
  if (const Node* set = fields.child("set")) {
    if (!change.command.empty()) fail(node.place, "change: run or set, not both");
    change.command = changed_command(row, change.of, node.place);
    for (const auto& [key, value] : set->fields) change.command += fmt::format(" --set '{}={}'", key, flow_text(value));
  }
  fields.finish();
  if (change.command.empty()) fail(node.place, "change: run or set expected");
  if (change.holds.empty() == change.refused.empty()) fail(node.place, "change: either holds or refused expected");
  return change;
}

InventoryRow read_row(const std::string& id, const Node& node) {
  InventoryRow row{id, {}, {}, {}, {}, {}, {}, node.place};
  if (node.kind == Node::Kind::scalar) {
    row.command = node.scalar;
    return row;
  }
  Fields fields(node, id);
  row.page = fields.text("says", "");
  if (!row.page.empty())
    row.words = fields.text("words");
  else
    row.command = fields.text("run");
  row.holds = read_criteria(fields);
  row.lacks = fields.text("lacks", "");
  if (const Node* change = fields.child("change")) {
    if (change->kind != Node::Kind::list) row.changes.push_back(read_change(*change, row));
    for (const Node& item : change->items) row.changes.push_back(read_change(item, row));
  }
  fields.finish();
  return row;
}

/// Returns true if the criterion compares two runs of a lesson, or two points of a table.
bool compares(const Criterion& criterion, const std::vector<LessonRun>& runs) {
  const std::string text = criterion.figure + " " + criterion.limit;
  std::set<std::string> sides;
  for (const LessonRun& run : runs)
    if (!run.name.empty() && std::regex_search(text, std::regex("(^|[^\\w.-])" + run.name + "\\b[.\\[]")))
      sides.insert(run.name);
  const std::regex point("\\b(points|rows|variants)\\[(-?\\d+)\\]");
  for (std::sregex_iterator match(text.begin(), text.end(), point), end; match != end; ++match)
    sides.insert((*match)[2]);
  return sides.size() > 1;
}

/// Returns the figures that the row's criteria name: those of the answer, or for a lesson those of its runs.
const ordered_json& figures_in(const ordered_json& answer) {
  return answer.contains("lesson") && answer.contains("figures") ? answer["figures"] : answer;
}

Verdict refusal(const InventoryChange& change, InventoryAnswers& answers) {
  try {
    answers.of(change.command);
  } catch (const UserError& e) {
    const std::string error = e.what();
    return {error.find(change.refused) != std::string::npos,
            fmt::format("refused: {}; wanted \"{}\"", error, change.refused)};
  }
  return {false, fmt::format("{}: not refused; wanted \"{}\"", change.command, change.refused)};
}

void judge_changes(const InventoryRow& row, InventoryAnswers& answers, JudgedRow& judged) {
  for (const InventoryChange& change : row.changes) {
    if (!change.refused.empty()) {
      judged.verdicts.push_back(refusal(change, answers));
      continue;
    }
    const ordered_json& before = figures_in(answers.of(row.command));
    const ordered_json both = {{"before", change.of.empty() ? before : before.at(change.of)},
                               {"after", figures_in(answers.of(change.command))}};
    for (const Criterion& criterion : change.holds) judged.verdicts.push_back(judge(criterion, both));
  }
}

}  // namespace

std::vector<InventoryRow> read_inventory(const std::filesystem::path& file) {
  std::vector<InventoryRow> rows;
  for (const auto& [id, node] : read_document(file).fields) rows.push_back(read_row(id, node));
  return rows;
}

const ordered_json& InventoryAnswers::of(const std::string& command) {
  const auto found = answers_.find(command);
  if (found != answers_.end()) return found->second;
  const std::string mark = "{folder}/";
  std::string line = command;
  for (std::size_t begin = 0; (begin = line.find(mark, begin)) != std::string::npos;)
    line.replace(begin, mark.size(), folder_.file(""));
  return answers_[command] = parse_ordered_json(answer_of(line).json);
}

bool JudgedRow::holds() const {
  return error.empty() && std::all_of(verdicts.begin(), verdicts.end(), [](const Verdict& v) { return v.holds; });
}

JudgedRow judge(const InventoryRow& row, InventoryAnswers& answers) {
  JudgedRow judged;
  if (row.command.empty()) return judged;
  const std::vector<LessonRun> runs = runs_of(row.command);
  judged.compares = !row.changes.empty() || std::any_of(row.holds.begin(), row.holds.end(),
                                                        [&runs](const Criterion& c) { return compares(c, runs); });
  try {
    const ordered_json& figures = figures_in(answers.of(row.command));
    for (const Criterion& criterion : row.holds) judged.verdicts.push_back(judge(criterion, figures));
    judge_changes(row, answers, judged);
  } catch (const UserError& e) {
    judged.error = e.what();
  }
  return judged;
}

}  // namespace trainyard
