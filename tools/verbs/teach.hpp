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

struct RegisterTeachTopic {
  RegisterTeachTopic(const std::string& name, const std::string& summary,
                     int (*run)(const std::string&, const std::vector<std::string>&)) {
    teach_topics().add(name, {name, summary, run});
  }
};

}  // namespace trainyard
