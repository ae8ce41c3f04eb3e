#include "scenarios/src/lessons/lesson_file.hpp"

namespace trainyard {
namespace {

std::string of_file(std::string command, const NumberedFile& file) {
  const std::string mark = "{this}";
  for (std::size_t found = 0; (found = command.find(mark, found)) != std::string::npos;)
    command.replace(found, mark.size(), shipped_path(file));
  return command;
}

/// The flag by which a command draws. A sweep always draws its chart.
std::string picture_of(const std::string& command, const std::string& stated) {
  return stated.empty() && command.starts_with("sweep ") ? "html" : stated;
}

std::vector<LessonChange> changes(Fields& fields, const NumberedFile& file) {
  std::vector<LessonChange> all;
  const std::vector<Node>* items = fields.list("change");
  for (const Node& item : items ? *items : std::vector<Node>{}) {
    Fields change(item, "lesson.change");
    all.push_back({change.text("words"), of_file(change.text("run"), file)});
    change.finish();
  }
  return all;
}

}  // namespace

Lesson read_lesson(const NumberedFile& file) {
  const Node document = read_document(file.file);
  Fields root(document, "the file");
  Fields fields(root.required_child("lesson"), "lesson");
  Lesson lesson{file, fields.text("title"), fields.text("shows"), fields.texts("aliases"), {}, {}, {}, {}};
  if (fields.has("run")) {
    const std::string command = fields.text("run");
    lesson.runs.push_back({"", of_file(command, file), picture_of(command, fields.text("picture", ""))});
  } else {
    const Node& runs = fields.required_child("runs");
    Fields(runs, "lesson.runs");
    const Node none = Node::empty_map(runs.place);
    Fields pictures(fields.has("picture") ? *fields.child("picture") : none, "lesson.picture");
    for (const auto& [name, command] : runs.fields)
      lesson.runs.push_back({name, of_file(command.scalar, file), picture_of(command.scalar, pictures.text(name, ""))});
    pictures.finish();
  }
  lesson.says = read_claims(fields, "says", "lesson.says");
  lesson.look = read_claims(fields, "look", "lesson.look");
  lesson.change = changes(fields, file);
  fields.finish();
  return lesson;
}

}  // namespace trainyard
