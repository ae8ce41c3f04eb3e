#pragma once
#include <string>
#include <vector>

namespace trainyard {

/// A publication, and the lessons whose subject it introduced or explains.
struct CoursePaper {
  std::string paper;
  std::vector<std::string> lessons;
};

/// A statement of a course text, and the command that shows it ("lesson gpipe", or another verb).
struct TextStatement {
  std::string says, run;
};

struct TextSection {
  std::string title;
  std::vector<TextStatement> statements;
};

/// A text about distributed training that readers may come from.
struct CourseText {
  std::string title;
  std::vector<TextSection> sections;
};

/// The file `scenarios/lessons/reading.yaml`.
struct CourseReading {
  std::vector<CoursePaper> papers;
  std::vector<CourseText> texts;
};
CourseReading read_course_reading();

}  // namespace trainyard
