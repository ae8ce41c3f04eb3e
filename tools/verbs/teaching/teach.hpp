#pragma once
#include <functional>
#include <string>

#include "models/reading/registry.hpp"
#include "scenarios/src/lessons/lesson_view.hpp"
#include "tools/verbs/arguments.hpp"

namespace trainyard {

/// A topic of `trainyard teach`. Each is one file (teach_<name>.cpp), which registers itself. Several topics may share
/// a function, which gets the name of the topic.
struct TeachTopic {
  std::string name;
  std::string summary;  ///< "": the name is a synonym of a listed topic
  std::string description, example;
  /// Declares the topic's flags, and returns a function that makes the lesson after the flags have been read.
  std::function<LessonView()> (*lesson)(const std::string& topic, Arguments&) = nullptr;
};
Registry<TeachTopic>& teach_topics();

struct RegisterTeachTopic {
  explicit RegisterTeachTopic(const TeachTopic& topic) { teach_topics().add(topic.name, topic); }
};

/// Declares `--labels-from`: the number, 0 or 1, of the first rank, stage or thread of a lesson.
void label_option(Arguments&, int& labels_from, const std::string& help);

/// The least and the most slots that an action of a lesson takes.
constexpr double kLeastSlots = 1e-3, kMostSlots = 1e6;

}  // namespace trainyard
