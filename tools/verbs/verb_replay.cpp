#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "scenarios/src/traces/replay.hpp"
#include "tools/reports/report_lines.hpp"
#include "tools/verbs/topo_machine.hpp"
#include "tools/verbs/verbs.hpp"

namespace trainyard {
namespace {

std::string replay_breakdown_line(const ReplayResult& r) {
  const ReplayResult::Breakdown& b = r.breakdown;
  const bool seconds = r.time >= 1;
  const auto part = [seconds](double s) { return fmt::format("{:.3g}", seconds ? s : s * 1e3); };
  std::vector<std::string> parts{"compute " + part(b.compute)};
  if (b.memory > 0) parts.push_back("memory " + part(b.memory));
  if (b.host > 0) parts.push_back("host " + part(b.host));
  for (const auto& [group, time] : b.exposed_communication)
    parts.push_back(fmt::format("exposed {} {}", group, part(time)));
  if (b.bubble > 0) parts.push_back("bubble " + part(b.bubble));
  parts.push_back("other " + part(b.other));
  return fmt::format("{}{}   ({}, on rank {}, the last to finish)\n", report_label(""), fmt::join(parts, " │ "),
                     seconds ? "s" : "ms", b.rank);
}

std::string replay_path_line(const ReplayResult& r) {
  std::vector<std::pair<double, std::string>> shares;
  for (const auto& [resource, time] : r.critical_path)
    if (time > 0) shares.emplace_back(time / r.time, resource);
  std::sort(shares.rbegin(), shares.rend());
  std::vector<std::string> words;
  for (const auto& [share, resource] : shares) words.push_back(fmt::format("{} {}", resource, percent(share)));
  if (words.empty()) return "";
  words.front() += " of the critical path";
  return wrapped(report_label("bottleneck"), words, ",");
}

std::string replay_traffic_line(const ReplayResult& r) {
  std::vector<std::string> words;
  for (const auto& [kind, bytes] : r.bytes_by_link_kind)
    if (bytes > 0) words.push_back(fmt::format("{} {} over all hops", kind, show(Bytes{bytes})));
  if (words.empty()) return "";
  words.push_back(fmt::format("at most {} sent by one rank", show(Bytes{r.bytes_sent_per_rank_max})));
  return wrapped(report_label("traffic"), words, " ·");
}

std::string replay_text(const ReplayResult& r, const ClusterSpec& cluster) {
  std::string text =
      fmt::format("{} · {}, {} ({})\n{}{}\n{}", r.trace, counted_noun(r.ranks, "rank"), counted_noun(r.nodes, "node"),
                  describe(cluster), report_label("time"), show(Seconds{r.time}), replay_breakdown_line(r));
  if (!r.step.empty()) text += fmt::format("{}{}\n", report_label("step"), r.step);
  if (r.recorded > 0)
    text +=
        fmt::format("{}{} from the first kernel to the last, where the trace was recorded{}\n",
                    report_label("recorded"), show(Seconds{r.recorded}),
                    r.mean_step > 0 ? fmt::format("; its steps took {} on average", show(Seconds{r.mean_step})) : "");
  if (r.recorded > 0)
    text += report_label("") + "kernels and copies take their recorded time, whatever the GPUs of the cluster\n";
  text += report_label("interval") +
          "none: no trace was measured on a second machine, so nothing says how far a replay is off\n";
  if (!r.notes.empty()) text += wrapped(report_label("trace"), r.notes, ";");
  text += replay_path_line(r) + replay_traffic_line(r);
  if (r.ranks > 1 && r.simulated_ranks < r.ranks)
    text +=
        fmt::format("{}{} ranks, {} of them simulated for all\n", report_label("folding"), r.ranks, r.simulated_ranks);
  if (!r.judged.empty()) text += wrapped(report_label("trust") + "collectives: error to expect ", {r.judged}, " ");
  if (r.collectives.empty()) return text;
  TextTable table{"collective", ">ranks", ">count", ">bytes of each"};
  for (const ReplayResult::Collectives& row : r.collectives)
    table.rows.push_back({row.operation, fmt::format("{}", row.ranks), fmt::format("{}", row.count),
                          show(Bytes{row.bytes / row.count})});
  return text + "\n" + table.text();
}

std::vector<int> read_dims(const std::string& text) {
  std::vector<int> dims;
  for (const std::string& word : comma_list(text)) {
    const std::int64_t size = parse_integer(word);
    if (size < 1 || size > 1 << 24) throw UserError(fmt::format("--dims {}: sizes from 1 on expected, as 8,4", text));
    dims.push_back(static_cast<int>(size));
  }
  return dims;
}

int replay_trace(const std::vector<std::string>& words) {
  Arguments arguments("replay",
                      "Simulates a recorded step on a cluster: time, breakdown, bottleneck, traffic. The trace is one "
                      "of PyTorch's profiler, or a Chakra execution trace (PREFIX.0.et, PREFIX.1.et, …).",
                      "replay traces/allreduce --on dgx-h100 --nodes 2 --algorithm ring");
  std::string prefix, groups, dims, precision, fold, json, trace;
  std::vector<std::string> algorithms;
  bool remote_memory = false, keeps_undescribed = false;
  int ranks = 0, scaled_ranks = 0;
  std::optional<int> step;
  TopoMachineArguments machine_arguments;
  arguments.positional("PREFIX", prefix,
                       "a trace of one rank by torch.profiler (.json, .json.gz) or Nsight Systems (nsys export --type "
                       "sqlite: .sqlite), a folder with those of several ranks, or the prefix of a Chakra trace's "
                       "files, one for each rank: PREFIX.0.et, PREFIX.1.et, …");
  machine_arguments.add_to(arguments, "--on");
  arguments.option("--step", step, "N",
                   "of a profiler's trace: replay ProfilerStep#N (default: of the steps that all traces have, the one "
                   "of median time; steps with less than half of the most kernels do not count)",
                   0);
  arguments.option("--ranks", ranks, "N",
                   "of a profiler's trace: number of ranks (default: the trace's world_size, or the ranks of the "
                   "scenario's plan). Ranks without a trace do what a rank of their pipeline stage does",
                   1);
  arguments.option("--scale-out", scaled_ranks, "N",
                   "of a profiler's trace: number of ranks to which the trace's ranks grow, a multiple of them. Groups "
                   "that reach the last rank of the trace, such as those of data parallelism, have all new ranks too",
                   1);
  arguments.flag("--keep-undescribed", keeps_undescribed,
                 "of a profiler's trace: exchanges that the trace does not describe take their recorded time (default: "
                 "they are refused)");
  arguments.option("--comm-groups", groups, "FILE",
                   "file with the ranks of each communicator, in ASTRA-sim's form: {\"1\": [0, 1], …} (default: "
                   "PREFIX.groups.json)");
  arguments.option("--dims", dims, "N,N",
                   "sizes of the dimensions of involved_dim, like ASTRA-sim's npus_count, for example 8,4");
  arguments.repeated_flag("--algorithm", algorithms, "[OPERATION=]NAME",
                          "simulate every message of the collectives by this algorithm: ring, all_to_all=direct, … "
                          "(default: a fitted model of NCCL)");
  arguments.option("--precision", precision, "NAME",
                   "precision of arithmetic whose time the trace does not state (default bf16)");
  arguments.flag("--remote-memory", remote_memory,
                 "memory nodes of the trace move data from and to the host's memory, not the GPU's");
  arguments.choice("--fold", fold, {"auto", "off"}, "auto|off",
                   "simulate equivalent ranks once (auto: if that halves their number), or each rank");
  arguments.output("--trace", trace, "write a Chrome/Perfetto trace; - is stdout");
  arguments.output("--json", json, "write the answer as JSON; - is stdout (and prints nothing else there)");
  if (!arguments.parse(words)) return kGood;
  ReplayOptions options;
  options.prefix = prefix;
  options.groups = groups;
  options.dims = read_dims(dims);
  options.algorithms = algorithms;
  if (!precision.empty()) options.precision = parse_precision(precision);
  options.remote_memory = remote_memory;
  const TopoMachine machine = machine_arguments.read("replay");
  options.kineto.step = step;
  options.kineto.ranks = ranks;
  options.kineto.scaled_ranks = scaled_ranks;
  options.kineto.keeps_undescribed = keeps_undescribed;
  options.kineto.mesh = machine.mesh;
  const ReplayResult result =
      replay(options, machine.cluster, machine.software, fold == "off" ? Folding::off : Folding::automatic, trace);
  if (arguments.leaves_stdout_free()) print(replay_text(result, machine.cluster));
  write_json(json, replay_fields().json(result));
  return kGood;
}

const RegisterVerb registered_replay{"replay", VerbGroup::predict, "simulate a trace of PyTorch or Chakra on a cluster",
                                     replay_trace};

}  // namespace
}  // namespace trainyard
