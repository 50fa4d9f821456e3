/* KERNEL    act, add: elementwise operations on f32 rows
 * ACCURACY  silu and gelu_tanh are x / (1 + e^-u), gelu_erf uses erfc: no digits cancel. Further errors are the errors
 *           of the functions in simd_math.h. relu2 rounds once */

GA_INLINE vf act_lanes(int act, vf x) {
  const vf one = vf_set(1.0f), zero = vf_set(0.0f);
  if (act == GA_ACT_SILU) return vf_div(x, vf_add(one, vf_exp(vf_sub(zero, x))));
  if (act == GA_ACT_GELU_TANH) {
    const vf cubic = vf_set(0.0713548162f /* 2 sqrt(2 / pi) 0.044715 */),
             linear = vf_set(1.59576912f /* 2 sqrt(2 / pi) */);
    vf u = vf_mul(x, vf_fma(vf_mul(x, x), cubic, linear));
    return vf_div(x, vf_add(one, vf_exp(vf_sub(zero, u))));
  }
  if (act == GA_ACT_GELU_ERF)
    return vf_mul(vf_mul(vf_set(0.5f), x), vf_erfc(vf_mul(x, vf_set(-0.707106781f /* -1 / sqrt(2) */))));
  if (act == GA_ACT_RELU2) {
    const vf above = vf_max(zero, x); /* vf_max returns its second operand for a NaN, so that a NaN in x is kept */
    return vf_mul(above, above);
  }
  if (act == GA_ACT_TANH) return vf_tanh(x);
  return x;
}

/* Computes y = act(x) for a row of n elements, times g if g is not NULL. `act` is a constant in each call, so that the
 * compiler makes a loop for each activation. */
GA_INLINE void act_row(int act, const float *x, const float *g, float *y, int64_t n) {
  int64_t i = 0;
  for (; i + VN <= n; i += VN) {
    vf v = act_lanes(act, vf_load(x + i));
    vf_store(y + i, g ? vf_mul(v, vf_load(g + i)) : v);
  }
  int rest = (int)(n - i);
  if (!rest) return;
  vf v = act_lanes(act, vf_load_n(x + i, rest));
  vf_store_n(y + i, g ? vf_mul(v, vf_load_n(g + i, rest)) : v, rest);
}

typedef struct act_job {
  const ga_act_desc *d;
  const ga_act_io *a;
} act_job;

static void act_rows(const void *job, int64_t begin, int64_t end) {
  const act_job *j = job;
  const ga_act_desc *d = j->d;
  for (int64_t r = begin; r < end; r++) {
    const float *x = (const float *)j->a->x + r * d->x_stride;
    const float *g = j->a->g ? (const float *)j->a->g + r * d->g_stride : NULL;
    float *y = (float *)j->a->y + r * d->y_stride;
    switch (d->act) {
    case GA_ACT_SILU: act_row(GA_ACT_SILU, x, g, y, d->width); break;
    case GA_ACT_GELU_TANH: act_row(GA_ACT_GELU_TANH, x, g, y, d->width); break;
    case GA_ACT_GELU_ERF: act_row(GA_ACT_GELU_ERF, x, g, y, d->width); break;
    case GA_ACT_RELU2: act_row(GA_ACT_RELU2, x, g, y, d->width); break;
    case GA_ACT_TANH: act_row(GA_ACT_TANH, x, g, y, d->width); break;
    default: act_row(GA_ACT_NONE, x, g, y, d->width); break;
    }
  }
}

ga_status ISA(ga_cpu_act)(const ga_kernel *kernel, const void *desc, const void *io, void *workspace,
                          ga_stream *stream) {
  (void)kernel, (void)workspace;
  act_job job = {.d = desc, .a = io};
  cpu_rows_run(stream, job.d->rows, job.d->width, act_rows, &job);
  return GA_OK;
}

typedef struct add_job {
  const ga_add_desc *d;
  const ga_add_io *a;
} add_job;

static void add_row(const float *x, const float *b, float *y, int64_t n, float scale) {
  const vf s = vf_set(scale);
  int64_t i = 0;
  for (; i + VN <= n; i += VN) {
    vf v = vf_load(x + i);
    vf_store(y + i, b ? vf_fma(v, s, vf_load(b + i)) : vf_mul(v, s));
  }
  int rest = (int)(n - i);
  if (!rest) return;
  vf v = vf_load_n(x + i, rest);
  vf_store_n(y + i, b ? vf_fma(v, s, vf_load_n(b + i, rest)) : vf_mul(v, s), rest);
}

static void add_rows_of_job(const void *job, int64_t begin, int64_t end) {
  const add_job *j = job;
  const ga_add_desc *d = j->d;
  for (int64_t r = begin; r < end; r++) {
    const float *b = j->a->b ? (const float *)j->a->b + (d->b_rows == 1 ? 0 : r) * d->b_stride : NULL;
    const float scale = d->factor_stride ? d->scale * j->a->factors[r * d->factor_stride] : d->scale;
    add_row((const float *)j->a->x + r * d->x_stride, b, (float *)j->a->y + r * d->y_stride, d->width, scale);
  }
}

ga_status ISA(ga_cpu_add)(const ga_kernel *kernel, const void *desc, const void *io, void *workspace,
                          ga_stream *stream) {
  (void)kernel, (void)workspace;
  add_job job = {.d = desc, .a = io};
  cpu_rows_run(stream, job.d->rows, job.d->width, add_rows_of_job, &job);
  return GA_OK;
}
