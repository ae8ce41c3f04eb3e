#pragma once
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "scenarios/src/lessons/course_files.hpp"
#include "scenarios/src/lessons/course_reading.hpp"
#include "tools/verbs/lessons/lesson_run.hpp"

namespace trainyard {

/// A lesson of the course and the tasks that belong to it.
struct CourseStep {
  Lesson lesson;
  std::vector<Task> tasks;  ///< their pages follow the lesson
  std::vector<Task> more;   ///< tasks whose pages follow another lesson
};

/// The parts of a course.
struct Course {
  std::vector<CourseStep> steps;  ///< in reading order
  std::vector<GlossaryWord> words;
  CourseReading reading;
};

/// The tasks of a lesson, those of other lessons last.
std::vector<Task> all_tasks(const CourseStep&);

/// The course of the lessons with these names; of all, if there are none. Throws UserError for an unknown name, and for
/// a task of an unknown lesson.
Course read_course(const std::vector<std::string>& lessons);

/// The names of the pages of a lesson and of a task, which are in one folder.
std::string page_name(const Lesson&);
std::string page_name(const Task&);

/// The pages of a course. All open without a network and link to each other.
std::string index_page(const Course&);
std::string words_page(const Course&);
/// The main part of the page of words. A word whose lesson the course does not have names the command of the lesson.
std::string words_markup(const Course&);
std::string papers_page(const Course&);
/// "Your text says … → run …".
std::string texts_page(const Course&);
std::string lesson_page(const Course&, const CourseStep&, const LessonAnswer&);
/// `briefing`: the task's, with its figures.
std::string task_page(const Course&, const CourseStep&, const Task&, const std::string& briefing);

/// Links to the page before, to index.html with the text `index`, and to the page after. `pages`: the name and title of
/// each page, in reading order.
std::string page_navigation(const std::vector<std::pair<std::string, std::string>>& pages, const std::string& page,
                            const std::string& index);
/// Creates the folder of a set of pages, unless it exists. Throws UserError, which names it.
void create_page_folder(const std::filesystem::path&);

}  // namespace trainyard
