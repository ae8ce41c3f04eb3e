#include "strategies/data_parallel.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace trainyard {
namespace {

int streams_of(int rank, const DataParallelPlan& plan) {
  if (plan.ranks == 1) return kComputeStream + 1;
  const int channels = plan.all_reduce->channels_of({rank, plan.ranks, &plan.collective});
  if (channels > 1) return kMoreChannels + 2 * (channels - 1);
  return plan.coordinated() ? kCoordinatorStream + 1 : kRecvStream + 1;
}

/// What all ranks share: names are made once.
struct StepNames {
  struct OfLayer {
    std::vector<NameId> forward, backward;
  };
  std::vector<OfLayer> layers;
  std::vector<NameId> buckets;
  NameId setup, overhead, hold, accumulate, wait, copy_in, copy_out, optimizer;

  StepNames(const Network& network, const DataParallelPlan& plan, Names& names) {
    for (const Layer& layer : network.layers) {
      OfLayer& of = layers.emplace_back();
      for (const KernelCall& k : layer.forward)
        of.forward.push_back(names.intern(fmt::format("{} {}", layer.name, k.name)));
      for (const KernelCall& k : layer.backward)
        of.backward.push_back(names.intern(fmt::format("{} {} backward", layer.name, k.name)));
    }
    for (std::size_t b = 0; b < plan.buckets.size(); ++b)
      buckets.push_back(names.intern(fmt::format("all-reduce bucket {}", b)));
    setup = names.intern("parameters, gradients, optimizer state");
    overhead = names.intern("framework");
    hold = names.intern("nothing to exchange before the last forward pass");
    accumulate = names.intern("accumulate gradients");
    wait = names.intern("wait for the coordinator's tick");
    copy_in = names.intern("copy gradients to bucket");
    copy_out = names.intern("copy bucket to gradients");
    optimizer = names.intern("optimizer step");
  }
};

class DataParallelStep : public CoroutineProgram {
 public:
  DataParallelStep(int rank, const Network& network, const DataParallelPlan& plan, Names& names, std::vector<int> peers)
      : CoroutineProgram(std::vector<Actor>(peers.begin(), peers.end()), streams_of(rank, plan)),
        place_{rank, plan.ranks, &plan.collective},
        network_(network),
        plan_(plan),
        names_(network, plan, names),
        groups_(training_groups(names, plan.all_reduce)),
        peers_(std::move(peers)) {}

 protected:
  Ops run() override {
    for (const MemoryPart& part : plan_.memory.parts) co_yield holds(part);
    for (int number = 0; number < plan_.steps; ++number) co_yield step();
  }

 private:
  Ops step() {
    sent_.clear();
    received_.clear();
    next_bucket_ = 0;
    if (plan_.overhead_kernel != 0) co_yield overhead();
    const int layers = static_cast<int>(network_.layers.size());
    if (exchanges()) co_yield hold_exchange();
    for (int batch = 0; batch < plan_.micro_batches; ++batch) {
      for (int layer = 0; layer < layers; ++layer) co_yield forward(layer, batch);
      for (int layer = layers - 1; layer >= 0; --layer) co_yield backward(layer, batch);
    }
    if (exchanges() && !plan_.overlap)
      for (std::size_t bucket = 0; bucket < plan_.buckets.size(); ++bucket) co_yield exchange(bucket);
    co_yield update();
  }

  GroupPlace place_;
  const Network& network_;
  const DataParallelPlan& plan_;
  StepNames names_;
  TrainingGroups groups_;
  std::vector<int> peers_;
  Emitter out_;
  std::vector<Dep> sent_, received_;  // by bucket: its collective has ended
  std::size_t next_bucket_ = 0;       // the first that is not full yet

  bool exchanges() const { return plan_.ranks > 1; }

  /// Nothing is exchanged before the last forward pass has ended: said at once on both streams, so that nobody looks
  /// for work for them through all the kernels before.
  Ops hold_exchange() {
    std::uint32_t forward = 0, backward = 0, accumulations = 0;
    for (const Layer& layer : network_.layers) {
      forward += static_cast<std::uint32_t>(layer.forward.size());
      backward += static_cast<std::uint32_t>(layer.backward.size());
      for (const BackwardKernel& kernel : layer.backward) accumulations += kernel.gradients_ready.empty() ? 0 : 1;
    }
    const auto before = static_cast<std::uint32_t>(plan_.micro_batches) - 1;  // micro-batches
    Op hold;
    hold.kind = Kind::mark;
    hold.group = groups_.all_reduce;
    hold.name = names_.hold;
    hold.deps[0] = out_.after(kComputeStream);
    hold.deps[0].count += before * (forward + backward) + (before > 0 ? before - 1 : 0) * accumulations + forward;
    for (int stream = kSendStream; stream < streams(); ++stream) {
      if (stream == kCoordinatorStream && !plan_.coordinated()) continue;
      hold.stream = static_cast<Stream>(stream);
      co_yield out_.give(hold);
    }
  }

  const Op& holds(const MemoryPart& part) {
    Op op;
    op.kind = Kind::mark;
    op.name = names_.setup;
    op.memory.change = part.bytes.value;
    op.book_memory_under(static_cast<std::uint8_t>(part.memory_class));
    return out_.give(op);
  }

  static Op work_op(const Work& work, Kind kind, GroupId group, NameId name) {
    Op op;
    op.kind = kind;
    op.stream = kComputeStream;
    op.work = work;
    op.group = group;
    op.name = name;
    return op;
  }
  const Op& work(const Work& work, Kind kind, GroupId group, NameId name) {
    return out_.give(work_op(work, kind, group, name));
  }

  const Op& overhead() {
    Work host;
    host.kernel = plan_.overhead_kernel;
    return work(host, Kind::delay, groups_.framework, names_.overhead);
  }

  static Effect call(TrainingCall what, std::size_t index, int batch) {
    Effect effect;
    effect.action = Action::call;
    effect.call = static_cast<std::uint16_t>(what);
    effect.read = {static_cast<std::uint16_t>(index), static_cast<std::uint16_t>(batch), 0};
    return effect;
  }

  Ops forward(int index, int batch) {
    const Layer& layer = network_.layers[static_cast<std::size_t>(index)];
    for (std::size_t k = 0; k < layer.forward.size(); ++k) {
      Op op = kernel(layer.forward[k], names_.layers[static_cast<std::size_t>(index)].forward[k]);
      op.book_memory_under(static_cast<std::uint8_t>(MemoryClass::activations));
      op.memory.high_water = layer.forward_transient.value;
      if (k == 0) op.memory.change = layer.activations().value;
      if (k + 1 == layer.forward.size())
        op.effect = call(TrainingCall::forward, static_cast<std::size_t>(index), batch);
      co_yield out_.give(op);
    }
  }

  /// Layer by layer the activations are given back; after the last micro-batch each bucket leaves once it is full.
  Ops backward(int index, int batch) {
    const Layer& layer = network_.layers[static_cast<std::size_t>(index)];
    const bool last = batch + 1 == plan_.micro_batches;
    for (std::size_t k = 0; k < layer.backward.size(); ++k) {
      Op op = kernel(layer.backward[k], names_.layers[static_cast<std::size_t>(index)].backward[k]);
      op.book_memory_under(static_cast<std::uint8_t>(MemoryClass::activations));
      op.memory.high_water = layer.backward_transient.value;
      // Numerics go layer by layer: all gradients are there after the first kernel, none is read before its own.
      if (k == 0) op.effect = call(TrainingCall::backward, static_cast<std::size_t>(index), batch);
      if (k + 1 == layer.backward.size()) op.memory.change = -layer.activations().value;
      co_yield out_.give(op);
      if (batch > 0 && !layer.backward[k].gradients_ready.empty()) co_yield accumulate(layer, layer.backward[k]);
      if (!last || !exchanges() || !plan_.overlap) continue;
      while (full(index, static_cast<int>(k))) co_yield exchange(next_bucket_++);
    }
  }

  /// Gradients of earlier micro-batches are there already: these are added to them.
  const Op& accumulate(const Layer& layer, const BackwardKernel& kernel) {
    double elements = 0;
    for (const int tensor : kernel.gradients_ready)
      elements += layer.parameters[static_cast<std::size_t>(tensor)].elements;
    const auto precision = static_cast<Precision>(plan_.optimizer.precision);
    return work(gradient_accumulation_work(elements, precision), Kind::local, groups_.compute, names_.accumulate);
  }

  /// Buckets fill in their order.
  bool full(int layer, int kernel) const {
    return next_bucket_ < plan_.buckets.size() && plan_.buckets[next_bucket_].layer == layer &&
           plan_.buckets[next_bucket_].kernel == kernel;
  }

  static Op kernel(const KernelCall& call, NameId name) {
    const bool matrix = call.work.flops.value > 0;
    return work_op(call.work, matrix ? Kind::compute : Kind::local, 0, name);
  }

  Work copy_of(const GradientBucket& bucket) const {
    Work copy = bucket_copy_work(bucket, plan_);
    copy.kernel = plan_.copy_kernel;
    return copy;
  }

  /// A kernel of the GPU, or work of the coordinator in host memory.
  Op copy_op(const GradientBucket& bucket, NameId name) const {
    if (!plan_.host_buckets) return work_op(copy_of(bucket), Kind::local, groups_.compute, name);
    Op op = work_op(copy_of(bucket), Kind::delay, groups_.framework, name);
    op.stream = kCoordinatorStream;
    return op;
  }

  /// The coordinator finds the bucket full at its next tick.
  const Op& wait_for_tick() {
    Work tick;
    tick.kernel = plan_.wait_kernel;
    Op op = work_op(tick, Kind::delay, groups_.framework, names_.wait);
    op.stream = kCoordinatorStream;
    op.deps[0] = out_.after(kComputeStream);
    return out_.give(op);
  }

  Ops exchange(std::size_t index) {
    const GradientBucket& bucket = plan_.buckets[index];
    const bool on_host = plan_.bucket_copy && plan_.host_buckets;
    if (on_host && plan_.wait_kernel != 0) co_yield wait_for_tick();
    Op fill;
    fill.kind = Kind::mark;
    if (plan_.bucket_copy) fill = copy_op(bucket, names_.copy_in);
    if (on_host) fill.deps[0] = out_.after(kComputeStream);
    fill.effect = call(TrainingCall::fill_bucket, index, 0);
    co_yield out_.give(fill);
    if (!on_host && plan_.wait_kernel != 0) co_yield wait_for_tick();
    CollectiveCall all_reduce;
    all_reduce.send_stream = kSendStream;
    all_reduce.recv_stream = kRecvStream;
    all_reduce.more_streams = kMoreChannels;
    all_reduce.group = groups_.all_reduce;
    all_reduce.name = names_.buckets[index];
    all_reduce.tag = index + 1;
    all_reduce.buffer = static_cast<std::uint16_t>(index);
    all_reduce.start = out_.after(plan_.coordinated() ? kCoordinatorStream : kComputeStream);
    all_reduce.launch = to_picoseconds(plan_.collective_launch);
    const Local me(out_, place_, peers_, all_reduce, bucket.elements * plan_.gradient_element);
    co_yield collective_ops(*plan_.all_reduce, me, bucket.elements * plan_.gradient_element);
    sent_.push_back(out_.after(kSendStream));
    received_.push_back(out_.after(kRecvStream));
  }

  Ops update() {
    for (std::size_t b = 0; b < sent_.size() && plan_.bucket_copy; ++b) {
      Op copy = copy_op(plan_.buckets[b], names_.copy_out);
      copy.deps[0] = sent_[b];
      copy.deps[1] = received_[b];
      co_yield out_.give(copy);
    }
    Op op = work_op(plan_.optimizer, Kind::local, groups_.optimizer, names_.optimizer);
    if (!sent_.empty()) {
      op.deps[0] = sent_.back();
      op.deps[1] = received_.back();
    }
    if (!sent_.empty() && plan_.bucket_copy && plan_.host_buckets) op.deps[0] = out_.after(kCoordinatorStream);
    op.effect = call(TrainingCall::update, 0, 0);
    co_yield out_.give(op);
  }
};

}  // namespace

const std::vector<std::string>& training_streams() {
  static const std::vector<std::string> names{"compute", "send", "receive", "coordinator"};
  return names;
}

std::string training_stream(Stream stream) {
  if (stream < kMoreChannels) return training_streams()[stream];
  const int channel = (stream - kMoreChannels) / 2 + 1;
  return fmt::format("{} of channel {}", stream % 2 == 0 ? "send" : "receive", channel);
}

TrainingGroups training_groups(Names& names, const Collective* all_reduce) {
  TrainingGroups g{};
  g.compute = names.group("compute", Role::work);
  g.optimizer = names.group("optimizer", Role::work);
  g.framework = names.group("framework", Role::work);
  g.all_reduce = names.group("all-reduce", Role::collective, all_reduce ? all_reduce->name : "");
  return g;
}

Work bucket_copy_work(const GradientBucket& bucket, const DataParallelPlan& plan) {
  Work copy;
  copy.kernel = static_cast<std::uint16_t>(Kernel::elementwise);
  copy.precision = plan.optimizer.precision;
  copy.bytes = 2 * bucket.elements * plan.gradient_element;
  return copy;
}

std::vector<GradientBucket> gradient_buckets(const Network& network, Bytes element, Bytes first, Bytes rest,
                                             bool whole_tensors) {
  std::vector<GradientBucket> buckets;
  GradientBucket open;
  const auto limit = [&] { return std::max(1.0, std::floor((buckets.empty() ? first : rest) / element)); };  // elements
  const auto close = [&] {
    buckets.push_back(std::move(open));
    open = {};
  };
  for (int layer = static_cast<int>(network.layers.size()) - 1; layer >= 0; --layer) {
    const Layer& l = network.layers[static_cast<std::size_t>(layer)];
    for (int kernel = 0; kernel < static_cast<int>(l.backward.size()); ++kernel)
      for (const int tensor : l.backward[static_cast<std::size_t>(kernel)].gradients_ready) {
        const double elements = l.parameters[static_cast<std::size_t>(tensor)].elements;
        for (double done = 0; done < elements;) {
          const double take = whole_tensors ? elements : std::min(elements - done, limit() - open.elements);
          open.parts.push_back({layer, tensor, take, done});
          open.elements += take;
          open.layer = layer;
          open.kernel = kernel;
          done += take;
          if (open.elements >= limit()) close();
        }
      }
  }
  if (open.elements > 0) close();
  return buckets;
}

std::unique_ptr<Program> data_parallel_program(int rank, const Network& network, const DataParallelPlan& plan,
                                               Names& names) {
  std::vector<int> peers;
  if (plan.ranks > 1) peers = peers_of(*plan.all_reduce, {rank, plan.ranks, &plan.collective});
  return std::make_unique<DataParallelStep>(rank, network, plan, names, std::move(peers));
}

}  // namespace trainyard
