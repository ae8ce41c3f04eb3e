#pragma once
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "sim/names.hpp"
#include "strategies/plan/training_plan.hpp"
#include "strategies/step/compression_table.hpp"
#include "strategies/step/compute_phase.hpp"

namespace trainyard {

/// Which part of a layer's work.
using Pass = PipelineTask::Pass;
constexpr int kPasses = 4;

/// What one pass of a layer is, in order: kernels and exchanges, operations made ready but for numbers that differ from
/// micro-batch to micro-batch.
struct PassItem {
  enum class What : std::uint8_t { kernels, exchange };
  What what = What::kernels;
  Op op{};                               ///< kernels: of compute; a modelled exchange: without tag
  std::int16_t waits_for[2] = {-1, -1};  ///< kernels: exchanges (by their place in the pass)
  std::int16_t exchange = -1;            ///< its number in the layer's list
  Lane lane = Lane::tensor;              ///< of an exchange
  Operation operation = Operation::all_reduce;
  Bytes bytes{};            ///< of an exchange, as its collective counts them
  std::int16_t place = -1;  ///< of an exchange: which of this pass
  int kernel = 0;           ///< the last kernel, as numbered in the layer
};
struct PassTable {
  std::vector<PassItem> items;
  std::vector<std::int16_t> left;  ///< exchanges (by place) that whatever follows the pass waits for
  int listed = 0;                  ///< exchanges in the layer's list, those of other passes included
  std::size_t places = 0;          ///< exchanges of this pass
};

/// Runs of kernels that the Machine prices as one.
class FusedKernels {
 public:
  std::uint16_t number(const std::vector<Work>& run);
  const std::vector<std::vector<Work>>& runs() const { return runs_; }

 private:
  std::vector<std::vector<Work>> runs_;
  std::map<std::vector<std::uint64_t>, std::uint16_t> known_;  // by flops, bytes and kind of each
};

/// The operation that ends a step, where a plan marks its steps; the group of samples that come in.
constexpr const char* kStepOver = "step over";
constexpr const char* kInputGroup = "input";

/// Names and groups of a training step's operations.
struct TrainingWords {
  Names& names;
  GroupId compute = names.group(kComputeGroup, Role::work);
  GroupId optimizer = names.group("optimizer", Role::work);
  GroupId framework = names.group("framework", Role::work);
  std::array<GroupId, kLanes> lane{};
  std::array<GroupId, kHostWays> host{};
  GroupId pipeline = 0, input = 0;  ///< input: samples
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
  NameId overhead = names.intern("framework");
  NameId accumulate = names.intern("accumulate gradients", ComputePhase::backward);
  NameId wait = names.intern("wait for the coordinator's tick");
  NameId copy_in = names.intern("copy gradients to bucket", ComputePhase::bucket_copies);
  NameId copy_out = names.intern("copy bucket to gradients", ComputePhase::bucket_copies);
  NameId optimizer_step = names.intern("optimizer step");
  NameId wait_for_messages = names.intern("wait for messages");
  NameId call = names.intern("values");
  NameId gather_parameters = names.intern("gather parameters");
  NameId drop_parameters = names.intern("drop gathered parameters");
  NameId tied = names.intern("all-reduce gradient of the tied weight");
  NameId partial = names.intern("all-reduce gradients of norms over tensor ranks");
  NameId maxima = names.intern("all-reduce maxima of fp8");
  NameId scales = names.intern("scales of fp8");
  NameId take = names.intern("take what was exchanged");
  std::array<NameId, 4> pipeline_message{names.intern("send activations"), names.intern("receive activations"),
                                         names.intern("send gradients"), names.intern("receive gradients")};
  std::vector<NameId> buckets;

  TrainingWords(const TrainingPlan&, Names&);
};

/// The passes of all layers, each made once for all ranks, when somebody asks for it.
class PassTables {
 public:
  /// With a first fused number in the plan, kernels between two exchanges become one operation. The plan and what it
  /// refers to, and the names, must outlive the tables.
  PassTables(const TrainingPlan&, Names&);

  /// first: of the step's micro-batches, before which there is nothing to add gradients to; fine: kernel by kernel, so
  /// that buckets may leave between them.
  const PassTable& pass(Pass pass, int layer, bool first, bool fine) const {
    const std::unique_ptr<PassTable>& made = tables_[tables_of_[static_cast<std::size_t>(layer)]]
                                                 .of[static_cast<std::size_t>(pass)][first ? 1 : 0][fine ? 1 : 0];
    return made ? *made : make(pass, layer, first, fine);
  }
  const TrainingWords& words() const { return words_; }
  const FusedKernels& fused() const { return fused_; }  ///< of the tables that have been made
  const CompressionTable& compression() const { return compression_; }

 private:
  struct OfLayer {
    std::unique_ptr<PassTable> of[kPasses][2][2];
  };
  const TrainingPlan& plan_;
  Names& names_;
  TrainingWords words_;
  CompressionTable compression_;
  mutable FusedKernels fused_;
  mutable std::vector<OfLayer> tables_;
  std::vector<std::size_t> tables_of_;  // each layer's own, or those of one that is alike

  const PassTable& make(Pass, int layer, bool first, bool fine) const;
};

/// What a pass of a layer does to memory: more is taken as it begins, less given back as it ends, and `transient` is held
/// besides while it runs.
struct PassMemory {
  Bytes change, transient;
};
PassMemory memory_of_pass(const Layer&, Pass);

/// Of a layer's exchange: on which lane, as which collective.
Lane lane_of(Axis);
Operation operation_of(Exchanged);

}  // namespace trainyard
