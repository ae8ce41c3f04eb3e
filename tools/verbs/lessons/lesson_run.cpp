#include "tools/verbs/lessons/lesson_run.hpp"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

namespace trainyard {
namespace {

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

LessonAnswer run_lesson(const NumberedFile& file, bool pictures) {
  LessonAnswer a{read_lesson(file), {}, {}, {}, {}};
  ordered_json figures = ordered_json::object();
  for (const LessonRun& lesson_run : a.lesson.runs) {
    a.answers.push_back(answer_of(lesson_run.command, pictures ? lesson_run.picture : ""));
    ordered_json answer = ordered_json::parse(a.answers.back().json);
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
