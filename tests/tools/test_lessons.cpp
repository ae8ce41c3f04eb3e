// `trainyard lesson`, `task` and `glossary`: the statements of each lesson hold in its run, and only its solution
// solves a task.
#include <catch2/catch.hpp>
#include <filesystem>
#include <iterator>
#include <nlohmann/json.hpp>
#include <regex>
#include <set>

#include "models/reading/document_text.hpp"
#include "models/reading/shipped_files.hpp"
#include "scenarios/src/lessons/claims.hpp"
#include "scenarios/src/lessons/course_files.hpp"
#include "scenarios/src/lessons/course_reading.hpp"
#include "scenarios/src/lessons/figures.hpp"
#include "sim/json_text.hpp"
#include "tests/places.hpp"
#include "tests/tools/html_pages.hpp"

namespace tools_test_lessons {

using namespace trainyard;
using namespace trainyard::test;
using Catch::Matchers::Contains;
using nlohmann::ordered_json;

TEST_CASE("texts show figures of an answer by paths and arithmetic", "[lessons]") {
  const ordered_json answer = {{"step_time_s", 0.5},
                               {"by-kind", {{"GPU compute", 2e-3}}},
                               {"memory_bytes", {{"peak", 3221225472.0}}},
                               {"points", {{{"mfu", 0.25}}, {{"mfu", 0.5}}}},
                               {"name", "ring"},
                               {"fits", true}};
  const Place place = nowhere();
  CHECK(figure_of(answer, "2 * (step_time_s + 1) / 4 - 0.5", place) == Approx(0.25));
  CHECK(figure_of(answer, "points[-1].mfu / points[0].mfu", place) == Approx(2));
  CHECK(figure_of(answer, "count(points)", place) == 2);
  CHECK(figure_of(answer, "sqrt(16) - min(3, 2 * 1) * max(1, count(points), 1.5)", place) == 0);
  CHECK_THROWS_WITH(figure_of(answer, "sqrt(0 - 4)", place), Contains("the square root of -4"));
  CHECK_THROWS_WITH(figure_of(answer, "min(1, 2", place), Contains("\")\" expected"));
  CHECK(with_figures(answer, "{name}: {step_time_s}, {memory_bytes.peak}, {points[0].mfu}, {fits}", place) ==
        "ring: 500 ms, 3.00 GiB, 25.0 %, yes");
  CHECK(with_figures(answer, "{by-kind[\"GPU compute\"] | time} {step_time_s * 7200 | time} {step_time_s * 25000}",
                     place) == "2.00 ms 60 minutes 12,500");
  CHECK_THROWS_WITH(with_figures(answer, "{step_tme_s}", place), Contains("did you mean \"step_time_s\"?"));
  CHECK_THROWS_WITH(with_figures(answer, "{points[2].mfu}", place), Contains("no item 2 of 2"));
  CHECK_THROWS_WITH(with_figures(answer, "{step_time_s | tme}", place), Contains("did you mean \"time\"?"));
  CHECK_THROWS_WITH(figure_of(answer, "1 +", place), Contains("the name of a figure expected"));
  CHECK_THROWS_WITH(figure_of(answer, "name + 1", place), Contains("is no number"));
}

TEST_CASE("criteria take quantities, percentages and figures as limits", "[lessons]") {
  const ordered_json answer = {{"step_time_s", 0.5}, {"share", 0.3}, {"fits", false}};
  const auto verdict = [&answer](const std::string& text) {
    return judge(read_criterion(parse_document(text, "criterion.yaml")), answer);
  };
  CHECK(verdict("{figure: step_time_s, at_most: 500 ms}").holds);
  CHECK_FALSE(verdict("{figure: step_time_s, at_most: 499 ms}").holds);
  CHECK(verdict("{figure: share, at_least: 30 %}").holds);
  CHECK(verdict("{figure: step_time_s, at_least: share}").holds);
  CHECK(verdict("{figure: step_time_s, at_most: 400 ms}").text == "step_time_s: 500 ms; wanted at most 400 ms");
  CHECK(verdict("{figure: fits, equals: true, words: fits}").text == "fits: no; wanted yes");
  CHECK_THROWS_WITH(verdict("{figure: share}"), Contains("at_most, at_least, above, below or equals expected"));
  CHECK_THROWS_WITH(verdict("{figure: share, at_most: 1, at_least: 0}"), Contains("not both"));
}

namespace {

constexpr int kLessonShares = 8;

bool is_in_share(const NumberedFile& file, int share) { return file.number % kLessonShares == share; }

}  // namespace

TEMPLATE_TEST_CASE_SIG("the sentences and criteria of each lesson hold in its run", "[lessons][cli]",
                       ((int share), share), 0, 1, 2, 3, 4, 5, 6, 7) {
  const TopoFolder shell;
  for (const NumberedFile& file : numbered_files("scenarios/lessons")) {
    if (!is_in_share(file, share)) continue;
    INFO(file.file.string());
    const TopoAnswer answer = shell.trainyard("lesson " + std::to_string(file.number) + " --brief --json l.json");
    CHECK(answer.err == "");
    CHECK(answer.exit == 0);
    CHECK_THAT(answer.out, !Contains("NOT SO") && Contains("this run"));
    const ordered_json json = parse_ordered_json(shell.text("l.json"));
    CHECK(json["says"].size() == read_lesson(file).says.size());
    CHECK(json["claims"] >= json["says"].size() + json["look"].size());
  }
}

TEMPLATE_TEST_CASE_SIG("the commands that lessons suggest as changes can be run", "[lessons][cli][.deep]",
                       ((int share), share), 0, 1, 2, 3, 4, 5, 6, 7) {
  const TopoFolder shell;
  for (const NumberedFile& file : numbered_files("scenarios/lessons"))
    for (const LessonChange& change : read_lesson(file).change) {
      if (change.command.empty() || !is_in_share(file, share)) continue;
      std::string command = change.command;
      for (std::size_t at = 0; (at = command.find("scenarios/", at)) != std::string::npos; at += 2)
        command.insert(at, TRAINYARD_SOURCE_DIR "/"), at += std::string(TRAINYARD_SOURCE_DIR).size() + 1;
      const TopoAnswer answer = shell.trainyard(command);
      INFO(command << answer.err);
      CHECK(answer.exit == 0);
    }
}

TEMPLATE_TEST_CASE_SIG("each task is solved by its solution, and neither by its start nor by its wrong answers",
                       "[lessons][cli]", ((int share), share), 0, 1, 2, 3, 4, 5, 6, 7) {
  const TopoFolder shell;
  for (const NumberedFile& file : numbered_files("scenarios/tasks")) {
    if (!is_in_share(file, share)) continue;
    INFO(file.file.string());
    const Task task = read_task(file);
    const std::string verb = "task " + std::to_string(file.number), solved_file = file.name + ".json";
    const auto check = [&](const std::string& scenario) {
      shell.write("mine.yaml", scenario);
      return shell.trainyard(verb + " --check mine.yaml --record " + solved_file + " --json judged.json");
    };
    CHECK(shell.trainyard(verb + " --to start.yaml").exit == 0);
    const TopoAnswer start = check(shell.text("start.yaml"));
    CHECK(start.exit == 1);
    CHECK_THAT(start.out, Contains("NOT YET"));
    for (const WrongAnswer& wrong : task.wrong) {
      const TopoAnswer refused = check(yaml_text(changed_start(task, wrong.changes)));
      INFO(wrong.because << "\n" << refused.out << refused.err);
      CHECK(refused.exit == 1);
      CHECK(parse_ordered_json(shell.text("judged.json"))["because"] == wrong.because);
    }
    CHECK_FALSE(std::filesystem::exists(shell.path() / solved_file));
    CHECK(shell.trainyard(verb + " --solution --to solved.yaml").exit == 0);
    const TopoAnswer solved = check(shell.text("solved.yaml"));
    INFO(solved.out << solved.err);
    CHECK(solved.exit == 0);
    const ordered_json verdict = parse_ordered_json(shell.text("judged.json"));
    CHECK(verdict["solved"] == true);
    CHECK(verdict["explanation"].size() >= 2);
    CHECK(parse_ordered_json(shell.text(solved_file)) == ordered_json{{"solved", {file.name}}});
  }
}

TEST_CASE("each lesson has a task, each task a level, a briefing, hints from concept to answer, a paper, wrong answers",
          "[lessons]") {
  std::set<std::string> levels, lessons, exercised;
  for (const NumberedFile& file : numbered_files("scenarios/lessons")) lessons.insert(file.name);
  int reproducing = 0;
  for (const NumberedFile& file : numbered_files("scenarios/tasks")) {
    INFO(file.file.string());
    const Task task = read_task(file);
    levels.insert(task.level);
    CHECK(lessons.contains(task.lesson));
    exercised.insert(task.lesson);
    exercised.insert(task.further_lessons.begin(), task.further_lessons.end());
    const std::regex end_of_sentence("[.!?](\\s|$)");
    const auto sentences = std::distance(
        std::sregex_iterator(task.briefing.begin(), task.briefing.end(), end_of_sentence), std::sregex_iterator());
    CHECK(sentences >= 4);
    CHECK(sentences <= 8);
    CHECK(task.objectives.size() >= task.criteria.size());
    CHECK(task.hints.size() == 3);
    CHECK(task.wrong.size() >= 2);
    CHECK_FALSE(task.paper.empty());
    reproducing += task.reproduces.empty() ? 0 : 1;
  }
  CHECK(levels == std::set<std::string>{"easy", "medium", "hard"});
  CHECK(reproducing >= 8);
  CHECK(exercised == lessons);
}

namespace {

std::string without_space(std::string text) {
  std::erase_if(text, [](char c) { return c == ' ' || c == '\n'; });
  return text;
}

/// The paths of figures in an expression: without numbers, functions, and the keys that a student has written.
std::vector<std::string> figure_paths(const std::string& expression) {
  const std::regex word(R"re((\d[\d.e]*)|([A-Za-z_][\w-]*(\.[\w-]+|\["[^"]*"\]|\[[^\]]*\])*)(\()?)re");
  std::vector<std::string> paths;
  for (std::sregex_iterator found(expression.begin(), expression.end(), word), end; found != end; ++found)
    if ((*found)[2].matched && !(*found)[4].matched && !(*found)[2].str().starts_with("field["))
      paths.push_back(without_space((*found)[2]));
  return paths;
}

void check_that_figures_are_judged(const std::vector<Claim>& claims) {
  const std::regex quoted(R"(\{([^{}|]*)(\|[^{}]*)?\})");
  for (const Claim& claim : claims) {
    std::string criteria;
    for (const Criterion& criterion : claim.holds) criteria += without_space(criterion.figure + " " + criterion.limit);
    for (std::sregex_iterator found(claim.text.begin(), claim.text.end(), quoted), end; found != end; ++found)
      for (const std::string& path : figure_paths((*found)[1])) {
        CAPTURE(claim.text, path);
        CHECK_THAT(criteria, Contains(path));
      }
  }
}

}  // namespace

TEST_CASE("each figure of a sentence is in one of its criteria", "[lessons]") {
  CHECK(figure_paths("(1 - count(a.b[0])) * x-y[\"k l\"] / 1e9 - max(n, 2.5)") ==
        std::vector<std::string>{"a.b[0]", "x-y[\"kl\"]", "n"});
  for (const NumberedFile& file : numbered_files("scenarios/lessons")) {
    INFO(file.name);
    const Lesson lesson = read_lesson(file);
    check_that_figures_are_judged(lesson.says);
    check_that_figures_are_judged(lesson.look);
  }
  for (const NumberedFile& file : numbered_files("scenarios/tasks")) {
    INFO(file.name);
    check_that_figures_are_judged(read_task(file).explanation);
  }
}

TEST_CASE("a sentence of a lesson holds if its criteria hold", "[lessons]") {
  const ordered_json answer = {{"step_time_s", 1.0}, {"other_s", 1.04}, {"latency_us", 20.0}, {"kind", "ring"}};
  const auto claim = [&answer](const std::string& criteria) {
    return judge(read_claim(parse_document("{text: 'It takes {step_time_s}.', holds: [" + criteria + "]}", "c.yaml"),
                            "a sentence"),
                 answer);
  };
  CHECK(claim("{figure: kind, equals: ring}").text == "It takes 1.00 s.");
  CHECK(claim("{figure: kind, equals: ring}, {figure: step_time_s, at_most: 1 s}").holds());
  CHECK_FALSE(claim("{figure: kind, equals: tree}").holds());
  CHECK_FALSE(claim("{figure: other_s, above: step_time_s}").holds());  // 4 % is no contrast
  CHECK(claim("{figure: other_s, above: step_time_s, by: 3 %}").holds());
  CHECK(claim("{figure: other_s, above: step_time_s, by: 30 ms}").holds());
  CHECK(claim("{figure: step_time_s, below: 1.06 s}").holds());
  CHECK_FALSE(claim("{figure: step_time_s, below: 1.04 s}").holds());
  CHECK_FALSE(claim("{figure: other_s, equals: step_time_s}").holds());
  CHECK(claim("{figure: other_s, equals: step_time_s, within: 5 %}").holds());
  CHECK(claim("{figure: latency_us, at_most: 20 us}").holds());
  CHECK_FALSE(claim("{figure: latency_us, at_most: 19 us}").holds());
  CHECK_THROWS_WITH(claim("{figure: other_s, at_most: 1, by: 5 %}"), Contains("with above and below only"));
  CHECK_THROWS_WITH(claim("{figure: other_s, above: 1, by: far}"), Contains("a percentage, a number or a quantity"));
  CHECK_THROWS_AS(claim("{figure: other, above: 1}"), MissingFigure);
  CHECK_THROWS_WITH(read_claim(parse_document("{text: So it is.}", "c.yaml"), "a sentence"),
                    Contains("at least one criterion expected"));
}

TEST_CASE("lessons and tasks are numbered in reading order and have unique names", "[lessons]") {
  for (const auto& [folder, least, groups] :
       {std::tuple{"scenarios/lessons", 60U, 7U}, std::tuple{"scenarios/tasks", 60U, 6U}}) {
    const std::vector<NumberedFile> files = numbered_files(folder);
    CHECK(files.size() >= least);
    std::set<std::string> names, tracks;
    for (std::size_t i = 0; i < files.size(); ++i) {
      CHECK(files[i].number == static_cast<int>(i) + 1);
      CHECK(names.insert(files[i].name).second);
      tracks.insert(files[i].group);
    }
    CHECK(tracks.size() == groups);
  }
}

TEST_CASE("a task refuses forbidden changes, and reveals hints one by one", "[lessons][cli]") {
  const TopoFolder shell;
  REQUIRE(shell.trainyard("task 1 --to mine.yaml").exit == 0);
  std::string mine = shell.text("mine.yaml");
  CHECK_THAT(mine, Contains("# task") && Contains("may change plan.data_parallel.all_reduce"));
  mine.replace(mine.find("nodes: 2"), 8, "nodes: 1");
  shell.write("mine.yaml", mine);
  const TopoAnswer refused = shell.trainyard("task 1 --check mine.yaml");
  CHECK(refused.exit == 2);
  CHECK_THAT(refused.err, Contains("mine.yaml:") && Contains("cluster.nodes is 2 at the start and may not change"));
  shell.write("less.yaml", "cluster: {nodes: 2}\n");
  CHECK_THAT(shell.trainyard("task 1 --check less.yaml").err, Contains("is missing; may change"));
  CHECK_THAT(shell.trainyard("task 1 --hint 1").out, Contains("hint 1") && !Contains("hint 2"));
  for (const char* hint : {"9", "0", "-1"}) CHECK(shell.trainyard(std::string("task 1 --hint ") + hint).exit == 2);
  CHECK(shell.trainyard("task 1 --to mine.yaml").exit == 0);
  const TopoAnswer verdict = shell.trainyard("task 1 --check mine.yaml --json -");
  CHECK(verdict.exit == 1);
  CHECK(parse_json(verdict.out)["solved"] == false);
  shell.write("list.yaml", "- cluster\n- plan\n");
  CHECK_THAT(shell.trainyard("task 1 --check list.yaml").err,
             Contains("list.yaml:1:1: the file: expected a map of keys, got a list"));
  CHECK(shell.trainyard("task rng-for-master").err ==
        "trainyard task: there is no task rng-for-master; did you mean \"ring-for-master\"?\n");
  CHECK(shell.trainyard("lesson 999").exit == 2);
  CHECK_THAT(shell.trainyard("task 2").out, Contains("Many ranks, few bytes") && Contains("\nplan:"));
  CHECK_THAT(shell.trainyard("task --record solved.json").out, Contains("ring-for-master") && Contains("\n0 of "));
  shell.write("solved.json", "{\"solved\": [\"ring-for-master\"]}");
  CHECK_THAT(shell.trainyard("task --record solved.json").out, Contains("\n1 of "));
  shell.write("solved.json", "[]");
  CHECK_THAT(shell.trainyard("task --record solved.json").err, Contains("solved.json: {\"solved\": [names of tasks]}"));
}

TEST_CASE("each lesson has a picture", "[lessons]") {
  for (const NumberedFile& file : numbered_files("scenarios/lessons")) {
    INFO(file.file.string());
    const std::vector<LessonRun> runs = read_lesson(file).runs;
    CHECK(std::ranges::any_of(runs, [](const LessonRun& run) { return !run.picture.empty(); }));
  }
}

TEST_CASE("words of the field find their lessons", "[lessons][cli]") {
  const TopoFolder shell;
  for (const auto& [word, lesson] :
       {std::pair{"horovod", "the-horovod-study"}, std::pair{"checkpoint", "failures-and-checkpoints"},
        std::pair{"bubble", "gpipe"}, std::pair{"prefetch", "the-input-pipeline"}, std::pair{"LAMB", "the-best-batch"},
        std::pair{"TPU pod", "a-tpu-pod"}, std::pair{"allreduce", "all-reduce"}}) {
    const TopoAnswer found = shell.trainyard(std::string("lesson --find '") + word + "'");
    INFO(word << "\n" << found.out << found.err);
    CHECK(found.exit == 0);
    CHECK_THAT(found.out.substr(0, found.out.find('\n')), Contains(lesson));
  }
  CHECK_THAT(shell.trainyard("lesson --find chekpoint").err, Contains("did you mean \"checkpoint\"?"));
  CHECK(shell.trainyard("lesson --find ring --json x.json").exit == 2);
}

TEST_CASE("the course links its pages, and each word and statement to a lesson", "[lessons][pages][cli]") {
  const TopoFolder shell;
  CHECK_THAT(shell.trainyard("course").out, Contains("trainyard course --html DIR"));
  const TopoAnswer written = shell.trainyard("course --html c --lessons ring-all-reduce,gpipe");
  INFO(written.out << written.err);
  REQUIRE(written.exit == 0);
  std::set<std::string> pages;
  for (const auto& entry : std::filesystem::directory_iterator(shell.path() / "c"))
    pages.insert(entry.path().filename().string());
  CHECK(pages.size() >= 6);
  const std::regex address("(?:href|src)=\"([^\"#]*)(#[^\"]*)?\"");
  for (const std::string& page : pages) {
    const std::string text = shell.text("c/" + page);
    INFO(page);
    for (std::sregex_iterator link(text.begin(), text.end(), address), end; link != end; ++link) {
      const std::string target = (*link)[1], mark = (*link)[2];
      INFO(target << mark);
      CHECK((target.empty() || pages.contains(target)));
      if (!mark.empty() && !target.empty())
        CHECK_THAT(shell.text("c/" + target), Contains("id=\"" + mark.substr(1) + "\""));
    }
  }
  std::set<std::string> lessons;
  for (const NumberedFile& file : numbered_files("scenarios/lessons")) lessons.insert("lesson " + file.name);
  const CourseReading reading = read_course_reading();
  for (const CoursePaper& paper : reading.papers)
    for (const std::string& lesson : paper.lessons) CHECK(lessons.contains("lesson " + lesson));
  std::set<std::string> commands;
  for (const CourseText& text : reading.texts)
    for (const TextSection& section : text.sections)
      for (const TextStatement& statement : section.statements) commands.insert(statement.run);
  for (const std::string& command : commands) {
    INFO(command);
    CHECK((lessons.contains(command) || !command.starts_with("lesson ")));
    if (!command.starts_with("lesson ")) CHECK(shell.trainyard(command).exit == 0);
  }
  CHECK(shell.trainyard("course --html - ").exit == 2);
  CHECK_THAT(shell.trainyard("course --lessons gpip").err, Contains("did you mean \"gpipe\"?"));
}

TEST_CASE("memory in lessons and tasks is in GiB, as in their answers", "[lessons]") {
  const std::regex decimal(R"((1e9|1e12)? *\} [GT]B[^a-zA-Z/])");  // a figure in GB is divided by as many bytes
  for (const char* folder : {"scenarios/lessons", "scenarios/tasks"})
    for (const NumberedFile& file : numbered_files(folder)) {
      const std::string text = file_text(file.file);
      CAPTURE(file.name);
      // The text for the reader is above the scenario.
      const std::string read = text.substr(0, text.find("\ncluster:"));
      for (std::sregex_iterator found(read.begin(), read.end(), decimal), end; found != end; ++found)
        CHECK((*found)[1].matched);
    }
}

TEST_CASE("words of the glossary have a lesson and a source file, and a misspelt word gets the nearest",
          "[lessons][cli]") {
  std::set<std::string> lessons;
  for (const NumberedFile& file : numbered_files("scenarios/lessons")) lessons.insert(file.name);
  const std::vector<GlossaryWord> words = read_glossary();
  CHECK(words.size() >= 60);
  for (const GlossaryWord& word : words) {
    CAPTURE(word.word);
    CHECK(lessons.contains(word.lesson));
    CHECK(std::filesystem::exists(shipped_file(word.source_file)));
  }
  const TopoFolder shell;
  CHECK_THAT(shell.trainyard("glossary ring all-reduce").out, Contains("2 (n − 1)") && Contains("ring-all-reduce"));
  CHECK(shell.trainyard("glossary allreduce").out == shell.trainyard("glossary all-reduce").out);
  for (const char* word : {"MFU", "trust", "PUE", "bottleneck", "critical path"}) {  // words of the answer of run
    const std::string out = shell.trainyard(std::string("glossary ") + word).out;
    CAPTURE(out);
    CHECK_THAT(out, Contains("\nlesson     trainyard lesson ") && !Contains("modelled") && !Contains("/src"));
  }
  CHECK_THAT(shell.trainyard("glossary bubbel").err, Contains("did you mean \"bubble\"?"));
  const std::string text = "Two rings beat the ring all-reduce; a string does not.";
  const std::vector<FoundWord> found = words_in(text, words);
  REQUIRE(found.size() == 1);
  CHECK(text.substr(found[0].begin, found[0].length) == "ring all-reduce");
  // Texts have these words in another sense.
  CHECK(words_in("It brings zero bytes to the batch norm of bottleneck 11, and images from a file server to decoding. "
                 "Times that scatter reduce the residual sums of rank 2.",
                 words)
            .empty());
  CHECK(words_in("ZeRO has ranks.", words).size() == 2);
  CHECK(find_word(words, "decoding").word == "decode step");
  CHECK_THAT(shell.trainyard("lesson --find server").out, Contains("parameter-servers"));
}

TEST_CASE("the page of a lesson links its words and holds its figures", "[lessons][pages][cli]") {
  const TopoFolder shell;
  const TopoAnswer answer = shell.trainyard("lesson ring-all-reduce --html p.html --json p.json");
  REQUIRE(answer.exit == 0);
  const std::string page = shell.text("p.html");
  CHECK(data_of_page(page) == parse_json(shell.text("p.json")));
  CHECK_THAT(page, Contains("<a href=\"#word-all-reduce\">") && Contains("<dt id=\"word-all-reduce\">"));
  CHECK_THAT(page, Contains("\nconst lesson = JSON.parse"));  // the script keeps its lines, inside the page of the run
  CHECK_THAT(page, Contains("<iframe") && !Contains("http://") && !Contains("@body@"));
}

}  // namespace tools_test_lessons
