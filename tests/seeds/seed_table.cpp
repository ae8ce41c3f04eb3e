// `tools/test --seeds` prints the seed cases with their expected and simulated figures, the rows of the inventory with
// their commands and asserted figures, and what the tests judge in lessons and tasks.
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "models/reading/shipped_files.hpp"
#include "scenarios/src/lessons/course_files.hpp"
#include "sim/process/output.hpp"
#include "tests/seeds/inventory.hpp"
#include "tests/seeds/seed_case.hpp"
#include "tools/verbs/verbs.hpp"

using namespace trainyard;

namespace {

using nlohmann::json;

std::string text_of(const SeedFigures& figures, const SeedFigures& shown) {
  std::string text;
  for (const auto& [name, ignored] : shown) {
    const auto found = figures.find(name);
    const std::string word = found == figures.end()      ? "(missing)"
                             : found->second.is_string() ? found->second.get<std::string>()
                                                         : found->second.dump();
    text += fmt::format("{}{} = {}", text.empty() ? "" : ", ", name, word);
  }
  return text;
}

/// Returns the first four expected figures, or all of them.
SeedFigures shown_figures(const SeedOutcome& o, bool all) {
  SeedFigures shown;
  for (const auto& figure : o.expected)
    if (all || shown.size() < 4) shown.insert(figure);
  return shown;
}

void print(const SeedOutcome& o, bool all) {
  const SeedFigures shown = shown_figures(o, all);
  const char* more = shown.size() < o.expected.size() ? ", …" : "";
  const char* word = o.state == SeedState::pass ? "pass" : o.state == SeedState::fail ? "FAIL" : "missing";
  fmt::print("{:10} {:7} {}\n", o.id, word, o.title);
  fmt::print("           expected {}{}\n", text_of(o.expected, shown), more);
  if (o.state != SeedState::missing) fmt::print("           got      {}{}\n", text_of(o.got, shown), more);
  if (const auto error = o.got.find("error"); error != o.got.end())
    fmt::print("           error    {}\n", error->second.get<std::string>());
  if (!o.note.empty()) fmt::print("           note     {}\n", o.note);
}

json row(const SeedOutcome& o) {
  const json pass = o.state == SeedState::missing ? json("missing") : json(o.state == SeedState::pass);
  return {{"id", o.id}, {"pass", pass}, {"expected", o.expected}, {"got", o.got}};
}

void print(const InventoryRow& row, const JudgedRow& judged) {
  if (row.command.empty()) {
    fmt::print("{:10} {:7} {} says that it is out of scope\n", row.id, "pass", row.page);
    return;
  }
  fmt::print("{:10} {:7} {}\n", row.id, judged.holds() ? "pass" : "FAIL", row.command);
  for (const Verdict& verdict : judged.verdicts)
    fmt::print("           {:8} {}\n", verdict.holds ? "holds" : "NOT SO", verdict.text);
  if (!judged.error.empty()) fmt::print("           error    {}\n", judged.error);
  if (!row.lacks.empty()) fmt::print("           lacks    {}\n", row.lacks);
}

json row(const InventoryRow& row, const JudgedRow& judged) {
  json figures = json::array();
  for (const Verdict& verdict : judged.verdicts) figures.push_back({{"text", verdict.text}, {"holds", verdict.holds}});
  return {{"id", row.id},       {"command", row.command},      {"pass", judged.holds()},
          {"figures", figures}, {"compares", judged.compares}, {"error", judged.error},
          {"lacks", row.lacks}};
}

struct TableOptions {
  std::vector<std::string> ids;
  std::string json_file;
  bool all = false, rows_only = false;
};

TableOptions read_options(const std::vector<std::string>& words) {
  TableOptions options;
  for (auto word = words.begin(); word != words.end(); ++word) {
    if (*word == "--all")
      options.all = true;
    else if (*word == "--rows")
      options.rows_only = true;
    else if (*word == "--json" && word + 1 != words.end())
      options.json_file = *++word;
    else if (word->starts_with("-"))
      throw UserError(fmt::format("--seeds: {}: expected ids of cases or rows, --rows, --all or --json FILE", *word));
    else
      options.ids.push_back(*word);
  }
  if (!options.json_file.empty()) check_writable(options.json_file);
  return options;
}

/// Runs the cases and prints them. Returns their JSON.
json show_cases(const std::vector<std::string>& ids, bool all, bool quiet) {
  const std::vector<SeedOutcome> outcomes = run_seed_cases(shipped_file("tests/seeds/cases.yaml"), ids);
  const auto count = [&outcomes](SeedState state) {
    return std::count_if(outcomes.begin(), outcomes.end(), [state](const SeedOutcome& o) { return o.state == state; });
  };
  json cases = json::array();
  for (const SeedOutcome& o : outcomes) {
    cases.push_back(row(o));
    if (!quiet) print(o, all);
  }
  if (!quiet)
    fmt::print("{} of {} seed cases pass, {} fail, {} are missing\n", count(SeedState::pass), outcomes.size(),
               count(SeedState::fail), count(SeedState::missing));
  return cases;
}

/// Judges the rows of the inventory and prints them. Returns their JSON.
json show_rows(const std::vector<InventoryRow>& rows, bool quiet) {
  InventoryAnswers answers;
  json list = json::array();
  std::size_t figures = 0, pass = 0, comparing = 0, lacking = 0;
  for (const InventoryRow& inventory_row : rows) {
    const JudgedRow judged = judge(inventory_row, answers);
    list.push_back(row(inventory_row, judged));
    if (!quiet) print(inventory_row, judged);
    figures += judged.verdicts.size();
    pass += judged.holds() ? 1 : 0;
    comparing += judged.compares ? 1 : 0;
    lacking += inventory_row.lacks.empty() ? 0 : 1;
  }
  if (!quiet)
    fmt::print("{} of {} rows of the inventory pass; {} criteria; {} rows compare runs; {} rows lack something\n", pass,
               rows.size(), figures, comparing, lacking);
  return list;
}

std::size_t count_criteria(const std::vector<Claim>& claims) {
  std::size_t count = 0;
  for (const Claim& claim : claims) count += claim.holds.size();
  return count;
}

/// Prints how many sentences and criteria the tests judge in each lesson, and how many answers they give to each task.
/// Returns the same as JSON.
json show_lessons(bool quiet) {
  json list = json::array();
  std::size_t all = 0, wrong = 0;
  for (const NumberedFile& file : numbered_files("scenarios/lessons")) {
    const Lesson lesson = read_lesson(file);
    const std::size_t sentences = lesson.says.size() + lesson.look.size(),
                      criteria = count_criteria(lesson.says) + count_criteria(lesson.look);
    all += criteria;
    list.push_back({{"lesson", file.name}, {"sentences", sentences}, {"criteria", criteria}});
    if (!quiet)
      fmt::print("lesson {:3} {:32} {:2} sentences, {:3} criteria\n", file.number, file.name, sentences, criteria);
  }
  const std::size_t lessons = list.size();
  for (const NumberedFile& file : numbered_files("scenarios/tasks")) {
    const std::size_t refused = read_task(file).wrong.size();
    wrong += refused;
    list.push_back({{"task", file.name}, {"right_answers", 1}, {"wrong_answers", refused}});
    if (!quiet) fmt::print("task   {:3} {:32} 1 right answer, {} wrong ones\n", file.number, file.name, refused);
  }
  if (!quiet)
    fmt::print("{} lessons with {} criteria; {} tasks with as many right answers and {} wrong ones\n", lessons, all,
               list.size() - lessons, wrong);
  return list;
}

bool passes(const json& list) {
  return std::none_of(list.begin(), list.end(), [](const json& entry) { return entry["pass"] == false; });
}

int run(const std::vector<std::string>& words) {
  const auto [ids, json_file, all, rows_only] = read_options(words);
  std::vector<std::string> case_ids;
  std::vector<InventoryRow> rows = read_inventory(shipped_file("tests/seeds/inventory.yaml"));
  for (const std::string& id : ids)
    if (std::none_of(rows.begin(), rows.end(), [&id](const InventoryRow& r) { return r.id == id; }))
      case_ids.push_back(id);
  if (!ids.empty())
    std::erase_if(rows,
                  [&ids = ids](const InventoryRow& r) { return std::find(ids.begin(), ids.end(), r.id) == ids.end(); });
  const bool quiet = json_file == "-", cases_too = ids.empty() ? !rows_only : !case_ids.empty();
  const json cases = cases_too ? show_cases(case_ids, all, quiet) : json::array();
  const json judged = rows.empty() ? json::array() : show_rows(rows, quiet);
  const json lessons = ids.empty() && !rows_only ? show_lessons(quiet) : json::array();
  if (!json_file.empty())
    write_atomically(json_file, json{{"cases", cases}, {"rows", judged}, {"lessons", lessons}}.dump(2) + "\n");
  return passes(cases) && passes(judged) ? kGood : kFailsLimit;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run({argv + 1, argv + argc});
  } catch (const UserError& e) {
    fmt::print(stderr, "{}\n", e.what());
    return kBadInput;
  }
}
