#pragma once
#include "sim/executor/joins.hpp"
#include "sim/executor/transfers.hpp"
#include "sim/series.hpp"

namespace trainyard::execution {

/// Runs the parts of a series, from `first` on, on an actor where nothing else runs. False: others may disturb them.
bool time_series(SeriesTimes&, const Series&, std::size_t first, Actor, const Machine&, const Joins&, Transfers&);

}  // namespace trainyard::execution
