#include "tools/verbs/lessons/lesson_run.hpp"

#include <fmt/format.h>
#include <stdlib.h>
#include <fstream>
#include <iterator>
#include <vector>

#include "models/reading/shipped_files.hpp"
#include "sim/error.hpp"
#include "sim/json_text.hpp"
#include "sim/process/job.hpp"
#include "tools/verbs/verbs.hpp"

namespace trainyard {

AnswerFolder::AnswerFolder() {
  std::string name = (std::filesystem::temp_directory_path() / "trainyard-answer-XXXXXX").string();
  if (mkdtemp(name.data()) == nullptr) throw UserError(fmt::format("cannot make a folder in {}", name));
  path_ = name;
}

AnswerFolder::~AnswerFolder() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

std::string AnswerFolder::text(const std::string& name) const {
  std::ifstream in(path_ / name, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

namespace {

std::vector<std::string> words_of(const std::string& line) {
  std::vector<std::string> words;
  char quote = 0;
  bool inside = false;
  for (const char c : line) {
    if (quote != 0 ? c == quote : c == '"' || c == '\'') {
      quote = quote != 0 ? '\0' : c;
      if (!inside) words.emplace_back();
      inside = true;
    } else if (c == ' ' && quote == 0) {
      inside = false;
    } else {
      if (!inside) words.emplace_back();
      inside = true;
      words.back() += c;
    }
  }
  return words;
}

using nlohmann::ordered_json;

ordered_json verdicts_json(const std::vector<Verdict>& verdicts) {
  ordered_json list = ordered_json::array();
  for (const Verdict& verdict : verdicts) list.push_back({{"text", verdict.text}, {"holds", verdict.holds}});
  return list;
}

ordered_json lesson_json(const LessonAnswer& a, const ordered_json& figures) {
  const NumberedFile& file = a.lesson.file;
  ordered_json json = {
      {"lesson", file.name}, {"number", file.number}, {"group", file.group}, {"title", a.lesson.title}};
  std::size_t criteria = 0;
  for (const auto& [key, claims] : {std::pair{"says", &a.says}, std::pair{"look", &a.look}}) {
    json[key] = ordered_json::array();
    for (const JudgedClaim& claim : *claims) {
      json[key].push_back(
          {{"text", claim.text}, {"holds", claim.holds()}, {"criteria", verdicts_json(claim.verdicts)}});
      criteria += claim.verdicts.size();
    }
  }
  json["claims"] = criteria;
  json["figures"] = figures;
  return json;
}

}  // namespace

CommandAnswer answer_of(const std::string& command, const std::string& picture) {
  const AnswerFolder folder;
  std::vector<std::string> words = words_of(command);
  for (std::string& word : words)
    if (word.starts_with("scenarios/")) word = shipped_file(word).string();
  words.insert(words.end(), {"--json", folder.file("json")});
  if (!picture.empty()) words.insert(words.end(), {"--" + picture, folder.file("picture")});
  const CaughtOutput screen;
  const int code = verbs().find(words.front(), Place::named(command)).run({words.begin() + 1, words.end()});
  if (code == kInterrupted) throw Interruption();
  if (code != kGood && code != kFailsLimit) throw UserError(fmt::format("{}: ended with code {}", command, code));
  return {screen.text, folder.text("json"), folder.text("picture")};
}

LessonAnswer run_lesson(const NumberedFile& file, bool pictures) {
  LessonAnswer a{read_lesson(file), {}, {}, {}, {}};
  ordered_json figures = ordered_json::object();
  for (const LessonRun& lesson_run : a.lesson.runs) {
    end_if_interrupted();
    a.answers.push_back(answer_of(lesson_run.command, pictures ? lesson_run.picture : ""));
    ordered_json answer = parse_ordered_json(a.answers.back().json);
    if (lesson_run.name.empty())
      figures = std::move(answer);
    else
      figures[lesson_run.name] = std::move(answer);
  }
  const auto judged = [&figures](const std::vector<Claim>& claims) {
    std::vector<JudgedClaim> all;
    for (const Claim& claim : claims) all.push_back(judge(claim, figures));
    return all;
  };
  a.says = judged(a.lesson.says);
  a.look = judged(a.lesson.look);
  a.json = lesson_json(a, figures);
  return a;
}

std::vector<std::string> LessonAnswer::contradictions() const {
  std::vector<std::string> texts;
  for (const std::vector<JudgedClaim>* claims : {&says, &look})
    for (const JudgedClaim& claim : *claims)
      for (const Verdict& verdict : claim.verdicts)
        if (!verdict.holds) texts.push_back(fmt::format("{} ({})", claim.text, verdict.text));
  return texts;
}

}  // namespace trainyard
