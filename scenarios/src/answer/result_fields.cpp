#include <string>
#include <variant>

#include "scenarios/src/answer/json_fields.hpp"
#include "scenarios/src/answer/memory_verdict.hpp"
#include "scenarios/src/answer/result.hpp"
#include "strategies/mechanisms/mechanism.hpp"

namespace trainyard {
namespace {

JsonFields<Result::Breakdown> breakdown_fields() {
  using B = Result::Breakdown;
  return JsonFields<B>()
      .value("compute", "s", &B::compute,
             "time of kernels of the forward and backward pass; if the host does not run ahead, a kernel takes at "
             "least as long as its launches")
      .value("exposed_communication", "s", &B::exposed_communication,
             "time of communication that no computation hides, by kind")
      .value("compression", "s", &B::compression, "time of kernels that encode and decode gradients")
      .when(&B::compression, "with compressed gradients")
      .value("bubble", "s", &B::bubble,
             "time spent waiting for other ranks: for data of a peer, such as the pipeline bubble, or for ranks that "
             "begin "
             "a collective later")
      .value("optimizer", "s", &B::optimizer, "time of the optimizer update")
      .value("input", "s", &B::input, "time spent waiting for training samples")
      .value("framework", "s", &B::framework,
             "time in which a rank waits for its host: the framework's own work, and launches that kernels wait for")
      .value("other", "s", &B::other, "the rest of the step, below 1 %");
}

/// Returns the fields that all kinds of memory have.
template <class M>
JsonFields<M> peak_fields() {
  return JsonFields<M>()
      .value("peak", "bytes", &M::peak, "peak of memory use in the step")
      .value("parameters", "bytes", &M::parameters, "parameters at the peak")
      .value("gradients", "bytes", &M::gradients, "gradients at the peak")
      .value("optimizer", "bytes", &M::optimizer, "optimizer states at the peak")
      .value("buffers", "bytes", &M::buffers, "buffers at the peak");
}

JsonFields<Result::StageMemory> stage_memory_fields() {
  using M = Result::StageMemory;
  return peak_fields<M>()
      .value("activations", "bytes", &M::activations, "activations at the peak, kept for the backward pass")
      .value("rank", "", &M::rank, "rank of the stage with the highest peak");
}

JsonFields<Result::Stage> stage_fields() {
  using S = Result::Stage;
  return JsonFields<S>()
      .value("layers", "", &S::layers, "number of layers of the stage, including embedding and head")
      .object("breakdown_s", &S::breakdown, breakdown_fields(),
              "parts of the step time; the time after the end of the rank is bubble")
      .value(
          "breakdown_rank", "", [](auto& s) -> auto& { return s.breakdown.rank; },
          "rank that the breakdown describes: the last of the stage to finish the step")
      .object("memory_bytes", &S::memory, stage_memory_fields(), "device memory of the fullest rank of the stage");
}

JsonFields<Result::Memory> memory_fields() {
  using M = Result::Memory;
  return peak_fields<M>()
      .value("activations", "bytes", &M::activations, "activations at the peak, kept for the backward pass")
      .value("capacity", "bytes", &M::capacity, "memory capacity of the device")
      .value("rank", "", &M::rank, "rank with the highest peak")
      .value("stage", "", &M::stage, "pipeline stage of that rank")
      .value("reserved", "bytes", &M::reserved, "what the framework's allocator takes from the device for the peak")
      .value("device", "bytes", &M::device,
             "reserved, CUDA's context and NCCL's buffers: what nvidia-smi shows on the rank that needs most")
      .value("needed", "bytes", &M::needed,
             "the part of device that the allocator cannot give back when memory is short")
      .value("usable", "bytes", &M::usable, "memory that the device offers to programs");
}

JsonFields<Result::ActorUse> actor_fields() {
  using A = Result::ActorUse;
  return JsonFields<A>()
      .value("name", "", &A::name, "name of the ranks, or of the server")
      .value("count", "", &A::count, "number of equivalent ranks or servers")
      .value("memory_peak", "bytes", &A::memory, "peak of device memory of each")
      .value("sent", "bytes", &A::sent, "bytes that each sends in a step")
      .value("received", "bytes", &A::received, "bytes that each receives in a step")
      .value("work_s", "s", &A::work, "time of the kernels of each in a step, such as sums and updates of a server");
}

JsonFields<Result::HostMemory> host_memory_fields() {
  using M = Result::HostMemory;
  return peak_fields<M>()
      .value("activations", "bytes", &M::activations,
             "activations at the peak, between their forward and backward pass")
      .value("input", "bytes", &M::input, "batches on their way to the devices, and cached samples, at the peak")
      .value("capacity", "bytes", &M::capacity, "capacity of the node's host memory; 0: not stated")
      .value("weights", "bytes", &M::weights,
             "weights that pass through the host memory of rank 0's node before the first step; not in the peak")
      .value("weights_capacity", "bytes", &M::weights_capacity, "capacity of that host memory; 0: not stated")
      .when_since("weights", &M::weights, "with weights in plan.training")
      .value("node", "", &M::node, "number of the fullest node");
}

JsonFields<Result::AllReduce> all_reduce_fields() {
  using A = Result::AllReduce;
  using C = A::Candidate;
  const auto candidate = JsonFields<C>()
                             .value("algorithm", "", &C::algorithm, "name of the algorithm")
                             .value("channels", "", &C::channels, "number of rings that run at the same time")
                             .value("size_bytes", "bytes", &C::size, "size of the simulated collective")
                             .value("time_s", "s", &C::seconds, "time of the collective, alone on the cluster");
  return JsonFields<A>()
      .value("algorithm", "", &A::algorithm,
             "algorithm of the gradients' all-reduce; with fidelity modelled NCCL's algorithm and protocol for the "
             "largest bucket: \"NCCL, ring, Simple\"")
      .value("averages_parameters", "", &A::averages_parameters,
             "true: replicas all-reduce their parameters, for the mean; false: gradients, for the sum")
      .value("channels", "", &A::channels,
             "number of rings that run at the same time; 0: NCCL takes another algorithm than the ring")
      .value("fidelity", "", &A::fidelity, "level of detail of its simulation: messages, flows or modelled")
      .list("tuned", &A::tuned, candidate, "candidates of `algorithm: auto`, fastest first")
      .when(&A::tuned, "with `algorithm: auto`");
}

/// Access to the figure of a mechanism by its key. V: type of the value.
template <class V>
struct FigureByKey {
  const char* key;
  const V& operator()(const FiguresByKey& all) const { return figure<V>(all, key); }
  V& operator()(FiguresByKey& all) const { return std::get<V>(all.try_emplace(key, V{}).first->second); }
};

/// Returns the fields of a group of mechanism figures: those beside the group's object (`beside_others`), or those in
/// it.
JsonFields<FiguresByKey> figure_fields(FiguresByKey MechanismFigures::*group, bool beside_others) {
  JsonFields<FiguresByKey> fields;
  for (const std::string& name : mechanisms().names()) {
    const MechanismKind& kind = mechanisms().find(name, {});
    for (const MechanismFigureKind& figure : kind.figures) {
      if (kind.group != group || figure.beside_others != beside_others) continue;
      const auto add = [&]<class V>(const V&) {
        if constexpr (std::is_same_v<V, std::vector<NamedTime>>)
          fields.list(figure.key, FigureByKey<V>{figure.key},
                      JsonFields<NamedTime>()
                          .value("name", "", &NamedTime::name, "name of the operation")
                          .value("time_s", "s", &NamedTime::time, "time in a step, on the node where it takes longest"),
                      figure.words);
        else
          fields.value(figure.key, figure.unit, FigureByKey<V>{figure.key}, figure.words);
      };
      std::visit(add, figure.none);
      fields.when([key = figure.key](const FiguresByKey& all) { return all.contains(key); },
                  *figure.when ? figure.when : kind.figures_when);
    }
  }
  return fields;
}

/// Returns the fields that every answer has.
JsonFields<Result> common_fields() {
  using R = Result;
  const auto uses_hosts = [](const R& r) { return r.host_memory.peak.value + r.host_memory.weights.value > 0; };
  const auto uses_drives = [](const R& r) { return r.host_memory.offloads(); };
  return JsonFields<R>()
      .value("scenario", "", &R::scenario, "name of the scenario")
      .value(
          "gpus", "", [](const R& r) { return r.gpus(); },
          "number of devices of the plan; with post_training of the whole loop")
      .value("step_time_s", "s", &R::step_time, "time of one training step")
      .value("step_time_ci95_s", "s", &R::step_time_interval,
             "half the width of the 95 % confidence interval of step_time_s, by batch means")
      .when(&R::step_time_interval, "if steps differ from each other")
      .object("drawn_steps_s", &R::drawn_steps, drawn_steps_fields(),
              "step times over further draws of slow-downs, which a recurrence estimates from the simulated steps")
      .when(&R::drawn_steps, "if slow-downs are drawn and ranks share them (fold.shared_draws)")
      .value("step_time_interval_s", "s", &R::likely_step_times,
             "lower and upper end of the interval that holds the step time of the real machine with a probability of "
             "80 % (validate coverage)")
      .when(&R::likely_step_times, "for simulated training steps of a stack that one can install")
      .value("announced_step_times_s", "s", &R::announced_step_times,
             "step times at the fast and the slow end of the ranges of hardware that is only announced; the interval "
             "is as much wider")
      .when(&R::announced_step_times, "if a figure of the hardware is a range")
      .value("expected_error", "share", &R::expected_error,
             "error of step_time_s to expect on average, by this interval; the trust line of the report states it")
      .when(&R::expected_error, "with step_time_interval_s")
      .object("extrapolated_collectives", &R::extrapolated,
              JsonFields<ExtrapolatedCollectives>()
                  .value("gpus", "", &ExtrapolatedCollectives::gpus,
                         "the most GPUs of a node that exchange data in a collective of the step")
                  .value("measured_gpus", "", &ExtrapolatedCollectives::measured_gpus,
                         "the most GPUs of a node whose collectives were measured"),
              "collectives whose times are extrapolated; the trust lines of the report state it")
      .when(&R::extrapolated, "if a node has a larger group of ranks than was measured")
      .value("flow_step_time_s", "s", &R::flow_step_time, "time of the same step with the default transport")
      .when(&R::flow_step_time, "with --transport packets")
      .value("samples_per_s", "1/s", &R::samples_per_s, "training samples per second of all devices together")
      .value("tokens_per_s", "1/s", &R::tokens_per_s, "tokens per second of all devices together")
      .value("tokens_per_s_per_gpu", "1/s", &R::tokens_per_s_per_gpu, "tokens per second of one device")
      .when_since("tokens_per_s", &R::tokens_per_s, "for networks whose samples are sequences")
      .value("tflops_per_gpu", "TFLOP/s", &R::tflops_per_gpu, "model FLOPs per second of one device")
      .value("mfu", "share", &R::mfu,
             "model FLOPs utilization: 6 FLOPs per parameter and token, over the dense peak of the precision; of bf16 "
             "for products in fp8 and narrower formats")
      .value("mfu_with_attention", "share", &R::mfu_with_attention,
             "model FLOPs utilization with 12 x layers x width x length FLOPs per token for attention (PaLM, appendix "
             "B), as if every token attended to all")
      .when(&R::mfu_with_attention, "for networks with attention")
      .value("hfu", "share", &R::hfu,
             "hardware FLOPs utilization: executed FLOPs, including recomputation, over the dense peak. Causal "
             "attention executes half of what mfu_with_attention counts, so that hfu may be the smaller one")
      .object("breakdown_s", &R::breakdown, breakdown_fields(), "parts of the step time, which sum to it")
      .value(
          "breakdown_rank", "", [](auto& r) -> auto& { return r.breakdown.rank; },
          "rank that the breakdown describes: the last to finish the step; with a pipeline, in the stage that waits "
          "least")
      .value(
          "breakdown_step_time_s", "s", [](auto& r) -> auto& { return r.breakdown.step_time; },
          "step time of that rank: step_time_s, or its own if workers are not in step")
      .value(
          "waits_for_ranks_s", "s", [](auto& r) -> auto& { return r.breakdown.joining; },
          "the part of its bubble in which collectives of the library wait for ranks that begin theirs later")
      .object("memory_bytes",
              JsonFields<R>()
                  .inlined(&R::memory, memory_fields())
                  .list("stages", &R::stage_memory, stage_memory_fields(),
                        "device memory of the fullest rank of each pipeline stage")
                  .when(&R::stages, "with several pipeline stages"),
              "device memory of the fullest rank")
      .list("actors", &R::actors, actor_fields(),
            "memory and traffic of ranks and servers, with equivalent ones together")
      .when(&R::actors, "if ranks do not all do the same: with servers or a master")
      .value(
          "fits", "", &R::fits,
          "whether the needed memory of devices is at most the usable one, and the plan fits into hosts and on drives")
      .value("out_of_memory_probability", "share", &R::risk,
             "probability that a device runs out of memory; 1: parameters, gradients and optimizer states exceed it")
      .value(
          "fits_in_words", "", [](const R& r) { return std::string(r.fits_in_words()); },
          "yes: that probability is below 5 %; no: it is above 95 %, or hosts or drives are too small; at risk: it is "
          "between them")
      .value("memory_interval_bytes", "bytes", &R::memory_interval,
             "the least and the most of the interval in which memory_bytes.device lies with a probability of 80 %")
      .object("host_memory_bytes", &R::host_memory, host_memory_fields(), "host memory of the fullest node")
      .when(uses_hosts, "with offload, an input pipeline, or weights in plan.training")
      .object("drive_bytes", &R::drive, drive_fields(), "data of offload on the drives of the fullest node")
      .when(uses_drives, "with offload")
      .value("critical_path_s", "s", &R::critical_path, "time on the critical path of the step, by resource")
      .object("bottleneck",
              JsonFields<R>()
                  .value("resource", "", &R::bottleneck, "resource with the largest share of the critical path")
                  .value("share", "share", &R::bottleneck_share, "share of that resource in the critical path"),
              "resource that limits the step")
      .object(
          "traffic_bytes",
          JsonFields<R>()
              .value(
                  "by_link_kind", "bytes", &R::bytes_by_link_kind,
                  "bytes carried in a step, by kind of link; a modelled tree of NCCL counts as rings that send as much "
                  "out of each node")
              .value("busiest_share", "share", &R::busiest_link,
                     "share of the time in which the busiest link of a kind works; for CPU copies (TCP): in which "
                     "a CPU copies")
              .value("by_content", "bytes", &R::bytes_by_content,
                     "bytes of messages of a step by what they carry: activations (and their gradients), "
                     "gradients, weights, samples, or another group of the breakdown; they sum to total")
              .value("sent_per_rank_max", "bytes", &R::bytes_sent_per_rank_max,
                     "most bytes that a rank sends in a step")
              .value("total", "bytes", &R::bytes_total,
                     "bytes of all messages of a step; a modelled tree counts as rings that send as much out of each "
                     "node"),
          "network traffic of a step")
      .object("fold",
              JsonFields<R>()
                  .value("ranks", "", &R::ranks, "number of ranks of the plan")
                  .value("classes", "", &R::simulated_ranks,
                         "number of simulated ranks, each of which stands for its equivalence class")
                  .value("unfolded", "", &R::unfolded_reason, "why every rank was simulated; empty: ranks were folded")
                  .value("shared_draws", "", &R::shared_draws,
                         "which ranks share slow-downs, so that they fold; --fold off: none do")
                  .when(&R::shared_draws, "if ranks share slow-downs")
                  .value("full_pods", "", &R::full_pods, "which pod counts as full, and how far off the step may be")
                  .when(&R::full_pods,
                        "if the last pod is not full, and each rank would take too long; --fold off: it does not"),
              "folding of equivalent ranks")
      .value("idle_devices", "", &R::idle_devices, "number of devices of the cluster without work")
      .when(&R::idle_devices, "if there are any (plan.idle_devices: allowed)")
      .value("events", "", &R::operations, "number of simulated operations")
      .value("messages", "", &R::messages, "number of simulated messages")
      .value("late_by_look_ahead", "", &R::late_by_look_ahead,
             "number of operations that started late because a program was read ahead; 0: the result is exact")
      .value("wall_s", "s", &R::wall_s, "wall-clock time of the simulation")
      .when(&R::wall_s, "with --timing");
}

JsonFields<Result::Compression> compression_fields() {
  using C = Result::Compression;
  return JsonFields<C>()
      .value("name", "", &C::name, "description of the compressor")
      .value("dense_bytes", "bytes", &C::dense, "size of the gradients of a rank")
      .value("sent_bytes", "bytes", &C::sent, "bytes that a rank sends in place of them, in a step")
      .value("ratio", "", &C::ratio, "dense_bytes over sent_bytes")
      .value("encode_s", "s", &C::encode, "time of the kernels before exchanges, in a step")
      .value("decode_s", "s", &C::decode,
             "time of the kernels after exchanges, in a step; 0 with servers, which decode");
}

constexpr const char* kWithLength = "with plan.training or post_training.length";

}  // namespace

const JsonFields<Result>& result_fields() {
  using R = Result;
  const auto has_staleness = [](const R& r) { return !r.servers.empty() || !r.staleness.empty(); };
  const auto has_several_steps = [](const R& r) { return r.steps + r.warm_steps > 1; };
  static const JsonFields<R> fields =
      common_fields()
          .object("energy", &R::energy, energy_fields(), "energy of a step, with post_training of the loop")
          .when(&R::energy, "if the power of the devices is stated")
          .value(
              "tokens_per_J", "1/J", [](const R& r) { return r.tokens_of_step() / r.energy->step(); },
              "tokens per joule of the site, with post_training of the loop")
          .when([](const R& r) { return r.energy && r.tokens_per_s > 0; }, "for networks whose samples are sequences")
          .value(
              "samples_per_J", "1/J", [](const R& r) { return r.samples_of_step() / r.energy->step(); },
              "training samples per joule of the site, with post_training answers of the loop")
          .when(&R::energy, "if the power of the devices is stated")
          .value(
              "training_kWh", "kWh", [](const R& r) { return r.training_energy() / kJoulesOfKwh; },
              "energy of the site for the whole training, including the cost of failures")
          .when([](const R& r) { return r.training_energy() > 0; }, kWithLength)
          .object("money", &R::money, money_fields(),
                  "costs by the prices of the scenario, with post_training of the loop on all its nodes")
          .when(&R::money, "with prices")
          .object("all_reduce", &R::all_reduce, all_reduce_fields(), "the all-reduce of data parallelism")
          .when([](const R& r) { return !r.all_reduce.algorithm.empty(); }, "with data parallelism by all-reduce")
          .object("compression", &R::compression, compression_fields(), "compressed gradients")
          .when([](const R& r) { return !r.compression.name.empty(); }, "with compressed gradients")
          .object("host_calls", &R::host_calls, host_call_fields(), "what the host of a rank starts in a step")
          .when(&R::host_calls, "with an all-reduce or one device, if steps are alike")
          .object("expert_load", &R::expert_load, expert_load_fields(), "expert ranks with unlike loads")
          .when(&R::expert_load, "with plan.expert_parallel.load, if ranks differ")
          .list("stages", &R::stages, stage_fields(), "figures of each pipeline stage")
          .when(&R::stages, "with several pipeline stages")
          .inlined(&R::input, input_fields())
          .when(&R::input, "with an input pipeline")
          .value(
              "throughput", "1/s", [](const R& r) { return r.samples_per_s; },
              "training samples per second: the same as samples_per_s")
          .when([](const R& r) { return !r.servers.empty() || !r.replicas.empty(); },
                "with parameter servers, delayed gradients, local SGD or gossip")
          .value("staleness", "", &R::staleness,
                 "number of pushes or gradients, by the number of updates that they missed")
          .when(has_staleness, "with parameter servers or delayed gradients")
          .inlined(&R::servers, figure_fields(&MechanismFigures::servers, true)
                                    .object("servers", figure_fields(&MechanismFigures::servers, false),
                                            "figures of the parameter servers"))
          .when(&R::servers, "with parameter servers")
          .object("replicas", &R::replicas, figure_fields(&MechanismFigures::replicas, false),
                  "figures of replicas that go on without each other's newest gradients")
          .when(&R::replicas, "with delayed gradients, local SGD or gossip")
          .value("steps_looked_at", "", &R::steps, "number of simulated steps over which the figures are averaged")
          .value("warm_steps", "", &R::warm_steps, "number of warm-up steps before them")
          .when_since("steps_looked_at", has_several_steps, "if more than one step is simulated")
          .value("training_steps", "", &R::training_steps,
                 "number of steps of the whole training, with post_training of the loop, if nothing fails")
          .value("training_time_s", "s", &R::whole_time,
                 "time of the whole training or loop, including the cost of failures")
          .value("training_time_without_failures_s", "s", &R::training_time,
                 "time of the whole training or loop if nothing fails")
          .when_since("training_steps", &R::training_steps, kWithLength)
          .value("rank_0_ends_later_s", "s", &R::alone_time,
                 "time that rank 0 works alone after all other ranks have ended")
          .value(
              "training_time_of_others_s", "s", [](const R& r) { return r.training_time.value - r.alone_time.value; },
              "time of the whole training until all ranks but rank 0 have ended, if nothing fails")
          .when_since("rank_0_ends_later_s", &R::alone_time, "with rank_0 in plan.training")
          .list("training_phases", &R::phases, phase_fields(), "phases of the training besides its steps")
          .when(&R::phases, "with start, image, weights, evaluate or rank_0 in plan.training")
          .value(
              "training_days", "d", [](const R& r) { return r.whole_time().value / 86400; },
              "time of the whole training in days, including the cost of failures")
          .value(
              "gpu_hours", "h", [](const R& r) { return r.whole_time().value / 3600 * r.gpus(); },
              "device-hours of all devices of the plan or loop in that time")
          .when_since("training_days", &R::training_steps, kWithLength)
          .value("step_time_source", "", &R::step_time_source, "source of a step time that is given, not simulated")
          .when(&R::step_time_source, "with plan.step_time")
          .inlined(&R::failures, failure_fields())
          .when(&R::failures, "with faults")
          .object("post_training", &R::post_training, post_training_fields(),
                  "a step of the post-training loop. Energy, money, the length of the training, gpus and failures are "
                  "of the loop, too; all other fields are of one optimizer step of its training half")
          .when(&R::post_training, "with post_training")
          .object("generation", &R::generation, generation_fields(),
                  "engines that answer prompts; all other fields are of one forward pass")
          .when(&R::generation, "with generation")
          .list("splits", &R::splits, post_training_split_fields(),
                "the loop with other numbers of nodes that generate, the fastest first")
          .when(&R::splits, "with post_training.generation.nodes, unless with --no-what-if")
          .object("compute_measured", &R::measured, measured_fields(), "measured step time by which compute is scaled")
          .when([](const R& r) { return r.measured.step_time.value > 0; }, "with plan.measured_step")
          .inlined(&R::capacity, capacity_fields())
          .when(&R::capacity, "if the plan does not fit, and in explain")
          .list("changes", &R::changes,
                JsonFields<FittingChange>()
                    .value("set", "", &FittingChange::set, "the change, in the form that --set takes")
                    .value("peak_bytes", "bytes", &FittingChange::peak, "peak of device memory with the change")
                    .value("fits", "", &FittingChange::fits, "whether the plan fits with the change")
                    .value("step_time_s", "s", &FittingChange::step_time,
                           "step time with the change and the same global batch")
                    .when(&FittingChange::step_time, "unless the step is too large")
                    .value("out_of_memory_probability", "share", &FittingChange::risk,
                           "probability that a device runs out of memory with the change")
                    .value("lacks", "", &FittingChange::lacks,
                           "what is still too small: GPU memory, host memory, or room on the drives")
                    .when(&FittingChange::lacks, "if the plan does not fit"),
                "changes of the plan that need less memory: first those that fit, by step time; then the others, by "
                "memory")
          .when(&R::changes, "if the plan does not fit");
  return fields;
}

std::string Result::lack_outside_gpus() const {
  const auto exceeds = [](Bytes peak, Bytes room) { return room.value > 0 && peak > room; };
  if (exceeds(host_memory.peak, host_memory.capacity)) return "host memory";
  return exceeds(drive.peak, drive.capacity) ? "room on the drives" : "";
}

const char* Result::fits_in_words() const {
  // Hosts and drives hold a plan or do not: only the memory of GPUs has a probability.
  const bool fails_elsewhere = !fits && (memory.needed <= memory.usable || !lack_outside_gpus().empty());
  return trainyard::fits_in_words(fails_elsewhere ? 1 : risk);
}

}  // namespace trainyard
