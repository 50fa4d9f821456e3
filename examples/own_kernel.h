/* The kernel's parameter: the same bytes on the host and on the device. */
#ifndef OWN_KERNEL_H
#define OWN_KERNEL_H

/* y[row] = sqrt(mean(x[row, :]^2)), f32; x: [rows, width]. */
typedef struct own_args {
  const float *x;
  float *y;
  int rows, width;
} own_args;

#endif
