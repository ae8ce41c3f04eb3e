// Finds the cheapest of the evaluated clusters, and the prices and deadlines that would change it.
#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <map>
#include <set>
#include <tuple>

#include "models/energy/energy.hpp"
#include "models/hardware/node.hpp"
#include "models/reading/catalog.hpp"
#include "scenarios/src/sizing/size_answer.hpp"
#include "sim/stable_sort.hpp"

namespace trainyard {
namespace {

using RowValue = std::function<double(const SizeRow&)>;

const SizeRow* least_row(const std::vector<SizeRow>& rows, const std::function<bool(const SizeRow&)>& counts,
                         const RowValue& key) {
  const SizeRow* best = nullptr;
  for (const SizeRow& row : rows)
    if (row.good() && counts(row) && (!best || key(row) < key(*best))) best = &row;
  return best;
}

std::optional<SizeRow> copy_of(const SizeRow* row) { return row ? std::optional<SizeRow>(*row) : std::nullopt; }

/// A quantity of the question, with the part of each row's cost that is in proportion to it.
struct LinearPrice {
  std::string quantity;
  double value = 0;
  RowValue part;
};

/// Returns the name and the price of the switches of the counted network. No value: they cost what switches of a
/// purchase cost.
std::optional<std::pair<std::string, double>> counted_switch(const SizeAnswer& answer, const Prices& prices) {
  if (answer.counted_network.empty() || !answer.networks || answer.networks->switch_name.empty()) return std::nullopt;
  return prices.parts.switch_named(answer.networks->switch_name);
}

/// Lists the prices on which the cost of some row depends linearly.
std::vector<LinearPrice> linear_prices(const SizeAnswer& answer, const Prices& prices) {
  const Catalog catalog;
  std::map<std::string, std::string> gpus;  // indexed by node type
  for (const SizeRow& row : answer.rows)
    if (!gpus.contains(row.node))
      gpus[row.node] = read_node(catalog.resolve("node", Node::scalar_node(row.node)), catalog).gpu.name;
  const double joule_price = prices.kwh / kJoulesOfKwh;
  std::vector<LinearPrice> all;
  std::map<std::string, std::string> rent_names, price_names;  // name of the price that a node type takes
  const auto take = [&gpus](auto& names, const std::string& name, bool names_gpus) {
    for (const auto& [node, gpu] : gpus)
      if (same_name(name, names_gpus ? gpu : node)) names.try_emplace(node, name);
  };
  const auto add = [&all](const std::string& quantity, double value, auto& names, const std::string& name,
                          const RowValue& cost) {
    all.push_back({quantity, value, [names, name, cost](const SizeRow& row) {
                     const auto found = names.find(row.node);
                     return found != names.end() && found->second == name ? cost(row) : 0.0;
                   }});
  };
  const auto part = [](const char* name) {
    return [name](const SizeRow& row) { return row.ownership ? row.ownership->purchase_prices.at(name) : 0.0; };
  };
  if (!answer.purchase) {
    for (const bool names_gpus : {false, true})
      for (const Prices::Rent& rent : prices.rents) take(rent_names, rent.name, names_gpus);
    const RowValue cost = [joule_price](const SizeRow& row) {
      return row.money - joule_price * row.energy - row.network_cost;
    };
    for (const Prices::Rent& rent : prices.rents)
      add(fmt::format("{} of {}", rent.node_hour > 0 ? "node_hour" : "gpu_hour", rent.name),
          std::max(rent.node_hour, rent.gpu_hour), rent_names, rent.name, cost);
    if (prices.kwh > 0)
      all.push_back({"kwh", prices.kwh, [joule_price](const SizeRow& row) { return joule_price * row.energy; }});
    return all;
  }
  const Purchase& purchase = prices.purchase;
  for (const auto& [name, steps] : purchase.nodes) take(price_names, name, false);
  for (const auto& [name, steps] : purchase.gpus) take(price_names, name, true);
  for (const bool names_gpus : {false, true})
    for (const auto& [name, steps] : names_gpus ? purchase.gpus : purchase.nodes)
      if (steps.size() == 1)
        add(fmt::format("purchase of {}", name), steps.front().second, price_names, name, part("nodes"));
  const std::optional<std::pair<std::string, double>> named_switch = counted_switch(answer, prices);
  if (named_switch)
    all.push_back({"purchase of a switch " + named_switch->first, named_switch->second, part("switches")});
  else if (purchase.network_switch.size() == 1)
    all.push_back({"purchase of a switch", purchase.network_switch.front().second, part("switches")});
  const bool is_one_price = answer.counted_network.empty() || purchase.cables_by_length.empty();
  if (purchase.cable.size() == 1 && is_one_price)
    all.push_back({"purchase of a cable", purchase.cable.front().second, part("cables")});
  return all;
}

SizeThreshold threshold(const std::string& quantity, double value, double crossing, const SizeRow* next) {
  SizeThreshold result{quantity, value, crossing, "", "", 0, ""};
  if (next) {
    result.model = next->model;
    result.node = next->node;
    result.nodes = next->nodes;
    result.network = next->network;
  }
  return result;
}

/// Adds the nearest values of a price, below and above its present one, beyond which another row costs less than the
/// cheapest, or the cheapest costs more than the budget.
void add_price_thresholds(const SizeAnswer& answer, const LinearPrice& price, std::vector<SizeThreshold>& all) {
  const SizeRow& best = *answer.cheapest;
  const double cost = size_cost(answer, best), part = price.part(best);
  std::optional<SizeThreshold> below, above;
  const auto add_crossing = [&](const SizeRow* next, double other_cost, double other_part) {
    if (part == other_part || price.value <= 0) return;
    const double crossing = price.value * (1 + (other_cost - cost) / (part - other_part));
    if (part > other_part && (!above || crossing < above->threshold))
      above = threshold(price.quantity, price.value, crossing, next);
    if (part < other_part && crossing > 0 && (!below || crossing > below->threshold))
      below = threshold(price.quantity, price.value, crossing, next);
  };
  for (const SizeRow& row : answer.rows)
    if (meets_deadline(answer, row) && size_cost(answer, row) >= cost)
      add_crossing(&row, size_cost(answer, row), price.part(row));
  if (answer.budget > 0) add_crossing(nullptr, answer.budget, 0);
  if (below) all.push_back(*below);
  if (above) all.push_back(*above);
}

/// Returns true if two rows have the same model, the same nodes and the same network.
bool is_same_cluster(const SizeRow& a, const SizeRow& b) {
  return a.model == b.model && a.node == b.node && a.nodes == b.nodes && a.network == b.network;
}

/// Adds the deliveries, in days, beyond which another cluster is the cheapest.
void add_delivery_thresholds(const SizeAnswer& answer, std::vector<SizeThreshold>& all) {
  const SizeRow& best = *answer.cheapest;
  const RowValue cost = [&answer](const SizeRow& row) { return size_cost(answer, row); };
  std::map<std::string, double> waits;  // indexed by node type
  for (const SizeRow& row : answer.rows)
    if (row.good() && delivery_days(answer, row) > 0) waits[row.node] = delivery_days(answer, row);
  for (const auto& [node, wait] : waits) {
    const auto waits_for_it = [&answer, &type = node](const SizeRow& row) {
      return row.node == type && delivery_days(answer, row) > 0;
    };
    const std::string quantity = fmt::format("delivery of {} in days", node);
    const double latest = answer.days - best.days();
    const auto in_time_then = [&](const SizeRow& row) {
      const double end = waits_for_it(row) ? latest + row.days() : days_to_end(answer, row);
      return !is_same_cluster(row, best) && end <= answer.days && (answer.budget <= 0 || cost(row) <= answer.budget);
    };
    if (waits_for_it(best))
      all.push_back(threshold(quantity, wait, latest, least_row(answer.rows, in_time_then, cost)));
    const auto late_but_cheaper = [&](const SizeRow& row) {
      return waits_for_it(row) && !meets_deadline(answer, row) && row.days() < answer.days && cost(row) < cost(best);
    };
    if (const SizeRow* next = least_row(answer.rows, late_but_cheaper, [](const SizeRow& row) { return row.time; }))
      all.push_back(threshold(quantity, wait, answer.days - next->days(), next));
  }
}

/// Adds for each node type the training time, in per cent of the simulated one, beyond which another cluster is the
/// cheapest. It shows what an error of the simulation costs. Rents change with the time, purchase prices do not.
void add_time_thresholds(const SizeAnswer& answer, std::vector<SizeThreshold>& all) {
  const SizeRow& best = *answer.cheapest;
  std::set<std::string> nodes;
  for (const SizeRow& row : answer.rows)
    if (row.good()) nodes.insert(row.node);
  for (const std::string& node : nodes) {
    // Largest factor by which the time of a row may change, and the cost of a row if its time changes by a factor.
    const auto longest_factor = [&](const SizeRow& row) {
      return (answer.days - delivery_days(answer, row)) / row.days();
    };
    const auto scaled_cost = [&](const SizeRow& row, double factor) {
      return size_cost(answer, row) * (row.node == node && !answer.purchase ? factor : 1);
    };
    const auto add = [&](double factor, const SizeRow* next) {
      all.push_back(threshold(fmt::format("time of {} in % of the simulated", node), 100, 100 * factor, next));
    };
    double least = 0;
    const SizeRow* next = nullptr;
    for (const SizeRow& row : answer.rows) {
      if (!row.good() || is_same_cluster(row, best) || row.node != node) continue;
      const bool scales_alike = answer.purchase || best.node == node;
      if (scales_alike && size_cost(answer, row) >= size_cost(answer, best)) continue;
      const double factor = scales_alike
                                ? longest_factor(row)
                                : std::min(longest_factor(row), size_cost(answer, best) / size_cost(answer, row));
      if (factor < 1 && factor > least) {
        least = factor;
        next = &row;
      }
    }
    if (next) add(least, next);
    if (best.node != node) continue;
    double most = longest_factor(best);
    if (!answer.purchase) {
      if (answer.budget > 0) most = std::min(most, answer.budget / size_cost(answer, best));
      for (const SizeRow& row : answer.rows)
        if (row.node != node && meets_deadline(answer, row))
          most = std::min(most, std::max(1.0, size_cost(answer, row) / size_cost(answer, best)));
    }
    const auto counts = [&](const SizeRow& row) {
      const bool in_time = row.node == node ? longest_factor(row) >= most : meets_deadline(answer, row);
      return !is_same_cluster(row, best) && in_time && (answer.budget <= 0 || scaled_cost(row, most) <= answer.budget);
    };
    add(most, least_row(answer.rows, counts, [&](const SizeRow& row) { return scaled_cost(row, most); }));
  }
}

std::vector<SizeThreshold> thresholds_of(const SizeAnswer& answer, const Prices& prices) {
  std::vector<SizeThreshold> all;
  if (answer.currency.empty()) return all;
  for (const LinearPrice& price : linear_prices(answer, prices)) add_price_thresholds(answer, price, all);
  const SizeRow& best = *answer.cheapest;
  const RowValue cost = [&answer](const SizeRow& row) { return size_cost(answer, row); };
  if (answer.confidence <= 0) {
    const RowValue end = [&answer](const SizeRow& row) { return days_to_end(answer, row); };
    const auto ends_sooner = [&](const SizeRow& row) {
      return end(row) < end(best) && (answer.budget <= 0 || cost(row) <= answer.budget);
    };
    all.push_back(threshold("deadline", answer.days, end(best), least_row(answer.rows, ends_sooner, cost)));
    const auto ends_later = [&](const SizeRow& row) { return end(row) > answer.days && cost(row) < cost(best); };
    if (const SizeRow* next = least_row(answer.rows, ends_later, end))
      all.push_back(threshold("deadline", answer.days, end(*next), next));
    add_delivery_thresholds(answer, all);
    add_time_thresholds(answer, all);
  }
  if (answer.budget > 0) all.push_back(threshold("budget", answer.budget, cost(best), nullptr));
  return all;
}

/// Says which of the conditions the evaluated clusters miss.
std::string why_none(const SizeAnswer& answer) {
  const auto in_time = [&answer](const SizeRow& row) { return meets_deadline(answer, row); };
  const RowValue cost = [&answer](const SizeRow& row) { return size_cost(answer, row); };
  if (const SizeRow* row = least_row(answer.rows, in_time, cost))
    return fmt::format("the budget: the cheapest of the simulated sizes in time, {} x {}{}, costs {}", row->nodes,
                       row->node, row->network.empty() ? "" : " with the network " + row->network,
                       money_words(cost(*row), answer.currency));
  const auto accepts_all = [](const SizeRow&) { return true; };
  const RowValue end = [&answer](const SizeRow& row) { return days_to_end(answer, row); };
  if (const SizeRow* row = least_row(answer.rows, accepts_all, end)) {
    std::string text = fmt::format("the deadline: the fastest of the simulated sizes, {} x {}, takes {:.1f} days",
                                   row->nodes, row->node, row->days());
    if (const double wait = delivery_days(answer, *row); wait > 0)
      text += fmt::format(" after a delivery of {:.1f} days", wait);
    for (const SizeSiteLimit& limit : answer.site_limits)
      if (limit.node == row->node)
        text += fmt::format("; the site has room for {} (site.{})", limit.nodes, limit.limit);
    return text;
  }
  return "";
}

/// Finds the kind of rent, among those of all rows, that costs least and meets deadline and budget.
std::optional<SizeRent> least_rent_of(const SizeAnswer& answer) {
  std::optional<SizeRent> least;
  for (const SizeRow& row : answer.rows)
    for (const RentCost& rent : row.rents) {
      const double days = rent.time / kSecondsOfDay;
      const bool counts = rent.error.empty() && ends_in_time(answer, row, days, 0) &&
                          (answer.budget <= 0 || rent.training <= answer.budget);
      if (counts && (!least || rent.training < least->money))
        least = SizeRent{row.model, row.node, rent.terms, row.nodes, days, rent.training};
    }
  return least;
}

}  // namespace

std::optional<double> on_time_probability(const SizeAnswer& answer, const SizeRow& row, double days, double wait) {
  if (!row.good() || !row.doubt.exists()) return std::nullopt;
  if (wait >= answer.days) return 0.0;
  return DoubtModel::shipped().probability_within(row.doubt, (answer.days - wait) / days);
}

bool ends_in_time(const SizeAnswer& answer, const SizeRow& row, double days, double wait) {
  if (!row.good()) return false;
  if (answer.confidence > 0) return on_time_probability(answer, row, days, wait) >= answer.confidence;
  return wait + days <= answer.days;
}

double delivery_days(const SizeAnswer& answer, const SizeRow& row) {
  return answer.purchase && row.ownership ? row.ownership->delivery / kSecondsOfDay : 0;
}

double days_to_end(const SizeAnswer& answer, const SizeRow& row) { return delivery_days(answer, row) + row.days(); }

bool meets_deadline(const SizeAnswer& answer, const SizeRow& row) {
  return ends_in_time(answer, row, row.days(), delivery_days(answer, row));
}

double size_cost(const SizeAnswer& answer, const SizeRow& row) {
  if (answer.purchase) return row.ownership ? row.ownership->price() : 0;
  return answer.currency.empty() ? row.gpu_hours : row.money;
}

void judge_sizes(SizeAnswer& answer, const Prices& prices) {
  std::vector<SizeRow>& rows = answer.rows;
  const RowValue cost = [&answer](const SizeRow& row) { return size_cost(answer, row); };
  const RowValue time = [&answer](const SizeRow& row) { return days_to_end(answer, row); };
  sort_stably(rows, [](const SizeRow& a, const SizeRow& b) {
    return std::tie(a.model, a.node, a.nodes) < std::tie(b.model, b.node, b.nodes);
  });
  const auto in_budget = [&](const SizeRow& row) { return answer.budget <= 0 || cost(row) <= answer.budget; };
  for (SizeRow& row : rows) {
    if (!row.good()) continue;
    row.on_time = on_time_probability(answer, row, row.days(), delivery_days(answer, row));
    row.meets = meets_deadline(answer, row) && in_budget(row);
    row.pareto = std::none_of(rows.begin(), rows.end(), [&](const SizeRow& other) {
      return other.good() && other.model == row.model && time(other) <= time(row) && cost(other) <= cost(row) &&
             (time(other) < time(row) || cost(other) < cost(row));
    });
  }
  answer.thresholds.clear();
  answer.why_none.clear();
  answer.nearest.reset();
  if (!answer.purchase) answer.least_rent = least_rent_of(answer);
  const auto meets = [](const SizeRow& row) { return row.meets; };
  answer.cheapest = copy_of(least_row(rows, meets, cost));
  answer.fastest = copy_of(least_row(rows, meets, time));
  answer.largest = copy_of(least_row(rows, meets, [](const SizeRow& row) { return -row.parameters; }));
  if (answer.cheapest) {
    SizeAnswer all_networks = answer;
    all_networks.rows.insert(all_networks.rows.end(), answer.other_networks.begin(), answer.other_networks.end());
    answer.thresholds = thresholds_of(all_networks, prices);
  } else {
    answer.why_none = why_none(answer);
    answer.nearest = copy_of(least_row(rows, in_budget, time));
    if (!answer.nearest)
      answer.nearest = copy_of(least_row(
          rows, [](const SizeRow&) { return true; }, cost));
  }
  decide_size(answer, prices);
}

}  // namespace trainyard
