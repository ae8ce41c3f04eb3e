#pragma once
#include "sim/executor/joins.hpp"
#include "sim/executor/transfers.hpp"
#include "sim/series.hpp"

namespace trainyard::execution {

/// Times the parts of a series from `first` on, on an otherwise idle actor. Returns false if flows of others
/// may disturb them.
bool time_series(SeriesTimes&, const Series&, std::size_t first, Actor, const Machine&, const Joins&, Transfers&);

}  // namespace trainyard::execution
