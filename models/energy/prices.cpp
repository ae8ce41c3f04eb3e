#include "models/energy/prices.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace trainyard {
namespace {

constexpr double kMostMoney = 1e9;  // for any price; a higher one is surely a mistake

void read_rents(Prices& prices, Fields& fields, const char* key, double Prices::Rent::*member) {
  const Node* map = fields.child(key);
  if (!map || map->kind == Node::Kind::null) return;
  Fields rents(*map, fmt::format("prices.{}", key));
  for (const auto& [name, node] : map->fields) {
    if (std::any_of(prices.rents.begin(), prices.rents.end(), [&](const auto& r) { return same_name(r.name, name); }))
      fail(node.place, fmt::format("prices: {} has both an hour of a GPU and of a node; leave one of both out", name));
    prices.rents.push_back({name, 0, 0});
    prices.rents.back().*member = rents.number(name, 0, kMostMoney);
  }
  rents.finish();
}

void read_parts(Prices::Parts& parts, Fields& fields) {
  if (const Node* map = fields.child("switch")) {
    Fields switches(*map, "prices.switch");
    for (const auto& [name, node] : map->fields)
      parts.switches.emplace_back(name, switches.number(name, 0, kMostMoney));
    switches.finish();
  }
  const Node* map = fields.child("cable");
  if (!map) return;
  Fields cable(*map, "prices.cable");
  parts.copper = cable.number("copper", 0, kMostMoney, 0);
  parts.copper_metre = cable.number("copper_metre", 0, kMostMoney, 0);
  parts.optical = cable.number("optical", 0, kMostMoney, 0);
  parts.optical_metre = cable.number("optical_metre", 0, kMostMoney, 0);
  cable.finish();
  parts.cables = true;
}

}  // namespace

double Prices::gpu_hour(const std::string& node, const std::string& gpu, int gpus_a_node) const {
  for (const std::string& name : {node, gpu})
    for (const Rent& rent : rents)
      if (same_name(rent.name, name)) return rent.node_hour > 0 ? rent.node_hour / gpus_a_node : rent.gpu_hour;
  if (kwh > 0 && rents.empty()) return 0;
  std::vector<std::string> names;
  for (const Rent& rent : rents) names.push_back(rent.name);
  fail(place, fmt::format("prices: none of {} or of {}{}", node, gpu, hint("", names)));
}

Prices read_prices(const Node& node) {
  Fields fields(node, "prices");
  Prices prices;
  prices.place = node.place;
  fields.text("name", "");
  fields.text("description", "");
  prices.currency = fields.text("currency", "USD");
  read_rents(prices, fields, "gpu_hour", &Prices::Rent::gpu_hour);
  read_rents(prices, fields, "node_hour", &Prices::Rent::node_hour);
  prices.kwh = fields.number("kwh", 0, kMostMoney, 0);
  read_parts(prices.parts, fields);
  fields.finish();
  if (prices.rents.empty() && prices.kwh == 0 && !prices.parts.given())
    fail(node.place, "prices: expected gpu_hour or node_hour, by names of nodes or GPUs, kwh, switch or cable");
  return prices;
}

}  // namespace trainyard
