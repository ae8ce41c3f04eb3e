#include "tools/verbs/lessons/task_check.hpp"

#include <algorithm>
#include <cctype>
#include <map>
#include <mutex>
#include <nlohmann/json.hpp>

#include "models/reading/document_text.hpp"
#include "scenarios/src/lessons/figures.hpp"
#include "sim/json_text.hpp"
#include "sim/process/output.hpp"

namespace trainyard {
namespace {

using nlohmann::ordered_json;

CommandAnswer answer_about(const Task& task, const std::filesystem::path& scenario) {
  std::string command = task.command;
  const std::string mark = "{this}";
  command.replace(command.find(mark), mark.size(), "'" + std::filesystem::absolute(scenario).string() + "'");
  return answer_of(command);
}

/// The answer to the start scenario. A process runs each start once.
ordered_json start_figures(const Task& task) {
  static std::mutex mutex;
  static std::map<std::string, ordered_json> answers;
  {
    const std::lock_guard lock(mutex);
    if (const auto found = answers.find(task.file.name); found != answers.end()) return found->second;
  }
  const AnswerFolder folder;
  write_atomically(folder.file("start.yaml"), yaml_text(task.start));
  ordered_json answer = parse_ordered_json(answer_about(task, folder.file("start.yaml")).json);
  const std::lock_guard lock(mutex);
  return answers.try_emplace(task.file.name, std::move(answer)).first->second;
}

/// All expressions and sentences of the task that are about the student's answer.
std::vector<std::string> judged_texts(const Task& task) {
  std::vector<std::string> texts;
  const auto add = [&texts](const std::vector<Criterion>& criteria) {
    for (const Criterion& criterion : criteria) texts.insert(texts.end(), {criterion.figure, criterion.limit});
  };
  add(task.criteria);
  for (const Claim& claim : task.explanation) {
    texts.push_back(claim.text);
    add(claim.holds);
  }
  return texts;
}

bool has_start_figures(const std::string& text) {
  const std::string prefix = "start.";
  for (std::size_t match = 0; (match = text.find(prefix, match)) != std::string::npos; ++match)
    if (match == 0 || (std::isalnum(static_cast<unsigned char>(text[match - 1])) == 0 && text[match - 1] != '_'))
      return true;
  return false;
}

ordered_json field_value(const Node& node) {
  if (node.kind != Node::Kind::scalar || node.quoted) return flow_text(node);
  if (node.scalar == "true" || node.scalar == "false") return node.scalar == "true";
  try {
    return parse_number(node.scalar);
  } catch (const UserError&) {
    return node.scalar;
  }
}

void add_fields(const Node& node, const std::string& path, ordered_json& fields) {
  for (const auto& [key, value] : node.fields) {
    const std::string below = path.empty() ? key : path + "." + key;
    fields[below] = field_value(value);
    add_fields(value, below, fields);
  }
}

/// The student's keys, as written. Keys that the task asks for and the student left out are "not set".
ordered_json written_fields(const Task& task, const Node& mine, const std::vector<std::string>& texts) {
  ordered_json fields = ordered_json::object();
  add_fields(mine, "", fields);
  const std::string begin = "field[\"", end = "\"]";
  for (const std::string& text : texts)
    for (std::size_t match = 0; (match = text.find(begin, match)) != std::string::npos;) {
      match += begin.size();
      const std::string key = text.substr(match, text.find(end, match) - match);
      const bool may_change = std::ranges::any_of(
          task.may_change, [&key](const auto& allowed) { return key == allowed || key.starts_with(allowed + "."); });
      if (may_change && !fields.contains(key)) fields[key] = "not set";
    }
  return fields;
}

ordered_json task_figures(const Task& task, const ordered_json& answer, const Node& mine) {
  ordered_json figures = answer;
  figures["mine"] = answer;
  const std::vector<std::string> texts = judged_texts(task);
  if (std::ranges::any_of(texts, has_start_figures)) figures["start"] = start_figures(task);
  figures["field"] = written_fields(task, mine, texts);
  return figures;
}

std::vector<std::string> true_sentences(const Task& task, const ordered_json& figures) {
  std::vector<std::string> sentences;
  for (const Claim& claim : task.explanation) try {
      const JudgedClaim judged = judge(claim, figures);
      if (judged.holds()) sentences.push_back(judged.text);
    } catch (const MissingFigure&) {  // the sentence is about another way to solve the task
    }
  return sentences;
}

std::string reason_of_wrong(const Task& task, const Node& mine) {
  for (const WrongAnswer& wrong : task.wrong)
    if (have_same_fields(changed_start(task, wrong.changes), mine)) return wrong.because;
  return "";
}

}  // namespace

bool TaskVerdict::is_solved() const {
  return std::ranges::all_of(criteria, [](const Verdict& verdict) { return verdict.holds; });
}

TaskVerdict judge_task(const Task& task, const std::filesystem::path& mine) {
  const Node document = read_document(mine);
  require_allowed_changes(task, document);
  TaskVerdict verdict{{}, answer_about(task, mine), {}, {}};
  const ordered_json figures = task_figures(task, parse_ordered_json(verdict.answer.json), document);
  for (const Criterion& criterion : task.criteria) verdict.criteria.push_back(judge(criterion, figures));
  if (verdict.is_solved())
    verdict.explanation = true_sentences(task, figures);
  else
    verdict.because = reason_of_wrong(task, document);
  return verdict;
}

TaskVerdict judge_task_text(const Task& task, const std::string& mine) {
  const AnswerFolder folder;
  write_atomically(folder.file("mine.yaml"), mine);
  const std::string file = folder.file("mine.yaml");
  try {
    return judge_task(task, file);
  } catch (const UserError& e) {  // nobody but this function knows the file
    std::string text = e.what();
    for (std::size_t begin = text.find(file); begin != std::string::npos; begin = text.find(file))
      text.replace(begin, file.size(), "scenario");
    throw UserError(text);
  }
}

std::string briefing_text(const Task& task) {
  const bool has_figures = has_start_figures(task.briefing);
  return with_figures({{"start", has_figures ? start_figures(task) : ordered_json::object()}}, task.briefing,
                      task.place);
}

ordered_json verdict_json(const Task& task, const TaskVerdict& verdict) {
  ordered_json criteria = ordered_json::array();
  for (const Verdict& criterion : verdict.criteria)
    criteria.push_back({{"text", criterion.text}, {"holds", criterion.holds}});
  return {{"task", task.file.name},
          {"number", task.file.number},
          {"level", task.level},
          {"solved", verdict.is_solved()},
          {"criteria", criteria},
          {"because", verdict.because},
          {"explanation", verdict.explanation}};
}

}  // namespace trainyard
