#include "scenarios/src/lessons/lesson_file.hpp"

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

}  // namespace trainyard
