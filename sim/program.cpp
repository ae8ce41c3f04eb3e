#include "sim/program.hpp"

#include "sim/error.hpp"

namespace trainyard {

const Series& Program::series(Tag) const { throw InternalError("a program without series yields one"); }

}  // namespace trainyard
