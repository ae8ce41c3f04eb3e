#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "models/hardware/adapter_rate.hpp"
#include "scenarios/src/reading/read_collective.hpp"
#include "scenarios/src/studies/bench.hpp"
#include "scenarios/src/studies/measured/collective_doubt.hpp"
#include "sim/json_text.hpp"
#include "sim/observers/progress.hpp"
#include "sim/process/parallel.hpp"
#include "tools/reports/bench_table.hpp"
#include "tools/verbs/search_limits.hpp"
#include "tools/verbs/topo_machine.hpp"
#include "tools/verbs/verbs.hpp"
#include "topologies/device_noun.hpp"
#include "topologies/machines/tcp_network.hpp"

namespace trainyard {
namespace {

/// Reads a size as nccl-tests does: "8", "4K", "128M", "8G", with powers of 1,024.
Bytes test_size(const std::string& flag, const std::string& text) {
  static const std::string units = "KMG";
  const std::size_t digits = std::min(text.find_first_not_of("0123456789."), text.size());
  const std::string unit = text.substr(digits);
  const std::size_t power = unit.size() == 1 ? units.find(static_cast<char>(std::toupper(unit[0]))) : std::string::npos;
  if (digits == 0 || (!unit.empty() && power == std::string::npos))
    throw UserError(
        fmt::format("{} {}: expected a size in the form of nccl-tests: 8, 4K, 128M, 8G (powers of 1,024)", flag, text));
  double size = parse_number(text.substr(0, digits));
  for (std::size_t i = 0; !unit.empty() && i <= power; ++i) size *= 1024;
  return Bytes{size};
}

int read_rank(const std::string& groups, const std::string& word, int gpus) {
  const auto number = [&groups, &word] {
    try {
      return parse_integer(word);
    } catch (const UserError&) {
      throw UserError(fmt::format("--groups {}: ranks expected, as in 0-3,4-7; found \"{}\"", groups, word));
    }
  }();
  if (number < 0 || number >= gpus)
    throw UserError(fmt::format("--groups {}: there is no rank {}, of {}; expected 0 to {}", groups, word,
                                counted_noun(gpus, "GPU"), gpus - 1));
  return static_cast<int>(number);
}

/// Reads groups of ranks: "0-3,4-7" has ranges, "0+4,1+5" single ranks. Throws UserError.
std::vector<std::vector<Actor>> read_groups(const std::string& text, int gpus) {
  std::vector<std::vector<Actor>> groups;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find(',', begin), text.size());
    std::vector<Actor>& group = groups.emplace_back();
    for (std::size_t from = begin; from <= end;) {
      const std::size_t to = std::min(std::min(text.find('+', from), text.size()), end);
      const std::string word = text.substr(from, to - from);
      const std::size_t dash = word.find('-', 1);
      const int first = read_rank(text, word.substr(0, dash), gpus);
      const int last = dash == std::string::npos ? first : read_rank(text, word.substr(dash + 1), gpus);
      for (int rank = first; rank <= last; ++rank) group.push_back(rank);
      from = to + 1;
    }
    begin = end + 1;
  }
  for (const auto& group : groups)
    if (group.size() != groups.front().size() || group.empty())
      throw UserError(fmt::format("--groups {}: groups of {} and {} ranks; all must be of one size", text,
                                  groups.front().size(), group.size()));
  for (std::size_t a = 0; a < groups.size(); ++a)
    for (std::size_t b = 0; b < groups.size(); ++b)
      for (std::size_t i = 0; i < groups[a].size(); ++i)
        for (std::size_t j = 0; j < groups[b].size(); ++j)
          if ((a != b || i != j) && groups[a][i] == groups[b][j])
            throw UserError(
                fmt::format("--groups {}: rank {} is in {}: on one stream, one collective waits for the other, and "
                            "both wait for ever if ranks disagree on the order",
                            text, groups[a][i], a == b ? "one group twice" : "two groups"));
  return groups;
}

struct Flags {
  std::string operation, algorithm, fidelity, groups, chunk, reduction = "sum", type = "float", torus, mode;
  std::string first = "8", last, compare, json, fold, nccl_version, launch;
  std::string factor = "2", transport, port_buffer;
  std::string gpus;
  int channels = 0, root = 0;
  bool no_check = false, no_pxn = false;
  TopoMachineArguments machine_arguments;
  Arguments arguments{"bench",
                      "Times a collective over a range of sizes, in the table of nccl-tests. Without --algorithm, a "
                      "fitted model of NCCL gives the times.",
                      "bench all_reduce --on dgx-h100 -b 8 -e 8G -f 2 --compare nccl-tests.log"};

  Flags() {
    arguments.positional("OPERATION", operation,
                         "the collective: all_reduce, all_gather, reduce_scatter, all_to_all, broadcast, reduce, "
                         "gather, scatter, send_recv, barrier");
    machine_arguments.add_to(arguments, "--on");
    arguments.option("--gpus", gpus, "N", "use ranks 0 to N-1 only (default: all)");
    arguments.option("--groups", groups, "A-B,C-D",
                     "run several groups at the same time, for example 0-3,4-7 or 0+4,1+5");
    arguments.option("-b,--minbytes", first, "SIZE", "first size (default 8); K, M, G are powers of 1,024");
    arguments.option("-e,--maxbytes", last, "SIZE", "last size (default 128M, or the first if that is larger)");
    arguments.option("-f,--stepfactor", factor, "X", "factor from one size to the next (default 2)");
    arguments.option("--algorithm", algorithm, "NAME", "algorithm: ring, …, or auto (trainyard list collectives)");
    arguments.option("--fidelity", fidelity, "messages|flows|modelled",
                     "simulate every message (default with --algorithm) or one flow for each pair of ranks, or take "
                     "the fitted model of NCCL");
    arguments.option("--transport", transport, "flow|packets|native",
                     "how messages share the network: max-min fair (flow, the default), TCP packet by packet by ns-3, "
                     "shown beside flow (packets: TCP networks only, slow), or SimGrid's solver (native)");
    arguments.option("--port-buffer", port_buffer, "SIZE", kPortBufferHelp);
    arguments.choice(
        "--mode", mode, {std::begin(kModeNames), std::end(kModeNames)}, "rendezvous|eager|put|get",
        "how messages move: when both sides are ready (rendezvous, the default), buffered (eager: the pieces "
        "of a chain or tree share the links at once, which takes longer), written by the sender (put) or "
        "requested and read by the receiver (get; RDMA)");
    arguments.option("--channels", channels, "N", "number of rings at the same time, rotated within nodes");
    arguments.option("--chunk", chunk, "SIZE", "size of the pieces that chains and trees pass on (default 512 KiB)");
    arguments.option("--torus", torus, "[R, C]", "lengths of the torus of ranks for torus algorithms");
    arguments.option("--root", root, "RANK", "root of broadcast, reduce, gather, scatter (default 0)");
    arguments.option("--op", reduction, "sum|average|maximum|product", "reduction (default sum)");
    arguments.option("--datatype", type, "TYPE", "type of the elements: float (default), half, bfloat16, double, …");
    arguments.option("--nccl-version", nccl_version, "VERSION",
                     "version of NCCL, whose algorithms and protocols are used, for example 2.17 (default 2.29)");
    arguments.flag("--no-pxn", no_pxn, "each GPU sends by its own adapter, as with NCCL_PXN_DISABLE=1");
    arguments.option(
        "--launch", launch, "process|thread|graph",
        "who launches the calls, one after another: a process for each GPU (default, unless the log differs), a thread "
        "for all GPUs of a node (nccl-tests -g N), or a CUDA graph, which does not wait");
    arguments.flag("--no-check", no_check, "move no values, so that #wrong is not counted");
    arguments.choice("--fold", fold, {"auto", "off", "check"}, "auto|off|check",
                     "simulate equivalent ranks once (auto: if that halves their number), simulate each rank (off), or "
                     "do both and compare (check)");
    arguments.option("--compare", compare, "LOG",
                     "compare with this log of nccl-tests (or table of measured rows), at the sizes of the log");
    arguments.output("--json", json, "write the rows as JSON; - is stdout");
  }
};

const std::vector<std::pair<std::string, double>>& types() {
  static const std::vector<std::pair<std::string, double>> all{{"int8", 1},     {"uint8", 1},  {"half", 2},
                                                               {"bfloat16", 2}, {"float", 4},  {"int32", 4},
                                                               {"int64", 8},    {"double", 8}, {"fp8", 1}};
  return all;
}

Bytes type_size(const std::string& type) {
  std::vector<std::string> names;
  for (const auto& [name, size] : types()) {
    if (name == type) return Bytes{size};
    names.push_back(name);
  }
  throw UserError(fmt::format("--datatype: unknown type \"{}\"{}", type, hint(type, names)));
}

/// The flags as keys of a scenario's plan, so that benchmarks and scenarios share one reader.
Node choice_node(const Flags& flags) {
  Node node = Node::empty_map(Place::named("trainyard bench"));
  set_from_flag(node, "algorithm", "--algorithm", flags.algorithm);
  set_from_flag(node, "fidelity", "--fidelity", flags.fidelity);
  const bool has_prefix =
      !flags.chunk.empty() && std::string_view("KMG").find(flags.chunk.back()) != std::string_view::npos;
  set_from_flag(node, "chunk", "--chunk", has_prefix ? flags.chunk + "iB" : flags.chunk);
  set_from_flag(node, "torus", "--torus", flags.torus);
  if (flags.channels != 0) set_from_flag(node, "channels", "--channels", std::to_string(flags.channels));
  return node;
}

/// The launch that --launch names; otherwise that of the log of --compare; otherwise one process for each GPU.
NcclLaunch launch_of(const Flags& flags) {
  if (flags.launch.empty())
    return flags.compare.empty() || !flags.algorithm.empty()
               ? NcclLaunch::by_process
               : launch_in(flags.compare, parse_operation(flags.operation));
  return read_flag("--launch", flags.launch, parse_nccl_launch);
}

/// The NCCL of the scenario's software, changed by the flags.
NcclChoice nccl_of(const Flags& flags, const SoftwareStack& software) {
  NcclChoice nccl = software.nccl_choice;
  if (!flags.nccl_version.empty()) nccl.version = read_flag("--nccl-version", flags.nccl_version, parse_nccl_version);
  if (flags.no_pxn) nccl.pxn = false;
  nccl.launch = launch_of(flags);
  if ((flags.no_pxn || !flags.nccl_version.empty() || !flags.launch.empty()) && !flags.algorithm.empty())
    throw UserError(fmt::format(
        "--nccl-version, --no-pxn, --launch: only with NCCL's own choice; leave out --algorithm {}", flags.algorithm));
  return nccl;
}

/// Throws UserError if the transport cannot simulate this benchmark or this machine.
TransportKind bench_transport(const std::string& name, const BenchOptions& o, const TopoMachine& machine) {
  const TransportKind transport = parse_transport(name);
  if (transport != kDefaultTransport && o.settings.fidelity == Fidelity::modelled)
    throw UserError(
        fmt::format("--transport {}: needs messages, which the fitted model of NCCL does not have: add --algorithm "
                    "(trainyard list collectives)",
                    name));
  if (transport != TransportKind::packets) return transport;
  if (o.settings.fidelity != Fidelity::messages)
    throw UserError(fmt::format("--transport packets: needs single messages; not with --fidelity {}",
                                name_of(o.settings.fidelity)));
  tcp_network(ClusterMachine(machine.cluster, machine.software));
  return transport;
}

/// Reads the number of ranks: 1 to `all`.
int read_gpus(const std::string& text, int all, const std::string& machine) {
  std::int64_t gpus = 0;
  try {
    gpus = parse_integer(text);
  } catch (const UserError&) {
    throw UserError(fmt::format("--gpus {}: a whole number expected", text));
  }
  if (gpus < 1 || gpus > all)
    throw UserError(
        fmt::format("--gpus {}: {} has {}; expected 1 to {}", gpus, machine, counted_noun(all, "GPU"), all));
  return static_cast<int>(gpus);
}

/// Names the adapters that a slot or the port of a switch slows down. "": none, or no data cross between nodes.
std::string capped_adapters(const ClusterSpec& cluster) {
  std::vector<std::string> all;
  if (cluster.uses_hcas())
    for (const ClusterSpec& part : cluster.parts())
      for (const NodeType* type : part.types())
        if (const std::string cap = cap_in_words(*type, part.switch_rate); !cap.empty())
          all.push_back(fmt::format("{:.4g} Gbit/s of {}{}", type->hca_rate.value * 8e-9, type->name, cap));
  return fmt::format("{}", fmt::join(all, ", "));
}

/// Throws UserError for flags that the fitted model or the operation does not heed. read_collective refuses those that the
/// algorithm does not heed.
void refuse_unused(const Flags& flags, Operation operation) {
  const bool modelled = flags.fidelity == "modelled";
  if (modelled && (flags.channels != 0 || !flags.algorithm.empty() || !flags.chunk.empty() || !flags.torus.empty()))
    throw UserError(
        fmt::format("{}: the fitted model of NCCL chooses algorithm, channels and chunks itself; expected {}",
                    flags.channels != 0        ? fmt::format("--channels {}", flags.channels)
                    : !flags.algorithm.empty() ? "--algorithm " + flags.algorithm
                    : !flags.chunk.empty()     ? "--chunk " + flags.chunk
                                               : "--torus " + flags.torus,
                    flags.algorithm.empty() ? "an algorithm beside it, for example --algorithm ring"
                                            : "--fidelity messages or flows"));
  if (flags.reduction != "sum" && !reduces(operation))
    throw UserError(fmt::format("--op {}: {} reduces nothing; all_reduce, reduce_scatter and reduce do",
                                flags.reduction, name_of(operation)));
}

BenchOptions options_of(const Flags& flags, const TopoMachine& machine, BenchTable& table) {
  BenchOptions o;
  o.operation = parse_operation(flags.operation);
  const int all = machine.cluster.gpus();
  o.ranks = flags.gpus.empty() ? all : read_gpus(flags.gpus, all, machine.name);
  if (!flags.groups.empty()) {
    o.groups = read_groups(flags.groups, all);
    o.ranks = static_cast<int>(o.groups.front().size());
  }
  check_root(o.operation, flags.root, o.ranks);
  refuse_unused(flags, o.operation);
  const Node node = choice_node(flags);
  const CollectiveChoice choice =
      read_collective(&node, "trainyard bench", o.operation, machine.cluster, o.ranks, CollectiveUse::alone, flags.root,
                      nullptr, nccl_of(flags, machine.software));
  o.algorithm = choice.algorithm ? choice.algorithm->name : "auto";
  o.settings = choice.settings;
  if (!o.groups.empty() && o.settings.fidelity == Fidelity::modelled) {
    std::vector<int> nodes;
    for (const Actor member : o.groups.front()) nodes.push_back(machine.cluster.node_of_gpu(member));
    o.settings.place(nodes, o.groups.front());
  }
  o.settings.reduction = read_flag("--op", flags.reduction, parse_reduction);
  table.scaled = choice.scaled;
  const bool crosses = o.settings.spread(o.ranks).nodes > 1;
  if (crosses) table.capped = capped_adapters(machine.cluster);
  table.judged = choice.errors.in_words(!crosses, crosses);
  if (!flags.mode.empty()) o.mode = static_cast<Mode>(std::ranges::find(kModeNames, flags.mode) - kModeNames);
  if (!flags.mode.empty() && o.settings.fidelity != Fidelity::messages)
    throw UserError(fmt::format("--mode {}: needs single messages, which --fidelity {} does not have; add --algorithm",
                                flags.mode, name_of(o.settings.fidelity)));
  if (!flags.transport.empty()) o.transport = bench_transport(flags.transport, o, machine);
  o.port_buffer = read_port_buffer(flags.port_buffer, o.transport);
  o.software = machine.software;
  o.element = type_size(flags.type);
  o.first = test_size("-b", flags.first);
  constexpr const char* largest = "128M";
  o.last = flags.last.empty() ? std::max(o.first, test_size("-e", largest)) : test_size("-e", flags.last);
  o.factor = parse_number(flags.factor);
  o.check = !flags.no_check;
  if (flags.fold == "off") o.folding = Folding::off;
  const bool pairs = o.operation == Operation::all_to_all || o.operation == Operation::all_to_all_v;
  if (o.settings.fidelity == Fidelity::modelled && !machine.cluster.background.empty())
    throw UserError(
        "cluster.background: the fitted model of NCCL knows no traffic of others; expected --algorithm, for example "
        "--algorithm ring");
  o.slow = machine.slow;
  if (!o.slow.links.empty() && (o.settings.fidelity == Fidelity::modelled || !choice.algorithm ||
                                o.transport != kDefaultTransport || !machine.cluster.background.empty()))
    fail(o.slow.links.front().place,
         "faults.links: bench slows links only under the messages or flows of one algorithm, by the transport flow and "
         "without cluster.background; expected --algorithm, for example --algorithm ring, or --set faults.links=null");
  if (o.settings.fidelity == Fidelity::modelled && o.groups.empty() && !pairs)
    o.modelled = std::make_shared<ModelledTimes>(machine.cluster, o.software, o.operation, o.settings, o.ranks);
  return o;
}

/// The kind of machine whose measured errors hold for this benchmark; "": none, as for several groups at once and for
/// simulated messages, which have no library and no launches.
std::string measured_kind(const Flags& flags, const TopoMachine& machine, const BenchOptions& o) {
  if (o.settings.fidelity != Fidelity::modelled || o.ranks < 2 || o.groups.size() > 1) return "";
  ClusterSpec cluster = machine.cluster;
  if (o.ranks <= cluster.node.gpus) cluster.nodes = 1, cluster.others.clear();
  return collective_kind(cluster, nccl_nodes(cluster, nccl_of(flags, machine.software)).front());
}

constexpr double kFoldTolerance = 1e-9;

/// Runs each size folded and rank by rank. Returns exit code 1 if the results differ.
int check_folds(const ClusterSpec& cluster, const BenchOptions& o, const std::vector<double>& sizes) {
  if (o.algorithm == "auto") throw UserError("--fold check: one --algorithm expected, because auto chooses by size");
  bool good = true;
  for (const double size : sizes) {
    const double worst = fold_difference(cluster, o, size);
    print(fmt::format("{}: largest difference of folded ranks {:.1e}{}\n", show(Bytes{size}), worst,
                      worst > kFoldTolerance ? ", DIFFERENT" : ""));
    good = good && worst <= kFoldTolerance;
  }
  return good ? kGood : kFailsLimit;
}

/// Returns a row for each size, or for those that are done when a signal comes. Throws Interruption if none is done.
std::vector<BenchRow> run_rows(const ClusterSpec& cluster, const BenchOptions& o, const std::vector<double>& sizes,
                               const std::map<double, Seconds>& measured) {
  std::vector<BenchRow> result;
  const auto measured_time = [&](double size) {
    const auto found = measured.find(size);
    return found == measured.end() ? std::nullopt : std::optional<Seconds>(found->second);
  };
  if (o.modelled) {
    for (const double size : sizes) {
      if (is_interrupted()) break;
      result.push_back(bench_row(cluster, o, size, measured_time(size)));
    }
    if (result.empty()) end_if_interrupted();
    return result;
  }
  if (o.transport == TransportKind::packets) {
    PacketCost cost;
    for (const double size : sizes) cost += packet_cost(cluster, o, size);
    cost.announce();
  }
  ProgressLine progress;
  std::size_t ended = 0;
  for (auto& row : in_parallel(
           sizes.size(), processors(),
           [&](std::size_t i) { return bench_row(cluster, o, sizes[i], measured_time(sizes[i])); },
           [&](std::size_t, const BenchRow&) { progress.show(fmt::format("{} of {} sizes", ++ended, sizes.size())); }))
    if (row) result.push_back(*std::move(row));
  if (result.empty()) end_if_interrupted();
  return result;
}

/// A benchmark to run: the machine, the table without its rows, the sizes, and the measured times by size.
struct BenchQuestion {
  TopoMachine machine;
  BenchTable table;
  std::map<double, Seconds> measured;
  std::vector<double> sizes;

  explicit BenchQuestion(Flags& flags) {
    if (flags.algorithm.empty() && flags.fidelity.empty()) flags.fidelity = "modelled";
    machine = flags.machine_arguments.read("bench", flags.arguments.document());
    table.machine = machine.name;
    table.device = device_noun(machine.cluster);
    table.options = errors_in_words_of(table.device, [&] { return options_of(flags, machine, table); });
    table.options.kind = measured_kind(flags, machine, table.options);
    const NodeType& node = machine.cluster.node;
    table.options.measured = table.options.ranks > node.gpus ? node.nccl.network_measured : node.nccl.measured;
    table.type = flags.type;
    if (flags.compare.empty())
      sizes = bench_sizes(table.options);
    else
      measured = measured_times(flags.compare, table.options, machine.cluster.nodes);
    for (const auto& [size, time] : measured) sizes.push_back(size);
  }
  void run() {
    table.rows = run_rows(machine.cluster, table.options, sizes, measured);
    if (table.rows.size() < sizes.size())
      table.unfinished = fmt::format("{} of {} sizes are done", table.rows.size(), sizes.size());
  }
};

std::string bench_answer(const VerbQuestion& verb_question) {
  Flags flags;
  flags.arguments.take(verb_question);
  BenchQuestion question(flags);
  question.run();
  if (!question.table.unfinished.empty()) throw Interruption();
  return json_text(bench_json(question.table));
}

int bench(const std::vector<std::string>& words) {
  Flags flags;
  if (!flags.arguments.parse(words)) return kGood;
  watch_interrupts();
  BenchQuestion question(flags);
  const BenchTable& table = question.table;
  if (flags.fold == "check") return check_folds(question.machine.cluster, table.options, question.sizes);
  question.run();
  write_json(flags.json, bench_json(table));
  if (flags.json != "-") write_atomically("-", in_words_of(question.machine.cluster, bench_text(table)));
  if (!table.unfinished.empty()) {
    complain(fmt::format("interrupted: {}; the answer has these alone", table.unfinished));
    return kInterrupted;
  }
  return std::ranges::any_of(table.rows, [](const BenchRow& row) { return row.wrong.value_or(0) > 0; }) ? kFailsLimit
                                                                                                        : kGood;
}

const RegisterVerb registered_bench{"bench", VerbGroup::measure,
                                    "time a collective over a range of sizes, as nccl-tests does", bench, bench_answer};

}  // namespace
}  // namespace trainyard
