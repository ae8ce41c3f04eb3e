#include "tools/verbs/lessons/course_pages.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "models/reading/xml_text.hpp"
#include "sim/error.hpp"
#include "tools/reports/html_page.hpp"
#include "tools/verbs/lessons/lesson_page.hpp"

namespace trainyard {
namespace {

constexpr const char* kWords = "words.html";

std::string link(const std::string& page, const std::string& text) {
  return fmt::format("<a href=\"{}\">{}</a>", page, xml_escaped(text));
}

const CourseStep* step_of(const Course& course, const std::string& lesson) {
  const auto found =
      std::ranges::find_if(course.steps, [&lesson](const CourseStep& step) { return step.lesson.file.name == lesson; });
  return found == course.steps.end() ? nullptr : &*found;
}

std::string numbered_title(const Lesson& lesson) { return fmt::format("{}. {}", lesson.file.number, lesson.title); }
std::string numbered_title(const Task& task) {
  return fmt::format("Task {}: {}, {}", task.file.number, task.title, task.level);
}

/// A link to the lesson if the course has it; else the command that runs it.
std::string lesson_link(const Course& course, const std::string& lesson) {
  if (const CourseStep* step = step_of(course, lesson))
    return link(page_name(step->lesson), numbered_title(step->lesson));
  return fmt::format("<code>trainyard lesson {}</code>", xml_escaped(lesson));
}

/// A link to the lesson that the command runs, or the command.
std::string command_link(const Course& course, const std::string& command) {
  const std::string verb = "lesson ";
  if (command.starts_with(verb)) return lesson_link(course, command.substr(verb.size()));
  return fmt::format("<code>trainyard {}</code>", xml_escaped(command));
}

/// The pages of lessons and tasks in reading order, with their titles.
std::vector<std::pair<std::string, std::string>> page_sequence(const Course& course) {
  std::vector<std::pair<std::string, std::string>> pages;
  for (const CourseStep& step : course.steps) {
    pages.emplace_back(page_name(step.lesson), numbered_title(step.lesson));
    for (const Task& task : step.tasks) pages.emplace_back(page_name(task), numbered_title(task));
  }
  return pages;
}

std::string page_text(const Course& course, const std::string& title, const std::string& page,
                      const std::string& body) {
  // The index, which has no name here, has no links.
  const std::string around = page.empty() ? "" : page_navigation(page_sequence(course), page, "Course");
  return html_text({title, "<main>\n" + around + body + around + "</main>\n", "data", nullptr, {}});
}

std::string list(const std::vector<std::string>& items) {
  std::string html;
  for (const std::string& item : items) html += "<li>" + item + "</li>\n";
  return html.empty() ? "" : "<ul>\n" + html + "</ul>\n";
}

std::string folded(const std::string& summary, const std::string& markup) {
  return fmt::format("<details><summary>{}</summary>{}</details>\n", summary, markup);
}

/// The lessons of each publication: those that the reading list names, and those of the tasks that cite it.
std::map<std::string, std::vector<std::string>> lessons_of_papers(const Course& course) {
  std::map<std::string, std::vector<std::string>> lessons;
  for (const CoursePaper& paper : course.reading.papers)
    for (const std::string& lesson : paper.lessons) lessons[paper.paper].push_back(lesson_link(course, lesson));
  for (const CourseStep& step : course.steps)
    for (const Task& task : step.tasks) lessons[task.paper].push_back(link(page_name(task), numbered_title(task)));
  return lessons;
}

}  // namespace

std::string page_navigation(const std::vector<std::pair<std::string, std::string>>& pages, const std::string& page,
                            const std::string& index) {
  const auto position = std::ranges::find_if(pages, [&page](const auto& p) { return p.first == page; });
  std::string html = "<nav class=\"bar course\">";
  if (position != pages.end() && position != pages.begin()) {
    const auto& [before, title] = *std::prev(position);
    html += fmt::format("<a rel=\"prev\" href=\"{}\">← {}</a>", before, xml_escaped(title));
  }
  html += fmt::format("<a href=\"index.html\">{}</a>", xml_escaped(index));
  if (position != pages.end() && std::next(position) != pages.end()) {
    const auto& [after, title] = *std::next(position);
    html += fmt::format("<a rel=\"next\" href=\"{}\">{} →</a>", after, xml_escaped(title));
  }
  return html + "</nav>\n";
}

void create_page_folder(const std::filesystem::path& folder) {
  std::error_code error;
  const std::filesystem::file_status status = std::filesystem::status(folder, error);
  if (std::filesystem::exists(status) && !std::filesystem::is_directory(status))
    throw UserError(fmt::format("{}: a folder expected, for the pages; this is {}", folder.string(),
                                std::filesystem::is_regular_file(status) ? "a file" : "no folder and no file"));
  std::filesystem::create_directory(folder, error);
  if (error) throw UserError(fmt::format("{}: {}", folder.string(), error.message()));
}

std::string page_name(const Lesson& lesson) {
  return fmt::format("lesson-{:02}-{}.html", lesson.file.number, lesson.file.name);
}
std::string page_name(const Task& task) { return fmt::format("task-{:02}-{}.html", task.file.number, task.file.name); }

Course read_course(const std::vector<std::string>& lessons) {
  const std::vector<NumberedFile> files = numbered_files("scenarios/lessons");
  std::vector<NumberedFile> chosen = lessons.empty() ? files : std::vector<NumberedFile>{};
  for (const std::string& name : lessons) chosen.push_back(find_numbered(files, "lesson", name));
  std::ranges::sort(chosen, [](const auto& a, const auto& b) { return a.number < b.number; });
  Course course{{}, read_glossary(), read_course_reading()};
  for (const NumberedFile& file : chosen) course.steps.push_back({read_lesson(file), {}, {}});
  std::vector<std::string> names;
  for (const NumberedFile& file : files) names.push_back(file.name);
  for (const NumberedFile& file : numbered_files("scenarios/tasks")) {
    const Task task = read_task(file);
    std::vector<std::string> lessons_of_task = task.further_lessons;
    lessons_of_task.insert(lessons_of_task.begin(), task.lesson);
    bool has_page = false;
    for (const std::string& lesson : lessons_of_task) {
      if (std::ranges::find(names, lesson) == names.end())
        fail(task.place, fmt::format("task.lesson: there is no lesson {}{}", lesson, hint(lesson, names)));
      for (CourseStep& step : course.steps)
        if (step.lesson.file.name == lesson) {
          (has_page ? step.more : step.tasks).push_back(task);
          has_page = true;
        }
    }
  }
  return course;
}

std::vector<Task> all_tasks(const CourseStep& step) {
  std::vector<Task> all = step.tasks;
  all.insert(all.end(), step.more.begin(), step.more.end());
  return all;
}

std::string index_page(const Course& course) {
  std::string body =
      "<h1>Distributed training, by simulation</h1>\n"
      "<p>Each lesson runs commands of trainyard and says what these runs show. After a lesson come its tasks: a "
      "scenario to change until it meets its objectives.</p>\n" +
      list({link(kWords, "The words of the field"), link("texts.html", "Your text says … → run …"),
            link("papers.html", "Papers to read")});
  std::string group;
  for (const CourseStep& step : course.steps) {
    const NumberedFile& file = step.lesson.file;
    if (file.group != group) {
      std::string chapter = file.group;
      chapter.front() = static_cast<char>(std::toupper(static_cast<unsigned char>(chapter.front())));
      body +=
          fmt::format("{}<section><h2>{}</h2>\n<ul>\n", group.empty() ? "" : "</ul></section>\n", xml_escaped(chapter));
    }
    group = file.group;
    std::vector<std::string> tasks;
    for (const Task& task : all_tasks(step)) tasks.push_back(link(page_name(task), numbered_title(task)));
    body += "<li>" + link(page_name(step.lesson), numbered_title(step.lesson)) + list(tasks) + "</li>\n";
  }
  return page_text(course, "Distributed training, by simulation", "", body + "</ul></section>\n");
}

std::string words_markup(const Course& course) {
  std::vector<GlossaryWord> words = course.words;
  std::ranges::sort(words, [](const auto& a, const auto& b) { return a.word < b.word; });
  std::string body = "<h1>The words of the field</h1>\n<dl>\n";
  for (const GlossaryWord& word : words) body += definition_markup(word, lesson_link(course, word.lesson));
  return body + "</dl>\n";
}

std::string words_page(const Course& course) {
  return page_text(course, "The words of the field", kWords, words_markup(course));
}

std::string papers_page(const Course& course) {
  std::string body = "<h1>Papers to read</h1>\n<dl>\n";
  for (const auto& [paper, lessons] : lessons_of_papers(course))
    body += fmt::format("<dt>{}</dt><dd>{}</dd>\n", xml_escaped(paper), fmt::join(lessons, ", "));
  return page_text(course, "Papers to read", "papers.html", body + "</dl>\n");
}

std::string texts_page(const Course& course) {
  std::string body =
      "<h1>Your text says … → run …</h1>\n"
      "<p>Statements of texts about distributed training, in our words, and what shows each of them.</p>\n";
  for (const CourseText& text : course.reading.texts) {
    body += fmt::format("<section><h2>{}</h2>\n", xml_escaped(text.title));
    for (const TextSection& section : text.sections) {
      body += fmt::format("<h3>{}</h3>\n<dl>\n", xml_escaped(section.title));
      for (const TextStatement& statement : section.statements)
        body +=
            fmt::format("<dt>{}</dt><dd>→ {}</dd>\n", xml_escaped(statement.says), command_link(course, statement.run));
      body += "</dl>\n";
    }
    body += "</section>\n";
  }
  return page_text(course, "Your text says … → run …", "texts.html", body);
}

std::string lesson_page(const Course& course, const CourseStep& step, const LessonAnswer& answer) {
  LinkedText linked(course.words, kWords);
  std::string body = lesson_markup(answer, linked);
  std::vector<std::string> tasks, papers;
  for (const Task& task : all_tasks(step)) tasks.push_back(link(page_name(task), numbered_title(task)));
  for (const CoursePaper& paper : course.reading.papers)
    if (std::ranges::find(paper.lessons, step.lesson.file.name) != paper.lessons.end())
      papers.push_back(xml_escaped(paper.paper));
  if (!tasks.empty()) body += "<section><h2>Tasks</h2>\n" + list(tasks) + "</section>\n";
  if (!papers.empty()) body += "<section><h2>Papers</h2>\n" + list(papers) + "</section>\n";
  return page_text(course, step.lesson.title, page_name(step.lesson), body);
}

std::string task_page(const Course& course, const CourseStep& step, const Task& task, const std::string& briefing) {
  LinkedText linked(course.words, kWords);
  std::string body = fmt::format("<h1>{}</h1>\n<p class=\"quiet\">After the lesson {}</p>\n<p>{}</p>\n",
                                 xml_escaped(numbered_title(task)), lesson_link(course, step.lesson.file.name),
                                 linked.with_links(briefing));
  std::vector<std::string> objectives;
  for (const std::string& objective : task.objectives) objectives.push_back(xml_escaped(objective));
  body += "<section><h2>Objectives</h2>\n" + list(objectives);
  body += fmt::format("<p>May change: <code>{}</code>. All else stays as it is.</p></section>\n",
                      xml_escaped(fmt::format("{}", fmt::join(task.may_change, ", "))));
  if (!task.reproduces.empty())
    body += fmt::format("<section><h2>Published</h2>\n<p>{}</p></section>\n", xml_escaped(task.reproduces));
  body += fmt::format(
      "<section><h2>Scenario</h2>\n<pre>{}</pre>\n<pre>trainyard task {} --to mine.yaml\n"
      "trainyard task {} --check mine.yaml\ntrainyard serve --task {}</pre></section>\n",
      escaped_lines(task.start_text), task.file.number, task.file.number, task.file.number);
  body += "<section><h2>Hints</h2>\n";
  for (std::size_t i = 0; i < task.hints.size(); ++i)
    body += folded(fmt::format("Hint {}", i + 1), "<p>" + xml_escaped(task.hints[i]) + "</p>");
  body += "</section>\n";
  body += fmt::format("<p class=\"quiet\">Paper: {}</p>\n", xml_escaped(task.paper));
  return page_text(course, task.title, page_name(task), body);
}

}  // namespace trainyard
