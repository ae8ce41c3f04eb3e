#pragma once
#include <filesystem>
#include <string>
#include <vector>

#include "models/reading/document.hpp"
#include "scenarios/src/reading/scenario.hpp"
#include "scenarios/src/studies/measured/left_out_errors.hpp"

namespace trainyard {

template <class T>
class JsonFields;

/// A measured step of the user's own machine, and its predictions.
struct AnchorStep {
  std::string id;
  Node document;             ///< scenario of the step
  double measured = 0;       ///< s
  double before = 0;         ///< predicted time with the catalog's stack and node, s
  double after = 0;          ///< predicted time with the anchored stack and node, s
  StepProfile profile = {};  ///< profile of the prediction with the anchored stack
  std::string place = {};    ///< where its time is stated; "": not in a file
  double error_before() const { return before / measured - 1; }
  double error_after() const { return after / measured - 1; }
};

/// Writes the name of the stack into a scenario that does not name one, so that an anchor can change its constants.
void name_stack(Node& scenario, const std::string& name);

/// Reads measured steps. The file is one of these: a table (.csv) whose columns are dotted paths of the scenario,
/// `step_time_s` (or `step_time_ms`) and optionally `id`; a family of measured runs (.yaml, as for `validate FILE.yaml`), which brings its
/// own scenarios; or the log of a training with the scenario's plan by Megatron-LM, NeMo, DeepSpeed, torchtitan or
/// MaxText. The step time of a log is the median of those of its steps after the first three that ran with the last
/// batch and the other properties that the log states. Throws UserError with the place.
std::vector<AnchorStep> read_anchor_steps(const Node& scenario, const std::string& name, const std::filesystem::path&);

/// A factor on constants that measured steps determine together.
struct AnchorScale {
  std::string words;  ///< "kernels: products, attention, element-wise, optimizer"
  double prior = 0;   ///< standard deviation of its logarithm before the measurements
  double spread = 0;  ///< standard deviation of its logarithm after the measurements
  double factor = 1;  ///< most probable factor on times
  bool is_determined() const;
};

/// One choice of how the stack overlaps communication.
struct AnchorStructure {
  std::string words;          ///< "gradients overlap, parameters do not"
  Overrides sets;             ///< as --set takes them; empty: the choice of the stack
  double misfit = 0;          ///< twice the negative logarithm of its likelihood, with its best scales
  bool is_told_apart = true;  ///< ruled out, because it is much less likely than the chosen one
};

/// Measurements of a part of the machine: collectives, matrix products, memory, or the kernels of a trace.
struct AnchorPart {
  std::string words;       ///< "36 collectives of nccl-tests"
  double before = 0;       ///< mean |predicted / measured - 1| with the catalog's stack and node
  double after = 0;        ///< mean |predicted / measured - 1| with the anchored stack and node
  std::string worst;       ///< name of the row with the largest error after the fit
  double worst_error = 0;  ///< predicted / measured - 1 of that row
};

/// Constants that measurements of parts determine without any step.
struct AnchorParts {
  Node document;  ///< scenario of the measured machine
  std::vector<AnchorPart> parts;
  std::vector<AnchorScale> scales;
  Overrides sets;                     ///< all changes, as --set takes them
  std::vector<std::string> warnings;  ///< rows that contradict each other, or that no constants can meet
};

/// Returns true if the file measures a part of the machine, and not steps. `file`: a path, or an amount of memory such
/// as "71.2 GiB".
bool measures_part(const std::string& file);

/// Fits constants of the scenario's stack and node to measurements of parts, each kind by itself. These files determine
/// these constants:
/// - start-ups and rates of NCCL in a node and between nodes: a log of nccl-tests, or nccl.csv (`read_nccl_logs`);
/// - rates of the GPU's matrix products: a table (.csv) with the columns m, n, k, precision (or dtype), and time_us,
///   time_s, latency_us or tflops; optionally gpu. Products of less than 1e10 FLOP are left out, and so are products
///   that are faster than the chip's peak;
/// - the context and the allocator's reserve: the memory of the fullest GPU, as nvidia-smi's screen, its table
///   (--query-gpu=memory.used --format=csv), a table with device_memory and columns that are paths of the scenario, or
///   an amount;
/// - the times of kernels by kind: a trace of torch.profiler (.json, .json.gz) of a step of the scenario, or a summary
///   of `steps` steps by Nsight Systems (nsys stats -r cuda_gpu_kern_sum --format csv).
/// `steps`: number of steps in a trace or summary; 0: the number that the trace marks, or one. Throws UserError with
/// the place.
AnchorParts fit_parts(const Node& scenario, const std::string& name, const std::vector<std::string>& files,
                      int steps = 0);

/// A stack and a node that fit measured steps and measurements of parts.
struct Anchor {
  Node document;                          ///< scenario of the measured machine
  std::vector<AnchorStep> steps, judged;  ///< steps of the fit, and steps that the fit did not use
  std::vector<AnchorPart> parts;
  std::vector<AnchorScale> scales;
  std::vector<AnchorStructure> structures;  ///< the chosen structure first; empty: there were no steps
  Overrides sets;                           ///< all changes, as --set takes them
  std::vector<std::string> odd;             ///< steps that are off by more than two standard deviations after the fit
  std::vector<std::string> contradictions;  ///< measurements that no model can all meet, in words
  SoftwareStack::Anchor basis;              ///< the steps of the fit, and the spread that they leave
  static double mean_error(const std::vector<AnchorStep>&, double (AnchorStep::*error)() const);
};

/// Fits the scales of a stack and a node to measured steps. The catalog's constants are the prior: kernels 8 %,
/// exchanges 15 %, the host 90 %. A step has an error of 8 % and follows Student's t with 4 degrees of freedom, so that
/// an odd step counts little. Each structure is fitted with scales of its own. This takes two rounds of simulations
/// that move one scale each. The stack keeps its own structure unless another one is much likelier. The fit starts with
/// the constants of `parts`. `steps` may be empty if there are parts. Deterministic. Throws UserError.
Anchor anchor_steps(std::vector<AnchorStep> steps, std::vector<AnchorStep> judged, const AnchorParts& parts = {});

/// Returns the anchored stack as an entry of the catalog, to be named in `software`; "": the anchor does not change it.
std::string anchored_stack_yaml(const Anchor&, const std::string& from);
/// Returns the anchored node as an entry of the catalog; "": the anchor does not change it.
std::string anchored_node_yaml(const Anchor&, const std::string& from);

const JsonFields<Anchor>& anchor_fields();

}  // namespace trainyard
