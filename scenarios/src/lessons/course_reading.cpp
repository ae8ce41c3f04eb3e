#include "scenarios/src/lessons/course_reading.hpp"

#include "models/reading/document.hpp"
#include "models/reading/shipped_files.hpp"

namespace trainyard {
namespace {

/// Calls `read` with the fields of each item of a list of maps.
template <typename Read>
void for_each_item(Fields& fields, const char* key, const std::string& what, Read read) {
  const std::vector<Node>* items = fields.list(key);
  for (const Node& item : items ? *items : std::vector<Node>{}) {
    Fields inner(item, what);
    read(inner);
    inner.finish();
  }
}

TextSection read_section(Fields& fields) {
  TextSection section{fields.text("section"), {}};
  for_each_item(fields, "shown", "texts.sections.shown", [&section](Fields& statement) {
    section.statements.push_back({statement.text("says"), statement.text("run")});
  });
  return section;
}

}  // namespace

CourseReading read_course_reading() {
  const Node document = read_document(shipped_file("scenarios/lessons/reading.yaml"));
  Fields fields(document, "the file");
  CourseReading reading;
  for_each_item(fields, "papers", "papers", [&reading](Fields& paper) {
    reading.papers.push_back({paper.text("paper"), paper.texts("lessons")});
  });
  for_each_item(fields, "texts", "texts", [&reading](Fields& text) {
    CourseText& all = reading.texts.emplace_back(CourseText{text.text("text"), {}});
    for_each_item(text, "sections", "texts.sections",
                  [&all](Fields& section) { all.sections.push_back(read_section(section)); });
  });
  fields.finish();
  return reading;
}

}  // namespace trainyard
