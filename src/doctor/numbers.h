#pragma once

#include <string>

namespace finetune::doctor {

// How figures read in the doctor's texts.

std::string seconds_text(double seconds);  ///< "1.2 s", "3.4 ms", "5 us"
std::string ratio_text(double ratio);      ///< "1.03", "12"
std::string percent_text(double share);    ///< "7 %"
std::string rate_text(double tflops);      ///< "112 GFLOP/s", "52 TFLOP/s"

}  // namespace finetune::doctor
