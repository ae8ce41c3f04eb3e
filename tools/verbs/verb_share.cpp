#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "models/reading/shipped_files.hpp"
#include "scenarios/src/studies/job_study.hpp"
#include "tools/reports/report_lines.hpp"
#include "tools/verbs/verbs.hpp"

namespace trainyard {
namespace {

std::string change_text(double share) {
  constexpr double kSmallest = 5e-4;  // no change by less is shown, and so no minus before a zero
  return fmt::format("{:+.1f} %", std::abs(share) < kSmallest ? 0 : share * 100);
}

std::string jobs_table(const SharingAnswer& answer) {
  TextTable table{"job",           "nodes",      ">leaves",
                  ">packed, ms",   ">alone, ms", ">placement costs",
                  ">together, ms", ">slower",    ">shortest to longest, ms"};
  const auto ms = [](double seconds) { return fmt::format("{:.4g}", seconds * 1e3); };
  const auto any = [&answer](double JobAnswer::*figure) {
    return std::ranges::any_of(answer.jobs, [figure](const JobAnswer& job) { return job.*figure > 0; });
  };
  const bool has_intervals =
      std::ranges::any_of(answer.jobs, [](const JobAnswer& job) { return job.alone_interval.has_value(); });
  if (has_intervals) table.add_column("alone in 80 %, ms");
  const std::vector<std::pair<double JobAnswer::*, const char*>> costs{{&JobAnswer::per_joule, "tokens/J"},
                                                                       {&JobAnswer::per_million, "a million"},
                                                                       {&JobAnswer::owned_per_million, "owned"}};
  for (const auto& [figure, name] : costs)
    if (any(figure)) table.add_column(name);
  for (const JobAnswer& job : answer.jobs) {
    table.rows.push_back({job.name, number_ranges(job.nodes), fmt::format("{}", job.leaves), ms(job.packed_step),
                          ms(job.alone_step), change_text(job.placement_cost()), ms(job.step),
                          change_text(job.slowdown()), fmt::format("{} to {}", ms(job.shortest), ms(job.longest))});
    if (has_intervals)
      table.rows.back().push_back(
          job.alone_interval ? fmt::format("{} to {}", ms(job.alone_interval->front()), ms(job.alone_interval->back()))
                             : "-");
    for (const auto& [figure, name] : costs)
      if (any(figure)) table.rows.back().push_back(job.*figure > 0 ? fmt::format("{:.3g}", job.*figure) : "-");
  }
  return table.text() +
         "packed: step alone on the fewest leaf switches; alone: step alone on its own nodes; together: step while all "
         "jobs run\n"
         "placement costs: alone compared with packed; slower: together compared with alone\n" +
         (has_intervals ? "alone in 80 %: a real step alone lies there with a probability of 80 %; nobody measured "
                          "trainings that slow each\nother, so placement costs, slower and together have no interval\n"
                        : "no interval: steps of an ideal or stated time cannot be measured\n") +
         (answer.currency.empty() ? ""
                                  : fmt::format("a million: {} of rent and electricity for a million tokens together; "
                                                "owned: on bought nodes that are always in use\n",
                                                answer.currency));
}

std::string leaves_table(const SharingAnswer& answer) {
  constexpr std::size_t most = 64;  // leaf switches
  TextTable table{"leaf", "jobs of its nodes"};
  for (std::size_t i = 0; i < std::min(most, answer.leaves.size()); ++i) {
    std::string names;
    for (const std::optional<std::string>& job : answer.leaves[i].jobs)
      names += (names.empty() ? "" : " ") + job.value_or("-");
    table.rows.push_back({answer.leaves[i].name, names});
  }
  if (answer.leaves.size() > most) table.rows.push_back({fmt::format("{} more", answer.leaves.size() - most), ""});
  return table.text() + "a name for each node of the leaf switch; -: a node without a job\n";
}

std::string links_table(const SharingAnswer& answer) {
  constexpr std::size_t most = 8;  // links
  if (answer.links.empty()) return "No link carries messages of two jobs.\n";
  TextTable table{"link of several jobs", ">used"};
  for (const JobAnswer& job : answer.jobs) table.add_column(job.name);
  for (const JobAnswer& job : answer.jobs) table.add_column("limits " + job.name);
  for (std::size_t i = 0; i < std::min(most, answer.links.size()); ++i) {
    const ContendedLink& link = answer.links[i];
    std::vector<std::string> row{link.name, fmt::format("{:.1f} %", link.use * 100)};
    for (const auto* shares : {&link.use_by_job, &link.limits_job})
      for (const auto& [job, share] : *shares) row.push_back(fmt::format("{:.1f} %", share * 100));
    table.rows.push_back(std::move(row));
  }
  return table.text() +
         "used: mean share of the link's rate, and the part of each job; limits: share of the time in which the link "
         "sets\nthe rate of a message of the job; ×: so many links are alike\n";
}

int share_verb(const std::vector<std::string>& words) {
  Arguments arguments(
      "share",
      "Simulates several trainings on one cluster at the same time: how much each is slowed by its placement and by "
      "the others, and on which links. The file has a `cluster` and a list `jobs`; each job has `nodes`, `placement`, "
      "`start` and the keys of a scenario (trainyard help scenario).",
      "share scenarios/two-jobs.yml --steps 20");
  std::string file, json, prices;
  std::vector<std::string> sets;
  SharingQuestion question;
  int seed = 1;
  bool is_unfolded = false;
  arguments.positional("FILE", file, "cluster and jobs (YAML)");
  arguments.repeated_flag("--set", sets, "PATH=VALUE",
                          "override a field of the file, for example jobs.0.placement=spread; may be repeated");
  arguments.option("--steps", question.steps, "N", "least number of averaged steps of each job (default: 8)", 1,
                   100000);
  arguments.option("--seed", seed, "N", "seed of fragmented placements (default: 1)", 0);
  arguments.flag("--no-fold", is_unfolded, "simulate every rank");
  arguments.option("--prices", prices, "FILE",
                   "file with your prices (scenarios/prices-example.yml shows how): cost and energy of a million "
                   "tokens of each job while all run");
  arguments.output("--json", json, "write the answer as JSON; - is stdout (and prints nothing else there)");
  if (!arguments.parse(words)) return kGood;
  question.seed = static_cast<std::uint64_t>(seed);
  question.folding = is_unfolded ? Folding::off : Folding::automatic;
  question.progress = true;
  Node document = read_document(scenario_file(file));
  set_prices(document, prices);
  const SharedCluster shared =
      read_shared_cluster(std::move(document), std::filesystem::path(file).stem().string(), parse_overrides(sets));
  const SharingAnswer answer = share_cluster(shared, question);
  if (json != "-") {
    print(fmt::format("{} on {}\n\n{}\n{}\n{}", counted_noun(answer.jobs.size(), "job"), answer.cluster,
                      jobs_table(answer), leaves_table(answer), links_table(answer)));
    print(fmt::format("\nsimulated  {} of {} ranks{}\n", answer.simulated_ranks, answer.ranks,
                      answer.unfolded_reason.empty() ? "; the others are identical to these"
                                                     : "; not folded: " + answer.unfolded_reason));
  }
  write_json(json, sharing_fields().json(answer));
  return kGood;
}

const RegisterVerb registered_share{"share", VerbGroup::predict,
                                    "simulate several trainings on one cluster: how much each slows the others",
                                    share_verb};

}  // namespace
}  // namespace trainyard
