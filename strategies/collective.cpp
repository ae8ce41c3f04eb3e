#include "strategies/collective.hpp"

namespace trainyard {

const char* name_of(Operation operation) {
  switch (operation) {
    case Operation::all_reduce:
      return "all-reduce";
  }
  return "";
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
