#pragma once
#include <optional>
#include <string>

#include "models/reading/catalog.hpp"
#include "scenarios/src/search/plan_runner.hpp"
#include "scenarios/src/sizing/size_answer.hpp"

namespace trainyard {

/// The question of `size_clusters`: one training, on clusters of any size and node type.
class SizeQuestion {
 public:
  /// All arguments must outlive the question. Throws UserError if training or prices are missing.
  SizeQuestion(const Node& document, const std::string& name, const SizeOptions&);

  const Node& document() const { return document_; }
  const std::string& name() const { return name_; }
  const SizeOptions& options() const { return options_; }
  const Catalog& catalog() const { return catalog_; }
  const Prices& prices() const { return prices_; }
  const Site& site() const { return site_; }
  /// Returns the site without the room, power and ports that owned nodes of other types take, which stay there. Without
  /// a purchase, nothing is owned. No value: they leave no room.
  std::optional<Site> site_for(const NodeType&) const;

  std::string model_of(const SizeCase&) const;
  /// Names the model and the node types of a case.
  ClusterName name_of(const SizeCase&) const;
  /// Returns the case with the model and the node types of a cluster, beside its owned nodes if it has any. No value: no
  /// case has this model on these bought nodes.
  std::optional<SizeCase> case_of(const ClusterName&, const std::vector<SizeCase>&) const;
  /// Lists the cases, and those beside owned nodes that have rows.
  std::vector<SizeCase> all_cases(const std::vector<SizeCase>&, const std::vector<SizeRow>&) const;
  /// Returns the scenario on a number of nodes (`sized_scenario`).
  Node scenario(const SizeCase&, int nodes, bool searched) const;
  /// Returns the row of a case on a number of nodes, without figures.
  SizeRow empty_row(const SizeCase&, int nodes) const;
  /// Returns the row of more nodes than the site has room for.
  SizeRow refused_row(const SizeCase&, int nodes, const SiteLimit&) const;
  /// Returns the days from the delivery of these nodes to the deadline, or about a millisecond if there are none.
  double days_left(const SizeCase&, int nodes) const;
  /// Returns the device-hours of the training at kFirstMfu, and takes its tokens for `steps_of`.
  double rough_hours(const SizeCase&);
  /// Returns the number of steps of the whole training. `rough_hours` must have been called for the model.
  double steps_of(const Scenario&) const;
  /// Computes the whole training with the plan of a document. Returns the outcome of its step. `own_batch`: the scenario's
  /// batch.
  PlanOutcome take_training(Node document, std::int64_t own_batch, SizeRow&) const;
  /// Computes the training of a complete document: one with its length and its failures. Returns the outcome of its step.
  PlanOutcome take_answer(Node document, SizeRow&) const;

 private:
  const Node& document_;
  const std::string& name_;
  const SizeOptions& options_;
  const Catalog catalog_;
  Prices prices_;
  Site site_;
  double training_tokens_ = 0;  // tokens of the current model's training

  double tokens_of(const Scenario&) const;
  void take_racks(const SizeCase&, SizeRow&) const;
  void take_prices(const Node& prices);
};

}  // namespace trainyard
