#pragma once
#include "models/reading/document.hpp"

namespace trainyard {

/// `a: 8` and then `--set a.b=c`: an override makes a map of a scalar on its way, and keeps that as `base`, since most are
/// names of the catalog. Null: the map was not made so.
const Node* overridden_scalar(const Node& map);

/// A key whose short form `a: 8` stands for `a: {KEY: 8}`, as a map; also where an override went through the short form.
/// Without a `key` the short form says all, and an override below it replaces it. Null is an empty map at `place`.
Node long_form(const Node*, const char* key, const Place& place);

}  // namespace trainyard
