#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>

#include "models/fitted/measured_family.hpp"
#include "models/hardware/node.hpp"
#include "models/reading/catalog.hpp"
#include "models/reading/shipped_files.hpp"
#include "scenarios/src/answer/json_fields.hpp"
#include "scenarios/src/reading/scenario.hpp"
#include "scenarios/src/search/plan_memory.hpp"
#include "scenarios/src/sizing/size_answer.hpp"
#include "scenarios/src/sizing/size_islands.hpp"
#include "sim/json_text.hpp"
#include "sim/observers/progress.hpp"
#include "sim/process/job.hpp"
#include "sim/process/terminal.hpp"
#include "tools/reports/assumptions.hpp"
#include "tools/reports/html_page.hpp"
#include "tools/reports/report.hpp"
#include "tools/verbs/loop_placements.hpp"
#include "tools/verbs/search_limits.hpp"
#include "tools/verbs/study_shares.hpp"
#include "tools/verbs/verbs.hpp"
#include "topologies/analysis/network_design.hpp"
#include "topologies/device_noun.hpp"

namespace trainyard {
namespace {

/// Higher probabilities are beyond what the measured steps show.
constexpr double kMostConfidence = 0.99;
constexpr int kLoopRows = 10;  ///< placements of a loop in the table

/// The scenarios that `--model` changes if no file is named: a whole training, with failures, and a post-training loop.
constexpr const char *kSizeTemplate = "scenarios/size-llama3-70b.yaml",
                     *kLoopTemplate = "scenarios/post-training-llama3-8b-16xh100.yaml";

/// The models of the catalog whose names begin with this prefix.
std::vector<std::string> models_of_family(const std::string& family) {
  const Catalog catalog;
  std::vector<std::string> models;
  for (const std::string& name : catalog.names("network"))
    if (name.starts_with(family)) models.push_back(name);
  if (models.empty())
    throw UserError(fmt::format("--family {}: no model of the catalog begins so{}", family,
                                hint(family, catalog.names("network"))));
  return models;
}

/// The noun for the chips of all nodes in the answer.
std::string devices_of(const SizeAnswer& answer) {
  const Catalog catalog;
  std::string noun;
  std::set<std::string> seen;
  for (const SizeRow& row : answer.rows)
    if (seen.insert(row.node).second)
      noun = common_noun(
          noun, device_noun(read_node(catalog.resolve("node", Node::scalar_node(row.node)), catalog).gpu.kind));
  return noun;
}

struct SizeFlags {
  std::string file, model, family, tokens, days, budget, prices, site, nodes_of, json, svg, html, write, chinchilla,
      tolerance, headroom, confidence, samples_per_s, network, network_switch, csv, write_beside, by;
  int unit = 0, gpus = 0, most_nodes = 0;
  bool purchase = false, post_training = false;
  std::vector<std::string> sets;
  StudyShares shares;
  SearchLimits limits;
  Arguments arguments{"size",
                      "Finds which nodes, and how many, train a model in time: for each type of node it searches the "
                      "best plan, with failures, checkpoints, energy and money.",
                      "size --model llama-3-70b --tokens 15T --days 60 --nodes-of dgx-h100,dgx-b200 --prices "
                      "scenarios/prices-example.yml"};

  SizeFlags() {
    arguments.positional(
        "SCENARIO", file,
        "scenario file (YAML): its model, batch, plan.training and faults are used; its cluster is not", false);
    arguments.option("--model", model, "NAME",
                     "the model, instead of the scenario's (default SCENARIO: scenarios/size-llama3-70b.yaml)");
    arguments.option("--family", family, "PREFIX",
                     "find the largest possible model among those of the catalog whose names begin with PREFIX");
    arguments.option("--tokens", tokens, "N", "tokens of the training, for example 300B or 15T");
    arguments.option("--tokens-per-parameter", chinchilla, "N",
                     "tokens for each parameter, instead of --tokens: 20 is compute-optimal (Hoffmann et al. 2022)");
    arguments.option("--days", days, "D", "the deadline: the training takes at most D days");
    arguments.option("--confidence", confidence, "SHARE",
                     "the deadline is met with at least this probability, for example 90% (default: the predicted time "
                     "meets it; a measured time is as likely to be longer as shorter); with --post-training: a real "
                     "loop has the samples with this probability");
    arguments.option("--budget", budget, "MONEY", "the most that the training may cost, in the currency of the prices");
    arguments.flag("--post-training", post_training,
                   "size a post-training loop, and the split between generation and training: with "
                   "--samples-per-second, and a scenario with post_training (default: "
                   "scenarios/post-training-llama3-8b-16xh100.yaml); the layout of its training half stays");
    arguments.option("--samples-per-second", samples_per_s, "N",
                     "with --post-training: the loop generates and trains at least N samples a second, for example 30");
    arguments.option("--most-nodes", most_nodes, "N",
                     "with --post-training: try up to N nodes of each type (default: four times those of the scenario)",
                     1, 1 << 20);
    arguments.flag("--purchase", purchase,
                   "buy the cluster: the cheapest has the least purchase price, and --budget is the most it may be");
    arguments.option(
        "--by", by, "price|total-cost",
        "with --purchase: the cost that decides and that --budget limits: the purchase price (default), or what owning "
        "the cluster costs for the years of depreciation in use, with interest, electricity, cooling, staff and space");
    arguments.option("--prices", prices, "FILE", "file with your prices (scenarios/prices-example.yml shows how)");
    arguments.option("--site", site, "SITE",
                     "limits and PUE (energy of the site over that of its computers) of the site: a name, a file, a "
                     "power such as 2MW, or a map such as {power: 2 MW, pue: 1.2, ports: 512}");
    arguments.option("--nodes-of", nodes_of, "A,B,...",
                     "consider only these types of node, or all nodes with these chips (for example tpu-v5p)");
    arguments.option("--gpus", gpus, "N", "use N devices: the fewest nodes that have them", 1);
    arguments.option("--unit", unit, "N", "the number of nodes is a multiple of N (default 1)", 1);
    arguments.option(
        "--batch-tolerance", tolerance, "SHARE",
        "the batch may differ by this share, for example 10%: the batch with the least time per sample is taken");
    limits.declare(arguments, "--search", "the search for the plan of each cluster",
                   fmt::format("default {:.0f}M", kWorkOfCluster * 1e-6));
    arguments.option("--headroom", headroom, "SHARE",
                     "leave this share of each device's memory free, for example 8 % or 0 (default: what the driver's "
                     "context and fragmentation take, 6.8 to 8.0 % of 80 GiB by stack)");
    arguments.option("--network", network, "choose|A,B,...",
                     "compare networks between the nodes of the cheapest clusters, and choose the cheapest that meets "
                     "deadline and budget: all of nonblocking, 2:1, 4:1, rail-optimized and rail-only, or the named "
                     "ones (also 3:1, 16 leaves and 4 spines, and both \"on rails\"; choose may be one of the names); "
                     "the loss is the additional step time over nonblocking");
    arguments.option("--switch", network_switch, "NAME",
                     "with --network: the type of switch (`trainyard list switches`; default: that of cluster.fabric, "
                     "else one with the switch_ports of the prices)");
    arguments.repeated_flag("--set", sets, "PATH=VALUE", "override a field; may be repeated");
    arguments.output("--json", json, "write the answer as JSON; - is stdout (and prints nothing else there)");
    arguments.output("--csv", csv, "with --network: write the table of networks as CSV; - is stdout");
    arguments.output("--svg", svg,
                     "with --prices: draw how far prices, deadline and budget may move before another cluster is the "
                     "cheapest; - is stdout");
    arguments.output("--html", html,
                     "write a page that opens with the verdict: ways to pay, what would change the decision, and the "
                     "assumptions with their sources; - is stdout");
    arguments.output("--write", write, "write the cheapest cluster and plan as a scenario; - is stdout");
    arguments.output("--write-beside", write_beside,
                     "with --purchase: write the cheapest job on owned nodes (purchase.owned) and bought ones of "
                     "another type together as a scenario; - is stdout");
    shares.declare(arguments, "type of node");
  }

  LoopQuestion loop_question() const {
    const std::vector<std::pair<const char*, bool>> of_trainings{{"--days", !days.empty()},
                                                                 {"--tokens", !tokens.empty()},
                                                                 {"--budget", !budget.empty()},
                                                                 {"--purchase", purchase},
                                                                 {"--by", !by.empty()},
                                                                 {"--family", !family.empty()},
                                                                 {"--site", !site.empty()},
                                                                 {"--gpus", gpus > 0},
                                                                 {"--unit", unit > 0},
                                                                 {"--tokens-per-parameter", !chinchilla.empty()},
                                                                 {"--batch-tolerance", !tolerance.empty()},
                                                                 {"--headroom", !headroom.empty()},
                                                                 {"--network", !network.empty()},
                                                                 {"--switch", !network_switch.empty()},
                                                                 {"--csv", !csv.empty()},
                                                                 {"--write-beside", !write_beside.empty()},
                                                                 {"--svg", !svg.empty()},
                                                                 {"--html", !html.empty()},
                                                                 {"--points", !shares.points.empty()},
                                                                 {"--shard", !shares.shard.empty()},
                                                                 {"--slurm", !shares.slurm.empty()}};
    for (const auto& [option, is_given] : of_trainings)
      if (is_given)
        throw UserError(fmt::format(
            "size --post-training: {} is for a whole training; expected --samples-per-second, and of --model, --set, "
            "--confidence, --nodes-of, --most-nodes, --prices, --json and --write what you need",
            option));
    if (samples_per_s.empty())
      throw UserError("size --post-training: --samples-per-second expected, the samples that the loop needs");
    LoopQuestion question{parse_amount("--samples-per-second", samples_per_s), most_nodes, comma_list(nodes_of),
                          read_loop_confidence(confidence)};
    std::erase(question.node_types, "");
    return question;
  }

  SizeOptions options() const {
    if (!samples_per_s.empty() || most_nodes > 0)
      throw UserError("--samples-per-second, --most-nodes: only with --post-training");
    if (days.empty()) throw UserError("size: --days expected, the deadline");
    if (file.empty() && model.empty() && family.empty())
      throw UserError("size: a scenario file, --model or --family expected");
    if (!svg.empty() && prices.empty() && !document().find("prices")) throw UserError("--svg: only with --prices");
    SizeOptions options;
    options.days = parse_amount("--days", days);
    constexpr double most_money = 1e15;  // a larger budget is surely a mistake
    options.budget = parse_amount("--budget", budget);
    if (options.budget > most_money)
      throw UserError(fmt::format("--budget {}: at most 1e15 expected, such as 500k or 20M", budget));
    options.tokens_per_parameter = parse_amount("--tokens-per-parameter", chinchilla);
    options.gpus = gpus;
    options.purchase = purchase;
    if (!by.empty() && !purchase) throw UserError("--by: only with --purchase");
    if (!by.empty() && by != "price" && by != "total-cost")
      throw UserError(fmt::format("--by {}: price or total-cost expected", by));
    options.by_total = by == "total-cost";
    options.unit = unit;
    options.batch_tolerance = parse_share("--batch-tolerance", tolerance);
    options.confidence = parse_share("--confidence", confidence);
    if (!confidence.empty() && (options.confidence < 0.5 || options.confidence > kMostConfidence))
      throw UserError(fmt::format("--confidence {}: 50 % to {:.0f} % expected, such as 90% or 0.9", confidence,
                                  kMostConfidence * 100));
    if (!headroom.empty()) options.headroom = parse_headroom(headroom);
    options.node_types = comma_list(nodes_of);
    std::erase(options.node_types, "");
    options.networks = requested_networks();
    options.tries_spines = std::ranges::count(comma_list(network), "choose") > 0;
    options.network_switch = network_switch;
    options.work = limits.operations();
    options.search_seconds = limits.wall_seconds();
    if (!family.empty()) options.models = models_of_family(family);
    options.journal = shares.points;
    options.shard = shares.requested_shard(!(json + svg + html + write + csv + write_beside).empty());
    if (!write_beside.empty() && !purchase) throw UserError("--write-beside: only with --purchase");
    return options;
  }

  std::vector<std::string> requested_networks() const {
    for (const auto& [flag, value] : {std::pair{"--switch", &network_switch}, {"--csv", &csv}})
      if (network.empty() && !value->empty())
        throw UserError(fmt::format("{}: only with --network, for example --network choose", flag));
    std::vector<std::string> kinds;
    for (const std::string& name : comma_list(network))
      for (const std::string& kind : name == "choose" ? network_kinds() : std::vector<std::string>{name})
        if (!kind.empty() && std::ranges::find(kinds, kind) == kinds.end()) kinds.push_back(kind);
    for (const std::string& kind : kinds) read_network_kind(kind, "--network");
    return kinds;
  }

  std::string name() const {
    if (!file.empty()) return std::filesystem::path(file).stem().string();
    if (!model.empty()) return model;
    return post_training ? std::filesystem::path(kLoopTemplate).stem().string() : family;
  }

  /// Makes the samples of the scenario that `--model` changes no longer than the models have positions. Networks that
  /// are no transformers have samples of their own length.
  void shorten_samples(Node& document) const {
    Node& plan = *document.find("plan");
    const Catalog catalog;
    for (const std::string& name : family.empty() ? std::vector{model} : models_of_family(family)) {
      try {
        const std::optional<std::int64_t> most = most_positions(parse_override(name, "--model"), catalog);
        const Node* length = plan.find("seq_length");
        if (!most)
          std::erase_if(plan.fields, [](const auto& field) { return field.first == "seq_length"; });
        else if (length && *most < std::stoll(length->scalar))
          set_field(document, "plan.seq_length", parse_override(fmt::format("{}", *most), "--model"));
      } catch (const UserError&) {  // the search says why there is no such model
      }
    }
  }

  Node document() const {
    const std::optional<Node>& scenario = arguments.document();
    Node document =
        scenario ? *scenario
                 : read_scenario_document(
                       file.empty() ? shipped_file(post_training ? kLoopTemplate : kSizeTemplate).string() : file);
    if (!scenario && file.empty() && !post_training) shorten_samples(document);
    set_prices(document, prices);
    for (const auto& [field, value] : parse_overrides(sets)) set_field(document, field, value);
    if (!model.empty()) set_field(document, "model", parse_override(model, "--model"));
    if (!tokens.empty())
      set_field(document, "plan.training", fmt::format("{{tokens: {:.0f}}}", parse_amount("--tokens", tokens)));
    set_site(document, site);
    return document;
  }
};

/// Searches the clusters. A terminal shows the first answer, then a table of the best clusters so far above the line of
/// progress.
SizeAnswer shown_search(const Node& document, const std::string& name, SizeOptions options) {
  std::optional<ProgressLine> line(std::in_place);
  options.progress = [&line](const std::string& text) { line->show(text); };
  options.first_answer = [&line, &options](const std::vector<SizeBound>& bounds, std::size_t types,
                                           const SizeRow* row) {
    const bool is_wanted = wanted_progress() == ProgressLines::always || ::isatty(STDERR_FILENO) != 0;
    if (is_quiet() || thread_job().job || !is_wanted) return;
    line.reset();  // removes the line of progress
    complain(first_size_answer(bounds, types, row, options));
    line.emplace();
  };
  int lines = 0;  // number of lines of the table on the terminal
  const auto clear = [&lines] {
    if (lines > 0) std::fputs(fmt::format("\x1b[{}A\x1b[J", lines).c_str(), stderr);
    lines = 0;
  };
  options.searched = [&line, &lines, &clear](const SizeAnswer& so_far) {
    winsize window{};
    if (is_quiet() || thread_job().job || ::ioctl(STDERR_FILENO, TIOCGWINSZ, &window) != 0 || window.ws_col < 2) return;
    const std::string table = live_size_table(so_far, window.ws_col - 1);
    if (table.empty()) return;
    line.reset();
    clear();
    std::fputs(table.c_str(), stderr);
    lines = static_cast<int>(std::ranges::count(table, '\n'));
    line.emplace();
  };
  SizeAnswer answer = size_clusters(document, name, options);
  line.reset();
  clear();
  return answer;
}

/// The page of an answer: the JSON, the screen, the figures of the document that are assumed, and the sources of all
/// figures of the cluster in the verdict.
std::string size_page(const Node& document, const SizeAnswer& answer, const std::string& screen,
                      const std::string& device) {
  nlohmann::ordered_json data{{"answer", size_fields().json(answer)}, {"screen", screen}, {"device", device}};
  nlohmann::ordered_json sources = nlohmann::ordered_json::array();
  std::vector<std::string> nodes;
  for (const SizeRow& row : answer.rows)
    for (const std::string& node : {row.node, row.beside})
      if (!node.empty() && std::ranges::find(nodes, node) == nodes.end()) nodes.push_back(node);
  if (const auto& row = answer.cheapest ? answer.cheapest : answer.nearest; row && row->good())
    for (const FigureSource& figure : read_scenario(row->document, answer.scenario).sources)
      sources.push_back({figure.figure, figure.value, figure.source + (figure.unverified ? " (unverified)" : "")});
  for (const SizeThreshold& t : answer.thresholds)
    data["threshold_amounts"].push_back({{"value", quantity_amount(answer, t.quantity, t.value)},
                                         {"threshold", quantity_amount(answer, t.quantity, t.threshold)}});
  data["assumptions"] = assumptions_json(document, nodes);
  data["sources"] = std::move(sources);
  return chart_page("Which machine for " + answer.scenario, std::move(data), {page_script::size()});
}

void write_shared_job(const std::string& file, const std::string& name, const SizeAnswer& answer) {
  const SizeIsland* job = best_shared_job(answer);
  if (!job)
    throw UserError(
        "--write-beside: there is no job on owned and bought nodes; expected purchase.owned in the prices, and a type "
        "to buy that trains in one job with them");
  write_scenario(
      file,
      fmt::format(
          "{}: the cheapest job on owned and bought nodes by `trainyard size`, {} x {} beside those that are owned",
          name, job->nodes, job->node),
      parse_document(job->scenarios.front(), file));
}

std::string size_answer(const VerbQuestion& question) {
  SizeFlags flags;
  flags.arguments.take(question);
  if (flags.post_training)
    return json_text(
        loop_answer_fields().json(search_loops(read_scenario(flags.document(), flags.name()), flags.loop_question())));
  const SizeOptions options = flags.options();
  return json_text(size_fields().json(shown_search(flags.document(), flags.name(), options)));
}

int size_verb(const std::vector<std::string>& words) {
  SizeFlags flags;
  if (!flags.arguments.parse(words)) return kGood;
  if (flags.post_training) {
    const LoopQuestion question = flags.loop_question();
    return answer_loop(flags.document(), flags.name(), question, {kLoopRows, flags.json, flags.write});
  }
  const SizeOptions options = flags.options();
  const Node document = flags.document();
  if (has_loop(document))
    throw UserError(
        fmt::format("size {}: the scenario has post_training; expected --post-training with --samples-per-second, or a "
                    "scenario of a whole training",
                    flags.file));
  StudyShares& shares = flags.shares;
  if (!shares.slurm.empty()) return shares.write_slurm_job(flags.arguments, kMostShards);
  watch_interrupts();
  const SizeAnswer answer = shown_search(document, flags.name(), options);
  if (is_interrupted() && !shares.shard.empty()) return shares.interrupted_search();
  if (!shares.shard.empty()) {
    shares.finish(flags.arguments);
    return kGood;
  }
  const std::string device = devices_of(answer), text = in_words_of(device, size_screen(answer));
  if (flags.arguments.leaves_stdout_free()) print(text);
  write_json(flags.json, size_fields().json(answer));
  if (!flags.html.empty()) write_atomically(flags.html, size_page(document, answer, text, device));
  if (!flags.csv.empty() && answer.networks) write_atomically(flags.csv, size_networks_csv(*answer.networks));
  if (!flags.csv.empty() && !answer.networks)
    complain("--csv: not written: the search was interrupted before it had compared the networks");
  if (!flags.write_beside.empty()) write_shared_job(flags.write_beside, flags.name(), answer);
  if (!answer.cheapest) return answer.unfinished.empty() ? kFailsLimit : shares.interrupted_search();
  const std::string& decision = answer.verdict->decision;
  if (!flags.svg.empty()) write_atomically(flags.svg, tornado_picture(answer));
  if (!flags.write.empty())
    write_scenario(flags.write,
                   fmt::format("{}: the cluster of the verdict of `trainyard size`. {}", flags.name(),
                               decision.substr(0, decision.find_last_not_of('.') + 1)),
                   answer.cheapest->document);
  return answer.unfinished.empty() ? kGood : shares.interrupted_search();
}

const RegisterVerb registered_size{"size", VerbGroup::choose,
                                   "find which nodes, and how many, train a model in time and budget", size_verb,
                                   size_answer};

}  // namespace
}  // namespace trainyard
