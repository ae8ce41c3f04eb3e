// The prices of the parts of a network, as `trainyard size` takes them from a price file.
#include "scenarios/src/sizing/size_network_prices.hpp"

#include <fmt/format.h>

#include <string_view>

#include "models/hardware/network_switch.hpp"

namespace trainyard {
namespace {

const Node* fabric_of(const Node& document) {
  const Node* cluster = document.find("cluster");
  const Node* fabric = cluster ? cluster->find("fabric") : nullptr;
  return fabric && fabric->kind == Node::Kind::map ? fabric : nullptr;
}

}  // namespace

QuestionSwitch read_question_switch(const SizeQuestion& question) {
  QuestionSwitch all;
  all.name = question.options().network_switch;
  Place place = Place::named("--switch");
  const Node* fabric = fabric_of(question.document());
  const Node* stated = fabric ? fabric->find("switch") : nullptr;
  if (all.name.empty() && stated && stated->kind == Node::Kind::scalar) {
    all.name = stated->scalar;
    place = stated->place;
  }
  const int priced_ports = question.prices().purchase.switch_ports;
  if (!all.name.empty()) {
    all.ports = read_network_switch(question.catalog().resolve("switch", Node::scalar_node(all.name, place))).ports;
    all.keys.push_back("switch: " + all.name);
  } else if (priced_ports > 0) {
    all.ports = priced_ports;
  }
  for (const char* key : {"switch_latency", "distance", "sharp"})
    if (const Node* value = fabric ? fabric->find(key) : nullptr; value && value->kind == Node::Kind::scalar)
      if (std::string_view(key) != "switch_latency" || question.options().network_switch.empty())
        all.keys.push_back(fmt::format("{}: {}", key, value->scalar));
  return all;
}

std::optional<double> NetworkPrices::of_switches(double count) const {
  if (const auto named = prices_.parts.switch_named(type_.name); named && !type_.name.empty())
    return named->second * count;
  const Purchase& purchase = prices_.purchase;
  if (purchase.network_switch.empty() || purchase.switch_ports != type_.ports) return std::nullopt;
  return Purchase::price_of(purchase.network_switch, count);
}

std::optional<double> NetworkPrices::of_cable(const SizeCables& cable, double count) const {
  const Purchase& purchase = prices_.purchase;
  if (!purchase.cables_by_length.empty()) return purchase.price_of_length(cable.length);
  if (!purchase.cable.empty()) return Purchase::price_of(purchase.cable, count) / count;
  const Prices::Parts& parts = prices_.parts;
  if (!parts.cables) return std::nullopt;
  return cable.optical ? parts.optical + parts.optical_metre * cable.length
                       : parts.copper + parts.copper_metre * cable.length;
}

std::string NetworkPrices::missing() const {
  std::vector<std::string> words;
  if (!of_switches(1))
    words.push_back(type_.name.empty() ? "prices.purchase.switch"
                                       : fmt::format("prices.switch.{} (or prices.purchase.switch with switch_ports: "
                                                     "{})",
                                                     type_.name, type_.ports));
  if (prices_.purchase.cable.empty() && !prices_.parts.cables) words.emplace_back("prices.purchase.cable");
  return fmt::format("{}", fmt::join(words, " and "));
}

}  // namespace trainyard
