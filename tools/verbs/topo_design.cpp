#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "models/hardware/network_switch.hpp"
#include "scenarios/answer/json_reference.hpp"
#include "sim/json_text.hpp"
#include "sim/process/output.hpp"
#include "sim/units.hpp"
#include "tools/reports/table.hpp"
#include "tools/verbs/arguments.hpp"
#include "tools/verbs/topo.hpp"
#include "tools/verbs/verbs.hpp"
#include "topologies/analysis/clos_design.hpp"

namespace trainyard {
namespace {

using nlohmann::ordered_json;

/// Prices in whatever currency they were given in; a part without a price costs nothing.
struct FabricPrices {
  double of_switch = 0, of_cable = 0;
  bool given = false;

  double cost(const ClosDesign& design) const {
    return of_switch * static_cast<double>(design.switches) + of_cable * static_cast<double>(design.cables());
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
  return read_network_switch(Catalog().resolve("switch", Node::of_text(name, Place::of("--switch " + name)))).ports;
}

std::string design_text(const ClosRequest& request, const ClosDesign& design, const FabricPrices& prices) {
  std::string text = fmt::format("{} hosts on switches of {} ports: {} level{}, {} switch{}, ", design.hosts,
                                 request.ports, design.levels.size(), design.levels.size() == 1 ? "" : "s",
                                 design.switches, design.switches == 1 ? "" : "es");
  text += request.oversubscription > 1
              ? fmt::format("every pattern at 1/{} of full rate or better\n", exact(request.oversubscription))
              : "nonblocking (any traffic at full rate when it is sprayed)\n";
  TextTable table{{"level", "switches", "ports down", "ports up"}, {false, true, true, true}, {}};
  for (const ClosLevel& level : design.levels)
    table.rows.push_back(
        {level.name, fmt::format("{}", level.switches), fmt::format("{}", level.down), fmt::format("{}", level.up)});
  text += table.text("  ");
  if (design.pods > 1) text += fmt::format("{} pods\n", design.pods);
  text += fmt::format("cables {}: {} to hosts, {} between switches; {} ports left\n", design.cables(), design.hosts,
                      design.links, design.ports_left);
  if (prices.given)
    text += fmt::format("cost {}: switches at {}, cables at {}\n", exact(prices.cost(design)), exact(prices.of_switch),
                        exact(prices.of_cable));
  return text;
}

struct PricedDesign {
  ClosRequest request;
  ClosDesign design;
  FabricPrices prices;
};

JsonFields<PricedDesign> design_fields() {
  using L = ClosLevel;
  using D = PricedDesign;
  const auto level = JsonFields<L>()
                         .value("name", "", &L::name, "leaf, spine, aggregation, core; switch alone")
                         .value("switches", "", &L::switches, "switches of the level")
                         .value("ports_down", "", &L::down, "ports of a switch towards the hosts")
                         .value("ports_up", "", &L::up, "ports of a switch towards the core");
  return JsonFields<D>()
      .value(
          "hosts", "", [](const D& d) { return d.design.hosts; }, "ports of hosts")
      .value(
          "ports", "", [](const D& d) { return d.request.ports; }, "ports of a switch")
      .value(
          "levels", "", [](const D& d) { return std::uint64_t{d.design.levels.size()}; }, "levels of switches")
      .value(
          "switches", "", [](const D& d) { return d.design.switches; }, "switches in all")
      .value(
          "links", "", [](const D& d) { return d.design.links; }, "cables between switches")
      .value(
          "cables", "", [](const D& d) { return d.design.cables(); }, "cables, with those to the hosts")
      .value(
          "ports_left", "", [](const D& d) { return d.design.ports_left; }, "ports of all switches that stay free")
      .value(
          "pods", "", [](const D& d) { return d.design.pods; }, "pods of three levels")
      .value(
          "oversubscription", "", [](const D& d) { return d.design.oversubscription; },
          "hosts to uplinks of the fullest leaf")
      .value(
          "nonblocking", "", [](const D& d) { return d.design.oversubscription <= 1; },
          "any traffic goes at full rate when it is sprayed")
      .list(
          "by_level", [](auto& d) -> auto& { return d.design.levels; }, level, "levels from the hosts up")
      .value(
          "cost", "", [](const D& d) { return d.prices.cost(d.design); }, "in the currency of the prices")
      .when([](const D& d) { return d.prices.given; }, "with prices");
}

const RegisterJsonReference topo_design_json{"topo design", "the switched fabric",
                                             [] { return design_fields().rows(); }};

ordered_json design_json(const ClosRequest& request, const ClosDesign& design, const FabricPrices& prices) {
  ordered_json j = ordered_json::object();
  design_fields().write({request, design, prices}, j);
  return j;
}

int topo_design(const std::vector<std::string>& words) {
  Arguments arguments("topo design",
                      "The leaf-spine or fat tree (folded Clos) with the fewest switches that carries any traffic of "
                      "its hosts at full rate, or at 1/r of it.",
                      "topo design --hosts 1024 --ports 64 --switch-price 20000 --cable-price 150");
  ClosRequest request;
  int hosts = 0;
  std::string oversubscription, switch_name, switch_price, cable_price, json;
  arguments.option("--hosts", hosts, "N", "NIC ports to join");
  arguments.option("--ports", request.ports, "P", "ports of a switch, each at the rate of a NIC");
  arguments.option("--switch", switch_name, "NAME",
                   "a switch of the catalog, instead of --ports (`trainyard list switches`)");
  arguments.option("--oversubscription", oversubscription, "R", "hosts to uplinks of a leaf: 2 or 2:1 (default 1)");
  arguments.option("--levels", request.levels, "1|2|3", "number of levels (0: whichever needs the fewest switches)");
  arguments.option("--switch-price", switch_price, "X", "price of one switch, in any currency");
  arguments.option("--cable-price", cable_price, "X", "price of one cable, in the same currency");
  arguments.output("--json", json, "write it as JSON; - is stdout");
  if (!arguments.parse(words)) return kGood;
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
  prices.given = !switch_price.empty() || !cable_price.empty();
  if (!switch_price.empty()) prices.of_switch = design_number("--switch-price", switch_price, 0);
  if (!cable_price.empty()) prices.of_cable = design_number("--cable-price", cable_price, 0);
  const ClosDesign design = design_clos(request);
  if (!json.empty()) write_atomically(json, json_text(design_json(request, design, prices), 2) + "\n");
  if (json != "-") write_atomically("-", design_text(request, design, prices));
  return kGood;
}

const RegisterTopoVerb registered_topo_design{"design", "the switched fabric with the fewest switches for N hosts",
                                              topo_design};

}  // namespace
}  // namespace trainyard
