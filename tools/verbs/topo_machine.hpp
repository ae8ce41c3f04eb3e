#pragma once
#include <string>
#include <vector>

#include "scenarios/src/reading/scenario.hpp"
#include "strategies/collectives/collective_settings.hpp"
#include "tools/verbs/arguments.hpp"

namespace trainyard {

/// The machine that a verb of `topo` works on: the cluster of a scenario, or one or several nodes of the catalog.
struct TopoMachine {
  std::string name;
  ClusterSpec cluster;
  Seconds network_step;           ///< time that the scenario's software adds to a message between nodes
  SoftwareStack software = {};    ///< software of the scenario; empty for nodes of the catalog
  SlowParts slow = {};            ///< stragglers and slow links of the scenario; empty for nodes of the catalog
  std::optional<Mesh> mesh = {};  ///< layout of the scenario's ranks; no value for nodes of the catalog
};

/// The arguments that name a machine on the command line: SCENARIO|NODE, `--nodes`, `--fabric`, `--set`.
class TopoMachineArguments {
 public:
  /// Declares the machine as a positional argument. This object must outlive the parsing.
  void add_to(Arguments&);
  /// Declares the machine as a flag of that name.
  void add_to(Arguments&, const std::string& flag);
  /// `verb`: for errors, such as "topo show". `document`: the scenario, in place of its file. Throws UserError for
  /// unknown names (with the nearest one), for PCIe lanes that do not exist, and for `--nodes` or `--fabric` with a
  /// scenario, which has its own.
  TopoMachine read(const std::string& verb, const std::optional<Node>& document = {}) const;
  /// Returns true if the command line names a machine or has any of the flags.
  bool any_given() const { return !what_.empty() || !nodes_.empty() || !fabric_.empty() || !sets_.empty(); }

 private:
  std::string what_;  ///< a scenario or a node of the catalog
  std::string flag_;  ///< the flag that names it; empty: it is a positional argument
  std::string nodes_, fabric_;
  std::vector<std::string> sets_;

  void add_others_to(Arguments&);
};

/// Checks the flag --root. Throws UserError if it names no rank, or if the operation has no root.
void check_root(Operation, int root, int ranks);

}  // namespace trainyard
