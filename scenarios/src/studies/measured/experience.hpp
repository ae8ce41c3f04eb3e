#pragma once
#include <array>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "scenarios/src/studies/measured/left_out_errors.hpp"

namespace trainyard {

/// Return the kind of network and the GPU of a step, and its stack without the release.
inline const std::string& network_of(const StepProfile& p) { return p.trait(StepTrait::network); }
inline const std::string& gpu_of(const StepProfile& p) { return p.trait(StepTrait::gpu); }
std::string product_of(const StepProfile&);

/// A step shows its host if a slow host would need at least this share of it.
constexpr double kShownHost = 0.5;

/// The place of a step among others: the shares of its critical path, and logarithms of `slow_host` (times 0.05; at least
/// 0.01 of a step) and of its devices (times 0.03). Two steps of one stack that are near each other are alike in what
/// limits them. The two factors have the greatest likelihood among a few; others change little.
using ProfilePlace = std::array<double, kPathParts.size() + 2>;
ProfilePlace place_of(const StepProfile&);

/// The measured steps, without those of one family, to which a step is compared.
class Experience {
 public:
  /// `family`: a family whose steps are left out; "": none.
  explicit Experience(const std::vector<LeftOutStep>&, const std::string& family = "");

  /// Return true if a step has the same kind of network, the same stack in any release, or the same GPU.
  bool has_network(const StepProfile&) const, has_product(const StepProfile&) const, has_gpu(const StepProfile&) const;
  /// Returns true if a step has the same kind of network and the same stack in any release.
  bool has_network_of_product(const StepProfile&) const;
  /// Returns true if a step has the same stack, GPU and precision.
  bool has_combination(const StepProfile&) const;
  /// Returns the largest number of devices of a step with the same stack in any release, or of any step if the stack was
  /// never measured.
  double most_devices(const StepProfile&) const;
  /// Returns the distance from a step to the nearest one with the same stack in any release, or to any step if the stack
  /// was never measured. See `ProfilePlace`. From an anchor it counts only what is beyond the anchor's steps.
  double distance(const StepProfile&) const;
  /// Returns true if a step with the same stack in any release is so short that a slow host would show in its time.
  bool shows_host(const StepProfile&) const;
  /// Adds the steps of an anchor. They replace all that is known of the GPUs, precisions and numbers of devices of its
  /// stack, because the anchor changed the stack.
  void add_anchor(const SoftwareStack::Anchor&);

 private:
  std::set<std::string> networks_, gpus_;
  std::set<std::pair<std::string, std::string>> networks_of_products_;  ///< stack in any release, kind of network
  std::set<std::tuple<std::string, std::string, std::string>> combinations_;
  std::map<std::string, double> devices_, hosts_;            ///< indexed by stack: most devices, largest `slow_host`
  std::map<std::string, std::vector<ProfilePlace>> places_;  ///< indexed by stack
  std::string anchored_;                                     ///< the stack whose only place is its anchor's; "": none
};

}  // namespace trainyard
