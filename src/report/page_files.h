#pragma once

#include <string_view>

/// The files of src/report/page/, put into the program when it is built (see cmake/FinetunePage.cmake).
namespace finetune::report_page_files {

extern const std::string_view kTemplate;  ///< page.html
extern const std::string_view kStyle;     ///< style.css
extern const std::string_view kScript;    ///< the scripts, one after the other

}  // namespace finetune::report_page_files
