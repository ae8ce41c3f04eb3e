#pragma once
#include "strategies/collectives/emitter.hpp"
#include "strategies/collectives/local.hpp"
#include "strategies/plan/training_calls.hpp"
#include "strategies/step/training_program.hpp"

namespace trainyard {

/// One rank's training steps. What it does comes from the plan by its place in the mesh; its number is used to find its
/// peers and nowhere else.
class TrainingStep : public CoroutineProgram {
 public:
  /// What it may name by slot: filled in before the program is made.
  struct Peers {
    struct OfCollective {
      std::vector<int> peers;  // numbers in the group
      std::uint16_t first_slot = 0;
    };
    std::array<std::array<OfCollective, kOperations>, kLanes> collectives;
    std::vector<std::uint16_t> stage_slot;  // by pipeline coordinate
    std::uint16_t input_slot = 0, first_gossip = 0;
    std::vector<int> gossip;  // ascending
    std::vector<Actor> slots;
    std::array<const GroupFlow*, kLanes + kHostWays> flows{};  // by lane, then by way to the host
  };
  TrainingStep(int rank, const TrainingPlan&, const PassTables&, const TrainingStreams&, Peers);

  std::span<const GroupFlow* const> group_flows() const override { return peers_.flows; }
  /// What goes on beside a kernel is given before it.
  std::uint64_t driving() const override { return 1; }

 protected:
  Ops run() override;

 private:
  const TrainingPlan& plan_;
  const PassTables& tables_;
  const TrainingStreams& streams_;
  const TrainingWords& words_;
  int rank_;
  Coordinates at_;
  const StagePlan& stage_;
  Peers peers_;
  Emitter out_;
  // What the next kernel waits for besides the one before.
  std::array<Dep, 24> pending_{};
  int waiting_ = 0;
  std::vector<Dep> over_;                      // by place: exchanges of the pass that is under way
  std::array<std::uint32_t, kLanes> calls_{};  // collectives so far
  std::uint16_t next_buffer_ = 0;
  // Of the step:
  std::vector<Dep> bucket_free_;  // the exchange of a bucket that was the last one to use its buffer
  std::size_t next_bucket_ = 0;   // the first that is not full yet
  std::vector<std::pair<std::uint16_t, Dep>> exchanged_;  // buckets in the order of their exchange, and its end
  /// A pass of a layer (ZeRO stage 3). Does it need the parameters, and gathers them?
  struct Visit {
    int layer = 0;
    bool gathers = false;
  };
  std::vector<Visit> visits_;
  std::size_t visit_ = 0, next_gather_ = 0;
  std::size_t opened_ = 0;                             // offload: buckets whose gradients have their memory
  std::array<Dep, 2> left_{};                          // the last two copies of gradients to the host
  std::vector<Dep> added_on_host_;                     // by bucket: the last addition to its gradients
  std::vector<Dep> written_;                           // buckets whose states are back on the drives
  std::vector<Dep> back_;                              // by bucket: its new parameters are on the GPU
  std::array<std::uint32_t, kHostWays> host_calls_{};  // so far
  std::vector<Dep> reduced_;                           // ends of the last layer's exchanges of gradients
  std::vector<int> gathered_;  // by layer: visits that have asked for its parameters and are not over
  /// Of a model chunk: the micro-batches that make gradients first and last.
  struct Ends {
    int first = -1, last = -1;
  };
  std::vector<Ends> ends_;
  std::vector<std::vector<int>> buckets_of_layer_;
  std::vector<std::vector<Dep>> parameters_ready_;  // by layer

  int input_asked_ = 0, input_taken_ = 0;  // micro-batches
  Dep input_used_;                         // the one before is used up

  int slot_ = 0;  // of the step, among those whose gradients are on their way
  std::vector<std::vector<std::pair<std::uint16_t, Dep>>> delayed_;  // by slot: as exchanged_

  // training_replicas.cpp: replicas out of step
  Stream sends(Lane) const;
  Stream receives(Lane) const;
  Ops leave_gradients();
  Ops update_delayed(int step);
  Ops meet_replicas(int step);
  Ops average_replicas();
  Ops gossip(int round);
  Op& gossip_op(Kind, Stream, int peer, Dep ready);
  const Op& tell_neighbour(const std::vector<int>& around, std::size_t i, Bytes, Dep ready);
  const Op& hear_neighbour(const std::vector<int>& around, std::size_t i, Bytes, Dep ready);
  std::uint16_t gossip_slot(int peer) const;

  // training_input.cpp: samples
  bool takes_input() const;
  Ops take_input();
  Ops release_input();

  // training_program.cpp: the step, its passes, messages between stages
  Ops step(int number);
  Ops task(PipelineTask);
  Ops pass(Pass, int layer, const PipelineTask&);
  Ops exchange(const PassItem&, int layer, int micro_batch, Pass, std::uint16_t buffer);
  Ops receive(int virtual_stage, int micro_batch, bool back);
  Ops send(int virtual_stage, int micro_batch, bool back);
  Ops settle();
  const Op& meet();
  const Op& call(TrainingCall, std::size_t index, int micro_batch = 0, std::uint16_t which = 0,
                 std::uint16_t buffer = 0);
  const Op& call_on(Stream, Dep after, TrainingCall, std::size_t index);
  const Op& work(const Work&, Kind, GroupId, NameId);
  const Op& holds(double bytes, MemoryClass, NameId, Stream stream, Dep after);
  bool elsewhere(int virtual_stage) const;
  const Layer& last_layer_of(int virtual_stage) const;
  bool sends_parts(int virtual_stage) const;
  void wait_for(Dep dep) { pending_.at(static_cast<std::size_t>(waiting_++)) = dep; }
  void take_waits(Op&);
  std::uint16_t take_buffers(int exchanges);

  // training_exchanges.cpp: gradients and parameters
  bool shares_out() const { return plan_.zero != ZeroStage::none; }
  bool leaves_each_micro_batch() const { return plan_.zero >= ZeroStage::gradients; }
  bool exchanges_gradients(bool experts) const;
  /// On a whole buffer, or on part `part` of `parts` of it.
  Ops collective(Lane, Operation, Bytes, NameId, std::uint16_t buffer, std::uint16_t input, Dep start, int part = 0,
                 int parts = 1);
  Ops exchange_gradients(std::size_t bucket, bool accumulate);
  Ops gradients_after(int layer, int kernel, bool first, bool last);
  Ops gather(std::size_t bucket, Dep start = {});
  Ops gather_all();
  Ops gather_layer(int layer);
  Ops drop_layer(int layer);
  std::vector<int> weights_of(int layer) const;
  Ops begin_visit();
  Ops end_visit(int layer, Pass, bool first, bool last);
  Ops finish_gradients();
  Ops sum_partial();
  Ops sum_tied();
  Ops update();
  const Op& wait_for_tick();
  const Op& copy(const GradientBucket&, NameId);
  void plan_visits();

  // training_offload.cpp: what lies in host memory and on drives
  bool gradients_leave() const {
    return plan_.offload.used() || exchanges_gradients(false) || exchanges_gradients(true);
  }
  double share_of(std::size_t bucket) const;
  Op& host_op(HostWay, Bytes, NameId, Dep first, Dep second);
  const Op& give_host(Op&, TrainingCall, std::size_t bucket);
  Ops open_buckets();
  Ops offload_gradients(std::size_t bucket, bool accumulate, Dep ready);
  Ops fetch_share(std::size_t bucket);
  Ops fill_host();
  Ops update_on_host();
  Ops update_tile(std::size_t bucket, Dep begun);
};

}  // namespace trainyard
