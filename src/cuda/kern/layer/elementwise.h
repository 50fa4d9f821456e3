/* Part of elementwise kernels (act_sm80.cu, add_sm80.cu), included last, behind what they do with elements: the kernel
 * over the rows. They have defined kargs, elements_wide (N elements from a column on) and element_one. */
#pragma once

GA_KERNEL(GA_P_THREADS, 1) GA_KERNEL_ID(GA_GRID_CONST kargs a) {
  const int64_t per_row = (a.width + UNIT - 1) / UNIT, units = per_row * a.rows;
  grid_dependency_wait();
  grid_launch_dependents();
  for (int64_t u = block_index(); u < units; u += block_count()) {
    const int64_t row = u / per_row, first = (u - row * per_row) * UNIT, col = first + (int64_t)thread_index() * N;
    if (a.vec16 && col + N <= a.width) {
      elements_wide(&a, row, col);
    } else {
      for (int64_t c = col; c < a.width && c < col + N; c++) element_one(&a, row, c);
    }
  }
}
