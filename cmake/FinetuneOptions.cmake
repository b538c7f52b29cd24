# Build type, language level, warnings, sanitizers and compiler cache.

if(NOT CMAKE_BUILD_TYPE AND NOT CMAKE_CONFIGURATION_TYPES)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "Debug, Release or RelWithDebInfo" FORCE)
endif()

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_CXX_COMPILE_OPTIONS_PIE -fPIC) # programs too, so that they can use the library's precompiled header
set(CMAKE_CXX_VISIBILITY_PRESET default) # the plugin resolves the binary's symbols
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY "${CMAKE_BINARY_DIR}/bin")
set(CMAKE_LIBRARY_OUTPUT_DIRECTORY "${CMAKE_BINARY_DIR}/lib")
set(CMAKE_ARCHIVE_OUTPUT_DIRECTORY "${CMAKE_BINARY_DIR}/lib")

option(FINETUNE_WERROR "Treat warnings as errors (CI does)" OFF)
set(FINETUNE_SANITIZE "" CACHE STRING "Sanitizers to build with, e.g. address,undefined")

# Link to it PRIVATE: our warnings never reach a program that embeds the library.
add_library(finetune_warnings INTERFACE)
target_compile_options(finetune_warnings INTERFACE
  $<$<COMPILE_LANGUAGE:CXX>:-Wall;-Wextra;-Wshadow>
  $<$<COMPILE_LANGUAGE:CXX>:-Wno-restrict> # GCC 12 reports std::string::insert (its bug 105651)
  $<$<COMPILE_LANGUAGE:CUDA>:-Xcompiler=-Wall,-Wextra>
  $<$<AND:$<BOOL:${FINETUNE_WERROR}>,$<COMPILE_LANGUAGE:CXX>>:-Werror>
  $<$<AND:$<BOOL:${FINETUNE_WERROR}>,$<COMPILE_LANGUAGE:CUDA>>:-Werror=all-warnings>)

if(FINETUNE_SANITIZE)
  add_compile_options("$<$<COMPILE_LANGUAGE:CXX>:-fsanitize=${FINETUNE_SANITIZE};-fno-omit-frame-pointer;-g>")
  add_link_options("$<$<LINK_LANGUAGE:CXX>:-fsanitize=${FINETUNE_SANITIZE}>")
endif()

find_program(FINETUNE_CCACHE ccache)
if(FINETUNE_CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  # A precompiled header makes time stamps part of the hash unless ccache is told otherwise.
  set(CMAKE_CXX_COMPILER_LAUNCHER
      ${CMAKE_COMMAND} -E env CCACHE_SLOPPINESS=pch_defines,time_macros,include_file_mtime,include_file_ctime
      CCACHE_NOHASHDIR=1 CCACHE_BASEDIR=${CMAKE_SOURCE_DIR} ${FINETUNE_CCACHE})
  add_compile_options($<$<COMPILE_LANG_AND_ID:CXX,GNU>:-fpch-preprocess>)
endif()
