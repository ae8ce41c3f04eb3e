#pragma once
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "models/reading/document.hpp"
#include "scenarios/src/reading/scenario.hpp"

namespace trainyard {

template <class T>
class JsonFields;

/// A measured step of the user's own machine, and its predictions.
struct AnchorStep {
  std::string id;
  Node document;        ///< its scenario
  double measured = 0;  ///< s
  double before = 0;    ///< predicted with the catalog's stack and node, s
  double after = 0;     ///< predicted with the anchored ones, s
  double error_before() const { return before / measured - 1; }
  double error_after() const { return after / measured - 1; }
};

/// Reads measured steps. The file is one of these: a table (.csv) whose columns are dotted paths of the scenario,
/// `step_time_s` and optionally `id`; a family of measured runs (.yaml, as for `validate FILE.yaml`), which brings its
/// own scenarios; or the log of a training with the scenario's plan by Megatron-LM, NeMo, DeepSpeed, torchtitan or
/// MaxText. A log counts with the median of its steps but the first three. Throws UserError with the place.
std::vector<AnchorStep> read_anchor_steps(const Node& scenario, const std::string& name, const std::filesystem::path&);

/// A factor on constants that measured steps determine together.
struct AnchorScale {
  std::string words;  ///< "kernels: products, attention, element-wise, optimizer"
  double prior = 0;   ///< standard deviation of its logarithm before the measurements
  double spread = 0;  ///< after them
  double factor = 1;  ///< most probable factor on times
  bool is_determined() const;
};

/// One choice of how the stack overlaps communication.
struct AnchorStructure {
  std::string words;          ///< "gradients overlap, parameters do not"
  Overrides sets;             ///< as --set takes them; empty: the choice of the stack
  double misfit = 0;          ///< twice the negative logarithm of its likelihood, with its best scales
  bool is_told_apart = true;  ///< it is so much less likely than the chosen one that it is ruled out
};

/// A stack and a node that fit measured steps.
struct Anchor {
  std::vector<AnchorStep> steps, judged;  ///< steps of the fit, and steps that were not used
  std::vector<AnchorScale> scales;
  std::vector<AnchorStructure> structures;  ///< the chosen one first
  Overrides sets;                           ///< all changes, as --set takes them
  std::vector<std::string> odd;             ///< steps that are off by more than two standard deviations after the fit
  double spread = 0;                        ///< standard deviation of ln(measured / predicted) that is left
  double devices = 0;                       ///< most devices of a step of the fit
  static double mean_error(const std::vector<AnchorStep>&, double (AnchorStep::*error)() const);
};

/// Fits the scales of a stack and a node to measured steps. The catalog's constants are the prior: kernels 8 %, exchanges
/// 15 %, the host 90 %. A step has an error of 8 % and follows Student's t with 4 degrees of freedom, so that an odd step
/// counts little. Each structure is fitted with scales of its own, by simulations with each scale moved, twice. The
/// stack's own structure is kept unless another one is much likelier. Deterministic. Throws UserError.
Anchor anchor_steps(std::vector<AnchorStep> steps, std::vector<AnchorStep> judged);

/// Returns the anchored stack as an entry of the catalog, to be named in `software`.
std::string anchored_stack_yaml(const Anchor&, const std::string& from);
/// Returns the anchored node as an entry of the catalog; "": the network between nodes is not determined.
std::string anchored_node_yaml(const Anchor&, const std::string& from);

const JsonFields<Anchor>& anchor_fields();

}  // namespace trainyard
