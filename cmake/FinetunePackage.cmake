# `cpack -G TGZ` and `cpack -G DEB` in the build folder pack what `cmake --install` installs. LibTorch is not in it unless
# FINETUNE_BUNDLE_TORCH says so: the program looks for it where it was when it was built.

option(FINETUNE_BUNDLE_TORCH "Install the LibTorch libraries that the program loads into lib/finetune, too" OFF)

if(FINETUNE_BUNDLE_TORCH)
  set_property(TARGET finetune PROPERTY INSTALL_RPATH "$ORIGIN/../lib/finetune;$ORIGIN/../lib;${FINETUNE_TORCH_LIBRARY_DIR}")
  get_filename_component(torch_parent "${FINETUNE_TORCH_ROOT}" DIRECTORY) # NVIDIA's libraries lie beside torch
  install(CODE "
    file(GET_RUNTIME_DEPENDENCIES EXECUTABLES \"$<TARGET_FILE:finetune>\"
      RESOLVED_DEPENDENCIES_VAR libraries UNRESOLVED_DEPENDENCIES_VAR missing
      DIRECTORIES \"${FINETUNE_TORCH_LIBRARY_DIR}\")
    if(missing)
      message(FATAL_ERROR \"not found, so they cannot be packed: \${missing}\")
    endif()
    foreach(library IN LISTS libraries)
      file(REAL_PATH \"\${library}\" file)
      string(FIND \"\${file}\" \"${torch_parent}/\" place)
      if(place EQUAL 0)
        file(INSTALL \"\${library}\" DESTINATION \"\${CMAKE_INSTALL_PREFIX}/lib/finetune\" FOLLOW_SYMLINK_CHAIN)
      endif()
    endforeach()")
  set(torch_note "LibTorch is in the package.")
else()
  set(torch_note "LibTorch is not in the package: it is looked for in ${FINETUNE_TORCH_LIBRARY_DIR}.")
endif()

# What shells and man are told, by the program itself.
set(shell_files)
foreach(file IN ITEMS bash:bash-completion/completions/finetune zsh:zsh/site-functions/_finetune
                      fish:fish/vendor_completions.d/finetune.fish man:man/man1/finetune.1)
  string(REPLACE ":" ";" file "${file}")
  list(GET file 0 what)
  list(GET file 1 path)
  get_filename_component(folder "${path}" DIRECTORY)
  set(made "${CMAKE_BINARY_DIR}/share/${path}")
  add_custom_command(OUTPUT "${made}"
    COMMAND ${CMAKE_COMMAND} -E make_directory "${CMAKE_BINARY_DIR}/share/${folder}"
    COMMAND finetune completion ${what} > "${made}"
    DEPENDS finetune VERBATIM COMMENT "Writing share/${path}")
  list(APPEND shell_files "${made}")
  install(FILES "${made}" DESTINATION "${CMAKE_INSTALL_DATADIR}/${folder}")
endforeach()
add_custom_target(finetune_shell_files ALL DEPENDS ${shell_files})

set(CPACK_PACKAGE_NAME finetune)
set(CPACK_PACKAGE_VENDOR finetune)
set(CPACK_PACKAGE_CONTACT "finetune <finetune@localhost>")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "${PROJECT_DESCRIPTION}")
set(CPACK_RESOURCE_FILE_LICENSE "${PROJECT_SOURCE_DIR}/LICENSE")
set(CPACK_GENERATOR TGZ DEB)
set(CPACK_VERBATIM_VARIABLES ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION science)
set(CPACK_DEBIAN_PACKAGE_DESCRIPTION "${PROJECT_DESCRIPTION}\n${torch_note}")
configure_file(cmake/package_config.cmake.in package_config.cmake @ONLY)
set(CPACK_PROJECT_CONFIG_FILE "${CMAKE_CURRENT_BINARY_DIR}/package_config.cmake")
include(CPack)
