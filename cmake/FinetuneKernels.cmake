# CPU kernels are compiled once for each instruction set; src/kernels/cpu picks one when the program starts.

set(finetune_isa_sets DEFAULT)
set(finetune_isa_flags_DEFAULT)
if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
  list(APPEND finetune_isa_sets AVX2 AVX512)
  # The sets that LibTorch's own kernels are built for, and chosen by the same test.
  set(finetune_isa_flags_AVX2 -mavx2 -mfma -mf16c)
  # GCC 12 takes the undefined lanes of its own AVX-512 headers for uninitialised variables (its bug 105593).
  set(finetune_isa_flags_AVX512 -mavx512f -mavx512bw -mavx512vl -mavx512dq -mfma -mf16c
      -Wno-uninitialized -Wno-maybe-uninitialized)
  set_source_files_properties("${CMAKE_CURRENT_SOURCE_DIR}/src/kernels/cpu/isa_kernels.cpp" PROPERTIES
    COMPILE_DEFINITIONS FINETUNE_X86_KERNELS SKIP_PRECOMPILE_HEADERS ON)
endif()

file(GLOB finetune_isa_sources CONFIGURE_DEPENDS "${CMAKE_CURRENT_SOURCE_DIR}/src/kernels/cpu/isa/*.cpp")
foreach(isa IN LISTS finetune_isa_sets)
  add_library(finetune_kernels_${isa} OBJECT ${finetune_isa_sources})
  target_compile_options(finetune_kernels_${isa} PRIVATE -O3 ${finetune_isa_flags_${isa}})
  target_compile_definitions(finetune_kernels_${isa} PRIVATE
    CPU_CAPABILITY=${isa} CPU_CAPABILITY_${isa})
  target_include_directories(finetune_kernels_${isa} PRIVATE "${CMAKE_CURRENT_SOURCE_DIR}/include")
  target_link_libraries(finetune_kernels_${isa} PRIVATE finetune::torch_cpu finetune_warnings)
  list(APPEND finetune_core_objects $<TARGET_OBJECTS:finetune_kernels_${isa}>)
endforeach()

# at::parallel_for is threaded only in code compiled with OpenMP; a precompiled header made without it does not fit.
set_source_files_properties("${CMAKE_CURRENT_SOURCE_DIR}/src/kernels/cpu/parallel.cpp" PROPERTIES
  COMPILE_OPTIONS -fopenmp SKIP_PRECOMPILE_HEADERS ON)
