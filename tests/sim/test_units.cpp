#include <catch2/catch.hpp>
#include <limits>

#include "sim/error.hpp"
#include "sim/units.hpp"

namespace sim_test_units {

using namespace trainyard;

TEST_CASE("units of sizes and rates are not confused", "[units]") {
  CHECK(parse_bytes("1 GB") == Bytes{1e9});
  CHECK(parse_bytes("1 GiB") == Bytes{1073741824.0});
  CHECK(parse_bytes("1GiB") == Bytes{1073741824.0});
  CHECK(parse_bytes(" 8 Gbit ") == Bytes{1e9});
  CHECK(parse_bandwidth("400 Gbit/s") == BytesPerSecond{50e9});
  CHECK(parse_bandwidth("400 Gb/s") == BytesPerSecond{50e9});
  CHECK(parse_bandwidth("25 GB/s") == BytesPerSecond{25e9});
  CHECK(parse_bandwidth("25 GiB/s") == BytesPerSecond{25 * 1073741824.0});
  CHECK(parse_flops_rate("312 TFLOP/s") == FlopsPerSecond{312e12});
  CHECK(parse_seconds("1.5 us") == Seconds{1.5e-6});
  CHECK(parse_seconds("1.5 µs") == Seconds{1.5e-6});
  CHECK(parse_seconds("2 min") == Seconds{120});
  CHECK(parse_seconds("3 days") == parse_seconds("72 hours"));
  CHECK(parse_seconds("1 day") == parse_seconds("1 d"));
  CHECK(parse_seconds("90 minutes") == Seconds{5400});
  CHECK(parse_frequency("1410 MHz") == Hertz{1410e6});
  CHECK(parse_power("400 W") == Watts{400});
}

TEST_CASE("quantities without or with wrong units are refused", "[units]") {
  CHECK_THROWS_WITH(parse_bandwidth("400 Gbs"),
                    "\"400 Gbs\": unknown unit \"Gbs\"; expected a rate such as 400 Gbit/s or 25 GB/s");
  CHECK_THROWS_WITH(parse_bandwidth("400"), Catch::Contains("has no unit"));
  CHECK_THROWS_WITH(parse_bandwidth("400 Gbps"), "\"400 Gbps\": unknown unit \"Gbps\"; write Gb/s");
  for (const char* bad :
       {"", " ", "GB", "1 gb", "1 GB/s", "nan GB", "inf GB", "1 2 GB", "0x10 GB", "--1 GB", "1e999 GB"}) {
    INFO(bad);
    CHECK_THROWS_AS(parse_bytes(bad), UserError);
  }
  for (const char* bad : {"", "1.5", "1 ", "x", "1e3", "99999999999999999999"}) {
    INFO(bad);
    if (std::string(bad) == "1 ")
      CHECK(parse_integer(bad) == 1);
    else
      CHECK_THROWS_AS(parse_integer(bad), UserError);
  }
  CHECK_THROWS_AS(parse_number("1 x"), UserError);
  CHECK_THROWS_AS(parse_number("nan"), UserError);
}

TEST_CASE("numbers are printed so that they read back", "[units]") {
  for (const double v : {0.1, 2e-7, 1.0 / 3, 1e300, 312e12, std::numeric_limits<double>::denorm_min()})
    CHECK(parse_number(exact(v)) == v);
  CHECK(exact(2e-7) == "2e-07");
}

TEST_CASE("quantities are shown with three digits and a fitting prefix", "[units]") {
  CHECK(show(Seconds{0.86}) == "860 ms");
  CHECK(show(Seconds{0}) == "0 ns");
  CHECK(percent(0.271) == "27.1 %");
  CHECK(percent(-0.0004) == "0.0 %");
  CHECK(percent(-0.004, 0) == "0 %");
  CHECK(percent(-0.0006) == "-0.1 %");
  CHECK(signed_percent(-0.0004) == "0.0 %");
  CHECK(percent_short_of(0.9496, 0.95) == "94.9 %");
  CHECK(percent_short_of(0.949, 0.95) == "94.9 %");
  CHECK(percent_short_of(0.944, 0.95) == "94 %");
  CHECK(percent_short_of(0.9501, 0.95) == "95 %");
  CHECK(percent_short_of(0.9239, 0.924) == "92 %");
  CHECK(exact_percent(0.95) == "95 %");
  CHECK(exact_percent(0.925) == "92.5 %");
  CHECK(signed_percent(0.0004) == "0.0 %");
  CHECK(signed_percent(0.023) == "+2.3 %");
  CHECK(signed_percent(-0.023) == "-2.3 %");
  CHECK(show(Seconds{0.9999}) == "1.00 s");
  CHECK(show(52.4 * Bytes{1 << 30}) == "52.4 GiB");
  CHECK(show(BytesPerSecond{300e9}) == "300 GB/s");
  CHECK(show(FlopsPerSecond{312e12}) == "312 TFLOP/s");
  CHECK(show(Hertz{1410e6}) == "1.41 GHz");
  CHECK(show(Watts{400}) == "400 W");
  CHECK(show(Watts{1200}) == "1.20 kW");
}

TEST_CASE("a size over a rate is a time; latencies add exactly", "[units]") {
  const Seconds t = Bytes{50e9} / BytesPerSecond{25e9};
  CHECK(t == Seconds{2});
  CHECK(to_picoseconds(Seconds{1e-9}) == Picoseconds{1000});
  CHECK(to_picoseconds(Seconds{0.965e-6}) == Picoseconds{965000});
  CHECK((Picoseconds{1} + Picoseconds{2} * 3).count == 7);
}

}  // namespace sim_test_units
