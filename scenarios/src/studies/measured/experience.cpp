#include "scenarios/src/studies/measured/experience.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace trainyard {
namespace {

std::string product_of(const std::string& stack) { return stack.substr(0, stack.find('@')); }

std::tuple<std::string, std::string, std::string> combination_of(const StepProfile& p) {
  return {p.trait(StepTrait::stack), gpu_of(p), p.trait(StepTrait::precision)};
}

}  // namespace

std::string product_of(const StepProfile& p) { return product_of(p.trait(StepTrait::stack)); }

Experience::Experience(const std::vector<LeftOutStep>& steps, const std::string& family) {
  for (const LeftOutStep& step : steps) {
    if (step.family == family) continue;
    const StepProfile& profile = step.profile;
    networks_.insert(network_of(profile));
    networks_of_products_.emplace(product_of(profile), network_of(profile));
    gpus_.insert(gpu_of(profile));
    combinations_.insert(combination_of(profile));
    double& devices = devices_[product_of(profile)];
    devices = std::max(devices, profile.devices);
    double& host = hosts_[product_of(profile)];
    host = std::max(host, profile.slow_host);
    places_[product_of(profile)].push_back(place_of(profile));
  }
}

ProfilePlace place_of(const StepProfile& p) {
  constexpr double host_factor = 0.05, devices_factor = 0.03, least_host = 0.01;
  ProfilePlace place{};
  std::ranges::copy(p.path, place.begin());
  place[kPathParts.size()] = host_factor * std::log(std::max(least_host, p.slow_host));
  place[kPathParts.size() + 1] = devices_factor * std::log(p.devices);
  return place;
}

double Experience::distance(const StepProfile& p) const {
  const ProfilePlace from = place_of(p);
  const std::string product = product_of(p);
  double least = std::numeric_limits<double>::infinity();
  const auto compare = [&](const std::vector<ProfilePlace>& places) {
    for (const ProfilePlace& place : places) {
      double squares = 0;
      for (std::size_t i = 0; i < from.size(); ++i) {
        const double beyond = from[i] - place[i];
        if (product != anchored_ || beyond > 0) squares += beyond * beyond;
      }
      least = std::min(least, squares);
    }
  };
  if (const auto found = places_.find(product); found != places_.end())
    compare(found->second);
  else
    for (const auto& [other, places] : places_) compare(places);
  return std::isfinite(least) ? std::sqrt(least) : 0;
}

bool Experience::has_network(const StepProfile& p) const { return networks_.contains(network_of(p)); }
bool Experience::has_product(const StepProfile& p) const { return devices_.contains(product_of(p)); }
bool Experience::has_gpu(const StepProfile& p) const { return gpus_.contains(gpu_of(p)); }
bool Experience::has_network_of_product(const StepProfile& p) const {
  return networks_of_products_.contains({product_of(p), network_of(p)});
}
bool Experience::has_combination(const StepProfile& p) const { return combinations_.contains(combination_of(p)); }
double Experience::most_devices(const StepProfile& p) const {
  const auto found = devices_.find(product_of(p));
  if (found != devices_.end()) return found->second;
  double most = 0;
  for (const auto& [product, devices] : devices_) most = std::max(most, devices);
  return most;
}
bool Experience::shows_host(const StepProfile& p) const {
  const auto found = hosts_.find(product_of(p));
  return found != hosts_.end() && found->second >= kShownHost;
}

void Experience::add_anchor(const SoftwareStack::Anchor& anchor) {
  const std::string product = product_of(anchor.stack);
  for (const std::string& network : anchor.networks) {
    networks_.insert(network);
    networks_of_products_.emplace(product, network);
  }
  gpus_.insert(anchor.gpu);
  std::erase_if(combinations_, [&anchor](const auto& combination) { return std::get<0>(combination) == anchor.stack; });
  for (const std::string& precision : anchor.precisions) combinations_.insert({anchor.stack, anchor.gpu, precision});
  StepProfile measured;  // without shares: a profile has those beyond the anchor's, see `DoubtBasis`
  measured.devices = anchor.devices;
  measured.slow_host = anchor.slow_host;
  places_[product] = {place_of(measured)};
  anchored_ = product;
  devices_[product] = anchor.devices;
  hosts_[product] = std::max(hosts_[product], anchor.slow_host);
}

}  // namespace trainyard
