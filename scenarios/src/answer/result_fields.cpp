#include <variant>

#include "scenarios/src/answer/json_reference.hpp"
#include "scenarios/src/answer/result.hpp"
#include "strategies/mechanisms/mechanism.hpp"

namespace trainyard {
namespace {

JsonFields<Result::Breakdown> breakdown_fields() {
  using B = Result::Breakdown;
  return JsonFields<B>()
      .value("compute", "s", &B::compute, "kernels of the forward and backward pass")
      .value("exposed_communication", "s", &B::exposed_communication,
             "communication that no computation hides, by kind")
      .value("compression", "s", &B::compression, "kernels that encode gradients and decode them")
      .when([](const B& b) { return b.compression > 0; }, "with compressed gradients")
      .value("bubble", "s", &B::bubble, "waiting for data of a peer, such as the pipeline bubble")
      .value("optimizer", "s", &B::optimizer, "optimizer update")
      .value("input", "s", &B::input, "waiting for training samples")
      .value("framework", "s", &B::framework, "host work of the framework that nothing hides")
      .value("other", "s", &B::other, "the rest; below 1 % of the step");
}

/// What GPUs hold has the same parts everywhere.
template <class M>
JsonFields<M> peak_fields() {
  return JsonFields<M>()
      .value("peak", "bytes", &M::peak, "most that is held at any moment of the step")
      .value("parameters", "bytes", &M::parameters, "of the peak: parameters")
      .value("gradients", "bytes", &M::gradients, "of the peak: gradients")
      .value("optimizer", "bytes", &M::optimizer, "of the peak: optimizer states")
      .value("buffers", "bytes", &M::buffers, "of the peak: buffers");
}

JsonFields<Result::StageMemory> stage_memory_fields() {
  using M = Result::StageMemory;
  return peak_fields<M>()
      .value("activations", "bytes", &M::activations, "of the peak: activations kept for the backward pass")
      .value("rank", "", &M::rank, "rank of the stage with the highest peak");
}

JsonFields<Result::Stage> stage_fields() {
  using S = Result::Stage;
  return JsonFields<S>()
      .value("layers", "", &S::layers, "of the network that it has, embedding and head among them")
      .object("breakdown_s", &S::breakdown, breakdown_fields(),
              "what the step is spent on; the rest of the step after the rank's end is bubble")
      .value(
          "breakdown_rank", "", [](auto& s) -> auto& { return s.breakdown.rank; },
          "rank that the breakdown describes: the stage's last to finish the step")
      .object("memory_bytes", &S::memory, stage_memory_fields(), "device memory of its fullest rank");
}

JsonFields<Result::Memory> memory_fields() {
  using M = Result::Memory;
  return peak_fields<M>()
      .value("activations", "bytes", &M::activations, "of the peak: activations kept for the backward pass")
      .value("capacity", "bytes", &M::capacity, "of the device")
      .value("rank", "", &M::rank, "rank with the highest peak")
      .value("stage", "", &M::stage, "pipeline stage of that rank");
}

JsonFields<Result::ActorUse> actor_fields() {
  using A = Result::ActorUse;
  return JsonFields<A>()
      .value("name", "", &A::name, "ranks, or a server")
      .value("count", "", &A::count, "how many of them are alike")
      .value("memory_peak", "bytes", &A::memory, "most that each holds")
      .value("sent", "bytes", &A::sent, "sent by each in a step")
      .value("received", "bytes", &A::received, "received by each in a step");
}

JsonFields<Result::HostMemory> host_memory_fields() {
  using M = Result::HostMemory;
  return peak_fields<M>()
      .value("activations", "bytes", &M::activations,
             "of the peak: activations between their forward and backward pass")
      .value("input", "bytes", &M::input, "of the peak: batches on their way to the devices, and the cache of samples")
      .value("capacity", "bytes", &M::capacity, "of the node's host memory; 0: not stated")
      .value("node", "", &M::node, "the fullest node");
}

JsonFields<Result::Drive> drive_fields() {
  using D = Result::Drive;
  return JsonFields<D>()
      .value("capacity", "bytes", &D::capacity, "of the node's drives; 0: not stated")
      .value("peak", "bytes", &D::peak, "most that they hold")
      .value("node", "", &D::node, "the fullest node");
}

JsonFields<Result::AllReduce> all_reduce_fields() {
  using A = Result::AllReduce;
  using C = A::Candidate;
  const auto candidate = JsonFields<C>()
                             .value("algorithm", "", &C::algorithm, "its name")
                             .value("channels", "", &C::channels, "rings at the same time")
                             .value("size_bytes", "bytes", &C::size, "size of the collective that was timed")
                             .value("time_s", "s", &C::seconds, "its time, alone on the cluster");
  return JsonFields<A>()
      .value("algorithm", "", &A::algorithm, "of the gradients' all-reduce")
      .value("channels", "", &A::channels, "rings at the same time")
      .value("fidelity", "", &A::fidelity, "messages, flows or modelled")
      .list("tuned", &A::tuned, candidate, "candidates of `algorithm: auto`, the fastest first")
      .when([](const A& a) { return !a.tuned.empty(); }, "with `algorithm: auto`");
}

/// A mechanism's figure of this type.
template <class V>
struct FigureByKey {
  const char* key;
  const V& operator()(const FiguresByKey& all) const { return figure<V>(all, key); }
  V& operator()(FiguresByKey& all) const { return std::get<V>(all.try_emplace(key, V{}).first->second); }
};

/// Those that stand beside the object of a group of figures, or those that stand in it.
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
                          .value("name", "", &NamedTime::name, "what happens")
                          .value("time_s", "s", &NamedTime::time, "in a step, on the node where it takes longest"),
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

JsonFields<Result::Input> input_fields() {
  using I = Result::Input;
  return JsonFields<I>()
      .value("starved_share", "share", &I::starved_share, "of the step: time lost to waiting for samples")
      .object("input",
              JsonFields<I>()
                  .value("storage_busy_share", "share", &I::storage_busy, "of the step, the busiest storage link")
                  .value("decode_busy_share", "share", &I::decode_busy, "of the step, the busiest decoder")
                  .value("read_bytes", "bytes", &I::read, "read from the storage in a step")
                  .value("from_cache_share", "share", &I::from_cache, "of samples, that hosts have cached")
                  .value("host_bytes", "bytes", &I::host_bytes, "of batches and cache in the fullest node's memory"),
              "input pipeline");
}

JsonFields<Capacity> capacity_fields() {
  return JsonFields<Capacity>()
      .value("largest_micro_batch_size", "samples", &Capacity::largest_micro_batch_size,
             "largest micro-batch that fits; 0: none")
      .value("largest_num_hidden_layers", "", &Capacity::largest_num_hidden_layers,
             "most layers that fit; null where the model has no number of layers");
}

JsonFields<Result::Measured> measured_fields() {
  using M = Result::Measured;
  return JsonFields<M>()
      .value("step_time_s", "s", &M::step_time, "measured step of one device")
      .value("source", "", &M::source, "where that figure is from");
}

JsonFields<PathLine> path_fields() {
  return JsonFields<PathLine>()
      .value("begin_s", "s", &PathLine::begin, "from the start of the step")
      .value("end_s", "s", &PathLine::end, "from the start of the step")
      .value("actor", "", &PathLine::actor, "who does it")
      .value("resource", "", &PathLine::resource, "what it is bound by")
      .value("name", "", &PathLine::name, "the operation");
}

/// What every answer has.
JsonFields<Result> common_fields() {
  using R = Result;
  const auto hosts = [](const R& r) { return r.host_memory.peak > 0; };
  const auto drives = [](const R& r) { return r.host_memory.offloads(); };
  const auto tokens = [](const R& r) { return r.tokens_per_s > 0; };
  return JsonFields<R>()
      .value("scenario", "", &R::scenario, "name of the scenario")
      .value("step_time_s", "s", &R::step_time, "time of one training step")
      .value("step_time_ci95_s", "s", &R::step_time_interval,
             "half the width of the 95 % confidence interval of step_time_s, by batch means")
      .when([](const R& r) { return r.step_time_interval.has_value(); }, "where steps differ from each other")
      .value("flow_step_time_s", "s", &R::flow_step_time, "the same step by the default transport")
      .when([](const R& r) { return r.flow_step_time.has_value(); }, "with --transport packets")
      .value("samples_per_s", "1/s", &R::samples_per_s, "training samples a second, all devices together")
      .value("tokens_per_s", "1/s", &R::tokens_per_s, "tokens a second, all devices together")
      .when(tokens, "of networks whose samples are sequences")
      .value("tokens_per_s_per_gpu", "1/s", &R::tokens_per_s_per_gpu, "tokens a second of one device")
      .when(tokens, "of networks whose samples are sequences")
      .value("tflops_per_gpu", "TFLOP/s", &R::tflops_per_gpu, "model FLOPs a second of one device")
      .value("mfu", "share", &R::mfu,
             "model FLOPs utilization: 6 FLOPs a parameter and token over the dense peak of the precision")
      .value("mfu_with_attention", "share", &R::mfu_with_attention,
             "the same with 12 x layers x width x length FLOPs a token for attention (PaLM, appendix B)")
      .when([](const R& r) { return r.mfu_with_attention > 0; }, "of networks with attention")
      .value("hfu", "share", &R::hfu, "hardware FLOPs utilization: with recomputation")
      .object("breakdown_s", &R::breakdown, breakdown_fields(), "what a step is spent on; the parts sum to it")
      .value(
          "breakdown_rank", "", [](auto& r) -> auto& { return r.breakdown.rank; },
          "rank that the breakdown describes: the last to finish the step; of a pipeline, of the stage that waits "
          "least")
      .value(
          "breakdown_step_time_s", "s", [](auto& r) -> auto& { return r.breakdown.step_time; },
          "its step: the step time, or its own where workers are not in step")
      .object("memory_bytes",
              JsonFields<R>()
                  .inlined(&R::memory, memory_fields())
                  .list("stages", &R::stage_memory, stage_memory_fields(), "by pipeline stage, of its fullest rank")
                  .when([](const R& r) { return !r.stages.empty(); }, "with several pipeline stages"),
              "device memory of the fullest rank")
      .list("actors", &R::actors, actor_fields(), "memory and traffic by rank and server, those alike as one")
      .when([](const R& r) { return !r.actors.empty(); }, "where ranks do not all do the same: servers, a master")
      .value("fits", "", &R::fits, "devices, hosts and drives hold what the plan needs")
      .object("host_memory_bytes", &R::host_memory, host_memory_fields(), "what a node keeps in its host memory")
      .when(hosts, "with offload or an input pipeline")
      .object("drive_bytes", &R::drive, drive_fields(), "what offload keeps on the drives of a node")
      .when(drives, "with offload")
      .value("critical_path_s", "s", &R::critical_path, "the critical path of the step, by resource")
      .object("bottleneck",
              JsonFields<R>()
                  .value("resource", "", &R::bottleneck, "resource with the largest share of the critical path")
                  .value("share", "share", &R::bottleneck_share, "of the critical path"),
              "what limits the step")
      .object("traffic_bytes",
              JsonFields<R>()
                  .value("by_link_kind", "bytes", &R::bytes_by_link_kind, "carried in a step, by kind of link")
                  .value("sent_per_rank_max", "bytes", &R::bytes_sent_per_rank_max, "most that a rank sends in a step")
                  .value("total", "bytes", &R::bytes_total, "of all messages of a step"),
              "traffic")
      .object("fold",
              JsonFields<R>()
                  .value("ranks", "", &R::ranks, "ranks of the plan")
                  .value("classes", "", &R::simulated_ranks, "ranks that were simulated, each for those that are alike")
                  .value("unfolded", "", &R::unfolded, "why every rank was simulated; empty: they were folded"),
              "folding of ranks that are alike")
      .value("idle_devices", "", &R::idle_devices, "of the cluster, that the plan gives no work")
      .when([](const R& r) { return r.idle_devices > 0; }, "where there are any (plan.idle_devices: allowed)")
      .value("events", "", &R::operations, "operations simulated")
      .value("messages", "", &R::messages, "messages simulated")
      .value("late_by_look_ahead", "", &R::late_by_look_ahead,
             "operations that started late because a program was read ahead; 0 is exact")
      .value("wall_s", "s", &R::wall_s, "time that the simulation took")
      .when([](const R& r) { return r.wall_s > 0; }, "with --timing");
}

JsonFields<Result::Compression> compression_fields() {
  using C = Result::Compression;
  return JsonFields<C>()
      .value("name", "", &C::name, "what gradients are compressed by")
      .value("dense_bytes", "bytes", &C::dense, "gradients of a rank")
      .value("sent_bytes", "bytes", &C::sent, "what a rank puts into exchanges in their place")
      .value("ratio", "", &C::ratio, "of the two")
      .value("encode_s", "s", &C::encode, "kernels before exchanges, a step")
      .value("decode_s", "s", &C::decode, "kernels after them, a step");
}

}  // namespace

namespace {

JsonFields<Result::Phase> phase_fields() {
  using P = Result::Phase;
  return JsonFields<P>()
      .value("name", "", &P::name, "start, image, weights, evaluation or rank 0 alone")
      .value("time_s", "s", &P::time, "of one")
      .value("times", "", &P::times, "how many there are");
}

}  // namespace

const JsonFields<Result>& result_fields() {
  using R = Result;
  const auto late = [](const R& r) { return !r.servers.empty() || !r.staleness.empty(); };
  const auto trains = [](const R& r) { return r.training_steps > 0; };
  const auto several = [](const R& r) { return r.steps + r.warm_steps > 1; };
  static const JsonFields<R> fields =
      common_fields()
          .object("energy", &R::energy, energy_fields(), "what a step takes")
          .when([](const R& r) { return r.energy.has_value(); }, "where the power of the devices is stated")
          .value(
              "tokens_per_J", "1/J", [](const R& r) { return r.tokens_per_s * r.step_time / r.energy->step(); },
              "tokens for a joule of the site")
          .when([](const R& r) { return r.energy && r.tokens_per_s > 0; }, "of networks whose samples are sequences")
          .value(
              "samples_per_J", "1/J", [](const R& r) { return r.samples_per_s * r.step_time / r.energy->step(); },
              "training samples for a joule of the site")
          .when([](const R& r) { return r.energy.has_value(); }, "where the power of the devices is stated")
          .value(
              "training_kWh", "kWh", [](const R& r) { return r.training_energy() / kJoulesOfKwh; },
              "of the site, for the whole training, with what failures cost")
          .when([](const R& r) { return r.training_energy() > 0; }, "with plan.training")
          .object("money", &R::money, money_fields(), "what it costs by the prices given")
          .when([](const R& r) { return r.money.has_value(); }, "with prices")
          .object("all_reduce", &R::all_reduce, all_reduce_fields(), "the all-reduce of data parallelism")
          .when([](const R& r) { return !r.all_reduce.algorithm.empty(); }, "with data parallelism by all-reduce")
          .object("compression", &R::compression, compression_fields(), "compressed gradients")
          .when([](const R& r) { return !r.compression.name.empty(); }, "with compressed gradients")
          .list("stages", &R::stages, stage_fields(), "by pipeline stage")
          .when([](const R& r) { return !r.stages.empty(); }, "with several pipeline stages")
          .inlined(&R::input, input_fields())
          .when([](const R& r) { return r.input.has_value(); }, "with an input pipeline")
          .value(
              "throughput", "1/s", [](const R& r) { return r.samples_per_s; }, "samples_per_s")
          .when([](const R& r) { return !r.servers.empty() || !r.replicas.empty(); },
                "with parameter servers, delayed gradients, local SGD or gossip")
          .value("staleness", "", &R::staleness, "pushes or gradients, by how many updates they missed")
          .when(late, "with parameter servers or delayed gradients")
          .inlined(&R::servers,
                   figure_fields(&MechanismFigures::servers, true)
                       .object("servers", figure_fields(&MechanismFigures::servers, false), "parameter servers"))
          .when([](const R& r) { return !r.servers.empty(); }, "with parameter servers")
          .object("replicas", &R::replicas, figure_fields(&MechanismFigures::replicas, false),
                  "replicas that go on without each other's newest gradients")
          .when([](const R& r) { return !r.replicas.empty(); }, "with delayed gradients, local SGD or gossip")
          .value("steps_looked_at", "", &R::steps, "simulated steps that the figures are means of")
          .when(several, "where one step does not tell")
          .value("warm_steps", "", &R::warm_steps, "steps simulated before them: warm-up")
          .when(several, "where one step does not tell")
          .value("training_steps", "", &R::training_steps, "steps of the whole training")
          .when(trains, "with plan.training")
          .value("training_time_s", "s", &R::whole_time,
                 "time of the whole training, with what failures cost: training_days in seconds")
          .when(trains, "with plan.training")
          .value("training_time_without_failures_s", "s", &R::training_time, "the same if nothing fails")
          .when(trains, "with plan.training")
          .value("rank_0_ends_later_s", "s", &R::alone_time,
                 "rank 0 ends so much later than the others, by what it does alone at the end")
          .when([](const R& r) { return r.alone_time > 0; }, "with rank_0 in plan.training")
          .list("training_phases", &R::phases, phase_fields(), "what the training does besides its steps")
          .when([](const R& r) { return !r.phases.empty(); },
                "with start, image, weights, evaluate or rank_0 in plan.training")
          .value(
              "training_days", "d", [](const R& r) { return r.whole_time() / 86400; },
              "days of the whole training, with what failures cost")
          .when(trains, "with plan.training")
          .value(
              "gpu_hours", "h", [](const R& r) { return r.whole_time() / 3600 * r.ranks; },
              "device-hours of that, of all ranks")
          .when(trains, "with plan.training")
          .value("step_time_source", "", &R::step_time_source, "source of a step time that is given, not simulated")
          .when([](const R& r) { return !r.step_time_source.empty(); }, "with plan.step_time")
          .inlined(&R::failures, failure_fields())
          .when([](const R& r) { return r.failures.has_value(); }, "with faults")
          .object("compute_measured", &R::measured, measured_fields(), "compute is measured, not modelled")
          .when([](const R& r) { return r.measured.step_time > 0; }, "with plan.measured_step")
          .inlined(&R::capacity, capacity_fields())
          .when([](const R& r) { return r.capacity.has_value(); }, "where the plan does not fit, and in explain")
          .list("changes", &R::changes,
                JsonFields<FittingChange>()
                    .value("set", "", &FittingChange::set, "the change, as --set takes it")
                    .value("peak_bytes", "bytes", &FittingChange::peak, "peak device memory with it")
                    .value("fits", "", &FittingChange::fits, "whether it fits then")
                    .value("step_time_s", "s", &FittingChange::step_time, "the step with it, of the same global batch")
                    .when([](const FittingChange& c) { return c.step_time > 0; }, "unless the step is too large"),
                "changes of the plan that need less memory: the fastest that fits first, then the leanest")
          .when([](const R& r) { return !r.changes.empty(); }, "where the plan does not fit");
  return fields;
}

const JsonFields<Answer>& answer_fields() {
  const auto failing = [](const WhatIf& w) { return w.goodput > 0; };
  static const JsonFields<Answer> fields =
      JsonFields<Answer>()
          .inlined(&Answer::result, result_fields())
          .list("what_if", &Answer::what_ifs,
                JsonFields<WhatIf>()
                    .value("resource", "", &WhatIf::resource_class, "resource class that is made faster")
                    .value("factor", "", &WhatIf::factor, "how many times")
                    .value("step_time_s", "s", &WhatIf::step_time, "the step simulated again")
                    .value("saves_share", "share", &WhatIf::saves_share, "of the step time that this saves")
                    .value("compared_with_s", "s", &WhatIf::compared_with,
                           "the step without it, looked at for as long: until its mean is known")
                    .when([](const WhatIf& w) { return w.compared_with > 0; },
                          "with plan.steps, where workers are not in step")
                    .value("set", "", &WhatIf::sets, "the fields that were changed, as run --set takes them")
                    .value("goodput", "share", &WhatIf::goodput, "goodput with that step")
                    .when(failing, "in explain, with faults")
                    .value("effective_step_time_s", "s", &WhatIf::effective_step_time, "training time over steps done")
                    .when(failing, "in explain, with faults"),
                "what faster resources would save; empty with --no-what-if")
          .list("sources", &Answer::sources,
                JsonFields<FigureSource>()
                    .value("figure", "", &FigureSource::figure, "which figure of the hardware, model or software")
                    .value("value", "", &FigureSource::value, "its value, as written")
                    .value("source", "", &FigureSource::source, "where it is from")
                    .value("unverified", "", &FigureSource::unverified, "the source could not be checked"),
                "every figure that the answer stands on")
          .list("critical_path", &Answer::path, path_fields(), "the critical path, piece by piece")
          .when([](const Answer& r) { return r.path.has_value(); }, "in explain")
          .list("failure_what_if", &Answer::failure_what_ifs, failure_what_if_fields(),
                "what fewer failures, faster restarts and cheaper checkpoints would save")
          .when([](const Answer& r) { return r.failure_what_ifs.has_value(); }, "in explain, with faults");
  return fields;
}

namespace {

const RegisterJsonReference result_fields_json{"run",
                                               "the answer to a scenario; explain --json writes the same, and its path",
                                               [] { return answer_fields().rows(); }};

}  // namespace
}  // namespace trainyard
