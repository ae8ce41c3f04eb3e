#pragma once
#include <string>
#include <utility>
#include <vector>

#include "scenarios/src/lessons/figures.hpp"
#include "scenarios/src/lessons/numbered_files.hpp"

namespace trainyard {

/// The section `task` of a file; the rest of it is the scenario to start from.
struct Task {
  NumberedFile file;
  std::string title, command;  ///< the command's `{this}` stands for the file that is judged
  std::vector<std::string> objectives, hints, may_change;
  std::vector<Criterion> criteria;
  std::string explanation;
  std::vector<std::pair<std::string, Node>> solution;  ///< fields to set in the start
  Node start;                                          ///< without the section
  std::string start_text;                              ///< as it is written
};
Task read_task(const NumberedFile&);

/// The start with the stored solution.
Node solved(const Task&);
/// Throws UserError where `mine` differs from the start in a field that may not change. A section `task` in it is left
/// out of account; `node: NAME` and `node: {base: NAME}` are the same.
void require_allowed_changes(const Task&, const Node& mine);

}  // namespace trainyard
