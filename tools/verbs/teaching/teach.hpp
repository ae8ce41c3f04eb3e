#pragma once
#include <functional>
#include <string>

#include "models/reading/registry.hpp"
#include "scenarios/src/lessons/lesson_view.hpp"
#include "tools/verbs/arguments.hpp"

namespace trainyard {

/// What `trainyard teach` explains: one file each (teach_<name>.cpp), which registers itself. Several topics may share a
/// function, which is told the name.
struct TeachTopic {
  std::string name;
  std::string summary;  ///< "": another word for a topic that is listed
  std::string description, example;
  /// Declares the topic's flags. What it returns makes the lesson, after the flags have been read.
  std::function<LessonView()> (*lesson)(const std::string& topic, Arguments&) = nullptr;
};
Registry<TeachTopic>& teach_topics();

struct RegisterTeachTopic {
  explicit RegisterTeachTopic(const TeachTopic& topic) { teach_topics().add(topic.name, topic); }
};

/// `--labels-from`: 0 or 1, the number that the first thing of a lesson has.
void label_option(Arguments&, int& labels_from, const std::string& help);

/// Least and most slots of what takes time.
constexpr double kLeastSlots = 1e-3, kMostSlots = 1e6;

}  // namespace trainyard
