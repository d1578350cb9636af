include(CMakeFindDependencyMacro)
find_dependency(Threads)
include(${CMAKE_CURRENT_LIST_DIR}/ansorcTargets.cmake)
include(${CMAKE_CURRENT_LIST_DIR}/ansorcKernel.cmake)
