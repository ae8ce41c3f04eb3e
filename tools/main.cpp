#include "tools/verbs/verbs.hpp"

int main(int argc, char** argv) {
  trainyard::prepare_standard_files();
  return trainyard::run_command({argv + 1, argv + argc});
}
