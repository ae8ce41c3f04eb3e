// `tools/test --seeds`: the table of the seed cases, what is expected and what the simulator gives.
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "models/reading/shipped_files.hpp"
#include "sim/process/output.hpp"
#include "tests/seeds/seed_case.hpp"
#include "tools/verbs/verbs.hpp"

using namespace trainyard;

namespace {

using nlohmann::json;

std::string text_of(const SeedFigures& figures, const SeedFigures& shown) {
  std::string text;
  for (const auto& [name, ignored] : shown) {
    const auto at = figures.find(name);
    const std::string word = at == figures.end()      ? "(missing)"
                             : at->second.is_string() ? at->second.get<std::string>()
                                                      : at->second.dump();
    text += fmt::format("{}{} = {}", text.empty() ? "" : ", ", name, word);
  }
  return text;
}

/// The first few figures, or all.
SeedFigures worth_showing(const SeedOutcome& o, bool all) {
  SeedFigures shown;
  for (const auto& figure : o.expected)
    if (all || shown.size() < 4) shown.insert(figure);
  return shown;
}

void print(const SeedOutcome& o, bool all) {
  const SeedFigures shown = worth_showing(o, all);
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

struct TableOptions {
  std::vector<std::string> ids;
  std::string json_file;
  bool all = false;
};

TableOptions read_options(const std::vector<std::string>& words) {
  TableOptions options;
  for (auto word = words.begin(); word != words.end(); ++word) {
    if (*word == "--all")
      options.all = true;
    else if (*word == "--json" && word + 1 != words.end())
      options.json_file = *++word;
    else if (word->starts_with("-"))
      throw UserError(fmt::format("--seeds: {}: expected case ids, --all or --json FILE", *word));
    else
      options.ids.push_back(*word);
  }
  if (!options.json_file.empty()) check_writable(options.json_file);
  return options;
}

int run(const std::vector<std::string>& words) {
  const auto [ids, json_file, all] = read_options(words);
  const std::vector<SeedOutcome> outcomes = run_seed_cases(shipped_file("tests/seeds/cases.yaml"), ids);
  const auto count = [&outcomes](SeedState state) {
    return std::count_if(outcomes.begin(), outcomes.end(), [state](const SeedOutcome& o) { return o.state == state; });
  };
  json cases = json::array();
  for (const SeedOutcome& o : outcomes) {
    cases.push_back(row(o));
    if (json_file != "-") print(o, all);
  }
  const auto failed = count(SeedState::fail);
  if (json_file != "-")
    fmt::print("{} of {} seed cases pass, {} fail, {} are missing\n", count(SeedState::pass), outcomes.size(), failed,
               count(SeedState::missing));
  if (!json_file.empty()) write_atomically(json_file, json{{"cases", cases}}.dump(2) + "\n");
  return failed == 0 ? kGood : kFailsLimit;
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
