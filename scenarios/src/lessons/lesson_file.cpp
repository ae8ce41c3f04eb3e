#include "scenarios/src/lessons/lesson_file.hpp"

namespace trainyard {
namespace {

std::string of_file(std::string command, const NumberedFile& file) {
  const std::string mark = "{this}";
  for (std::size_t at = 0; (at = command.find(mark, at)) != std::string::npos;)
    command.replace(at, mark.size(), shipped_path(file));
  return command;
}

std::vector<LessonText> texts(Fields& fields, const char* key, const NumberedFile& file) {
  std::vector<LessonText> all;
  const std::vector<Node>* items = fields.list(key);
  for (const Node& item : items ? *items : std::vector<Node>{}) {
    if (item.kind == Node::Kind::scalar) {
      all.push_back({item.scalar, item.place});
      continue;
    }
    Fields change(item, std::string("lesson.") + key);
    all.push_back({change.text("words"), item.place, of_file(change.text("run"), file)});
    change.finish();
  }
  return all;
}

}  // namespace

Lesson read_lesson(const NumberedFile& file) {
  const Node document = read_document(file.file);
  Fields root(document, "the file");
  Fields fields(root.required_child("lesson"), "lesson");
  Lesson lesson{file, fields.text("title"), fields.text("shows"), {}, {}, {}, {}, {}};
  if (fields.has("run")) {
    lesson.runs.push_back({"", of_file(fields.text("run"), file), fields.text("picture", "")});
  } else {
    const Node& runs = fields.required_child("runs");
    Fields(runs, "lesson.runs");
    const Node none = Node::empty_map(runs.place);
    Fields pictures(fields.has("picture") ? *fields.child("picture") : none, "lesson.picture");
    for (const auto& [name, command] : runs.fields)
      lesson.runs.push_back({name, of_file(command.scalar, file), pictures.text(name, "")});
    pictures.finish();
  }
  lesson.says = texts(fields, "says", file);
  lesson.look = texts(fields, "look", file);
  lesson.change = texts(fields, "change", file);
  if (const std::vector<Node>* holds = fields.list("holds"))
    for (const Node& item : *holds) lesson.holds.push_back(read_criterion(item));
  fields.finish();
  return lesson;
}

}  // namespace trainyard
