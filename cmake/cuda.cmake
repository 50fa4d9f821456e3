# CUDA: host side always builds (the driver is loaded at run time); cubins are made when nvcc is found.
file(GLOB GA_CUDA_HOST CONFIGURE_DEPENDS src/cuda/*.c)
list(APPEND GA_SOURCES ${GA_CUDA_HOST})
