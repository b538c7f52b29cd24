# Every library that the program or an embedding one links to, found in the ordinary way; `scripts/setup` installs them all.
# Read by this build and, installed beside finetuneConfig.cmake, by every program that uses the package.

find_package(Threads REQUIRED)
find_package(nlohmann_json 3.11 REQUIRED)
find_package(spdlog REQUIRED)
find_package(ICU REQUIRED COMPONENTS uc i18n data)
find_package(OpenSSL REQUIRED COMPONENTS Crypto)
find_package(PkgConfig REQUIRED)
pkg_check_modules(sentencepiece REQUIRED IMPORTED_TARGET sentencepiece)
pkg_check_modules(xxhash REQUIRED IMPORTED_TARGET libxxhash)

add_library(finetune::host_dependencies INTERFACE IMPORTED)
target_link_libraries(finetune::host_dependencies INTERFACE
  Threads::Threads nlohmann_json::nlohmann_json spdlog::spdlog ICU::uc ICU::i18n OpenSSL::Crypto
  PkgConfig::sentencepiece PkgConfig::xxhash ${CMAKE_DL_LIBS})

# LibTorch. find_package(Torch) of a CUDA build asks for the whole toolkit, though the binary needs two libraries of
# it; so we look for those two ourselves: in Torch_DIR (…/torch/share/cmake/Torch), CMAKE_PREFIX_PATH, then where
# `scripts/setup` puts it.
set(FINETUNE_TORCH_VERSION "2.11.0" CACHE STRING "LibTorch version whose folder in the per-user cache is used")
if(DEFINED ENV{FINETUNE_CACHE})
  set(finetune_cache "$ENV{FINETUNE_CACHE}")
elseif(DEFINED ENV{XDG_CACHE_HOME})
  set(finetune_cache "$ENV{XDG_CACHE_HOME}/finetune")
else()
  set(finetune_cache "$ENV{HOME}/.cache/finetune")
endif()
set(finetune_environment "${finetune_cache}/torch-${FINETUNE_TORCH_VERSION}")
set(torch_hints)
if(Torch_DIR)
  list(APPEND torch_hints "${Torch_DIR}/../../..")
endif()
list(APPEND torch_hints ${CMAKE_PREFIX_PATH} ${finetune_torch_root} "${finetune_environment}/libtorch")
find_path(FINETUNE_TORCH_INCLUDE_DIR ATen/ATen.h HINTS ${torch_hints} PATH_SUFFIXES include NO_DEFAULT_PATH)
find_library(FINETUNE_TORCH_CPU_LIBRARY torch_cpu HINTS ${torch_hints} PATH_SUFFIXES lib NO_DEFAULT_PATH)
find_library(FINETUNE_C10_LIBRARY c10 HINTS ${torch_hints} PATH_SUFFIXES lib NO_DEFAULT_PATH)
if(NOT FINETUNE_TORCH_INCLUDE_DIR OR NOT FINETUNE_TORCH_CPU_LIBRARY OR NOT FINETUNE_C10_LIBRARY)
  list(JOIN torch_hints "\n  " torch_hints_text)
  message(FATAL_ERROR
    "LibTorch ${FINETUNE_TORCH_VERSION} not found. Looked in:\n  ${torch_hints_text}\n"
    "Run scripts/setup, or pass -DCMAKE_PREFIX_PATH=<folder that holds LibTorch's include/ and lib/>.")
endif()
# A virtual environment may stand behind a link; LibTorch's own run paths start from the real folder.
file(REAL_PATH "${FINETUNE_TORCH_CPU_LIBRARY}" FINETUNE_TORCH_LIBRARY_DIR)
get_filename_component(FINETUNE_TORCH_LIBRARY_DIR "${FINETUNE_TORCH_LIBRARY_DIR}" DIRECTORY)
get_filename_component(FINETUNE_TORCH_ROOT "${FINETUNE_TORCH_LIBRARY_DIR}" DIRECTORY)

# LibTorch ships the headers of a newer fmt than the one that spdlog was built with; spdlog's own must be found first.
find_path(FINETUNE_FMT_INCLUDE_DIR fmt/core.h REQUIRED)
set(finetune_fmt_first "${CMAKE_CURRENT_BINARY_DIR}/fmt-first")
file(MAKE_DIRECTORY "${finetune_fmt_first}")
file(CREATE_LINK "${FINETUNE_FMT_INCLUDE_DIR}/fmt" "${finetune_fmt_first}/fmt" SYMBOLIC)

add_library(finetune::torch_cpu INTERFACE IMPORTED)
target_include_directories(finetune::torch_cpu INTERFACE "${finetune_fmt_first}"
  "${FINETUNE_TORCH_INCLUDE_DIR}" "${FINETUNE_TORCH_INCLUDE_DIR}/torch/csrc/api/include")
target_compile_definitions(finetune::torch_cpu INTERFACE USE_DISTRIBUTED USE_C10D_GLOO)
target_link_libraries(finetune::torch_cpu INTERFACE "${FINETUNE_TORCH_CPU_LIBRARY}" "${FINETUNE_C10_LIBRARY}")
# RUNPATH does not reach the libraries that LibTorch itself needs; RPATH does.
# -fopenmp: the kernels' threads are those of the OpenMP library that LibTorch loads; one name, so one copy in the process.
target_link_options(finetune::torch_cpu INTERFACE -Wl,--disable-new-dtags -fopenmp)
