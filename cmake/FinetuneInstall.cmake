# Install rules and the exported CMake package. bin/ and lib/ keep the places that they have in the build tree, because the
# program looks for its plugin beside itself; LibTorch stays where it is.
include(CMakePackageConfigHelpers)

set(finetune_package_dir lib/cmake/finetune)
set_target_properties(finetune PROPERTIES INSTALL_RPATH "$ORIGIN/../lib;${FINETUNE_TORCH_LIBRARY_DIR}")
install(TARGETS finetune RUNTIME DESTINATION bin)
if(TARGET finetune_cuda)
  install(TARGETS finetune_cuda LIBRARY DESTINATION lib)
endif()

install(TARGETS finetune_core EXPORT finetuneTargets ARCHIVE DESTINATION lib)
install(DIRECTORY include/finetune "${CMAKE_CURRENT_BINARY_DIR}/include/finetune"
        DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}" FILES_MATCHING PATTERN "*.h")
install(EXPORT finetuneTargets NAMESPACE finetune:: DESTINATION ${finetune_package_dir})
configure_package_config_file(cmake/finetuneConfig.cmake.in finetuneConfig.cmake
  INSTALL_DESTINATION ${finetune_package_dir} NO_SET_AND_CHECK_MACRO NO_CHECK_REQUIRED_COMPONENTS_MACRO)
write_basic_package_version_file(finetuneConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES "${CMAKE_CURRENT_BINARY_DIR}/finetuneConfig.cmake"
              "${CMAKE_CURRENT_BINARY_DIR}/finetuneConfigVersion.cmake"
              "${CMAKE_CURRENT_SOURCE_DIR}/cmake/FinetuneDependencies.cmake"
        DESTINATION ${finetune_package_dir})
install(FILES LICENSE README.md DESTINATION "${CMAKE_INSTALL_DOCDIR}")
