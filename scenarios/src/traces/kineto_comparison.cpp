#include "scenarios/src/traces/kineto_comparison.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <initializer_list>
#include <nlohmann/json.hpp>

#include "scenarios/src/planning/size.hpp"
#include "scenarios/src/running/simulate.hpp"
#include "scenarios/src/running/step_run.hpp"
#include "scenarios/src/traces/kineto.hpp"
#include "sim/error.hpp"
#include "sim/stable_sort.hpp"
#include "strategies/collectives/collective_flows.hpp"

namespace trainyard {
namespace {

/// Returns the family of a simulated operation, as family_of_kernel does for a measured kernel. "": the GPU runs no
/// kernel.
std::string family_of_record(const StepRun& run, const OpRecord& record) {
  switch (record.kind) {
    case Kind::join: {
      const auto [operation, bytes] = collective_of(record.work);
      return bytes.value > 0 ? name_of(operation) : "copies";
    }
    case Kind::send:
    case Kind::recv: {
      // For a collective of simulated messages, only receives count: the sends overlap with them.
      const Group& group = run.names.groups()[record.group];
      if (group.role != Role::collective) return "send-recv";
      return record.kind == Kind::recv ? group.name : "";
    }
    case Kind::compute:
    case Kind::local:
      break;
    default:
      return "";
  }
  if (record.work.kernel == kBucketCopy) return "copies";
  if (!is_kernel(record.work.kernel)) return "elementwise";
  switch (kind_of(record.work.kernel)) {
    case Kernel::gemm:
      return "matrix products";
    case Kernel::attention:
    case Kernel::attention_backward:
      return "attention";
    case Kernel::optimizer:
      return "optimizer";
    case Kernel::embedding:
      return "embedding";
    case Kernel::convolution:
    case Kernel::convolution_3x3:
      return "convolution";
    default:
      return run.names[record.name].find("norm") == std::string::npos ? "elementwise" : "normalization";
  }
}

/// Sums one rank's kernels by family. An NCCL kernel counts from its launch, because it waits for its peers while it
/// runs. Other kernels count from the time at which their host has launched them.
std::map<std::string, KernelSum> predicted_kernels(const StepRun& run, Actor rank) {
  std::map<std::string, KernelSum> families;
  for (const OpRecord& record : run.timeline.records()) {
    if (record.actor != rank) continue;
    const std::string family = family_of_record(run, record);
    if (family.empty()) continue;
    const double launched = std::min(record.ended, record.started + record.launch.wait.value),
                 begin = waits_for_others(record.kind) ? record.posted : launched;
    families[family] += {(record.ended - begin) / run.steps(), 1 / run.steps()};
  }
  return families;
}

std::vector<KinetoComparison::Kernel> longest_kernels(const std::map<std::string, KernelSum>& kernels, double steps) {
  constexpr std::size_t most = 3;
  std::vector<KinetoComparison::Kernel> all;
  for (const auto& [name, sum] : kernels) all.push_back({name, sum.seconds / steps, sum.count / steps});
  sort_stably(all, [](const auto& a, const auto& b) { return a.seconds > b.seconds; });
  all.resize(std::min(all.size(), most));
  return all;
}

struct PredictedStep {
  int rank = 0;
  double time = 0;
  std::map<std::string, KernelSum> families;
  double product_flops = 0, attention_flops = 0;
};

/// FLOPs per step of the rank's kernels of one kind.
double flops_of(const StepRun& run, Actor rank, std::initializer_list<Kernel> kinds) {
  double flops = 0;
  for (const OpRecord& record : run.timeline.records())
    if (record.actor == rank && record.kind == Kind::compute && is_kernel(record.work.kernel) &&
        std::ranges::find(kinds, kind_of(record.work.kernel)) != kinds.end())
      flops += record.work.flops.value / run.steps();
  return flops;
}

/// Splits a name into words of lower-case letters and digits.
std::vector<std::string> words_in_name(const std::string& name) {
  std::vector<std::string> words(1);
  for (const char c : name)
    if (std::isalnum(static_cast<unsigned char>(c)) != 0)
      words.back() += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    else if (!words.back().empty())
      words.emplace_back();
  return words;
}

/// Returns true if a word of a chip's catalog name means its board ("sxm5", "pcie"), not the chip.
bool is_board(const std::string& word) { return word.starts_with("sxm") || word == "pcie" || word == "nvl"; }

/// Explains why the trace may not be of the scenario's model, judged by the FLOPs of matrix products; "": no doubts.
std::string doubts_about_model(const KinetoComparison& c, const PredictedStep& step) {
  if (c.measured_flops == 0)
    return "the trace has no shapes of products (record_shapes=True): whether it is of the scenario's model is not "
           "known";
  // Attention in plain PyTorch is matrix products too, with twice the FLOPs if half of the scores are masked.
  constexpr double apart = 0.1;
  const double least = step.product_flops * (1 - apart);
  const double most = (step.product_flops + 2 * step.attention_flops) * (1 + apart);
  if (c.measured_flops >= least && c.measured_flops <= most) return "";
  return fmt::format(
      "its products are {:.4g} TFLOP a step, the scenario's {:.4g}: another model, batch, parallelism or number of "
      "steps, or matrix products outside of PyTorch's own operators",
      c.measured_flops * 1e-12, step.product_flops * 1e-12);
}

PredictedStep predicted_step(const Scenario& s, std::optional<int> rank) {
  const Plan laid_out = plan(s);
  if (s.prescribed_step.exists()) throw UserError("compare --kineto: plan.step_time is not simulated");
  if (const double operations = estimated_operations(laid_out); operations > kMostKept)
    throw UserError(
        fmt::format("compare --kineto: about {:.2g} million operations; at most {:.0f} million are kept. Use fewer "
                    "nodes with the same work per GPU",
                    operations * 1e-6, kMostKept * 1e-6));
  PredictedStep step;
  SimulateOptions options;
  options.folding = Folding::off;
  options.watch = [&](const StepRun& run) {
    step.rank = rank ? *rank : run.last();
    step.families = predicted_kernels(run, step.rank);
    step.product_flops = flops_of(run, step.rank, {Kernel::gemm});
    step.attention_flops = flops_of(run, step.rank, {Kernel::attention, Kernel::attention_backward});
  };
  step.time = simulate_here(s, laid_out, options).step_time.value;
  return step;
}

JsonFields<KinetoComparison::Kernel> kernel_fields() {
  using K = KinetoComparison::Kernel;
  return JsonFields<K>()
      .value("name", "", &K::name, "the profiler's name of the kernel")
      .value("time_s", "s", &K::seconds, "time of all such kernels in a step")
      .value("count", "", &K::count, "number of such kernels in a step");
}

JsonFields<KinetoComparison::Family> family_fields() {
  using F = KinetoComparison::Family;
  return JsonFields<F>()
      .value("family", "", &F::name, "kind of kernels; for NCCL the operation")
      .value("measured_s", "s", &F::measured, "time of its kernels in the trace, per step")
      .value("measured_count", "", &F::measured_count, "number of its kernels in the trace, per step")
      .value("predicted_s", "s", &F::predicted, "time of the kernels of this kind in the simulated step")
      .value("predicted_count", "", &F::predicted_count, "number of the kernels of this kind in the simulated step")
      .value("ratio", "", &F::ratio, "predicted over measured time; null if nothing was measured")
      .value("gap_s", "s", &F::gap, "measured minus predicted time")
      .list("longest_kernels", &F::longest, kernel_fields(), "the measured kernels that take longest");
}

const RegisterJsonReference registered_kineto_json{"compare-kineto", "the answer of compare SCENARIO --kineto TRACE",
                                                   kineto_fields};

}  // namespace

const JsonFields<KinetoComparison>& kineto_fields() {
  using C = KinetoComparison;
  static const JsonFields<C> fields =
      JsonFields<C>()
          .value("scenario", "", &C::scenario, "name of the scenario")
          .value("trace", "", &C::trace, "file of the profiler's trace")
          .value("rank", "", &C::rank, "rank whose simulated step is compared")
          .value("steps", "", &C::steps, "steps in the trace")
          .value("measured_step_s", "s", &C::measured_step,
                 "mean of the steps that the trace marks, or the span of its kernels; 0: a summary has neither")
          .value("predicted_step_s", "s", &C::predicted_step, "time of the simulated step")
          .value("gpu", "", &C::gpu, "GPU on which the trace was recorded")
          .when(&C::gpu, "if the trace has its name")
          .value("measured_product_flops", "FLOP", &C::measured_flops, "FLOPs of PyTorch's matrix products, per step")
          .when(&C::measured_flops, "if shapes were recorded")
          .value("predicted_product_flops", "FLOP", &C::predicted_flops,
                 "FLOPs of matrix products in the simulated step")
          .value("doubts", "", &C::doubts,
                 "why the trace may be of another GPU or model, or why this cannot be checked")
          .when(&C::doubts, "if there is a reason")
          .list("families", &C::families, family_fields(), "families of kernels, the largest gap first");
  return fields;
}

std::string other_gpu(const Gpu& gpu, const std::string& name, double memory) {
  std::vector<std::string> device = words_in_name(name);
  const auto has = [&device](const std::string& word) { return std::ranges::find(device, word) != device.end(); };
  if (has("gh200")) device.insert(device.end(), {"h100", "h200"});  // names of its GPU
  bool same_board = false, names_board = false;
  for (const std::string& word : device) names_board = names_board || is_board(word);
  for (const std::string& word : words_in_name(gpu.name)) {
    const bool is_size = word.size() > 1 && std::isdigit(static_cast<unsigned char>(word.front())) != 0 &&
                         std::isalpha(static_cast<unsigned char>(word.back())) != 0;  // "80gb", "500w"
    if (word.empty() || is_size || word == "die") continue;
    if (!is_board(word)) {
      if (!has(word)) return fmt::format("another GPU than {}", gpu.name);
      continue;
    }
    same_board = same_board || std::ranges::any_of(device, [&word](const std::string& other) {
                   return is_board(other) && other.substr(0, 3) == word.substr(0, 3);
                 });
    if (names_board && !same_board) return fmt::format("another GPU than {}", gpu.name);
  }
  constexpr double apart = 0.15;  // drivers reserve up to a twelfth of the memory
  const double capacity = gpu.memory_capacity.value;
  if (memory > 0 && std::abs(memory / capacity - 1) > apart)
    return fmt::format("of {:.1f} GiB, but {} has {:.1f} GiB", memory / (1U << 30), gpu.name, capacity / (1U << 30));
  return "";
}

KinetoComparison compare_kineto(const Scenario& s, const std::filesystem::path& file, std::optional<int> rank,
                                int steps, bool any_gpu) {
  if (rank && (*rank < 0 || *rank >= s.ranks()))
    throw UserError(fmt::format("--rank {}: the scenario has ranks 0 to {}", *rank, s.ranks() - 1));
  const KinetoTrace trace = read_kineto(file);
  if (is_nsight_summary(file) && steps == 0)
    throw UserError(
        fmt::format("{}: how many steps does this summary of Nsight Systems cover? --steps N expected", file.string()));
  const std::string other = trace.gpu.empty() ? "" : other_gpu(s.cluster.node.gpu, trace.gpu, trace.gpu_memory);
  if (!other.empty() && !any_gpu)
    throw UserError(fmt::format("{}: recorded on \"{}\", {}; --any-gpu compares them all the same", file.string(),
                                trace.gpu, other));
  const PredictedStep step = predicted_step(s, rank);
  KinetoComparison c;
  c.scenario = s.name;
  c.trace = file.string();
  c.rank = step.rank;
  c.counted = steps == 0 && trace.steps > 0;
  c.steps = steps > 0 ? steps : std::max(1.0, trace.steps);
  c.measured_step = c.counted ? trace.step_time : trace.span / c.steps;
  c.predicted_step = step.time;
  c.gpu = trace.gpu;
  c.measured_flops = trace.product_flops / c.steps;
  c.predicted_flops = step.product_flops;
  if (trace.gpu.empty()) c.doubts = "the trace does not say which GPU it was recorded on; ";
  if (!other.empty()) c.doubts = fmt::format("the trace was recorded on \"{}\", {}; ", trace.gpu, other);
  c.doubts += doubts_about_model(c, step);
  if (c.doubts.ends_with("; ")) c.doubts.resize(c.doubts.size() - 2);
  std::map<std::string, KinetoComparison::Family> families;
  for (const auto& [name, kernels] : trace.families) {
    KinetoComparison::Family& family = families[name];
    for (const auto& [kernel, sum] : kernels) {
      family.measured += sum.seconds / c.steps;
      family.measured_count += sum.count / c.steps;
    }
    family.longest = longest_kernels(kernels, c.steps);
  }
  for (const auto& [name, sum] : step.families) {
    families[name].predicted = sum.seconds;
    families[name].predicted_count = sum.count;
  }
  for (auto& [name, family] : families) {
    family.name = name;
    c.families.push_back(std::move(family));
  }
  sort_stably(c.families, [](const auto& a, const auto& b) { return std::abs(a.gap()) > std::abs(b.gap()); });
  return c;
}

}  // namespace trainyard
