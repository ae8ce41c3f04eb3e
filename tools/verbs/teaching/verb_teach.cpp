#include <fmt/format.h>

#include "sim/process/terminal.hpp"
#include "tools/reports/teaching/lesson_views.hpp"
#include "tools/verbs/teaching/teach.hpp"
#include "tools/verbs/verbs.hpp"

namespace trainyard {

Registry<TeachTopic>& teach_topics() {
  static Registry<TeachTopic> registry{"topic"};
  return registry;
}

void label_option(Arguments& arguments, int& labels_from, const std::string& help) {
  arguments.option("--labels-from", labels_from, "0|1", help, 0, 1);
}

namespace {

std::string teach_usage() {
  std::string text =
      "trainyard teach: shows one technique step by step, as simulated\n\nusage: trainyard teach TOPIC ...\n\n";
  for (const std::string& name : teach_topics().names()) {
    const TeachTopic& topic = teach_topics().find(name, {});
    if (!topic.summary.empty()) text += fmt::format("  {:15} {}\n", topic.name, topic.summary);
  }
  return text +
         "\n"
         "`trainyard teach TOPIC --help` explains each topic. Example:\n  trainyard teach all-reduce --algorithm ring "
         "--ranks 4\n";
}

int teach(const std::vector<std::string>& words) {
  if (words.empty() || words[0] == "--help" || words[0] == "-h" || words[0] == "help") {
    print(teach_usage());
    return words.empty() ? kBadInput : kGood;
  }
  const TeachTopic& topic = teach_topics().find(words[0], Place::named("trainyard teach"));
  Arguments arguments("teach " + topic.name, topic.description, topic.example);
  const std::function<LessonView()> make = topic.lesson(topic.name, arguments);
  std::string html, svg, json;
  arguments.output("--html", html,
                   "write a page with steps forward and back, or with picture and figures; - is stdout");
  arguments.output("--svg", svg, "draw all steps in one picture; - is stdout");
  arguments.output("--json", json, "write steps, tasks and figures as JSON; - is stdout");
  if (!arguments.parse({words.begin() + 1, words.end()})) return kGood;
  const LessonView lesson = make();
  if (!html.empty()) write_atomically(html, lesson_html(lesson));
  if (!svg.empty()) write_atomically(svg, lesson_svg(lesson));
  if (!json.empty()) write_atomically(json, lesson.json + "\n");
  if (arguments.leaves_stdout_free()) write_atomically("-", lesson_text(lesson, colours_on_stdout()));
  return lesson.right ? kGood : kBug;
}

const RegisterVerb registered_teach{"teach", VerbGroup::teach,
                                    "show a collective, a pipeline or ZeRO's memory step by step, as simulated", teach};

}  // namespace
}  // namespace trainyard
