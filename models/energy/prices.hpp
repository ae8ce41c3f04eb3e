#pragma once
#include <optional>
#include <string>
#include <vector>

#include "models/reading/document.hpp"

namespace trainyard {

/// Prices that the user states. The program comes with none.
struct Prices {
  std::string currency;
  /// Price of an hour of one GPU or of a whole node.
  struct Rent {
    std::string name;                    ///< type of node, instance of a cloud, or GPU
    double gpu_hour = 0, node_hour = 0;  ///< one of the two is stated
  };
  std::vector<Rent> rents;
  /// Prices of the parts of a network: each switch by its name, each cable, and each metre of cable.
  struct Parts {
    std::vector<std::pair<std::string, double>> switches;
    double copper = 0, copper_metre = 0, optical = 0, optical_metre = 0;
    bool cables = false;  ///< are cables priced?
    bool given() const { return cables || !switches.empty(); }
  } parts;
  double kwh = 0;  ///< price of a kWh of electricity, paid in addition to rents; 0: rents include it
  Place place;

  bool given() const { return !currency.empty(); }
  /// Returns the price of an hour of one GPU: the rent of the node's name, else that of the GPU's name. 0: there are no
  /// rents, but electricity is paid. Throws UserError at `place`, with the names of all rents, if none fits.
  double gpu_hour(const std::string& node, const std::string& gpu, int gpus_a_node) const;
};

/// Reads `{currency, gpu_hour: {NAME: money}, node_hour: {NAME: money}, kwh, switch: {NAME: money}, cable: {copper,
/// copper_metre, optical, optical_metre}}`. Throws UserError with the place for a negative price, and if nothing is
/// priced.
Prices read_prices(const Node&);

/// Cost of training, in the prices' currency.
struct Money {
  std::string currency;
  double step = 0;
  double per_million = 0;  ///< cost of a million tokens, or of a million samples if the network has no tokens
  bool of_tokens = true;   ///< `per_million` counts tokens; false: samples
  double training = 0;     ///< cost of the whole training, including failures; 0: its length is not given
};

}  // namespace trainyard
