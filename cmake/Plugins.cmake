# Libraries that may be missing where paradl runs are behind plugins, libparadl-NAME.so, made of src/<module>/plugin/NAME.c
# or of the sources in src/<module>/plugin/NAME/, and loaded when they are asked for (src/base/plugin.h). What is not found here is reported and left out.
option(PDL_PLUGINS_INSIDE "Put the plugins into the library instead: for fuzzing" ${PDL_FUZZ})
set(PDL_PLUGIN_FOLDER ${PROJECT_BINARY_DIR}/lib/paradl)
set(PDL_PLUGINS)

pkg_check_modules(SIMGRID IMPORTED_TARGET simgrid)
pkg_check_modules(HDF5 IMPORTED_TARGET hdf5)
pkg_check_modules(JPEG IMPORTED_TARGET libjpeg)
pkg_check_modules(PNG IMPORTED_TARGET libpng)
pkg_check_modules(URING IMPORTED_TARGET liburing)
pkg_check_modules(HWLOC IMPORTED_TARGET hwloc)

# oneDNN's own package file asks for OpenCL, which the library brings along but we do not use.
find_path(PDL_DNNL_INCLUDE oneapi/dnnl/dnnl.h)
find_library(PDL_DNNL_LIBRARY dnnl)
if(PDL_DNNL_INCLUDE AND PDL_DNNL_LIBRARY)
    set(DNNL_FOUND 1)
    file(STRINGS ${PDL_DNNL_INCLUDE}/oneapi/dnnl/dnnl_version.h DNNL_VERSION REGEX "define DNNL_VERSION_(MAJOR|MINOR|PATCH) ")
    string(REGEX REPLACE "[^0-9;]+" "" DNNL_VERSION "${DNNL_VERSION}")
    list(JOIN DNNL_VERSION "." DNNL_VERSION)
    add_library(pdl_dnnl INTERFACE)
    target_include_directories(pdl_dnnl SYSTEM INTERFACE ${PDL_DNNL_INCLUDE})
    target_link_libraries(pdl_dnnl INTERFACE ${PDL_DNNL_LIBRARY})
endif()

# What follows the first comma is the packager's.
set(MPI_FOUND ${MPI_C_FOUND})
string(REGEX REPLACE ",.*" "" MPI_VERSION "${MPI_C_LIBRARY_VERSION_STRING}")
if(NOT MPI_VERSION)
    set(MPI_VERSION "of the standard ${MPI_C_VERSION}")
endif()

include(Cuda)

if(PDL_BARE)
    foreach(id SIMGRID HDF5 JPEG PNG URING DNNL HWLOC MPI)
        set(${id}_FOUND 0)
    endforeach()
endif()

# pdl_plugin(ID MODULE NAME PACKAGE TARGET): the plugin NAME of a module needs TARGET, which ID_FOUND says is there. To be
# called when pdl_objects is there.
function(pdl_plugin id module name package target)
    set(inside 0)
    set(version "")
    if(${id}_FOUND AND module IN_LIST PDL_MODULES)
        set(source ${PROJECT_SOURCE_DIR}/src/${module}/plugin/${name}.c)
        if(NOT EXISTS ${source})
            file(GLOB_RECURSE source CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/${module}/plugin/${name}/*.c
                 ${PROJECT_SOURCE_DIR}/src/${module}/plugin/${name}/*.cu)
        endif()
        set(version ${${id}_VERSION})
        set(PDL_${id}_FOUND ${version} PARENT_SCOPE)
        if(PDL_PLUGINS_INSIDE)
            set(inside 1)
            target_sources(pdl_objects PRIVATE ${source})
            set_source_files_properties(${source} PROPERTIES COMPILE_DEFINITIONS PDL_VERSION="${PROJECT_VERSION}")
            target_link_libraries(pdl_training INTERFACE ${target})
        else()
            add_library(paradl_${name} MODULE ${source} ${PROJECT_SOURCE_DIR}/src/base/plugin/side.c)
            set_target_properties(paradl_${name} PROPERTIES OUTPUT_NAME paradl-${name} C_VISIBILITY_PRESET hidden
                                  LINKER_LANGUAGE C LIBRARY_OUTPUT_DIRECTORY ${PDL_PLUGIN_FOLDER})
            target_include_directories(paradl_${name} PRIVATE ${PROJECT_SOURCE_DIR}/include ${PROJECT_SOURCE_DIR}/src)
            target_compile_definitions(paradl_${name} PRIVATE PDL_PLUGIN_SIDE PDL_VERSION="${PROJECT_VERSION}")
            target_link_libraries(paradl_${name} PRIVATE pdl_options ${target} Threads::Threads m)
            set(PDL_PLUGINS ${PDL_PLUGINS} paradl_${name} PARENT_SCOPE)
        endif()
    else()
        set(PDL_${id}_FOUND "not found: install ${package}" PARENT_SCOPE)
    endif()
    set_property(SOURCE ${PROJECT_SOURCE_DIR}/src/base/plugin.c APPEND PROPERTY COMPILE_DEFINITIONS
                 PDL_PLUGIN_${id}="${version}" PDL_INSIDE_${id}=${inside})
endfunction()

# Where they are looked for: src/base/plugin.c. Only this source knows, like src/base/share.c.
file(RELATIVE_PATH bin_to_plugins ${CMAKE_INSTALL_FULL_BINDIR} ${CMAKE_INSTALL_FULL_LIBDIR}/paradl)
set_property(SOURCE ${PROJECT_SOURCE_DIR}/src/base/plugin.c APPEND PROPERTY COMPILE_DEFINITIONS
             PDL_VERSION="${PROJECT_VERSION}" PDL_BUILD_PLUGINS="${PDL_PLUGIN_FOLDER}"
             PDL_BIN_TO_PLUGINS="${bin_to_plugins}" PDL_INSTALL_PLUGINS="${CMAKE_INSTALL_FULL_LIBDIR}/paradl")
# MPI first: where plugins are inside, SimGrid is linked too, which has functions of the same names.
pdl_plugin(MPI comm ranks "libopenmpi-dev and openmpi-bin" MPI::MPI_C)
pdl_plugin(SIMGRID sim simgrid libsimgrid-dev PkgConfig::SIMGRID)
pdl_plugin(HDF5 data hdf5 libhdf5-dev PkgConfig::HDF5)
pdl_plugin(JPEG data jpeg libjpeg-dev PkgConfig::JPEG)
pdl_plugin(PNG data png libpng-dev PkgConfig::PNG)
pdl_plugin(URING data uring liburing-dev PkgConfig::URING)
pdl_plugin(DNNL tensor dnnl libdnnl-dev pdl_dnnl)
pdl_plugin(HWLOC tensor hwloc libhwloc-dev PkgConfig::HWLOC)
pdl_plugin(CUDA tensor cuda "${PDL_CUDA_PACKAGE}" pdl_cuda)
pdl_emulated_cuda()
if(NOT PDL_CUDA)
    set(PDL_CUDA_FOUND "not wanted: PDL_CUDA is OFF")
endif()

# For tests that write such files.
add_library(pdl_formats INTERFACE)
foreach(id HDF5 JPEG PNG)
    if(${id}_FOUND)
        target_link_libraries(pdl_formats INTERFACE PkgConfig::${id})
        target_compile_definitions(pdl_formats INTERFACE PDL_HAVE_${id})
    endif()
endforeach()
