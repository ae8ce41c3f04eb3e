#include "tools/arguments.hpp"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <limits>

#include "models/document.hpp"

namespace trainyard {

struct Arguments::Impl {
  CLI::App app;
  std::vector<std::string> flags{"--help"};
  std::string verb;

  explicit Impl(const std::string& summary) : app(summary) {}
  CLI::Option* add(CLI::Option* option, const std::string& flag, const std::string& placeholder) {
    flags.push_back(flag);
    if (!placeholder.empty()) option->type_name(placeholder);
    return option;
  }
};

Arguments::Arguments(const std::string& verb, const std::string& summary, const std::string& example)
    : impl_(std::make_unique<Impl>(summary)) {
  impl_->verb = verb;
  impl_->app.name("trainyard " + verb);
  impl_->app.footer("Example:\n  trainyard " + example);
  impl_->app.set_help_flag("--help,-h", "this text");
}
Arguments::~Arguments() = default;

void Arguments::positional(const std::string& name, std::string& value, const std::string& help, bool required) {
  impl_->app.add_option(name, value, help)->required(required)->type_name("");
}
void Arguments::positionals(const std::string& name, std::vector<std::string>& values, const std::string& help) {
  impl_->app.add_option(name, values, help)->type_name("");
}
void Arguments::option(const std::string& flag, std::string& value, const std::string& placeholder,
                       const std::string& help) {
  impl_->add(impl_->app.add_option(flag, value, help), flag, placeholder);
}
void Arguments::option(const std::string& flag, int& value, const std::string& placeholder, const std::string& help) {
  CLI::Option* option = impl_->app.add_option(flag, value, help);
  if (value != std::numeric_limits<int>::min()) option->capture_default_str();  // which stands for "not given"
  impl_->add(option, flag, placeholder);
}
void Arguments::repeated(const std::string& flag, std::vector<std::string>& values, const std::string& placeholder,
                         const std::string& help) {
  // One value a flag, else `--set a=1 FILE` would swallow the file.
  impl_->add(
      impl_->app.add_option(flag, values, help)->expected(1)->multi_option_policy(CLI::MultiOptionPolicy::TakeAll),
      flag, placeholder);
}
void Arguments::flag(const std::string& flag, bool& value, const std::string& help) {
  impl_->add(impl_->app.add_flag(flag, value, help), flag, "");
}

bool Arguments::parse(const std::vector<std::string>& words) {
  std::vector<std::string> reversed(words.rbegin(), words.rend());  // as CLI11 wants it
  for (std::string& word : reversed)
    if (word.starts_with("--")) {
      const auto end = word.begin() + static_cast<std::ptrdiff_t>(std::min(word.find('='), word.size()));
      std::replace(word.begin() + 2, end, '_', '-');
    }
  try {
    impl_->app.parse(reversed);
  } catch (const CLI::CallForHelp&) {
    fmt::print("{}", impl_->app.help());
    return false;
  } catch (const CLI::ExtrasError& e) {
    const std::vector<std::string> left = impl_->app.remaining();
    const std::string word = left.empty() ? "" : left.front();
    if (word.starts_with("-"))
      throw UserError(fmt::format("trainyard {}: unknown flag {}{}", impl_->verb, word, hint(word, impl_->flags)));
    throw UserError(
        fmt::format("trainyard {}: unexpected argument \"{}\" (trainyard {} --help)", impl_->verb, word, impl_->verb));
  } catch (const CLI::ParseError& e) {
    throw UserError(fmt::format("trainyard {}: {} (trainyard {} --help)", impl_->verb, e.what(), impl_->verb));
  }
  return true;
}

}  // namespace trainyard
