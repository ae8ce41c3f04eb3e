#include <fmt/format.h>

#include <algorithm>

#include <nlohmann/json.hpp>
#include <optional>

#include "models/energy/price_names.hpp"
#include "models/energy/prices.hpp"
#include "models/hardware/node_parts.hpp"
#include "models/reading/shipped_files.hpp"
#include "scenarios/src/answer/json_fields.hpp"
#include "sim/units.hpp"
#include "tools/reports/table.hpp"
#include "tools/verbs/topo.hpp"
#include "tools/verbs/verbs.hpp"
#include "topologies/analysis/cable_plan.hpp"
#include "topologies/analysis/clos_design.hpp"

namespace trainyard {
namespace {

using nlohmann::ordered_json;

/// Prices of a fabric's parts, in the user's currency. A part without a price costs nothing.
struct FabricPrices {
  double price_of_switch = 0, price_of_cable = 0;
  Prices::Parts parts;  ///< prices of a file: cables by material and length
  std::string currency;
  bool any_given = false;

  double switches(const ClosDesign& design) const { return price_of_switch * static_cast<double>(design.switches); }
  double cables(const ClosDesign& design, const std::optional<CablePlan>& plan) const {
    if (!parts.cables || !plan) return price_of_cable * static_cast<double>(design.cables());
    return parts.copper * static_cast<double>(plan->count(false)) + parts.copper_metre * plan->metres(false) +
           parts.optical * static_cast<double>(plan->count(true)) + parts.optical_metre * plan->metres(true);
  }
  double cost(const ClosDesign& design, const std::optional<CablePlan>& plan) const {
    return switches(design) + cables(design, plan);
  }
};

double design_number(const std::string& flag, const std::string& text, double least) {
  double v = 0;
  try {
    v = parse_number(text);
  } catch (const UserError&) {
    throw UserError(fmt::format("{} {}: expected a number", flag, text));
  }
  if (v < least) throw UserError(fmt::format("{} {}: expected {} or more", flag, text, exact(least)));
  return v;
}

int ports_of_switch(const std::string& name) {
  return read_network_switch(Catalog().resolve("switch", Node::scalar_node(name, Place::named("--switch " + name))))
      .ports;
}

std::string cables_text(const CablePlan& plan) {
  std::string text = fmt::format("{} racks of hosts in {}\n", plan.racks, counted_noun(plan.rows, "row"));
  TextTable table{"cable", ">length", ">count"};
  for (const CablesOfLength& c : plan.cables)
    table.rows.push_back(
        {c.optical ? "optical" : "copper", fmt::format("{} m", exact(c.length)), fmt::format("{}", c.count)});
  return text + table.text("  ") +
         fmt::format("copper {} m in {}, optical {} m in {}\n", exact(plan.metres(false)), plan.count(false),
                     exact(plan.metres(true)), plan.count(true));
}

std::string cost_text(const ClosDesign& design, const std::optional<CablePlan>& plan, const FabricPrices& prices) {
  if (!prices.parts.is_given())
    return fmt::format("cost {}: switches at {}, cables at {}\n", exact(prices.cost(design, plan)),
                       exact(prices.price_of_switch), exact(prices.price_of_cable));
  return fmt::format("cost {} {}: switches {}, cables {}\n", exact(prices.cost(design, plan)), prices.currency,
                     exact(prices.switches(design)), exact(prices.cables(design, plan)));
}

std::string design_text(const ClosRequest& request, const ClosDesign& design, const std::optional<CablePlan>& plan,
                        const FabricPrices& prices) {
  std::string text = fmt::format("{} on switches of {}: {}, {}, ", counted_noun(design.hosts, "host"),
                                 counted_noun(request.ports, "port"),
                                 counted_noun(static_cast<std::int64_t>(design.levels.size()), "level"),
                                 counted_noun(design.switches, "switch", "switches"));
  text += request.oversubscription > 1
              ? fmt::format("every pattern at 1/{} of full rate or better\n", exact(request.oversubscription))
              : "nonblocking (any traffic at full rate when it is sprayed)\n";
  TextTable table{"level", ">switches", ">ports down", ">ports up"};
  for (const ClosLevel& level : design.levels)
    table.rows.push_back(
        {level.name, fmt::format("{}", level.switches), fmt::format("{}", level.down), fmt::format("{}", level.up)});
  text += table.text("  ");
  if (design.pods > 1) text += fmt::format("{} pods\n", design.pods);
  text += fmt::format("cables {}: {} to hosts, {} between switches; {} left\n", design.cables(), design.hosts,
                      design.links, counted_noun(design.ports_left, "port"));
  if (plan) text += cables_text(*plan);
  if (prices.any_given) text += cost_text(design, plan, prices);
  return text;
}

struct PricedDesign {
  ClosRequest request;
  ClosDesign design;
  FabricPrices prices;
  std::optional<CablePlan> plan = std::nullopt;
};

JsonFields<PricedDesign> design_fields() {
  using L = ClosLevel;
  using C = ClosDesign;
  using D = PricedDesign;
  const auto level = JsonFields<L>()
                         .value("name", "", &L::name,
                                "name of the level: leaf, spine, aggregation, core; switch if there is only one level")
                         .value("switches", "", &L::switches, "number of switches of the level")
                         .value("ports_down", "", &L::down, "ports of a switch towards the hosts")
                         .value("ports_up", "", &L::up, "ports of a switch towards the core");
  const auto design =
      JsonFields<C>()
          .value(
              "levels", "", [](const C& c) { return std::uint64_t{c.levels.size()}; }, "number of levels of switches")
          .value("switches", "", &C::switches, "number of switches")
          .value("links", "", &C::links, "number of cables between switches")
          .value("cables", "", &C::cables, "number of cables, with those to the hosts")
          .value("ports_left", "", &C::ports_left, "number of free ports of all switches")
          .value("pods", "", &C::pods, "number of pods of three levels")
          .value("oversubscription", "", &C::oversubscription, "ratio of hosts to uplinks of the fullest leaf")
          .value(
              "nonblocking", "", [](const C& c) { return c.oversubscription <= 1; },
              "true: any traffic goes at full rate if it is sprayed over all paths")
          .list("by_level", &C::levels, level, "levels from the hosts up");
  return JsonFields<D>()
      .value(
          "hosts", "", [](const D& d) { return d.design.hosts; }, "number of NIC ports of hosts")
      .value(
          "ports", "", [](const D& d) { return d.request.ports; }, "number of ports of a switch")
      .inlined(&D::design, design)
      .value(
          "racks", "", [](const D& d) { return d.plan->racks; }, "number of racks of hosts")
      .value(
          "rows", "", [](const D& d) { return d.plan->rows; }, "number of rows of racks")
      .when_since("racks", &D::plan, "with --hosts-per-rack")
      .list(
          "by_length", [](auto& d) -> auto& { return d.plan->cables; },
          JsonFields<CablesOfLength>()
              .value("optical", "", &CablesOfLength::optical, "true: optical; false: copper")
              .value("length_m", "m", &CablesOfLength::length, "length of the cable, as sold")
              .value("count", "", &CablesOfLength::count, "number of such cables"),
          "cables by their length")
      .when(&D::plan, "with --hosts-per-rack")
      .value(
          "cost", "", [](const D& d) { return d.prices.cost(d.design, d.plan); },
          "cost of switches and cables, in the currency of the prices")
      .when([](const D& d) { return d.prices.any_given; }, "with prices");
}

const RegisterJsonReference topo_design_json{"topo design", "the switched fabric", design_fields};

/// Lengths of cables that are sold, m, the shortest first.
std::vector<double> cable_lengths(const std::string& list) {
  std::vector<double> lengths;
  for (const std::string& text : comma_list(list)) lengths.push_back(design_number("--cable-lengths", text, 0));
  std::ranges::sort(lengths);
  if (!lengths.empty() && lengths.front() == 0)
    throw UserError(fmt::format("--cable-lengths {}: lengths above 0 expected", list));
  return lengths;
}

/// Takes the prices of switches and cables from a prices file. Throws UserError if it does not fit the other flags.
void take_prices(FabricPrices& prices, const std::string& file, const std::string& switch_name, bool racks) {
  const Node document = read_document(scenario_file(file));
  const Prices read = read_prices(document);
  check_price_names(document, Catalog());
  if (!read.parts.is_given())
    throw UserError(
        fmt::format("--prices {}: it prices no switch and no cable (scenarios/prices-example.yml shows how)", file));
  prices.parts = read.parts;
  prices.currency = read.currency;
  prices.any_given = true;
  if (read.parts.cables && !racks)
    throw UserError("--prices: cables are priced by their length; --hosts-per-rack expected");
  if (read.parts.switches.empty()) return;
  if (switch_name.empty()) throw UserError("--prices: of which switch? --switch NAME expected");
  std::vector<std::string> names;
  for (const auto& [name, price] : read.parts.switches) {
    names.push_back(name);
    if (name == switch_name) prices.price_of_switch = price;
  }
  if (std::ranges::find(names, switch_name) == names.end())
    throw UserError(
        fmt::format("--prices {}: no price of the switch {}{}", file, switch_name, hint(switch_name, names)));
}

int topo_design(const std::vector<std::string>& words) {
  Arguments arguments("topo design",
                      "Finds the leaf-spine or fat tree (folded Clos) with the fewest switches that carries any "
                      "traffic of its hosts at full rate, or at 1/r of it.",
                      "topo design --hosts 1024 --ports 64 --switch-price 20000 --cable-price 150");
  ClosRequest request;
  int hosts = 0;
  std::string oversubscription, switch_name, switch_price, cable_price, prices_file, lengths, copper_reach, json;
  FloorPlan floor;
  arguments.option("--hosts", hosts, "N", "number of NIC ports to join", 1);
  arguments.option("--ports", request.ports, "P", "number of ports of a switch, each at the rate of a NIC", 1);
  arguments.option("--switch", switch_name, "NAME",
                   "a switch of the catalog, instead of --ports (`trainyard list switches`)");
  arguments.option("--oversubscription", oversubscription, "R",
                   "ratio of hosts to uplinks of a leaf, for example 2 or 2:1 (default 1)");
  arguments.option("--levels", request.levels, "1|2|3",
                   "number of levels (default 0: the number that needs the fewest switches)");
  arguments.option("--switch-price", switch_price, "X", "price of one switch, in any currency");
  arguments.option("--cable-price", cable_price, "X", "price of one cable, in the same currency");
  arguments.option("--hosts-per-rack", floor.hosts_of_rack, "N",
                   "number of NIC ports of a rack; lists the cables by their lengths across the machine hall");
  arguments.option("--racks-per-row", floor.racks_of_row, "N",
                   "number of racks in a row; a rack is 0.6 m wide, rows are 2.1 m apart (default 10)", 1);
  arguments.option("--cable-lengths", lengths, "A,B,...", "cable lengths that are sold, m (default 0.5 to 100)");
  arguments.option("--copper-reach", copper_reach, "M", "longer cables are optical (default 3 m)");
  arguments.option("--prices", prices_file, "FILE",
                   "file with your prices of switches and cables (scenarios/prices-example.yml shows how)");
  arguments.output("--json", json, "write the design as JSON; - is stdout");
  if (!arguments.parse(words)) return kGood;
  if (floor.hosts_of_rack == 0 && (!(lengths + copper_reach).empty() || floor.racks_of_row != FloorPlan{}.racks_of_row))
    throw UserError("--racks-per-row, --cable-lengths, --copper-reach: only with --hosts-per-rack");
  if (!prices_file.empty() && !(switch_price + cable_price).empty())
    throw UserError("--prices: not with --switch-price and --cable-price");
  if (!lengths.empty()) floor.lengths = cable_lengths(lengths);
  if (!copper_reach.empty()) floor.copper_reach = design_number("--copper-reach", copper_reach, 0);
  if (!switch_name.empty()) {
    if (request.ports != 0) throw UserError("trainyard topo design: --ports or --switch, not both");
    request.ports = ports_of_switch(switch_name);
  }
  if (hosts == 0 || request.ports == 0)
    throw UserError("trainyard topo design: --hosts and --ports are needed (--switch NAME has its ports)");
  request.hosts = hosts;
  if (oversubscription.ends_with(":1")) oversubscription.resize(oversubscription.size() - 2);
  if (!oversubscription.empty()) request.oversubscription = design_number("--oversubscription", oversubscription, 1);
  FabricPrices prices;
  prices.any_given = !switch_price.empty() || !cable_price.empty();
  if (!switch_price.empty()) prices.price_of_switch = design_number("--switch-price", switch_price, 0);
  if (!cable_price.empty()) prices.price_of_cable = design_number("--cable-price", cable_price, 0);
  if (!prices_file.empty()) take_prices(prices, prices_file, switch_name, floor.hosts_of_rack != 0);
  const ClosDesign design = design_clos(request);
  std::optional<CablePlan> cables;
  if (floor.hosts_of_rack != 0) cables = plan_cables(cabled_network(design), floor);
  write_json(json, design_fields().json({request, design, prices, cables}));
  if (json != "-") write_atomically("-", design_text(request, design, cables, prices));
  return kGood;
}

const RegisterTopoVerb registered_topo_design{"design", "find the switched fabric with the fewest switches for N hosts",
                                              topo_design};

}  // namespace
}  // namespace trainyard
