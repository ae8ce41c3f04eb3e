#pragma once
#include <string>
#include <vector>

#include "scenarios/src/reading/scenario.hpp"
#include "tools/verbs/arguments.hpp"

namespace trainyard {

/// What the verbs of `topo` look at: the cluster of a scenario, or one node or several of the catalog.
struct TopoMachine {
  std::string name;
  ClusterSpec cluster;
  Seconds network_step;         ///< what the scenario's software adds to a message between nodes
  SoftwareStack software = {};  ///< of the scenario; of a node, none
};

/// How a machine is named on the command line: SCENARIO|NODE, `--nodes`, `--fabric`, `--set`.
class TopoMachineArguments {
 public:
  /// Must outlive the parsing.
  void add_to(Arguments&);
  /// The machine by a flag of that name.
  void add_to(Arguments&, const std::string& flag);
  /// `verb` as in "topo show"; `document` may stand for a scenario's file. Throws UserError for unknown names (with the nearest one), for lanes that are not there, and for `--nodes` or
  /// `--fabric` of a scenario, which has its own.
  TopoMachine read(const std::string& verb, const std::optional<Node>& document = {}) const;
  /// Is any of these flags there?
  bool given() const { return !what_.empty() || !nodes_.empty() || !fabric_.empty() || !sets_.empty(); }

 private:
  std::string what_, nodes_, fabric_;
  std::vector<std::string> sets_;

  void add_others_to(Arguments&);
};

}  // namespace trainyard
