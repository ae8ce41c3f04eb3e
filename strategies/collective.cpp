#include "strategies/collective.hpp"

namespace trainyard {

const char* name_of(Operation operation) {
  switch (operation) {
    case Operation::all_reduce:
      return "all-reduce";
  }
  return "";
}

std::vector<int> ring_peers(GroupPlace place) {
  const int next = (place.index + 1) % place.size, previous = (place.index + place.size - 1) % place.size;
  return next == previous ? std::vector<int>{next} : std::vector<int>{next, previous};
}

Registry<Collective>& collectives(Operation operation) {
  static Registry<Collective> all_reduce{"all-reduce algorithm"};
  switch (operation) {
    case Operation::all_reduce:
      return all_reduce;
  }
  throw InternalError("unknown collective operation");
}

}  // namespace trainyard
