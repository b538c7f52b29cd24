# The plugin libfinetune_cuda: every line of CUDA in the project. The program loads it where there is a driver.
#
# FINETUNE_CUDA: AUTO builds it where an nvcc is found whose major version is LibTorch's; ON insists; OFF does not look.
set(FINETUNE_CUDA AUTO CACHE STRING "Build the GPU plugin: AUTO (where a fitting nvcc is found), ON or OFF")
set_property(CACHE FINETUNE_CUDA PROPERTY STRINGS AUTO ON OFF)

# The CUDA version that LibTorch was built with, "" for a CPU build.
function(finetune_torch_cuda_version result)
  set(version "")
  if(EXISTS "${FINETUNE_TORCH_ROOT}/version.py")
    file(STRINGS "${FINETUNE_TORCH_ROOT}/version.py" line REGEX "^cuda:.*'[0-9.]+'")
    string(REGEX MATCH "[0-9]+[.][0-9]+" version "${line}")
  elseif(EXISTS "${FINETUNE_TORCH_ROOT}/build-version") # LibTorch's zip: "2.11.0+cu130"
    file(STRINGS "${FINETUNE_TORCH_ROOT}/build-version" line LIMIT_COUNT 1)
    string(REGEX REPLACE ".*[+]cu([0-9]+)([0-9])$" "\\1.\\2" version "${line}")
  endif()
  set(${result} "${version}" PARENT_SCOPE)
endfunction()

# The first nvcc of the wanted major version; the ones that do not fit go to `rejected`.
function(finetune_find_nvcc result rejected torch_cuda)
  string(REGEX MATCH "^[0-9]+" wanted "${torch_cuda}")
  set(candidates ${CMAKE_CUDA_COMPILER} $ENV{CUDACXX})
  find_program(on_path nvcc NO_CACHE)
  if(on_path)
    list(APPEND candidates "${on_path}")
  endif()
  foreach(root IN ITEMS "$ENV{CUDA_HOME}" /usr/local/cuda "${finetune_environment}/cuda")
    list(APPEND candidates "${root}/bin/nvcc")
  endforeach()
  set(not_fitting "")
  foreach(nvcc IN LISTS candidates)
    if(NOT EXISTS "${nvcc}")
      continue()
    endif()
    execute_process(COMMAND "${nvcc}" --version OUTPUT_VARIABLE output ERROR_QUIET)
    string(REGEX MATCH "release ([0-9]+)[.]([0-9]+)" release "${output}")
    if(CMAKE_MATCH_1 STREQUAL wanted)
      # The real compiler, not a script that stands for it: the toolkit is looked for beside it.
      execute_process(COMMAND "${nvcc}" --dryrun -x cu /dev/null ERROR_VARIABLE dryrun OUTPUT_QUIET)
      string(REGEX MATCH "_HERE_=([^\r\n]+)" here "${dryrun}")
      set(${result} "${CMAKE_MATCH_1}/nvcc" PARENT_SCOPE)
      return()
    endif()
    string(APPEND not_fitting " ${nvcc} (${release})")
  endforeach()
  set(${result} "" PARENT_SCOPE)
  set(${rejected} "${not_fitting}" PARENT_SCOPE)
endfunction()

# Sets finetune_nvcc where the plugin is to be built, and says what was decided and why.
function(finetune_decide_cuda)
  set(finetune_nvcc "" PARENT_SCOPE)
  if(FINETUNE_CUDA STREQUAL "OFF")
    message(STATUS "GPU plugin: off (FINETUNE_CUDA=OFF)")
    return()
  endif()
  finetune_torch_cuda_version(torch_cuda)
  if(NOT torch_cuda)
    set(problem "LibTorch in ${FINETUNE_TORCH_ROOT} is a build without CUDA")
    set(remedy "point CMAKE_PREFIX_PATH to a CUDA build of LibTorch, or run scripts/setup")
  else()
    finetune_find_nvcc(nvcc rejected "${torch_cuda}")
    if(nvcc)
      message(STATUS "GPU plugin: on (CUDA ${torch_cuda}, ${nvcc})")
      set(finetune_nvcc "${nvcc}" PARENT_SCOPE)
      return()
    endif()
    set(problem "no nvcc that fits LibTorch's CUDA ${torch_cuda} was found")
    if(rejected)
      string(APPEND problem "; not fitting:${rejected}")
    endif()
    set(remedy "run scripts/setup --tests, which brings one, or install the CUDA Toolkit ${torch_cuda} and put its bin folder on the PATH")
  endif()
  if(FINETUNE_CUDA STREQUAL "AUTO")
    if(EXISTS /proc/driver/nvidia/version)
      message(WARNING
        "This machine has an NVIDIA driver, but the GPU plugin is not built: ${problem}.\n"
        "finetune will train on the CPU only. To use the GPU: ${remedy}. Then configure again. "
        "(-DFINETUNE_CUDA=OFF turns this warning off.)")
    else()
      message(STATUS "GPU plugin: off (no NVIDIA driver, and ${problem})")
    endif()
    return()
  endif()
  message(FATAL_ERROR "FINETUNE_CUDA=ON, but ${problem}.\nTo build it: ${remedy}.")
endfunction()

finetune_decide_cuda()
if(NOT finetune_nvcc)
  return()
endif()

get_filename_component(CUDA_TOOLKIT_ROOT_DIR "${finetune_nvcc}/../.." ABSOLUTE)
set(CUDA_TOOLKIT_ROOT_DIR "${CUDA_TOOLKIT_ROOT_DIR}" CACHE PATH "CUDA toolkit" FORCE)
set(CUDA_NVCC_EXECUTABLE "${finetune_nvcc}" CACHE FILEPATH "nvcc" FORCE)
set(CMAKE_CUDA_COMPILER "${finetune_nvcc}")
set(CMAKE_CUDA_STANDARD 17) # enough for kernels, and CMake 3.25 knows no newer one for nvcc
set(CMAKE_CUDA_STANDARD_REQUIRED ON)
set(CMAKE_CUDA_ARCHITECTURES OFF) # LibTorch passes -gencode itself; without a list it asks for sm_50, which CUDA 13 dropped
if(NOT TORCH_CUDA_ARCH_LIST)
  set(TORCH_CUDA_ARCH_LIST "8.0;8.6;8.9;9.0;10.0;12.0+PTX")
endif()
if(FINETUNE_CCACHE)
  set(CMAKE_CUDA_COMPILER_LAUNCHER "${FINETUNE_CCACHE}")
endif()
# LibTorch names the driver's library; a toolkit made of wheels has no stub of it, and the plugin calls none of its functions.
if(NOT EXISTS "${CUDA_TOOLKIT_ROOT_DIR}/lib64/stubs/libcuda.so")
  set(CUDA_CUDA_LIBRARY "" CACHE FILEPATH "the driver's library, resolved by LibTorch" FORCE)
endif()
find_package(Torch REQUIRED PATHS "${FINETUNE_TORCH_ROOT}/share/cmake/Torch" NO_DEFAULT_PATH)

file(GLOB_RECURSE cuda_sources CONFIGURE_DEPENDS
     "${CMAKE_CURRENT_SOURCE_DIR}/src/*/cuda/*.cu" "${CMAKE_CURRENT_SOURCE_DIR}/src/*/cuda/*.cpp")
add_library(finetune_cuda MODULE ${cuda_sources})
target_include_directories(finetune_cuda PRIVATE
  "${CMAKE_CURRENT_SOURCE_DIR}/include" "${CMAKE_CURRENT_SOURCE_DIR}/src" "${CMAKE_CURRENT_BINARY_DIR}/include")
target_link_libraries(finetune_cuda PRIVATE finetune_warnings ${TORCH_LIBRARIES})
target_link_options(finetune_cuda PRIVATE -Wl,--disable-new-dtags)
# The same in the build tree as installed: LibTorch's folder, and the CUDA runtime beside it. LibTorch finds the rest itself.
file(GLOB cuda_runtime_dirs "${FINETUNE_TORCH_ROOT}/../nvidia/cu[0-9]*/lib" "${FINETUNE_TORCH_ROOT}/../nvidia/cuda_runtime/lib")
set_target_properties(finetune_cuda PROPERTIES
  BUILD_WITH_INSTALL_RPATH ON INSTALL_RPATH "$ORIGIN;${FINETUNE_TORCH_LIBRARY_DIR};${cuda_runtime_dirs}")
