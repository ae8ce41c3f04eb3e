#include "tools/reports/report.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "scenarios/src/answer/memory_verdict.hpp"
#include "scenarios/src/answer/result.hpp"
#include "scenarios/src/planning/plan.hpp"
#include "scenarios/src/reading/plan_choice.hpp"
#include "scenarios/src/running/site_room.hpp"
#include "sim/stable_sort.hpp"
#include "strategies/mechanisms/mechanism.hpp"
#include "strategies/plan/training_plan.hpp"
#include "tools/reports/report_lines.hpp"
#include "topologies/device_noun.hpp"

namespace trainyard {
namespace {

/// "32 × a100-sxm4-80gb". Several types are joined by " + ".
std::string gpus_in_words(const Scenario& s) {
  std::vector<std::pair<std::string, int>> counts;
  for (int rank = 0; rank < s.ranks(); ++rank) {
    const std::string& name = s.cluster.type_of_gpu(rank).gpu.name;
    if (counts.empty() || counts.back().first != name) counts.emplace_back(name, 0);
    ++counts.back().second;
  }
  std::vector<std::string> words;
  for (const auto& [name, count] : counts) words.push_back(fmt::format("{} × {}", counted(count), name));
  return fmt::format("{}", fmt::join(words, " + "));
}

/// "tensor 8 x data 16 x pipeline 8, interleaved-1f1b of 3 chunks, ZeRO 1, collectives timed by a fitted model".
std::string mesh_in_words(const Scenario& s) {
  const PlanChoice& p = s.plan;
  std::string text = p.mesh_in_words();
  if (p.sharding.sequence) text += ", sequence parallel";
  if (p.mesh.pipeline > 1) text += ", " + p.schedule;
  if (p.chunks > 1) text += fmt::format(" of {} chunks", p.chunks);
  if (p.zero != ZeroStage::none) text += fmt::format(", ZeRO {}", static_cast<int>(p.zero));
  if (p.offload.is_used()) text += fmt::format(", optimizer on {}", name_of(p.offload.optimizer));
  if (p.offload.parameters != OffloadDevice::none)
    text += fmt::format(", parameters on {}", name_of(p.offload.parameters));
  if (p.zero_group > 0) text += fmt::format(" in groups of {}", p.zero_group);
  if (p.sharding.recompute != Recompute::none)
    text += fmt::format(", {} recomputation",
                        p.sharding.recompute == Recompute::operators ? "per-operator" : name_of(p.sharding.recompute));
  if (p.recomputed_blocks > 0) text += fmt::format(" of {} a stage", counted_noun(p.recomputed_blocks, "block"));
  if (p.offload.activations())
    text += p.offload.activation_blocks == OffloadChoice::kAllBlocks
                ? ", activations in host memory"
                : fmt::format(", activations of {} a stage in host memory",
                              counted_noun(p.offload.activation_blocks, "block"));
  switch (p.fidelity) {
    case Fidelity::messages:
      return text + ", collectives simulated message by message";
    case Fidelity::flows:
      return text + ", collectives simulated as flows";
    case Fidelity::modelled:
      break;
  }
  return text + ", collectives timed by a fitted model";
}

/// "ring all-reduce of 8 channels", "NCCL all-reduce (ring, Simple) of 8 channels".
std::string all_reduce_in_words(const Plan& plan, bool compressed) {
  const GradientCollective collective = gradient_collective(plan);
  return fmt::format("{} {}{}{}", all_reduce_name(plan.all_reduce),
                     compressed ? "exchange of compressed gradients" : "all-reduce",
                     collective.method.empty() ? "" : fmt::format(" ({})", collective.method),
                     collective.channels > 1 ? fmt::format(" of {} channels", collective.channels) : "");
}

/// The model, the machine, and the plan.
std::string head(const Scenario& s, const Plan& plan) {
  const std::string how =
      s.plan.splits_model() ? mesh_in_words(s)
      : s.ranks() == 1      ? "one device"
      : s.plan.inference
          ? "data parallel: copies of the model exchange nothing"
          : "data parallel, " + s.plan.mechanism->summary(all_reduce_in_words(plan, s.plan.compression != nullptr));
  const std::string tokens =
      s.network.tokens_per_sample > 1 ? fmt::format(" of {} tokens", counted(s.network.tokens_per_sample)) : "";
  return fmt::format("{} in {} with {} on {} ({})\n{}{}\n{}{} sample{} a step{}, in micro-batches of {}\n",
                     network_in_words(s), s.precision_title(),
                     s.software_given ? s.software.name : "no software costs (the default)", gpus_in_words(s),
                     describe(s.cluster), report_label("plan"), how, report_label(""), counted(s.global_batch_size),
                     s.global_batch_size == 1 ? "" : "s", tokens, s.micro_batch_size);
}

/// The rank whose time the parts are. Workers that are not in step have steps of their own.
std::string rank_of_parts(const Scenario& s, const Result& r) {
  if (r.breakdown.step_time != r.step_time)
    return fmt::format("rank {}, whose own steps take longest; {}", r.breakdown.rank,
                       s.plan.mechanism->stops_together()
                           ? fmt::format("a step of {} ends without the slowest workers", show(r.step_time))
                           : fmt::format("in a step of {} all {} workers together end {} steps", show(r.step_time),
                                         counted(r.ranks), counted(r.ranks)));
  for (std::size_t stage = 0; stage < r.stages.size(); ++stage)
    if (r.stages[stage].breakdown.rank == r.breakdown.rank)
      return fmt::format("rank {} of stage {}, which waits least", r.breakdown.rank, stage);
  return r.simulated_ranks > 1 ? "the rank that finishes last" : "";
}

/// The name of the only actor besides the ranks, if ranks wait while it computes; "" otherwise.
std::string center_waited_for(const Result& r) {
  std::vector<const Result::ActorUse*> others;
  for (const Result::ActorUse& use : r.actors)
    if (!use.name.starts_with("rank")) others.push_back(&use);
  const auto memory = r.critical_path.find("host memory");
  const double bubble = r.breakdown.bubble.value;
  const bool waits = others.size() == 1 && bubble > 1e-5 * r.step_time.value && memory != r.critical_path.end() &&
                     std::min(memory->second, others.front()->work.value) >= bubble * (1 - 1e-6);
  return waits ? others.front()->name : "";
}

/// The parts of the step, which sum to it as printed. Parts that would be printed as 0.0 are left out. The note names
/// the communication without exposed time, whether other work hides it or there is none.
std::string breakdown(const Scenario& s, const Result& r) {
  const Result::Breakdown& b = r.breakdown;
  const PartUnit unit = part_unit(r);
  std::vector<std::string> names{"compute"}, words, unexposed;
  std::vector<double> times{b.compute.value};
  const auto add = [&](const std::string& name, double seconds) {
    names.push_back(name);
    times.push_back(seconds);
  };
  for (const auto& [group, seconds] : b.exposed_communication) {
    add("exposed " + group, seconds);
    constexpr double kNone = 1e-5;  // share of the step below which no time is exposed
    if (seconds < kNone * b.step_time.value && r.ranks > 1 && !s.plan.inference) unexposed.push_back(group);
  }
  add("compression", b.compression.value);
  add("bubble", b.bubble.value);
  add("optimizer", b.optimizer.value);
  add("input", b.input.value);
  add("framework", b.framework.value);
  add("other", b.other.value);
  const double last_digit = unit.seconds * std::pow(10.0, -unit.decimals);
  const std::vector<double> rounded = rounded_parts(times, last_digit);
  for (std::size_t i = 0; i < times.size(); ++i)
    if (i == 0 || rounded[i] > last_digit / 2) words.push_back(fmt::format("{} {}", names[i], unit.number(rounded[i])));
  const std::string rank = rank_of_parts(s, r);
  std::string note = fmt::format("{}, together {}", unit.name, unit.number(b.step_time.value));
  if (!rank.empty()) note += ", on " + rank;
  if (const std::string center = center_waited_for(r); !center.empty())
    note += fmt::format("; bubble: the wait until {} has computed", center);
  if (r.servers.contains("stages")) note += "; bubble: the wait while nodes exchange with the servers";
  constexpr double kWorthSaying = 0.02;  // share of the step
  if (b.joining.value > kWorthSaying * b.step_time.value)
    note += fmt::format("; {} of the bubble are waits for ranks that begin a collective later",
                        unit.number(b.joining.value));
  if (!unexposed.empty()) note += fmt::format("; no exposed {}", fmt::join(unexposed, ", no exposed "));
  return fmt::format("{}{}   ({})\n", report_label(""), fmt::join(words, " │ "), note);
}

/// Host memory of the fullest node: with offload, or if the samples alone do not fit.
std::string host_memory(const Result& r) {
  const Result::HostMemory& host = r.host_memory;
  const bool too_much = host.capacity.value > 0 && host.peak > host.capacity;
  if (!host.offloads() && !too_much) return "";
  std::string text = fmt::format(
      "{}host memory of node {}: {}  (parameters {} · gradients {} · optimizer {} · buffers {}{}{})\n",
      report_label(""), host.node, use_of_capacity(host.peak.value, host.capacity.value), gib(host.parameters.value),
      gib(host.gradients.value), gib(host.optimizer.value), gib(host.buffers.value),
      host.activations.value > 0 ? fmt::format(" · activations {}", gib(host.activations.value)) : "",
      host.input.value > 0 ? fmt::format(" · samples {}", gib(host.input.value)) : "");
  if (r.drive.peak.value > 0)
    text += fmt::format("{}drives of node {}: {}\n", report_label(""), r.drive.node,
                        use_of_capacity(r.drive.peak.value, r.drive.capacity.value));
  return text;
}

bool lacks_device_memory(const FittingChange& change) { return change.lacks.empty() || change.lacks == "GPU memory"; }

const char* verdict(const FittingChange& change) {
  const std::string words = lacks_device_memory(change) ? fits_in_words(change.risk) : "no";
  if (words == "no") return "not even with ";
  return words == "yes" ? "fits with     " : change.risk > 0.5 ? "hardly with   " : "may fit with  ";
}

/// Names the doubt or the lack that a change leaves: the probability that memory is too small, or what else is.
std::string reservation(const FittingChange& change) {
  if (lacks_device_memory(change) && std::string_view(fits_in_words(change.risk)) == "at risk")
    return fmt::format(" · runs out of memory with a probability of {:.0f} %", change.risk * 100);
  return lacks_device_memory(change) ? "" : fmt::format(" · too little {}", change.lacks);
}

/// The changes that fit, then up to four that do not.
std::string changes(const Result& r) {
  const auto fitting = std::ranges::count_if(r.changes, [](const auto& c) { return c.fits; });
  const std::size_t shown = std::min(r.changes.size(), static_cast<std::size_t>(fitting) + 4);
  std::size_t width = 0;
  constexpr std::size_t widest = 64;  // columns; longer changes push the rest of their line
  for (std::size_t i = 0; i < shown; ++i) width = std::min(widest, std::max(width, r.changes[i].set.size()));
  std::string text;
  for (std::size_t i = 0; i < shown; ++i) {
    const FittingChange& change = r.changes[i];
    text += fmt::format(
        "{}{} {:<{}} {:>6} GiB{}{}\n", report_label(""), verdict(change), change.set, width, gib(change.peak.value),
        change.step_time.value > 0 ? fmt::format(" · step {}", show(change.step_time)) : "", reservation(change));
  }
  return text;
}

std::string verdict(const Result& r) {
  const std::string words = fits_in_words(r.risk);
  constexpr double worth_naming = 0.005;  // risk
  if (words == "yes" && r.risk >= worth_naming)
    return fmt::format("fits, and runs out of memory with a probability of {}", percent(r.risk));
  if (words == "yes") return "fits";
  if (words == "at risk")
    return fmt::format("AT RISK, {} out of memory with a probability of {:.0f} %", r.fits ? "may run" : "likely runs",
                       r.risk * 100);
  const bool more = r.memory.needed > r.memory.peak;
  return fmt::format("DOES NOT FIT; rank {} needs {} GiB{}, {} GiB more than the {} GiB that programs can have",
                     r.memory.neediest_rank, gib(r.memory.needed.value),
                     more ? " with CUDA's context and NCCL's buffers" : "",
                     gib(r.memory.needed.value - r.memory.usable.value), gib(r.memory.usable.value));
}

/// Memory that a tool of the device shows, if it is more than what the step allocates.
std::string on_device(const Result& r) {
  if (r.memory.device <= r.memory.peak) return "";
  const bool gives_back = r.memory_interval.back() > r.memory.usable.value && r.memory.device > r.memory.needed;
  return fmt::format("{}{} GiB on the device with allocator, CUDA and NCCL ({} to {} with a probability of 80 %{})\n",
                     report_label(""), gib(r.memory.device.value), gib(r.memory_interval.front()),
                     gib(r.memory_interval.back()),
                     gives_back ? fmt::format("; if memory is short, the allocator gives {} of it back",
                                              gib(r.memory.device.value - r.memory.needed.value))
                                : "");
}

std::string memory(const Result& r, const TrainingPlan& plan) {
  const MemoryUnit unit = memory_unit(r);
  std::string text =
      fmt::format("{}{}{} of {} GiB a GPU: {}\n{}{}{}   ({}{})", report_label("memory"),
                  unit.number(r.memory.peak.value, 1), unit.size < 1e9 ? fmt::format(" {}", unit.name) : "",
                  gib(r.memory.capacity.value), verdict(r), on_device(r), report_label(""), parts_of_peak(r), unit.name,
                  r.simulated_ranks > 1 ? fmt::format(" on rank {}, the fullest", r.memory.rank) : "");
  text += "\n" + host_memory(r) + stage_table(r, &plan);
  if (r.capacity) text += capacity_line(*r.capacity);
  text += changes(r);
  return text;
}

/// The lines that the mechanism adds.
std::string mechanism(const Scenario& s, const Result& r) {
  const Mechanism::Report report = s.plan.mechanism->report(
      r.of_mechanism(), [&r](double seconds) { return part_of(r, seconds); }, part_unit(r).name);
  std::string text;
  for (std::size_t i = 0; i < report.lines.size(); ++i)
    text += fmt::format("{}{}\n", report_label(i == 0 ? report.label.c_str() : ""), report.lines[i]);
  return text;
}

/// The compressed gradients that a rank sends.
std::string compression(const Result& r) {
  const Result::Compression& c = r.compression;
  if (c.name.empty()) return "";
  return fmt::format(
      "{}{}: each rank encodes {:.4g} MB in {:.4g} MB a step, 1 : {:.4g} · encode {} {}{}\n", report_label("gradients"),
      c.name, c.dense.value * 1e-6, c.sent.value * 1e-6, c.ratio(), part_of(r, c.encode.value), part_unit(r).name,
      c.decode.value > 0 ? fmt::format(" │ decode {} {}", part_of(r, c.decode.value), part_unit(r).name) : "");
}

/// The source of samples, and whether they come in time.
std::string input(const Scenario& s, const Result& r) {
  if (!r.input) return "";
  const InputSupply& supply = s.input.supply;
  const std::string from = supply.store == SampleStore::drives ? "the node's drives"
                           : supply.store == SampleStore::own  ? supply.storage.name + " of each node"
                                                               : supply.storage.name + ", shared";
  std::string text = fmt::format("{}{} of {} each from {}, busy {}", report_label("input"),
                                 supply.file > supply.sample ? "records" : "small files", show(supply.sample), from,
                                 percent(r.input->storage_busy, 0));
  if (supply.cache.value > 0) text += fmt::format(" · {} from the hosts' cache", percent(r.input->from_cache, 0));
  if (supply.workers > 0)
    text += fmt::format(" · {} a node{}, busy {}", counted_noun(supply.workers, "worker"),
                        supply.cores > 0 && supply.workers > supply.cores
                            ? fmt::format(" share {} cores (more decode no faster)", supply.cores)
                            : "",
                        percent(r.input->decode_busy, 0));
  if (s.input.overlap == InputOverlap::none)
    text += " · no prefetch";
  else
    text += fmt::format(" · {} batches prefetched{}", s.input.prefetch,
                        s.input.overlap == InputOverlap::prefetch ? ", one lane" : "");
  return text +
         fmt::format("\n{}GPUs wait for samples in {} of the time; samples take {:.1f} GiB of host memory;\n{}{}\n",
                     report_label(""), percent(r.input->starved_share), r.input->host_bytes.value / (1U << 30),
                     report_label(""), shards_in_words(*r.input, s.plan.mesh.data));
}

/// Memory and traffic by kind of rank, for mechanisms whose ranks differ.
std::string actors(const Result& r) {
  constexpr std::size_t kMost = 6;
  std::string text;
  for (std::size_t i = 0; i < std::min(r.actors.size(), kMost); ++i) {
    const Result::ActorUse& use = r.actors[i];
    text += fmt::format("{}{}: {}holds {} GiB, sends {:.4g} and receives {:.4g} MB a step{}\n",
                        report_label(i == 0 ? "by rank" : ""), use.name, use.count > 1 ? "each " : "",
                        gib(use.memory.value), use.sent.value * 1e-6, use.received.value * 1e-6,
                        use.work.value > 0 && !use.name.starts_with("rank")
                            ? fmt::format(", computes {} {}", part_of(r, use.work.value), part_unit(r).name)
                            : "");
  }
  if (r.actors.size() > kMost)
    text += fmt::format("{}… {} more: --json lists all\n", report_label(""), r.actors.size() - kMost);
  return text;
}

/// How many ranks were simulated, and why not fewer; nothing for one device.
std::string simulated_ranks(const Result& r) {
  if (r.ranks == 1) return "";
  if (!r.shared_draws.empty())
    return fmt::format("{}{} of {} ranks: {} (--fold off: every rank its own)\n", report_label("simulated"),
                       r.simulated_ranks, counted(r.ranks), r.shared_draws);
  if (!r.full_pods.empty())
    return fmt::format("{}{} of {} ranks: {}\n", report_label("simulated"), r.simulated_ranks, counted(r.ranks),
                       r.full_pods);
  if (r.unfolded_reason.empty())
    return fmt::format("{}{} of {} ranks; the others are identical to {} (show --fold)\n", report_label("simulated"),
                       r.simulated_ranks, counted(r.ranks), r.simulated_ranks == 1 ? "it" : "one of these");
  return fmt::format("{}each of {} ranks: {}\n", report_label("simulated"), counted(r.ranks), r.unfolded_reason);
}

/// " (3.4 s to 5.0 s with a probability of 80 %)"; "" without an interval.
std::string interval_in_words(const Result& r) {
  if (!r.likely_step_times) return "";
  const auto [low, high] = *r.likely_step_times;
  return fmt::format(" ({} to {} with a probability of 80 %)", show(Seconds{low}), show(Seconds{high}));
}

std::string screen_of_gpus(const Scenario& s, const Plan& plan, const Result& r, const std::vector<WhatIf>& what_ifs) {
  const bool tokens = s.network.tokens_per_sample > 1;
  std::string text = head(s, plan);
  if (const int idle = idle_devices(s.plan, s.cluster); idle > 0)
    text += fmt::format("{}{} of {} GPUs {} no work (plan.idle_devices: allowed)\n", report_label("idle"), idle,
                        s.cluster.gpus(), idle == 1 ? "has" : "have");
  if (const std::string room = shortage_of_site(s.site, s.cluster); !room.empty())
    text += report_label("site") + room + "\n";
  text += fmt::format("{}{}{} · {} samples/s", report_label("step"), show(r.step_time), interval_in_words(r),
                      thousands(r.samples_per_s));
  if (tokens) text += fmt::format(" · {} tokens/s a GPU", thousands(r.tokens_per_s_per_gpu));
  const bool some = s.network.active_parameters() < s.network.parameters();
  const std::string thing = tokens ? "token" : "sample";
  const std::string convention = s.plan.inference           ? "the forward pass"
                                 : s.network.weights_reused ? "three times the forward pass"
                                 : s.model.options.adapters.has_rank()
                                     ? "4 FLOP a frozen and 6 a trained parameter and " + thing
                                 : some ? "6 FLOP an active parameter and " + thing
                                        : "6 FLOP a parameter and " + thing;
  text += fmt::format(
      "\n{}{} TFLOP/s a GPU · MFU {:.1f} % of the dense {} peak ({}{})\n", report_label(""),
      thousands(r.tflops_per_gpu), r.mfu * 100, name_of(s.precision), convention,
      r.mfu_with_attention > 0 ? fmt::format("; {:.1f} % with the FLOP of attention", r.mfu_with_attention * 100) : "");
  if (r.step_time_source.empty()) text += breakdown(s, r);
  if (r.mfu > 1 && s.model.entry.cnn())  // in fp32 alone, where such convolutions are a kind of their own
    text += fmt::format("{}above 100 %: 3 x 3 convolutions take fewer multiplications than are counted (Winograd)\n",
                        report_label("MFU"));
  if (s.fp8) {
    const auto peak = [&s](Precision p) { return s.cluster.node.gpu.peak[static_cast<std::size_t>(p)].value; };
    text +=
        fmt::format("{}{}products in {} are counted against the {} peak; of the {} peak it is {:.1f} %\n",
                    report_label("MFU"), r.mfu > 1 ? "above 100 %: " : "", s.precision_title(), name_of(s.precision),
                    name_of(s.multiplied_in()), r.mfu * 100 * peak(s.precision) / peak(s.multiplied_in()));
  }
  if (s.measured_run.is_given())
    text += fmt::format("{}{}: predicted {} ({})\n", report_label("measured"), show(s.measured_run.step_time),
                        signed_percent(r.step_time.value / s.measured_run.step_time.value - 1), s.measured_run.source);
  if (s.measured.is_given())
    text += fmt::format("{}{} {} at batch {} on one device, the same on all ranks; communication is simulated\n",
                        report_label("compute"), s.measured.provenance(s.micro_batch_size), show(r.measured.step_time),
                        s.micro_batch_size);
  if (s.training.steps > 0)
    text += fmt::format("{}{}: {}\n", report_label("training"), describe(s.training), long_time(r.training_time));
  for (const Result::Phase& phase : r.phases)
    text += fmt::format("{}{} {}{}\n", report_label(""), phase.name, show(phase.time),
                        phase.times > 1 ? fmt::format(" × {}", thousands(phase.times)) : "");
  if (const Result::HostMemory& host = r.host_memory; host.weights.value > 0)
    text += fmt::format("{}weights pass through the host memory of rank 0's node: {}\n", report_label(""),
                        use_of_capacity(host.weights.value, host.weights_capacity.value));
  if (r.alone_time.value > 0)
    text += fmt::format("{}rank 0 ends after {}, {} after the others\n", report_label(""), show(r.training_time),
                        show(r.alone_time));
  if (s.plan.inference)
    text += fmt::format(
        "{}forward passes alone: a batch is answered after {}{}\n", report_label("inference"), show(r.step_time),
        s.network.tokens_per_sample > 1 && !s.generation
            ? "; every token is computed once, as of a prompt: no cache of keys and values, no word after word"
            : "");
  if (s.training.time.value > 0)
    text += fmt::format("{}{}: {} steps, if nothing fails\n", report_label("training"), describe(s.training),
                        thousands(r.training_steps));
  if (r.failures && !r.post_training) text += failure_lines(*r.failures);
  if (r.failures && !s.plan.mechanism->stops_together() && !s.plan.mechanism->goes_on_without_some())
    text += report_label("") + "assumption: a failure stops all workers, as the staleness bound would do soon\n";
  if (!r.step_time_source.empty())
    return text + fmt::format("{}the step time is given (plan.step_time), not simulated: {}\n", report_label("trust"),
                              r.step_time_source);
  if (const std::string steps = steps_in_words(s, plan, r); !steps.empty())
    text += fmt::format("{}{}\n", report_label("steps"), steps);
  if (plan.tuned) text += fmt::format("{}{}\n", report_label("auto"), in_words(*plan.tuned));
  text += mechanism(s, r);
  text += compression(r);
  text += expert_lines(r);
  text += input(s, r);
  if (r.host_calls && r.host_calls->compiled) text += host_call_line(r);  // `explain` counts those of all devices
  text += memory(r, plan.training);
  if (!r.post_training) text += cost_lines(r);
  text += traffic_line(r);
  text += actors(r);
  text += simulated_ranks(r);
  text += bottleneck_lines(s, r, what_ifs);
  text += trust_lines(s, &r);
  if (r.late_by_look_ahead > 0)
    text += fmt::format("{}{} operations started late because a rank looks only {} operations ahead\n",
                        report_label("note"), r.late_by_look_ahead,
                        look_ahead(static_cast<std::size_t>(r.simulated_ranks)));
  return text;
}

}  // namespace

std::string screen(const Scenario& s, const Plan& plan, const Result& r, const std::vector<WhatIf>& what_ifs) {
  const std::string loop = r.post_training ? post_training_screen(s, r, what_ifs)
                           : r.generation  ? generation_screen(s, r, what_ifs)
                                           : "";
  return broken_lines(in_words_of(s.cluster, loop + screen_of_gpus(s, plan, r, what_ifs)));
}

}  // namespace trainyard
