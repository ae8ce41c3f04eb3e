#include "strategies/step/pass_table.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <limits>

#include "sim/error.hpp"
#include "strategies/collectives/collective_flows.hpp"
#include "strategies/plan/update_policy.hpp"

namespace trainyard {
namespace {

/// One kernel of a pass, and its number in the layer's list.
struct KernelOfPass {
  const KernelCall* call;
  int number;
  const std::vector<int>* gradients;  // tensors whose gradients it completes; null: a forward kernel
  bool for_weights;
};

/// True if a pass runs a kernel or an exchange that makes (`for_weights`) gradients of weights alone, or others.
bool includes(Pass pass, bool for_weights) {
  return pass == Pass::backward_input ? !for_weights : pass == Pass::backward_weights ? for_weights : true;
}

std::vector<KernelOfPass> kernels_of(const Layer& layer, Pass pass) {
  std::vector<KernelOfPass> kernels;
  if (pass == Pass::forward) {
    for (int k = 0; k < static_cast<int>(layer.forward.size()); ++k)
      kernels.push_back({&layer.forward[k], k, nullptr, false});
    return kernels;
  }
  for (int k = 0; k < static_cast<int>(layer.backward.size()); ++k) {
    const BackwardKernel& kernel = layer.backward[k];
    if (includes(pass, kernel.for_weights))
      kernels.push_back({&kernel, k, &kernel.gradients_ready, kernel.for_weights});
  }
  return kernels;
}

/// Makes the table of one pass.
class PassMaker {
 public:
  PassMaker(const TrainingPlan& plan, const TrainingNames& words, Names& names, FusedKernels& fused, const Layer& layer,
            Pass pass, bool first, bool fine)
      : plan_(plan),
        words_(words),
        names_(names),
        fused_(fused),
        layer_(layer),
        pass_(pass),
        first_(first),
        fine_(fine) {}

  PassTable make() {
    const std::vector<KernelOfPass> kernels = kernels_of(layer_, pass_);
    const std::vector<Exchange>& all = pass_ == Pass::forward ? layer_.forward_exchanges : layer_.backward_exchanges;
    for (std::size_t i = 0; i < all.size(); ++i)
      if (includes(pass_, all[i].for_weights) && plan_.lane(lane_of(all[i])).is_used())
        list(all[i], static_cast<std::int16_t>(i), kernels);
    for (const KernelOfPass& kernel : kernels) {
      start_exchanges(kernel.number);
      add(kernel);
    }
    flush();
    start_exchanges(1 << 30);
    for (std::int16_t place = 0; place < static_cast<std::int16_t>(open_.size()); ++place)
      if (open_[place]) table_.left.push_back(place);
    table_.listed = static_cast<int>(all.size());
    table_.places = open_.size();
    if (!table_.items.empty()) book_memory();
    return std::move(table_);
  }

 private:
  const TrainingPlan& plan_;
  const TrainingNames& words_;
  Names& names_;
  FusedKernels& fused_;
  const Layer& layer_;
  Pass pass_;
  bool first_, fine_;
  PassTable table_;
  /// An exchange of this pass. If part of it overlaps with a matrix product, that part and the rest are listed
  /// separately.
  struct Listed {
    const Exchange* exchange;
    std::int16_t number;
    int after, needed_by;
    double share = 1;
    bool hidden = false;
  };
  static constexpr int kNobody = std::numeric_limits<int>::max();
  std::vector<Listed> exchanges_;
  std::size_t next_ = 0;
  std::vector<char> open_;                    // indexed by place: 1 if nothing has waited for the exchange yet
  std::vector<Work> run_;                     // kernels that become one operation
  PassItem item_;                             // the operation of `run_`
  const KernelCall* first_kernel_ = nullptr;  // names the operation of a run of one kernel

  Lane lane_of(const Exchange& exchange) const {
    const bool returns = exchange.returns && plan_.lane(Lane::expert_return).is_used();
    return returns ? Lane::expert_return : trainyard::lane_of(exchange.axis);
  }
  ComputePhase phase() const { return pass_ == Pass::forward ? ComputePhase::forward : ComputePhase::backward; }
  std::string name_of_kernel(const KernelCall& call) const {
    return fmt::format("{} {}{}", layer_.name, call.name, pass_ == Pass::forward ? "" : " backward");
  }

  /// Returns the number of the kernel whose matrix product overlaps with the hidden part of an exchange: for an
  /// all-gather the next one, for a reduce-scatter the last one since the previous exchange. −1: none.
  int product_beside(const Exchange& exchange, const std::vector<KernelOfPass>& kernels) const {
    const auto multiplies = [](const KernelOfPass& k) { return k.call->work.flops.value > 0; };
    if (exchange.kind == ExchangeKind::all_gather) {
      const auto next =
          std::ranges::find_if(kernels, [&](const KernelOfPass& k) { return k.number >= exchange.kernels_before; });
      return next != kernels.end() && multiplies(*next) ? next->number : -1;
    }
    const int since = exchanges_.empty() ? 0 : exchanges_.back().exchange->kernels_before;
    for (auto k = kernels.rbegin(); k != kernels.rend() && k->number >= since; ++k)
      if (k->number < exchange.kernels_before && multiplies(*k)) return k->number;
    return -1;
  }

  void list(const Exchange& exchange, std::int16_t number, const std::vector<KernelOfPass>& kernels) {
    const Listed whole{&exchange, number, exchange.kernels_before, exchange.needed_by};
    // An exchange that no kernel needs at once runs beside kernels as a whole. Values are always exchanged as a whole.
    const bool splits =
        exchange.hidden_share > 0 && exchange.needed_by <= exchange.kernels_before && !plan_.values_by_layer();
    const int product = splits ? product_beside(exchange, kernels) : -1;
    if (product < 0) return exchanges_.push_back(whole);
    Listed exposed = whole, hidden = whole;
    exposed.share = 1 - exchange.hidden_share;
    hidden.share = exchange.hidden_share;
    hidden.hidden = true;
    hidden.needed_by = kNobody;
    const bool gathers = exchange.kind == ExchangeKind::all_gather;
    if (!gathers) hidden.after = product;
    if (exposed.share > 0 && gathers) exchanges_.push_back(exposed);
    exchanges_.push_back(hidden);
    if (exposed.share > 0 && !gathers) exchanges_.push_back(exposed);
  }

  void start_exchanges(int before_kernel) {
    for (; next_ < exchanges_.size() && exchanges_[next_].after <= before_kernel; ++next_) {
      flush();
      const Listed& listed = exchanges_[next_];
      const Exchange& exchange = *listed.exchange;
      PassItem item;
      item.kind = PassItem::Kind::exchange;
      item.exchange = listed.number;
      item.place = static_cast<std::int16_t>(open_.size());
      item.lane = lane_of(exchange);
      item.operation = operation_of(exchange.kind);
      item.bytes = exchange.bytes * listed.share;
      item.op = exchange_op(listed);
      take_needed(listed.after, item);
      open_.push_back(listed.needed_by == kNobody ? 0 : 1);
      table_.items.push_back(item);
    }
  }

  Op exchange_op(const Listed& listed) const {
    const Exchange& exchange = *listed.exchange;
    const Lane lane = lane_of(exchange);
    Op op{.kind = Kind::join,
          .group = words_.lane[static_cast<std::size_t>(lane)],
          .message = {.bytes = exchange.bytes * listed.share},
          .name =
              names_.intern(layer_.name + " " + exchange.name + (listed.hidden ? ", beside the matrix product" : ""))};
    const LaneGroup& any = plan_.lane(lane).groups.front();
    if (any.settings.fidelity != Fidelity::modelled) return op;
    const int ranks = static_cast<int>(any.members.size());
    const ModelledJoin flow = modelled_join(operation_of(exchange.kind), any.settings, ranks, exchange.bytes);
    // The share applies to the latency too: this is a part of an exchange, not a smaller exchange.
    const Picoseconds latency = flow.latency + to_picoseconds(plan_.collective_launch);
    op.message.bytes = flow.bytes * listed.share;
    op.message.extra_latency = to_picoseconds(latency.seconds() * listed.share);
    op.message.rate_cap = flow.rate;
    op.message.path = flow.path;
    op.message.steps = static_cast<std::uint32_t>(ranks);
    op.message.slot = static_cast<std::uint16_t>(lane);
    op.work = scale_network_latency(flow.what, listed.share);
    return op;
  }

  void add(const KernelOfPass& kernel) {
    PassItem waiting;
    const int count = take_needed(kernel.number, waiting);
    if (count > 0 || fine_ || plan_.first_fused == 0) flush();
    if (run_.empty()) begin_item(kernel.call);
    if (count > 0) std::copy(std::begin(waiting.waits_for), std::end(waiting.waits_for), std::begin(item_.waits_for));
    run_.push_back(kernel.call->work);
    if (kernel.call->work.flops.value > 0) item_.op.kind = Kind::compute;
    item_.kernel = kernel.number;
    accumulate(kernel);
    if (kernel.call->host_reads && plan_.kernel_after_routing != 0) wait_for_host();
  }

  /// Ends the run of kernels: the host launches what follows when they have ended.
  void wait_for_host() {
    flush();
    PassItem wait;
    wait.op = {.kind = Kind::delay, .group = words_.framework, .name = words_.wait_for_host};
    wait.op.work.kernel = plan_.kernel_after_routing;
    wait.kernel = item_.kernel;
    table_.items.push_back(wait);
  }

  /// named_after: null for sums of gradients.
  void begin_item(const KernelCall* named_after) {
    item_ = {.op = {.kind = Kind::local, .group = words_.compute, .name = words_.accumulate}};
    first_kernel_ = named_after;
  }
  /// Adds these gradients to those of earlier micro-batches.
  void accumulate(const KernelOfPass& kernel) {
    if (first_ || !kernel.gradients || kernel.gradients->empty()) return;
    double elements = 0;
    for (const int tensor : *kernel.gradients) {
      const ParameterTensor& parameter = layer_.parameters[tensor];
      if (!parameter.accumulated) elements += parameter.elements;
    }
    if (elements == 0) return;
    Work sum = plan_.accumulation;
    sum.bytes = sum.bytes * elements;
    if (fine_ || plan_.first_fused == 0) {
      flush();
      begin_item(nullptr);
      item_.kernel = kernel.number;
    }
    run_.push_back(sum);
  }

  /// Makes the item wait for the exchanges that must end before the kernel of that number. Returns how many there are.
  int take_needed(int kernel, PassItem& item) {
    int count = 0;
    for (std::size_t place = 0; place < open_.size(); ++place)
      if (open_[place] && exchanges_[place].needed_by <= kernel) {
        if (count == 2) throw InternalError(layer_.name + ": a kernel waits for three exchanges");
        item.waits_for[count++] = static_cast<std::int16_t>(place);
        open_[place] = 0;
      }
    return count;
  }

  void flush() {
    if (run_.empty()) return;
    item_.op.work = run_.front();
    if (run_.size() == 1) {
      if (first_kernel_) item_.op.name = names_.intern(name_of_kernel(*first_kernel_), phase());
    } else {
      item_.op.work = {};
      item_.op.name = names_.intern(layer_.name + (pass_ == Pass::forward ? " forward" : " backward"), phase());
      item_.op.work.kernel = static_cast<std::uint16_t>(plan_.first_fused + fused_.number(run_));
    }
    run_.clear();
    table_.items.push_back(item_);
  }

  /// Books the memory that the pass takes when it begins, holds while it runs, and gives back when it ends.
  void book_memory() {
    const auto [change, transient] = memory_of_pass(layer_, pass_);
    PassItem* ends = nullptr;
    for (PassItem& item : table_.items) {
      if (item.kind != PassItem::Kind::kernels) continue;
      item.op.set_memory_class(static_cast<std::uint8_t>(MemoryClass::activations));
      item.op.memory.high_water = transient.value;
      if (!ends && pass_ == Pass::forward) item.op.memory.change = change.value;
      ends = &item;
    }
    if (ends && pass_ != Pass::forward) ends->op.memory.change = change.value;
  }
};

}  // namespace

PassMemory memory_of_pass(const Layer& layer, Pass pass) {
  const Bytes all = layer.activations();
  const Bytes later = std::min(all, layer.kept_for_weights);
  const PassMemory by_pass[kPasses] = {{all, layer.forward_transient},
                                       {-all, layer.backward_transient},
                                       {later - all, layer.backward_transient},
                                       {-later, Bytes{0}}};
  return by_pass[static_cast<std::size_t>(pass)];
}

std::uint16_t FusedKernels::number(const std::vector<Work>& run) {
  std::vector<std::uint64_t> key;
  for (const Work& work : run)
    key.insert(key.end(),
               {std::bit_cast<std::uint64_t>(work.flops.value), std::bit_cast<std::uint64_t>(work.bytes.value),
                static_cast<std::uint64_t>(work.launches) << 24 | static_cast<std::uint64_t>(work.kernel) << 8 |
                    work.precision});
  const auto [entry, fresh] = numbers_.try_emplace(std::move(key), static_cast<std::uint16_t>(runs_.size()));
  if (fresh) {
    if (runs_.size() > 30000) throw InternalError("more than 30,000 different sequences of fused kernels");
    runs_.push_back(run);
  }
  return entry->second;
}

TrainingNames::TrainingNames(const TrainingPlan& plan, Names& all) : names(all) {
  const auto group = [&](Lane l, const std::string& name) {
    const LaneGroups& groups = plan.lane(l);
    if (!groups.is_used() && (l != Lane::gradients || plan.through_center)) return;
    const Collective* algorithm = groups.algorithm[static_cast<std::size_t>(Operation::all_reduce)];
    lane[static_cast<std::size_t>(l)] = names.group(name, Role::collective, algorithm ? algorithm->name : "");
  };
  const std::string exchange = update_policy_of(plan).exchange();
  const bool scatters = plan.gradient_operation() == Operation::reduce_scatter;
  group(Lane::gradients, !exchange.empty()  ? exchange
                         : plan.compression ? "compressed gradients"
                         : scatters         ? "reduce-scatter of gradients"
                                            : "all-reduce");
  group(Lane::expert_gradients, "gradients of experts");
  const char* parameters = plan.broadcasts_parameters ? "broadcast of parameters" : "all-gather of parameters";
  group(Lane::parameters, parameters);
  group(Lane::expert_parameters, parameters);
  group(Lane::copies, "all-reduce over copies");
  group(Lane::expert_copies, "all-reduce over copies");
  group(Lane::tensor, "tensor parallel");
  group(Lane::context, "context parallel");
  group(Lane::ulysses, "context parallel");
  group(Lane::expert, "expert parallel");
  group(Lane::expert_return, "expert parallel");
  group(Lane::expert_tensor, "expert tensor parallel");
  group(Lane::tied, "tied weight");
  group(Lane::maxima, "maxima of fp8");
  if (plan.pipeline.stages > 1) pipeline = names.group("pipeline", Role::point_to_point);
  if (plan.offload.copies()) {
    const GroupId cpu = plan.offload.is_used() ? names.group("CPU optimizer", Role::collective) : GroupId{};
    const GroupId drive = plan.offload.drives() ? names.group("drive", Role::collective) : cpu;
    const GroupId copies = names.group("offload copies", Role::collective);
    host = {copies, cpu, copies, drive, drive};
  }
  if (plan.input.is_used()) input = names.group(kInputGroup, Role::prefetch);
  std::size_t most = 0;
  for (const StagePlan& stage : plan.stages) most = std::max(most, stage.buckets.size());
  for (std::size_t b = 0; b < most; ++b)
    buckets.push_back(names.intern(fmt::format("{} bucket {}", scatters ? "reduce-scatter" : "all-reduce", b)));
}

PassTables::PassTables(const TrainingPlan& plan, Names& names)
    : plan_(plan),
      names_(names),
      words_(plan, names),
      compression_(plan, names),
      layers_(plan.network->layers.size()),
      tables_(layers_ * (1 + plan.load_networks.size())) {}

const PassTable& PassTables::make(Pass pass, int layer, bool first, bool fine, int load) const {
  std::unique_ptr<PassTable>& table = entry(pass, layer, first, fine, load);
  const Layer& of_load = plan_.network_of_load(load).layers[layer];
  table = std::make_unique<PassTable>(PassMaker(plan_, words_, names_, fused_, of_load, pass, first, fine).make());
  return *table;
}

}  // namespace trainyard
