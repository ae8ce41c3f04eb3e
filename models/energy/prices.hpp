#pragma once
#include <optional>
#include <string>
#include <vector>

#include "models/reading/document.hpp"

namespace trainyard {

/// What the user pays. None of it is shipped: prices are theirs.
struct Prices {
  std::string currency;
  /// Of an hour of one GPU or of a whole node, by the name of a type of node, of an instance of a cloud, or of a GPU.
  struct Rent {
    std::string of;
    double gpu_hour = 0, node_hour = 0;  ///< one of the two
  };
  std::vector<Rent> rents;
  /// Of what a network is built of: switches by name, cables each, and for each metre.
  struct Parts {
    std::vector<std::pair<std::string, double>> switches;
    double copper = 0, copper_metre = 0, optical = 0, optical_metre = 0;
    bool cables = false;  ///< were cables priced?
    bool given() const { return cables || !switches.empty(); }
  } parts;
  double kwh = 0;  ///< of electricity, besides; 0: what is rented has it in
  Place place;

  bool given() const { return !currency.empty(); }
  /// Of an hour of one GPU of such a node: by the node's name, else by the GPU's; 0 where neither is rented and
  /// electricity is paid. Throws UserError at `place` where nothing prices it, with what is priced.
  double gpu_hour(const std::string& node, const std::string& gpu, int gpus_a_node) const;
};

/// Reads `{currency, gpu_hour: {NAME: money}, node_hour: {NAME: money}, kwh, switch: {NAME: money}, cable: {copper,
/// copper_metre, optical, optical_metre}}`. Throws UserError with the place for a
/// price that is negative, and for prices of nothing.
Prices read_prices(const Node&);

/// What training costs, in the prices' currency.
struct Money {
  std::string currency;
  double step = 0;
  double per_million = 0;  ///< tokens; samples where a network has none
  bool of_tokens = true;
  double training = 0;  ///< of the whole training, with what failures cost; 0: its length is not given
};

}  // namespace trainyard
