#include "tools/reports/assumptions.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "models/energy/price_names.hpp"
#include "models/energy/prices.hpp"
#include "models/reading/catalog.hpp"
#include "scenarios/src/reading/scenario.hpp"

namespace trainyard {
namespace {

/// Says where a figure without a source is stated: "prices.yml:12, which names no source".
std::string place_words(const Node& node) {
  if (!node.place.file || node.place.file->empty()) return "stated in the question, which names no source";
  const std::string file = std::filesystem::path(*node.place.file).filename().string();
  return (node.place.line > 0 ? fmt::format("{}:{}", file, node.place.line) : file) + ", which names no source";
}

/// The texts of sources of an entry, and the source of all figures that state none.
struct SourceTexts {
  const Node* texts = nullptr;
  std::string common;

  explicit SourceTexts(const Node& entry) : texts(entry.find("sources")) {
    if (const Node* source = entry.find("source")) common = full_text(source->scalar);
  }
  std::string full_text(const std::string& source) const {
    const Node* text = texts ? texts->find(source) : nullptr;
    return text ? text->scalar : source;
  }
  std::string source_of(const Node& figure) const {
    const Node* source = figure.kind == Node::Kind::map ? figure.find("source") : nullptr;
    const Node* unverified = figure.kind == Node::Kind::map ? figure.find("unverified") : nullptr;
    const std::string text = source ? full_text(source->scalar) : !common.empty() ? common : place_words(figure);
    return text + (unverified && unverified->scalar == "true" ? " (unverified)" : "");
  }
};

/// Lists the figures of a price file.
class PriceList {
 public:
  PriceList(const Node& prices, const std::vector<std::string>& names)
      : prices_(prices), names_(names), texts_(prices) {
    if (const Node* currency = prices.find("currency")) currency_ = currency->scalar;
  }

  std::vector<Assumption> list() {
    add_rents(prices_, "");
    if (const Node* terms = prices_.find("reserved"))
      for (const Node& term : terms->items) {
        const Node* months = term.find("months");
        const std::string terms_words = fmt::format(", reserved {} month{}", months ? value(*months).scalar : "",
                                                    months && value(*months).scalar == "1" ? "" : "s");
        add_rents(term, terms_words);
        add(term, "idle", "share of the rent for unused hours" + terms_words, "");
      }
    if (const Node* spot = prices_.find("spot")) {
      add_rents(*spot, ", spot");
      add(*spot, "interruption", "time between interruptions of a spot node", "");
      add(*spot, "restart", "restart after an interruption", "");
    }
    add(prices_, "kwh", "electricity, in addition to rents", money("a kWh"));
    add_named(prices_, "switch", "switch {}", money("each"), false);
    if (const Node* cable = prices_.find("cable")) {
      add(*cable, "copper", "copper cable", money("each"));
      add(*cable, "copper_metre", "copper cable, each metre", money("a metre"));
      add(*cable, "optical", "optical cable", money("each"));
      add(*cable, "optical_metre", "optical cable, each metre", money("a metre"));
    }
    if (const Node* purchase = prices_.find("purchase")) add_purchase(*purchase);
    return std::move(all_);
  }

 private:
  const Node& prices_;
  const std::vector<std::string>& names_;
  const SourceTexts texts_;
  std::string currency_ = "USD";
  std::vector<Assumption> all_;

  std::string money(const char* quantity) const { return currency_ + " " + quantity; }
  static const Node& value(const Node& figure) {
    const Node* inner = figure.kind == Node::Kind::map ? figure.find("value") : nullptr;
    return inner ? *inner : figure;
  }
  bool is_of_answer(const std::string& name) const {
    return names_.empty() ||
           std::ranges::any_of(names_, [&name](const std::string& each) { return same_name(each, name); });
  }

  void add_figure(const Node& figure, const std::string& item, const std::string& unit) {
    all_.push_back({item, value(figure).scalar, unit, texts_.source_of(figure), &figure});
  }
  /// Adds a figure, or a price for each quantity.
  void add(const Node& section, const char* key, const std::string& item, const std::string& unit) {
    const Node* figure = section.find(key);
    if (figure && figure->kind != Node::Kind::null) add_steps(*figure, item, unit);
  }
  void add_steps(const Node& figure, const std::string& item, const std::string& unit) {
    if (figure.kind != Node::Kind::map || figure.find("value")) return add_figure(figure, item, unit);
    for (const auto& [quantity, price] : figure.fields)
      add_figure(price, fmt::format("{}, from {} on", item, quantity), unit);
  }
  /// Adds the figures of a map by names. `{}` in the item stands for the name.
  void add_named(const Node& section, const char* key, const std::string& item, const std::string& unit,
                 bool is_selected = true) {
    const Node* map = section.find(key);
    if (!map || map->kind != Node::Kind::map) return;
    for (const auto& [name, figure] : map->fields)
      if (!is_selected || is_of_answer(name)) add_steps(figure, fmt::format(fmt::runtime(item), name), unit);
  }
  void add_rents(const Node& section, const std::string& terms) {
    add_named(section, "gpu_hour", "rent of one {}" + terms, money("an hour"));
    add_named(section, "node_hour", "rent of a node {}" + terms, money("an hour"));
  }
  void add_default(const Node& purchase, const char* key, const std::string& item, const std::string& figure,
                   const std::string& unit) {
    if (purchase.find(key))
      add(purchase, key, item, unit);
    else
      all_.push_back({item, figure, unit, "default: the prices state none"});
  }
  void add_purchase(const Node& purchase) {
    add_named(purchase, "node", "node {}", money("each"));
    add_named(purchase, "gpu", "{} with its share of the node", money("each"));
    add(purchase, "switch", "switch, bought", money("each"));
    add(purchase, "switch_ports", "ports of a bought switch", "");
    add(purchase, "cable", "cable with its transceivers", money("each"));
    if (const Node* lengths = purchase.find("cables"))
      for (const auto& [length, price] : lengths->fields) add_figure(price, "cable up to " + length, money("each"));
    add_default(purchase, "storage", "storage of the cluster", "0", currency_);
    add_default(purchase, "years", "depreciation", "4", "years");
    add_default(purchase, "interest", "interest of a year", "0", "share");
    add_default(purchase, "kwh", "electricity at the site", "0", money("a kWh"));
    add_default(purchase, "staff", "staff of a year", "0", "share of the price");
    add_default(purchase, "space", "space of a year", "0", "share of the price");
    add(purchase, "kw_month", "space for a kW", money("a month"));
    if (const Node* counts = purchase.find("owned"))
      for (const auto& [name, count] : counts->fields) add_figure(count, name + ", owned already", "");
    if (const Node* deliveries = purchase.find("delivery"))
      for (const auto& [name, delivery] : deliveries->fields) {
        if (!is_of_answer(name)) continue;
        if (delivery.kind != Node::Kind::list) add_figure(delivery, "delivery of " + name, "");
        for (const Node& batch : delivery.items) {
          const Node* nodes = batch.find("nodes");
          if (const Node* after = batch.find("after"))
            add_figure(
                *after,
                fmt::format("delivery of {} {}", nodes ? value(*nodes).scalar : std::string("all further"), name), "");
        }
      }
  }
};

/// Returns the words for a key of a section; none for a key that repeats the name of its section.
std::string words_of_key(const std::string& key, const std::string& item) {
  if (item.starts_with(key + ":")) return "";
  if (item.ends_with(" mean time between failures of"))
    for (const auto& [part, words] : {std::pair{"gpu", "a GPU"},
                                      {"node", "a node"},
                                      {"nic", "an adapter"},
                                      {"link", "a link"},
                                      {"software", "the software"}})
      if (key == part) return std::string(" ") + words;
  if (key == "mtbf") return " mean time between failures of";
  std::string words = " " + key;
  std::ranges::replace(words, '_', ' ');
  return words;
}

/// Adds the figures of a section with their paths in words as items: "failures: mean time between failures of a node".
void add_section(const Node& section, const std::string& item, const SourceTexts& texts, std::vector<Assumption>& all) {
  if (section.kind == Node::Kind::scalar || section.find("value")) {
    const Node* inner = section.find("value");
    all.push_back({item, inner ? inner->scalar : section.scalar, "", texts.source_of(section)});
    return;
  }
  for (const auto& [key, child] : section.fields) {
    if (key == "name" || key == "description" || key == "sources" || key == "source") continue;
    add_section(child, item + words_of_key(key, item), texts, all);
  }
  for (const Node& child : section.items) add_section(child, item, texts, all);
}

bool is_stated(const Node* node) { return node && node->kind != Node::Kind::null; }

}  // namespace

std::vector<Assumption> price_assumptions(const Node& prices, const std::vector<std::string>& names) {
  return PriceList(prices, names).list();
}

std::vector<std::string> node_types(const Scenario& scenario) {
  std::vector<std::string> names;
  for (const auto& [type, count] : scenario.cluster.counted_types()) {
    names.push_back(type->name);
    names.push_back(type->gpu.name);  // a scenario may define a node of its own
  }
  return names;
}

nlohmann::ordered_json assumptions_json(const Node& document, const std::vector<std::string>& nodes) {
  const Catalog catalog;
  std::vector<Assumption> all;
  if (const Node* prices = document.find("prices"); is_stated(prices)) {
    std::vector<std::string> names = nodes;
    for (const std::string& node : nodes)
      if (const std::string gpu = gpu_of_node(catalog, node); !gpu.empty()) names.push_back(gpu);
    all = price_assumptions(catalog.resolve("price", *prices), names);
  }
  if (const Node* site = document.find("site"); is_stated(site)) {
    const Node entry = catalog.resolve("site", *site);
    add_section(entry, "site:", SourceTexts(entry), all);
  }
  if (const Node* faults = document.find("faults"); is_stated(faults))
    add_section(*faults, "failures:", SourceTexts(*faults), all);
  const Node* plan = document.find("plan");
  if (const Node* training = plan ? plan->find("training") : nullptr; is_stated(training))
    add_section(*training, "training:", SourceTexts(*training), all);
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const Assumption& each : all)
    list.push_back({{"item", each.item}, {"figure", each.figure}, {"unit", each.unit}, {"source", each.source}});
  return list;
}

}  // namespace trainyard
