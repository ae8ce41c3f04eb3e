#pragma once
#include <string>
#include <vector>

#include "models/networks/layers/network.hpp"
#include "models/reading/document.hpp"
#include "scenarios/src/reading/read_network.hpp"
#include "sim/units.hpp"

namespace trainyard {

/// Measurements of the scenario's step on a real machine.
struct MeasuredRun {
  std::string family, source;  ///< family: name of a group of similar runs from one source
  Seconds step_time;           ///< as measured, or computed from a published rate
  Bytes peak_memory;           ///< memory of the fullest rank; 0: not measured
  Bytes reserved_memory;       ///< GPU memory that its allocator had reserved; 0: not measured
  Bytes device_memory;         ///< memory that nvidia-smi showed; 0: not measured
  bool out_of_memory = false;  ///< the run did not fit into the GPUs
  FlopsPerSecond rate;         ///< published rate of one device; 0: another figure was published
  std::string counted;         ///< FLOPs that the rate counts, such as "model, attention"
  double tokens_per_s = 0;     ///< published rate of one device; 0: another figure was published
  std::string assumed;         ///< assumptions of the scenario that the source does not state
  bool is_given() const { return step_time.value > 0; }
  bool has_memory() const { return peak_memory.value + reserved_memory.value + device_memory.value > 0; }
};

/// FLOPs per token that published rates count.
enum class CountedFlops : std::uint8_t {
  model,             ///< `Network::model_flops_per_token`: 6 per parameter
  layers,            ///< 6 per parameter, without embedding and head
  attention,         ///< `Network::attention_flops_per_token`: scores of all pairs of tokens
  causal_attention,  ///< half of `attention`
  recomputation      ///< a second forward pass of the layers, and of attention if that is counted
};
Flops counted_flops_per_token(const Network&, const std::vector<CountedFlops>&);

/// Reads `{step_time | rate, counts | tokens_per_s | samples_per_s, peak_memory, reserved_memory, device_memory,
/// out_of_memory, assumed, source}` of a step of `samples` samples on `devices` devices. rate and tokens_per_s are of
/// one device, samples_per_s of all devices. With memory, or if the run did not fit, the step time may be left out.
/// Throws UserError.
MeasuredRun read_measured_run(const Node&, const Network&, double samples, int devices);

/// Measured step times of one device: `plan.measured_step: {network: resnet50, table: {1: 4.2 ms, 32: 5.9 ms},
/// source: …}`. A step is forward pass, backward pass, update and host work of the framework. Batches are those of one
/// device.
struct MeasuredSteps {
  struct Row {
    std::int64_t batch = 0;
    Seconds time;
  };
  std::vector<Row> rows;  ///< sorted by rising batch; empty: nothing was measured
  std::string network;    ///< name of the measured network
  std::string source;
  Place place, network_place;

  bool is_given() const { return !rows.empty(); }
  /// Returns the time of a step, interpolated linearly between neighbouring batches. Throws UserError at the place of
  /// the table for a batch outside it.
  Seconds step_time(std::int64_t batch) const;
  /// Describes how that time is known: "measured", "interpolated between 32 and 64".
  std::string provenance(std::int64_t batch) const;
};

/// Reads a table of step times. Throws UserError with the place for times that are not above 0, batches that do not
/// rise, and a table without a source.
MeasuredSteps read_measured_steps(const Node&);

/// Throws UserError if the steps belong to another network than the model: if the names differ, or if the catalog has a
/// network of that name with other kernels (a GPT-2 with two layers is not the catalog's gpt2).
void require_steps_of(const MeasuredSteps&, const ModelChoice&, Precision, const Catalog&);

}  // namespace trainyard
