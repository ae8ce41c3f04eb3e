#include <fmt/format.h>

#include <new>
#include <system_error>
#include <typeinfo>

#include "models/reading/program_version.hpp"
#include "sim/error.hpp"
#include "sim/process/output.hpp"
#include "tools/verbs/verbs.hpp"

using namespace trainyard;

namespace {

int run(const std::vector<std::string>& words) {
  if (words.empty() || words[0] == "--help" || words[0] == "-h") {
    fmt::print("{}", usage());
    return words.empty() ? kBadInput : kGood;
  }
  if (words[0] == "--version") {
    fmt::print("trainyard {}\n", program_version());
    return kGood;
  }
  Place place;
  place.file = std::make_shared<const std::string>("trainyard");
  return verbs().find(words[0], place).run({words.begin() + 1, words.end()});
}

int internal_error(const std::exception& e) {
  complain(fmt::format("trainyard: internal error (please report it): {}", e.what()));
  return kBug;
}

}  // namespace

int main(int argc, char** argv) {
  prepare_standard_files();
  try {
    const int code = run({argv + 1, argv + argc});
    check_printed();
    return code;
  } catch (const UserError& e) {
    complain(e.what());
    return kBadInput;
  } catch (const std::bad_alloc&) {
    complain("trainyard: not enough memory for this run");
    return kBadInput;
  } catch (const std::system_error& e) {
    if (typeid(e) != typeid(std::system_error)) return internal_error(e);     // of the file system
    complain(fmt::format("cannot write to stdout: {}", e.code().message()));  // fmt::print
    return kBadInput;
  } catch (const std::exception& e) {
    return internal_error(e);
  }
}
