#include "scenarios/src/lessons/course_files.hpp"

#include <fmt/format.h>
#include <algorithm>
#include <fstream>
#include <map>
#include <sstream>

#include "models/reading/document_text.hpp"

namespace trainyard {
namespace {

/// Replaces `{this}` in a command by the file's path.
std::string command_on(std::string command, const NumberedFile& file) {
  const std::string mark = "{this}";
  for (std::size_t found = 0; (found = command.find(mark, found)) != std::string::npos;)
    command.replace(found, mark.size(), shipped_path(file));
  return command;
}

/// Returns the flag by which a command draws. A sweep always draws its chart.
std::string picture_of(const std::string& command, const std::string& stated) {
  return stated.empty() && command.starts_with("sweep ") ? "html" : stated;
}

std::vector<LessonChange> changes(Fields& fields, const NumberedFile& file) {
  std::vector<LessonChange> all;
  for_each_item(fields, "change", "lesson.change", [&](Fields& change) {
    all.push_back({change.text("words"), command_on(change.text("run"), file)});
  });
  return all;
}

/// Returns the text after the section `task`, which comes first in the file, with the comments above that text.
std::string text_after_task(const std::filesystem::path& file, int line) {
  std::ifstream in(file);
  std::vector<std::string> lines;
  for (std::string text; std::getline(in, text);) lines.push_back(text);
  auto from = static_cast<std::size_t>(line - 1);
  while (from > 0 && lines[from - 1].starts_with("#")) --from;
  std::string text;
  for (std::size_t i = from; i < lines.size(); ++i) text += lines[i] + "\n";
  return text;
}

/// Returns the fields of a scenario by path. `node: {base: NAME}` has the path of `node: NAME`.
std::map<std::string, std::string> compared_fields(Node document) {
  std::erase_if(document.fields, [](const auto& field) { return field.first == "task"; });
  std::map<std::string, std::string> fields;
  for (const auto& [path, text] : flat_fields(document))
    fields[path.ends_with(".base") ? path.substr(0, path.rfind('.')) : path] = text;
  return fields;
}

/// Returns the place of a field in `document`, or of the nearest map above it.
Place place_of(const Node& document, const std::string& path) {
  const Node* node = &document;
  std::istringstream in(path);
  for (std::string key; std::getline(in, key, '.');) {
    const Node* next = node->find(key);
    if (!next) break;
    node = next;
  }
  return node->place;
}

}  // namespace

Lesson read_lesson(const NumberedFile& file) {
  const Node document = read_document(file.file);
  Fields root(document, "the file");
  Fields fields(root.required_child("lesson"), "lesson");
  Lesson lesson{file, fields.text("title"), fields.text("shows"), fields.texts("aliases"), {}, {}, {}, {}};
  if (fields.has("run")) {
    const std::string command = fields.text("run");
    lesson.runs.push_back({"", command_on(command, file), picture_of(command, fields.text("picture", ""))});
  } else {
    const Node& runs = fields.required_child("runs");
    Fields(runs, "lesson.runs");
    const Node none = Node::empty_map(runs.place), *picture = fields.child_unless_null("picture");
    Fields pictures(picture ? *picture : none, "lesson.picture");
    for (const auto& [name, command] : runs.fields)
      lesson.runs.push_back(
          {name, command_on(command.scalar, file), picture_of(command.scalar, pictures.text(name, ""))});
    pictures.finish();
  }
  lesson.says = read_claims(fields, "says", "lesson.says");
  lesson.look = read_claims(fields, "look", "lesson.look");
  lesson.change = changes(fields, file);
  fields.finish();
  return lesson;
}

Task read_task(const NumberedFile& file) {
  Task task;
  task.file = file;
  task.start = read_document(file.file);
  if (task.start.fields.size() < 2 || task.start.fields.front().first != "task")
    fail(task.start.place, "a section \"task\" and then a scenario expected");
  Fields fields(task.start.fields.front().second, "task");
  task.place = task.start.fields.front().second.place;
  task.title = fields.text("title");
  task.level = fields.choice("level", {"easy", "medium", "hard"});
  task.lesson = fields.text("lesson");
  task.further_lessons = fields.texts("further_lessons");
  task.briefing = fields.text("briefing");
  task.command = fields.text("run", "run {this} --no-what-if");
  task.objectives = fields.texts("objectives");
  task.hints = fields.texts("hints");
  task.may_change = fields.texts("may_change");
  fields.required_child("explanation");
  task.explanation = read_claims(fields, "explanation", "task.explanation");
  task.paper = fields.text("paper");
  task.reproduces = fields.text("reproduces", "");
  fields.required_child("criteria");
  for (const Node& item : *fields.list("criteria")) task.criteria.push_back(read_criterion(item));
  task.solution = fields.required_child("solution").fields;
  fields.required_child("wrong");
  for_each_item(fields, "wrong", "task.wrong", [&task](Fields& wrong) {
    const Node& set = wrong.required_child("set");
    Fields(set, "task.wrong.set");  // checks that it is a map
    task.wrong.push_back({set.fields, wrong.text("because")});
  });
  fields.finish();
  task.start_text = text_after_task(file.file, task.start.fields[1].second.key_place.line);
  task.start.fields.erase(task.start.fields.begin());
  return task;
}

Node changed_start(const Task& task, const TaskChanges& changes) {
  Node document = task.start;
  for (const auto& [path, value] : changes) set_field(document, path, value);
  return document;
}

bool have_same_fields(const Node& a, const Node& b) { return compared_fields(a) == compared_fields(b); }

void require_allowed_changes(const Task& task, const Node& mine) {
  Fields(mine, "the file");  // checks that it is a map
  const auto start = compared_fields(task.start), fields = compared_fields(mine);
  const auto allowed = [&task](const std::string& path) {
    return std::ranges::any_of(task.may_change,
                               [&path](const std::string& key) { return path == key || path.starts_with(key + "."); });
  };
  const std::string may = fmt::format("may change: {}", fmt::join(task.may_change, ", "));
  for (const auto& [path, text] : fields) {
    const auto before = start.find(path);
    if (allowed(path) || (before != start.end() && before->second == text)) continue;
    fail(place_of(mine, path),
         fmt::format("{} is {} at the start and may not change in task {}; {}", path,
                     before == start.end() ? "not there" : before->second, task.file.number, may));
  }
  for (const auto& [path, text] : start)
    if (!allowed(path) && !fields.contains(path))
      fail(place_of(mine, path), fmt::format("{} ({} at the start) is missing; {}", path, text, may));
}

}  // namespace trainyard
