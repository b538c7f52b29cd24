# Puts the files of the report's page into the program: a source file of raw string literals, made anew when one of them changes.
# Included by CMakeLists.txt, and run as a script (-P) with PAGE_DIR and OUTPUT when the program is built.

# In the order in which they are read.
set(finetune_page_scripts dom.js format.js chart.js curves.js tables.js evaluation.js data.js run.js compare.js coordinates.js
    page.js)

if(CMAKE_SCRIPT_MODE_FILE)
  set(delimiter "finetune_page")
  # A literal of more than 64 KB is not for every compiler: a literal a file, joined by the compiler.
  function(append_literal name)
    set(literals "")
    foreach(file IN LISTS ARGN)
      file(READ "${PAGE_DIR}/${file}" text)
      string(APPEND literals "\n    R\"${delimiter}(${text})${delimiter}\"")
    endforeach()
    file(APPEND "${OUTPUT}.new" "const std::string_view ${name} =${literals};\n")
  endfunction()
  file(WRITE "${OUTPUT}.new" "#include \"report/page_files.h\"\n\nnamespace finetune::report_page_files {\n\n")
  append_literal(kTemplate page.html)
  append_literal(kStyle style.css)
  append_literal(kScript ${finetune_page_scripts})
  file(APPEND "${OUTPUT}.new" "\n}  // namespace finetune::report_page_files\n")
  file(RENAME "${OUTPUT}.new" "${OUTPUT}")
  return()
endif()

set(finetune_page_dir "${CMAKE_CURRENT_SOURCE_DIR}/src/report/page")
set(finetune_page_source "${CMAKE_CURRENT_BINARY_DIR}/report_page_files.cpp")
list(TRANSFORM finetune_page_scripts PREPEND "${finetune_page_dir}/" OUTPUT_VARIABLE finetune_page_inputs)
add_custom_command(OUTPUT "${finetune_page_source}"
  COMMAND ${CMAKE_COMMAND} "-DPAGE_DIR=${finetune_page_dir}" "-DOUTPUT=${finetune_page_source}"
          -P "${CMAKE_CURRENT_LIST_FILE}"
  DEPENDS ${finetune_page_inputs} "${finetune_page_dir}/page.html" "${finetune_page_dir}/style.css"
          "${CMAKE_CURRENT_LIST_FILE}"
  COMMENT "Embedding the report's page" VERBATIM)
add_library(finetune_page OBJECT "${finetune_page_source}")
target_include_directories(finetune_page PRIVATE "${CMAKE_CURRENT_SOURCE_DIR}/src")
target_link_libraries(finetune_page PRIVATE finetune_warnings)
list(APPEND finetune_core_objects $<TARGET_OBJECTS:finetune_page>)
