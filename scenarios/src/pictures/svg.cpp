#include "scenarios/src/pictures/svg.hpp"

#include "models/reading/xml_text.hpp"

namespace trainyard {
namespace {

std::string opacity_of(double opacity) {
  return opacity < 1 ? fmt::format(" fill-opacity=\"{}\"", Svg::number(opacity)) : "";
}

}  // namespace

Svg::Svg(double width, double height, std::string_view title, std::string_view description) {
  body_ = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0}\" height=\"{1}\" viewBox=\"0 0 {0} {1}\" role=\"img\" "
      "font-family=\"Helvetica, Arial, sans-serif\">\n<title>{2}</title>\n<desc>{3}</desc>\n",
      number(width), number(height), escaped(title), escaped(description));
  rect(0, 0, width, height, "#ffffff");  // readers show pictures on dark pages too
}

void Svg::rect(double x, double y, double width, double height, std::string_view fill, double opacity) {
  body_ += fmt::format("<rect x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\" fill=\"{}\"{}/>\n", number(x), number(y),
                       number(width), number(height), fill, opacity_of(opacity));
}

void Svg::frame(double x, double y, double width, double height, std::string_view stroke) {
  body_ += fmt::format("<rect x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\" fill=\"none\" stroke=\"{}\"/>\n", number(x),
                       number(y), number(width), number(height), stroke);
}

void Svg::line(double x1, double y1, double x2, double y2, std::string_view stroke, bool dashed) {
  body_ += fmt::format("<line x1=\"{}\" y1=\"{}\" x2=\"{}\" y2=\"{}\" stroke=\"{}\"{}/>\n", number(x1), number(y1),
                       number(x2), number(y2), stroke, dashed ? " stroke-dasharray=\"5 3\"" : "");
}

void Svg::path(std::string_view path, std::string_view fill, double opacity) {
  body_ += fmt::format("<path d=\"{}\" fill=\"{}\"{}/>\n", path, fill, opacity_of(opacity));
}

void Svg::text(double x, double y, std::string_view text, const TextStyle& style) {
  const char* anchor = style.anchor == Anchor::start    ? ""
                       : style.anchor == Anchor::middle ? " text-anchor=\"middle\""
                                                        : " text-anchor=\"end\"";
  body_ +=
      fmt::format("<text x=\"{}\" y=\"{}\" font-size=\"{}\" fill=\"{}\"{}{}>{}</text>\n", number(x), number(y),
                  number(style.size), style.fill, anchor, style.bold ? " font-weight=\"bold\"" : "", escaped(text));
}

std::string Svg::number(double value) {
  std::string text = fmt::format("{:.2f}", value);
  text.erase(text.find_last_not_of('0') + 1);
  if (text.back() == '.') text.pop_back();
  return text == "-0" ? "0" : text;
}

std::string Svg::escaped(std::string_view text) { return xml_escaped(text); }

double Svg::text_width(std::string_view text, double size) {
  double letters = 0;
  for (const char c : text) letters += (static_cast<unsigned char>(c) & 0xc0U) != 0x80 ? 1 : 0;  // of UTF-8
  return 0.54 * size * letters;
}

}  // namespace trainyard
