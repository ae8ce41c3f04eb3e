#pragma once
#include <string>
#include <vector>

#include "models/reading/registry.hpp"

namespace trainyard {

/// What `trainyard teach` explains: one file each (teach_<name>.cpp), which registers itself. Several topics may share a
/// function, which is told the name.
struct TeachTopic {
  std::string name;
  std::string summary;  ///< "": another word for a topic that is listed
  int (*run)(const std::string& topic, const std::vector<std::string>& words) = nullptr;  ///< returns the exit code
};
Registry<TeachTopic>& teach_topics();

/// 0 or 1, the number that the first thing of a lesson has. Throws UserError for others.
int label_start(int number);

/// In slots: a bare number, as large as times of a figure are. Throws UserError that names the flag.
double shown_slots(const std::string& flag, const std::string& text, bool zero_too);

struct RegisterTeachTopic {
  RegisterTeachTopic(const std::string& name, const std::string& summary,
                     int (*run)(const std::string&, const std::vector<std::string>&)) {
    teach_topics().add(name, {name, summary, run});
  }
};

}  // namespace trainyard
