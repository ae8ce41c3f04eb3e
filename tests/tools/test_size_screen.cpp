// The legends on the screen of `trainyard size`.
#include <fmt/format.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>
#include <regex>
#include <set>
#include <tuple>

#include "scenarios/src/answer/json_fields.hpp"
#include "scenarios/src/pictures/svg.hpp"
#include "scenarios/src/sizing/size_answer.hpp"
#include "scenarios/src/studies/answer.hpp"
#include "sim/json_text.hpp"
#include "tests/tools/topo_shell.hpp"
#include "tools/reports/report.hpp"
#include "tools/reports/report_lines.hpp"

namespace tools_test_size_screen {

using namespace trainyard;
using Catch::Matchers::Contains;

TEST_CASE("the screen of size explains the columns of its tables", "[size]") {
  SizeAnswer answer;
  answer.currency = "EUR";
  answer.days = 30;
  SizeRow& row = answer.rows.emplace_back();
  row.node = "dgx-h100";
  row.nodes = 4;
  row.proved = true;
  for (const char* terms : {"on demand", "purchase"}) {
    SizeChoice& choice = answer.choices.emplace_back();
    choice.node = row.node;
    choice.nodes = row.nodes;
    choice.terms = terms;
  }
  CHECK_THAT(size_screen(answer), !Contains("  * ") && Contains("  The cost of a purchase is that of owning it"));
  answer.choices.front().decision = true;
  const std::string screen = size_screen(answer);
  for (const char* legend :
       {"  meets: whether it meets deadline and budget (best: also, no other is both faster and cheaper)\n"
        "  in time: probability that a measured training ends by the deadline; -: not known\n",
        "  * the verdict's choice. The cost of a purchase is that of owning it for the time of the training\n"
        "  equals *: the price with which the choice costs as much as *; then the price now\n"})
    CHECK_THAT(screen, Contains(legend));
  CHECK(test::widest_line(screen) <= 120);
}

TEST_CASE("size shows the step times at the ends of the ranges of announced hardware, as run has them",
          "[size][trust]") {
  const Node document = parse_document(
      "cluster: {node: dgx-a100}\nmodel: {base: gpt2, n_layer: 4}\n"
      "plan: {strategy: megatron, global_batch_size: 72, micro_batch_size: 1, seq_length: 1024, training: {tokens: "
      "1e9}, pipeline: {schedule: 1f1b}}\nsoftware: megatron-core\n",
      "small.yaml");
  SizeOptions options;
  options.node_types = {"vr-nvl72"};
  options.work = 2e6;
  options.gpus = 72;
  options.days = 1;
  const SizeAnswer found = size_clusters(document, "small", options);
  REQUIRE(found.cheapest);
  const SizeRow& row = *found.cheapest;
  const Result run = answer(read_scenario(row.document, "row")).result;
  REQUIRE(run.announced_step_times);
  const auto times = row.doubt.announced(row.step_time);
  REQUIRE(times);
  for (const std::size_t end : {0, 1}) CHECK(times->at(end) == Approx(run.announced_step_times->at(end)).epsilon(1e-9));
  CHECK(times->front() < times->back());
  REQUIRE(found.rows.size() == 1);
  nlohmann::ordered_json written = nlohmann::ordered_json::object();
  size_fields().write(found, written);
  const auto& listed = written.at("rows").at(0);
  CHECK(listed.at("announced_step_times_s").at(1) == Approx(times->back()).epsilon(1e-9));
  CHECK(listed.at("step_time_interval_s").at(1) == Approx(run.likely_step_times->back()).epsilon(1e-9));
  CHECK(size_row_from_text(to_text(row)).doubt.announced(1) == row.doubt.announced(1));
  CHECK_THAT(std::regex_replace(size_screen(found), std::regex("\\s+"), " "),
             Contains(fmt::format("by these a step takes {} to {}, and not only {}", show(Seconds{times->front()}),
                                  show(Seconds{times->back()}), show(Seconds{row.step_time}))));
}

TEST_CASE("the screen of size has the networks with a legend, and their costs only if they are priced", "[size]") {
  SizeAnswer answer;
  answer.currency = "EUR";
  SizeNetworks& all = answer.networks.emplace();
  all.switch_name = "quantum-2";
  all.switch_ports = 64;
  all.reason = "2:1 on 128 x dgx-h100 costs 41 million";
  SizeNetwork& row = all.rows.emplace_back();
  row.network = "rail-optimized";
  row.node = "gb200-nvl72";
  row.nodes = 4096;
  row.switches = row.ports = row.cables = 12345;
  row.network_cost = 123456789;
  row.cost = 1234567890;
  row.step_time = 12.345;
  row.loss = 0.0123;
  row.days = 59.96;
  row.missed = "deadline and budget";
  answer.rows.emplace_back().error = "no plan";
  const std::string priced = size_screen(answer);
  CHECK_THAT(
      priced,
      Contains("network    2:1 on 128 x dgx-h100 costs 41 million\n") && Contains("1,234,567,890") &&
          Contains("12.35 s") && Contains("+1.23 %") &&
          Contains("  switches: quantum-2, 64 ports each. spines: those without a node\n  ratio: cables from a leaf "
                   "to nodes over those to spines. loss: step time over that on nonblocking, less 1\n") &&
          Contains("  * the choice. EUR: cost of owning switches and cables during the training. in "
                   "all: with the rent of the nodes\n"));
  CHECK(test::widest_line(priced) <= 120);
  all.unpriced = "prices.purchase.cable";
  CHECK_THAT(size_screen(answer), !Contains("1,234,567,890") && !Contains("in all"));
}

TEST_CASE("the parts of the counted network and their prices sum to its price on the screen", "[size]") {
  SizeAnswer answer;
  answer.currency = "EUR";
  answer.counted_network = "2:1";
  SizeNetworks& all = answer.networks.emplace();
  all.switch_ports = 64;
  SizeNetwork& row = all.rows.emplace_back();
  row.network = "2:1";
  row.node = "dgx-h100";
  row.nodes = 8;
  row.switches = 3;
  row.nodes_of_rack = 4;
  row.chosen = true;
  row.price_of_switches = 90000;
  row.by_length = {{false, 2.5, 10400, 100}, {true, 5, 20, 900}};
  answer.rows.emplace_back().error = "no plan";
  answer.thresholds = {{{"", "dgx-h100", 8, "rail-only"}, "purchase of a switch", "", 20002, 40004}};
  const std::string screen = size_screen(answer);
  CHECK_THAT(screen, Contains("  parts of 2:1 on 8 x dgx-h100, with 4 nodes in a rack\n"));
  CHECK_THAT(screen, Contains("copper cable    2.5 m  10,400           100  1,040,000\n") &&
                         Contains("optical cable     5 m      20           900     18,000\n") &&
                         Contains("sum                                          1,148,000\n"));
  CHECK_THAT(screen, Contains("price of a switch  20,002  above 40,004 EUR  8 x dgx-h100, rail-only"));
  CHECK_THAT(screen, Contains("  the table counts the network 2:1 unless another one is named\n"));
  CHECK_THAT(screen, Contains("  all figures count the network 2:1\n"));
  answer.counted_network = "rail-optimized";
  for (const char* terms : {"on demand", "purchase"}) {
    SizeChoice& choice = answer.choices.emplace_back();
    choice.node = "dgx-h100";
    choice.terms = terms;
  }
  answer.rows.push_back({});
  answer.rows.back().node = "dgx-h100";
  answer.rows.back().nodes = 1;
  CHECK_THAT(size_screen(answer),
             Contains("  nodes: with the network rail-optimized unless another one is named\n"
                      "  rents: with the cost of owning the network during the training\n") &&
                 Contains("  all figures count the network rail-optimized, except those of 1 x dgx-h100\n"));
  CHECK(test::widest_line(size_screen(answer)) <= 120);
}

TEST_CASE("a sum of money on a screen is whole from a thousand on, and the sum of its printed parts", "[size][costs]") {
  CHECK(sum_in_parts({{"cables", 384000}, {"nodes", 10800000}, {"storage", 0}, {"switches", 270000}}, "USD") ==
        "11,454,000 USD: cables 384,000 + nodes 10,800,000 + switches 270,000");
  // The parts round to 667 each, but 2,000 is their sum.
  CHECK(sum_in_parts({{"a", 666.6}, {"b", 666.7}, {"c", 666.7}}, "EUR") == "2,000 EUR: a 666 + b 667 + c 667");
  CHECK(sum_in_parts({{"a", 1.23456}, {"b", 2}}, "EUR") == "3.235 EUR: a 1.235 + b 2");
  CHECK(full_number(9999) == "9999");
  CHECK(full_number(20002) == "20,002");
  CHECK(full_number(0.59178) == "0.5918");
}

TEST_CASE("run reproduces the step of each network that size compares, on the scenario that size writes", "[size]") {
  const test::TopoFolder shell;
  // 64 ports on switches of 16.
  shell.write("empty.yml", "# none yet\n\n");
  shell.check_refused("size --model llama-3.2-1b --tokens 2B --days 30 --nodes-of dgx-h100 --prices empty.yml",
                      "empty.yml:1:1: nothing but blanks and comments; expected the keys of prices, as "
                      "scenarios/prices-example.yml has them");
  shell.write("p.yml", "purchase: {node: {dgx-h100: 300000}, switch: 30000, switch_ports: 16, cable: 1000}\n");
  const std::string size =
      "size --model llama-3.2-1b --tokens 2B --days 30 --work 100K --gpus 64 --nodes-of dgx-h100 --purchase --prices "
      "p.yml ";
  REQUIRE(
      shell.trainyard(size + "--network 'choose,4:1 on rails' --json a.json --csv a.csv --write w.yaml --html a.html")
          .exit == 0);
  const auto answer = parse_json(shell.text("a.json"));
  const auto& rows = answer.at("networks").at("rows");
  REQUIRE(rows.size() >= 6);
  CHECK(rows.at(5).at("network") == "4:1 on rails");
  for (const auto& row : rows) {
    CAPTURE(row.at("network"));
    CHECK(row.at("switches").get<int>() >= 8);
    const test::TopoAnswer run = shell.trainyard(
        "run w.yaml --no-what-if --json - --set 'cluster.fabric=" + row.at("fabric").get<std::string>() + "'");
    REQUIRE(run.exit == 0);
    CHECK(parse_json(run.out).at("step_time_s") == row.at("step_time_s"));
    if (row.at("chosen") == true)
      CHECK(parse_json(shell.trainyard("run w.yaml --no-what-if --json -").out).at("step_time_s") ==
            row.at("step_time_s"));
  }
  CHECK(std::ranges::count(shell.text("a.csv"), '\n') == static_cast<int>(rows.size()) + 1);
  CHECK_THAT(shell.text("a.html"), Contains("\"networks\""));
  shell.check_refused(size + "--by total", "--by total: price or total-cost expected");
  shell.check_refused("size --model llama-3.2-1b --tokens 2B --days 30 --nodes-of dgx-h100 --prices p.yml --by price",
                      "--by: only with --purchase");
  shell.check_refused(size + "--network rails-only",
                      "--network: unknown network \"rails-only\"; did you mean \"rail-only\"?");
  shell.check_refused(size + "--csv -", "--csv: only with --network, for example --network choose");
}

TEST_CASE("the lines of a purchase have its price, a year's cost, the training's share, and the use that pays",
          "[size]") {
  SizeAnswer answer;
  answer.currency = "USD";
  answer.purchase = true;
  answer.days = 30;
  SizeRow row;
  row.node = "dgx-h100";
  row.nodes = 4;
  row.gpus = 32;
  row.ownership.emplace();
  Ownership& o = *row.ownership;
  o.purchase_prices = {{"nodes", 300000}, {"switches", 20000}};
  o.yearly = {{"depreciation", 64000}, {"electricity", 10000}, {"cooling", 0}, {"interest", 0}};
  o.rents = {{"on demand", 0, 170000}};
  o.training = o.year() / 10;
  o.per_million = 1.25;
  answer.cheapest = row;
  // Rented for a share u of the year, the cluster costs 170,000 u; owned, 64,000 + 10,000 u.
  CHECK_THAT(size_screen(answer),
             Contains("purchase   320,000 USD: nodes 300,000 + switches 20,000\n") &&
                 Contains("a year     74,000 USD: depreciation 64,000 + electricity 10,000\n") &&
                 Contains("training   7,400 for its share of the years · 1.25 USD a million tokens"));
  CHECK(
      rent_or_buy(o) ==
      " · buying costs as much as renting (on demand) if it is in use 40.0 % of the time (always in use, as much as on "
      "demand after 2.00 years)");
  o.rents.push_back({"reserved 12 months", 70000, 70000});
  o.spot_year = 1234;
  CHECK(rent_or_buy(o) ==
        " · renting (reserved 12 months) costs less even at full use: 70,000 a year; buying would pay only after 5.33 "
        "years · spot, whose nodes are taken away, rents for 1,234 a year");
  o.rents = {{"on demand", 0, 10000}};
  o.spot_year = 0;
  CHECK(rent_or_buy(o) == " · electricity alone costs more than renting (on demand)");
}

TEST_CASE("size says hours or minutes, not 0.0 days, of a short training", "[size]") {
  for (const auto& [days, words, cell] : {std::tuple{82.64, "82.6 days", "82.6"},
                                          {0.1, "0.1 days", "0.1"},
                                          {0.09, "2.2 h", "2.2 h"},
                                          {0.05, "72.0 min", "72.0 min"},
                                          {0.0, "0.0 days", "0.0"}}) {
    CHECK(days_words(days) == words);
    CHECK(days_cell(days) == cell);
  }
  SizeAnswer answer;
  answer.days = 30;
  SizeRow row;
  row.node = "dgx-h100";
  row.nodes = 4;
  row.plan = "data 32";
  row.end_days = 0.05;
  answer.rows.push_back(row);
  answer.cheapest = row;
  const std::string screen = size_screen(answer);
  CHECK_THAT(screen, Contains("4 x dgx-h100 (0 GPUs): 72.0 min, 0 GPU-hours") && Contains("  72.0 min  ") &&
                         !Contains("0.0 days"));
}

TEST_CASE("the screen of size has a table of owned and bought nodes", "[size][islands]") {
  SizeAnswer answer;
  answer.scenario = "question";
  answer.currency = "USD";
  answer.purchase = true;
  SizeRow row;
  row.node = "dgx-b200";
  row.nodes = 1;
  row.beside = "dgx-h100";
  row.beside_nodes = 8;
  row.plan = "data 8";
  answer.rows = {row};
  SizeIsland owned, shared, refused;
  owned.gpus = 64;
  owned.step_time = 41.2;
  owned.samples_per_s = 49.7;
  owned.days = 28.4;
  owned.missed = "deadline";
  shared.kind = IslandKind::one_job;
  shared.node = "dgx-b200";
  shared.nodes = shared.bought_nodes = 1;
  shared.bought_gpus = 8;
  shared.gpus = 72;
  shared.step_time = 26.17;
  shared.samples_per_s = 78.3;
  shared.of_two_jobs = 0.93;
  shared.days = 18.1;
  shared.cost = 1744000;
  SizeIsland jobs = shared;
  jobs.kind = IslandKind::two_jobs;
  jobs.of_two_jobs.reset();
  jobs.owned_step_time = 41.2;
  refused.kind = IslandKind::bought_alone;
  refused.node = "gb200";
  refused.error = "the site has room for 0 x gb200 beside the owned nodes";
  answer.islands = {{"dgx-h100", 8, 64, "one job costs least.", {owned, shared, jobs, refused}}};
  const std::string screen = size_screen(answer);
  CHECK_THAT(screen, Contains("owned      one job costs least.\n") && Contains("1 x dgx-b200 beside 8 x dgx-h100"));
  CHECK_THAT(screen, Contains("  beside 8 x dgx-h100 ") && Contains("93.0 %") && Contains("1,744,000"));
  CHECK_THAT(screen, Contains("41.2 s, 26.17 s") && Contains("has room for 0 x gb200"));
  CHECK(test::widest_line(screen) <= 120);
  const auto json = size_fields().json(answer);
  std::set<std::string> keys;
  for (const auto& [key, field] : json.at("islands").at(0).items()) keys.insert("islands[]." + key);
  for (const auto& way : json.at("islands").at(0).at("rows"))
    for (const auto& [key, field] : way.items()) keys.insert("islands[].rows[]." + key);
  for (const FieldRow& field : size_fields().rows())
    if (field.path.starts_with("islands[].")) CHECK(keys.contains(field.path));
}

TEST_CASE("limits of a decision have their units", "[size]") {
  SizeAnswer answer;
  answer.currency = "EUR";
  CHECK(quantity_amount(answer, "deadline", 95.79) == "95.79 days");
  CHECK(quantity_amount(answer, "deadline", 0.05) == "72.0 min");
  CHECK(quantity_amount(answer, "delivery of dgx-h100 in days", 1) == "1 day");
  CHECK(quantity_amount(answer, "time of dgx-h100 in % of the simulated", 93.95) == "93.95 % of the simulated");
  CHECK(quantity_amount(answer, "gpu_hour of h100", 2.5) == "2.5 EUR");
  CHECK(quantity_words("time of dgx-h100 in % of the simulated") == "time of the training on dgx-h100");
  CHECK(quantity_words("delivery of dgx-h100 in days") == "delivery of dgx-h100");
  CHECK(quantity_amount(answer, "tokens", 2.312e12) == "2.312T tokens");
  CHECK(quantity_value("tokens", 3e11) == "300B");
  CHECK(quantity_words("tokens") == "length of the training");
  CHECK(quantity_amount(answer, "power of the site in kW", 1234) == "1234 kW");
  CHECK(quantity_words("power of the site in kW") == "power of the site");
  CHECK(quantity_amount(answer, "interest in %", 6.5) == "6.5 %");
  CHECK(quantity_words("interest in %") == "interest");
}

TEST_CASE("the table of a search has the best clusters so far, those that meet all conditions first", "[size]") {
  SizeAnswer answer;
  answer.currency = "USD";
  answer.days = 30;
  answer.budget = 1000;
  CHECK(live_size_table(answer, 80).empty());
  for (const auto& [nodes, days, money] : {std::tuple{1, 40.0, 100.0},
                                           {2, 20.0, 900.0},
                                           {4, 10.0, 800.0},
                                           {8, 5.0, 2000.0},
                                           {3, 35.0, 3.0},
                                           {9, 90.0, 1.0}}) {
    SizeRow& row = answer.rows.emplace_back();
    row.node = "dgx-h100";
    row.nodes = nodes;
    row.time = days * 86400;
    row.money = money;
    row.plan = "data " + std::string(100, '8');
  }
  answer.rows.emplace_back().error = "no plan";
  const std::vector<SizeRow> best = best_rows(answer, 4);
  std::vector<int> nodes;
  for (const SizeRow& row : best) nodes.push_back(row.nodes);
  CHECK(nodes == std::vector<int>{4, 2, 8, 3});
  const std::string table = live_size_table(answer, 80);
  CHECK(std::ranges::count(table, '\n') == 5);
  CHECK(test::widest_line(table) <= 80);
  CHECK_THAT(table, Contains("meets all") && Contains("over budget") && Contains("late") && Contains("4 x dgx-h100") &&
                        !Contains("9 x dgx-h100"));
}

TEST_CASE("an interval of days has one unit for both ends, and no label of the tornado chart is cut", "[size]") {
  SizeAnswer answer;
  answer.currency = "EUR";
  SizeRow& row = answer.rows.emplace_back();
  row.node = "dgx-h100";
  row.nodes = 4;
  for (int i = 0; i < 2; ++i) {
    SizeChoice& choice = answer.choices.emplace_back();
    choice.node = row.node;
    choice.nodes = row.nodes;
    choice.terms = i == 0 ? "on demand" : "spot";
    choice.likely_days = {i == 0 ? 0.0917 : 82.6, i == 0 ? 0.11 : 97.1};
  }
  const std::string screen = size_screen(answer);
  CHECK_THAT(screen, Contains("2.20 to 2.64 h") && Contains("82.6 to 97.1"));
  answer.cheapest = row;
  const std::string gpu = "h100-sxm5-80gb-with-a-rather-long-name-of-a-cloud (reserved 36 months)";
  answer.thresholds.push_back(
      {{"m", "dgx-h100-with-a-long-name", 48, "rail-only", "reserved 36 months"}, "gpu_hour of " + gpu, "", 2, 5.9});
  const std::string svg = tornado_picture(answer);
  std::smatch size;
  REQUIRE(std::regex_search(svg, size, std::regex("viewBox=\"0 0 ([0-9.]+) ")));
  const double width = std::stod(size[1]);
  const std::regex text("<text x=\"([0-9.]+)\"[^>]*>([^<]*)<");
  int labels = 0;
  for (std::sregex_iterator each(svg.begin(), svg.end(), text), end; each != end; ++each, ++labels) {
    const std::string tag = each->str(), words = (*each)[2];
    const double x = std::stod((*each)[1]), length = Svg::text_width(words, 11);
    CAPTURE(tag);
    if (tag.find("anchor=\"end\"") != std::string::npos)
      CHECK(x - length >= 0);
    else if (tag.find("anchor=\"middle\"") == std::string::npos)
      CHECK(x + length <= width);
  }
  CHECK(labels >= 5);
}

}  // namespace tools_test_size_screen
