#include "scenarios/src/planning/device_memory.hpp"

#include <algorithm>
#include <cmath>

#include "models/fitted/measured_table.hpp"
#include "models/reading/shipped_files.hpp"
#include "models/software/training_memory.hpp"

namespace trainyard {
namespace {

/// Returns the number of standard deviations from the mean within which normal values lie with this probability.
double deviations(double probability) {
  double low = 0, high = 10;
  while (high - low > 1e-12) {
    const double middle = (low + high) / 2;
    (std::erf(middle / std::sqrt(2.0)) < probability ? low : high) = middle;
  }
  return low;
}

/// Returns the number of communicators in which a rank takes part. DeepSpeed makes one of all ranks, one of a replica,
/// a second group of tensor ranks, and three for a pipeline: the stages, a stage and its neighbour, the tied embedding.
int communicators(const Scenario& s) {
  const Mesh& mesh = s.plan.mesh;
  if (!s.software.nccl || s.ranks() == 1) return 0;
  const bool tensor = mesh.tensor > 1, pipeline = mesh.pipeline > 1, data = mesh.data * mesh.context * mesh.copies > 1;
  if (s.software.deepspeed_memory)
    return 1 + (tensor || pipeline ? 1 : 0) + (data ? 1 : 0) + (tensor ? 2 : 0) + (pipeline ? 3 : 0);
  const int axes = static_cast<int>(tensor) + static_cast<int>(pipeline) + static_cast<int>(data) +
                   static_cast<int>(mesh.context > 1) + static_cast<int>(mesh.expert > 1);
  return axes > 1 ? axes + 1 : axes;
}

/// Returns the memory of CUDA's context and NCCL's buffers, which is not in the peak.
Bytes outside_of_allocator(const Scenario& s, const Gpu& gpu) {
  if (gpu.kind != ChipKind::gpu) return Bytes{};
  const Bytes nccl = s.software.communicator * communicators(s);
  if (s.software.context) return *s.software.context + nccl;
  return std::max(Bytes{}, kCudaContext + nccl - s.software.workspace);
}

/// Memory that DeepSpeed holds on a stage besides the step's own tensors.
struct DeepSpeedTerms {
  Bytes boundary;   ///< tensors at the stage's boundary, from forward to backward pass of micro-batches in flight
  Bytes copies;     ///< copies of gradients and parameters that the update makes
  Bytes gradients;  ///< gradients inside the recomputed block
  bool copies_in_backward = false;  ///< the copies exist during the backward pass too
};

DeepSpeedTerms deepspeed_terms(const Scenario& s, const TrainingPlan& plan, std::size_t number) {
  const Mesh& mesh = plan.mesh;
  DeepSpeedTerms terms;
  double parameters = 0, largest = 0;
  Bytes output, block;
  for (const std::vector<int>& chunk : plan.stages[number].chunks)
    for (const int index : chunk) {
      const Layer& layer = plan.network->layers[static_cast<std::size_t>(index)];
      parameters += layer.parameter_elements();
      for (const ParameterTensor& tensor : layer.parameters) largest = std::max(largest, tensor.elements);
      output = std::max(output, layer.output);
      if (layer.recomputes_all) block = std::max(block, layer.backward_transient);
    }
  // Each stage keeps a part of its output. The first one also keeps the mask of the embedding's dropout, a byte per
  // element.
  const double in_flight = mesh.pipeline - static_cast<double>(number);
  terms.boundary = output * in_flight * ((number == 0 ? 1 / element_size(s.precision).value : 0) + 1.0 / mesh.tensor);
  terms.gradients = block * s.software.recomputed_gradients;
  // Gradients are flattened in 16 bits and cast. Without ZeRO, a list of them in fp32 and its flat copy exist.
  if (s.precision == Precision::fp16)
    terms.copies = Bytes{plan.zero == ZeroStage::none ? 8 * parameters : 6 * parameters / (mesh.data * mesh.copies)};
  if (s.precision == Precision::bf16) {
    // Gradients exist as sums in fp32 and in 16 bits; `counted` bytes of them are in the step's peak already. Tensors
    // are cast one by one, so that only the largest counts.
    const double counted = gradient_size(s.precision, s.software).value;
    terms.copies = Bytes{std::max(0.0, 6 - counted) * parameters + 4 * largest};
    terms.copies_in_backward = true;
  }
  return terms;
}

}  // namespace

const MemoryDoubt& MemoryDoubt::shipped() {
  static const MemoryDoubt doubt = [] {
    MeasuredTable table(shipped_file("scenarios/measured/tables/memory_doubt.csv"), {"what", "value"});
    MemoryDoubt result;
    while (table.next()) {
      const auto term = std::ranges::find(kTerms, table.text("what"));
      if (term == kTerms.end()) table.refuse("no term of this name", "what");
      result.spreads[static_cast<std::size_t>(term - kTerms.begin())] = table.positive("value");
    }
    return result;
  }();
  return doubt;
}

double MemoryDoubt::spread(bool reserve_measured, bool outside, double reserve_spread) const {
  return std::hypot(spreads[0], reserve_measured ? 0 : spreads[1],
                    !outside             ? 0
                    : reserve_spread > 0 ? reserve_spread
                                         : spreads[2]);
}

bool has_measured_reserve(const SoftwareStack& stack) { return stack.reserved_memory > 1 || stack.deepspeed_memory; }

double memory_risk(Bytes needed, Bytes usable, double spread) {
  if (usable.value <= 0) return 1;
  const double risk = 0.5 * std::erfc(-std::log(needed / usable) / spread / std::sqrt(2.0));
  return std::round(risk * 1e4) / 1e4;
}

std::pair<Bytes, Bytes> DeviceMemory::interval(double probability) const {
  const double factor = std::exp(deviations(probability) * spread);
  return {device * (1 / factor), device * factor};
}

DeviceMemory device_memory(const Scenario& s, const TrainingPlan& plan, std::size_t stage, Bytes peak, const Gpu& gpu) {
  const Bytes outside = outside_of_allocator(s, gpu);
  DeviceMemory memory{peak * s.software.reserved_memory, {}, peak + outside, gpu.usable_memory()};
  if (s.software.deepspeed_memory) {
    const DeepSpeedTerms terms = deepspeed_terms(s, plan, stage);
    const Bytes in_pass = terms.boundary + terms.gradients;
    memory.reserved += in_pass + terms.copies;
    // The allocator keeps freed activations, and no copy fits into their pieces. If memory is short, it gives them
    // back.
    const Bytes activations = std::max(Bytes{}, peak - plan.stages[stage].memory.total());
    memory.needed +=
        terms.copies_in_backward ? in_pass + terms.copies : std::max(terms.copies, activations + in_pass) - activations;
  }
  memory.device = memory.reserved + outside;
  const StaticMemory& states = plan.stages[stage].memory;
  memory.states = std::min(peak, states.parameters + states.gradients + states.optimizer);
  memory.spread =
      MemoryDoubt::shipped().spread(has_measured_reserve(s.software), true, s.software.reserved_memory_spread);
  return memory;
}

}  // namespace trainyard
