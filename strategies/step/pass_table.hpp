#pragma once
#include <map>
#include <memory>
#include <vector>

#include "sim/names.hpp"
#include "strategies/plan/training_plan.hpp"
#include "strategies/step/compression_table.hpp"
#include "strategies/step/compute_phase.hpp"

namespace trainyard {

/// The kind of pass through a layer.
using Pass = PipelineTask::Pass;
constexpr int kPasses = 4;

/// One item of a layer's pass: kernels or an exchange. Its operation is complete except for the numbers that differ
/// between micro-batches.
struct PassItem {
  enum class Kind : std::uint8_t { kernels, exchange };
  Kind kind = Kind::kernels;
  Op op{};                               ///< kernels: on the compute stream; a modelled exchange: without its tag
  std::int16_t waits_for[2] = {-1, -1};  ///< kernels: exchanges to wait for (by their place in the pass); −1: none
  std::int16_t exchange = -1;            ///< exchange: its number in the layer's list
  Lane lane = Lane::tensor;              ///< exchange: its lane
  Operation operation = Operation::all_reduce;
  Bytes bytes{};            ///< exchange: its bytes, as its collective counts them
  std::int16_t place = -1;  ///< exchange: its index among the exchanges of this pass
  int kernel = 0;           ///< kernels: number of the last one in the layer
};
struct PassTable {
  std::vector<PassItem> items;
  std::vector<std::int16_t> left;  ///< exchanges (by place) that the operation after the pass waits for
  int listed = 0;                  ///< number of exchanges in the layer's list, including those of other passes
  std::size_t places = 0;          ///< number of exchanges of this pass
};

/// Sequences of kernels that the Machine prices as one.
class FusedKernels {
 public:
  std::uint16_t number(const std::vector<Work>& run);
  const std::vector<std::vector<Work>>& runs() const { return runs_; }

 private:
  std::vector<std::vector<Work>> runs_;
  std::map<std::vector<std::uint64_t>, std::uint16_t> numbers_;  // key: flops, bytes and kind of each kernel
};

/// Name of the operation that ends a step, if a plan marks its steps, and of the group of incoming samples.
constexpr const char* kStepOver = "step over";
constexpr const char* kInputGroup = "input";

/// Names and groups of a training step's operations.
struct TrainingNames {
  Names& names;
  GroupId compute = names.group(kComputeGroup, Role::work);
  GroupId optimizer = names.group("optimizer", Role::work);
  GroupId framework = names.group("framework", Role::work);
  std::array<GroupId, kLanes> lane{};
  std::array<GroupId, kHostWays> host{};
  GroupId pipeline = 0, input = 0;  ///< input: incoming samples
  NameId activations_out = names.intern("copy activations to host");
  NameId activations_in = names.intern("copy activations from host");
  NameId gradients_out = names.intern("copy gradients to host");
  NameId add_on_host = names.intern("add gradients on host");
  NameId read_states = names.intern("read optimizer states");
  NameId write_states = names.intern("write optimizer states");
  NameId read_parameters = names.intern("read parameters");
  NameId parameters_in = names.intern("copy parameters from host");
  NameId receive_input = names.intern("samples");
  NameId ask_input = names.intern("ask for samples");
  NameId step_over = names.intern(kStepOver);
  NameId average = names.intern("average parameters");
  NameId setup = names.intern("set-up");
  NameId gradients = names.intern("gradients");
  NameId overhead = names.intern("framework");
  NameId accumulate = names.intern("accumulate gradients", ComputePhase::backward);
  NameId wait = names.intern("wait for the coordinator's tick");
  NameId copy_in = names.intern("copy gradients to bucket", ComputePhase::bucket_copies);
  NameId copy_out = names.intern("copy bucket to gradients", ComputePhase::bucket_copies);
  NameId optimizer_step = names.intern("optimizer step");
  NameId exchange_matrices = names.intern("exchange momenta of matrices");
  NameId wait_for_messages = names.intern("wait for messages");
  NameId wait_for_host = names.intern("wait for the host");
  NameId call = names.intern("values");
  NameId gather_parameters = names.intern("gather parameters");
  NameId broadcast_parameters = names.intern("broadcast parameters");
  NameId drop_parameters = names.intern("drop gathered parameters");
  NameId tied = names.intern("all-reduce gradient of the tied weight");
  NameId partial = names.intern("all-reduce gradients of norms over tensor ranks");
  NameId maxima = names.intern("all-reduce maxima of fp8");
  NameId scales = names.intern("scales of fp8");
  std::array<NameId, 4> pipeline_message{names.intern("send activations"), names.intern("receive activations"),
                                         names.intern("send gradients"), names.intern("receive gradients")};
  std::vector<NameId> buckets;

  TrainingNames(const TrainingPlan&, Names&);
};

/// The passes of all layers. Each is made once, on first use, for all ranks.
class PassTables {
 public:
  /// If the plan fuses kernels, those between two exchanges become one operation. The plan, the objects that it refers
  /// to, and the names must outlive the tables.
  PassTables(const TrainingPlan&, Names&);

  /// first: it is the step's first micro-batch, so that there are no gradients to add to. fine: kernel by kernel, so
  /// that buckets can leave in between. load: see TrainingPlan::load_number.
  const PassTable& pass(Pass pass, int layer, bool first, bool fine, int load = 0) const {
    const std::unique_ptr<PassTable>& table = entry(pass, layer, first, fine, load);
    return table ? *table : make(pass, layer, first, fine, load);
  }
  const TrainingNames& words() const { return words_; }
  const FusedKernels& fused() const { return fused_; }  ///< from all tables made so far
  const CompressionTable& compression() const { return compression_; }

 private:
  struct LayerTables {
    std::unique_ptr<PassTable> by_pass[kPasses][2][2];
  };
  const TrainingPlan& plan_;
  Names& names_;
  TrainingNames words_;
  CompressionTable compression_;
  mutable FusedKernels fused_;
  std::size_t layers_;
  mutable std::vector<LayerTables> tables_;  // for each load, the tables of all layers

  std::unique_ptr<PassTable>& entry(Pass pass, int layer, bool first, bool fine, int load) const {
    LayerTables& tables = tables_[static_cast<std::size_t>(load) * layers_ + static_cast<std::size_t>(layer)];
    return tables.by_pass[static_cast<std::size_t>(pass)][first ? 1 : 0][fine ? 1 : 0];
  }
  const PassTable& make(Pass, int layer, bool first, bool fine, int load) const;
};

/// Memory of a layer's pass. A positive `change` is taken when it begins, a negative one given back when it ends;
/// `transient` is held in addition while it runs.
struct PassMemory {
  Bytes change, transient;
};
PassMemory memory_of_pass(const Layer&, Pass);

}  // namespace trainyard
