#pragma once
#include <string>
#include <utility>
#include <vector>

#include "scenarios/src/lessons/figures.hpp"
#include "scenarios/src/lessons/numbered_files.hpp"

namespace trainyard {

/// The section `task` of a file. The rest of the file is the scenario to start from.
struct Task {
  NumberedFile file;
  std::string title, command;  ///< `{this}` in the command stands for the judged file
  std::vector<std::string> objectives, hints, may_change;
  std::vector<Criterion> criteria;
  std::string explanation;
  std::vector<std::pair<std::string, Node>> solution;  ///< fields to set in the start scenario
  Node start;                                          ///< the start scenario, without the section `task`
  std::string start_text;                              ///< the same as it is written in the file
};
Task read_task(const NumberedFile&);

/// Returns the start scenario with the stored solution applied.
Node solved(const Task&);
/// Throws UserError if `mine` differs from the start scenario in a field that may not change. A section `task` in
/// `mine` is ignored; `node: NAME` and `node: {base: NAME}` are the same.
void require_allowed_changes(const Task&, const Node& mine);

}  // namespace trainyard
