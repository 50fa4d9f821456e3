/* The simulator of distributed attention: bounds that hold for any plan and machine, closed forms, draws. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "dist/plan.h"
#include "tests/dist_cases.h"

#define SLACK 1e-9 /* sums in another order */

static const dist_case sim_cases[] = {
    {"causal", GA_DIST_CAUSAL, 0, 1, {4099}, {4099}, true},
    {"full", 0, 0, 1, {1024}, {1024}, true},
    {"window", GA_DIST_CAUSAL, 700, 1, {4096}, {4096}, true},
    {"documents", GA_DIST_CAUSAL, 0, 5, {1700, 0, 1, 950, 1200}, {1700, 0, 1, 950, 1200}, true},
    {"cached keys", GA_DIST_CAUSAL, 0, 2, {500, 30}, {4100, 3000}, false},
};
enum { CASES = sizeof sim_cases / sizeof *sim_cases };

/* No start of tiles: the rate is `flops` whatever the shape, so that bounds are exact. */
static ga_dist_machine machine_of(bool gpus) {
  ga_dist_machine m = GA_DIST_MACHINE_INIT;
  m.flops = 1e12, m.bytes_per_second = 1e9, m.latency = 3e-6, m.launch = 2e-6;
  if (gpus) m.merged_flops = 0.8e12, m.memory_bytes_per_second = 50e9;
  return m;
}

static ga_dist_times simulated(const ga_dist_plan *plan, const ga_dist_machine *m) {
  ga_dist_times t = GA_DIST_TIMES_INIT;
  assert_int_equal(ga_dist_plan_simulate(plan, m, &t), GA_OK);
  return t;
}

typedef void check_fn(const ga_dist_plan *plan, const dist_setup *s, int32_t ranks);

/* Each case that a method takes, forward and backward. Returns their number. */
static int for_method(const char *name, check_fn *check) {
  int n = 0;
  for (int c = 0; c < CASES; c++)
    for (int32_t ranks = 1; ranks <= 6; ranks += 1 + (ranks > 2))
      for (uint32_t back = 0; back <= GA_DIST_BACKWARD; back += GA_DIST_BACKWARD) {
        dist_setup s = start_dist_case(&sim_cases[c], name, 0, ranks, 8, 4);
        ga_dist_plan *plan = NULL;
        s.desc.head_dim = 64, s.desc.v_dim = 48, s.desc.dtype = GA_BF16;
        s.desc.flags |= back;
        if (ga_dist_plan_create(&s.desc, &plan) == GA_OK) check(plan, &s, ranks), n++;
        ga_dist_plan_destroy(plan);
        end_dist_case(&s);
      }
  return n;
}

static void for_plans(check_fn *check) {
  const char *name;
  int n = 0;
  for (size_t i = 0; (name = ga_dist_method_name(i)) != NULL; i++) n += for_method(name, check);
  assert_true(n > 500);
}

/* A run takes no less than its work shared out evenly, than a rank's own work, and than a rank's bytes on its way. */
static void check_bounds(const ga_dist_plan *plan, const dist_setup *s, int32_t ranks) {
  const double each = 2 * (64 + 48) * (s->desc.flags & GA_DIST_BACKWARD ? 2.5 : 1);
  double pairs = 0, most_pairs = 0, most_bytes = 0;
  for (int32_t r = 0; r < ranks; r++) {
    ga_dist_cost c = GA_DIST_COST_INIT;
    assert_int_equal(ga_dist_plan_cost(plan, r, &c), GA_OK);
    pairs += (double)c.pairs, most_pairs = fmax(most_pairs, (double)c.pairs);
    most_bytes = fmax(most_bytes, fmax((double)c.sent_bytes, (double)c.received_bytes));
  }
  for (int gpus = 0; gpus < 2; gpus++) {
    const ga_dist_machine m = machine_of(gpus);
    const ga_dist_times t = simulated(plan, &m);
    assert_true(t.seconds >= (1 - SLACK) * pairs * each / ranks / m.flops);
    assert_true(t.seconds >= (1 - SLACK) * most_pairs * each / m.flops);
    assert_true(t.seconds >= (1 - SLACK) * most_bytes / m.bytes_per_second);
    assert_true(t.most_busy <= (1 + SLACK) * t.seconds && t.mean_busy <= (1 + SLACK) * t.most_busy);
    assert_true(fabs(t.one_device - (pairs * each / m.flops + m.launch)) <= SLACK);
    assert_true(t.low == t.seconds && t.middle == t.seconds && t.high == t.seconds);
  }
}

static void test_simulated_bounds(void **state) {
  (void)state;
  for_plans(check_bounds);
}

/* Faster links make no run slower; where no link is waited for, nor do faster ranks and memory. A machine that is twice
 * as fast in everything takes half the time. (With slow links a faster rank may change the order of transfers, and so
 * lose time: Graham's anomalies.) */
static void check_faster(const ga_dist_plan *plan, const dist_setup *s, int32_t ranks) {
  (void)s, (void)ranks;
  for (int gpus = 0; gpus < 2; gpus++) {
    const ga_dist_machine m = machine_of(gpus);
    const double before = simulated(plan, &m).seconds;
    ga_dist_machine f = m;
    f.bytes_per_second *= 1.5;
    assert_true(simulated(plan, &f).seconds <= (1 + SLACK) * before);
    f.bytes_per_second = 1e30, f.latency = 0;
    const double alone = simulated(plan, &f).seconds;
    assert_true(alone <= (1 + SLACK) * before);
    for (int what = 0; what < 4; what++) {
      ga_dist_machine g = f;
      double *const rates[] = {&g.flops, &g.merged_flops, &g.memory_bytes_per_second};
      if (what < 3)
        *rates[what] *= 1.5;
      else
        g.launch = 0;
      assert_true(simulated(plan, &g).seconds <= (1 + SLACK) * alone);
    }
    f = m;
    f.flops *= 2, f.merged_flops *= 2, f.memory_bytes_per_second *= 2, f.bytes_per_second *= 2;
    f.latency /= 2, f.launch /= 2;
    assert_true(fabs(simulated(plan, &f).seconds * 2 - before) <= SLACK * before);
  }
}

static void test_faster(void **state) {
  (void)state;
  for_plans(check_faster);
}

/* Of a causal plan on links that take no time. */
static ga_dist_times of_method(const char *method, int32_t ranks, int64_t tokens, uint32_t flags,
                               const ga_dist_machine *m) {
  const dist_case c = {"closed form", GA_DIST_CAUSAL | flags, 0, 1, {tokens}, {tokens}, true};
  dist_setup s = start_dist_case(&c, method, 0, ranks, 8, 4);
  ga_dist_plan *plan = NULL;
  s.desc.head_dim = s.desc.v_dim = 64, s.desc.dtype = GA_BF16;
  assert_int_equal(ga_dist_plan_create(&s.desc, &plan), GA_OK);
  const ga_dist_times t = simulated(plan, m);
  ga_dist_plan_destroy(plan);
  end_dist_case(&s);
  return t;
}

/* Ulysses of more ranks than heads of keys, which ranks share: n (n + 1) / 2 tiles on each rank, and each is merged. A
 * rank clears O of its own rows and of all rows of its heads, and rounds its own. */
static void test_shared_heads(void **state) {
  (void)state;
  const int32_t n = 8;
  const double tokens = 4096, elements = tokens / n * (8.0 / n) * 64, f32 = 4;
  ga_dist_machine m = machine_of(true);
  m.launch = m.latency = 0, m.bytes_per_second = 1e30;
  const double with = of_method("ulysses", n, 4096, 0, &m).seconds, memory = m.memory_bytes_per_second;
  m.memory_bytes_per_second = 1e30;
  const double without = of_method("ulysses", n, 4096, 0, &m).seconds, pairs = tokens * (tokens + 1) / 2 * 8;
  assert_true(fabs(without / (pairs / n * 4 * 64 / m.merged_flops) - 1) < 1e-6);
  const double tiles = n * (n + 1) / 2.0, own = tokens / n * 8 * 64;
  const double merged = tiles * 2 * (f32 + 2) * elements, cleared = f32 * (own + (n - 1) * elements),
               /* what came of the own rows' other heads is added, all is rounded to bf16 */
      home = 3 * f32 * (n - 1) * elements + (f32 + 2) * own;
  assert_true(fabs((with - without) * memory / (merged + cleared + home) - 1) < 1e-6);
}

/* Ulysses of ranks that have whole heads of keys: one plain call, then results are copied to the caller's tensors. */
static void test_split_heads_are_plain(void **state) {
  (void)state;
  for (int32_t n = 2; n <= 4; n *= 2)
    for (uint32_t pass = 0; pass <= GA_DIST_BACKWARD; pass += GA_DIST_BACKWARD) {
      const double pairs = 4096.0 * 4097 / 2 * 8, bf16 = 2, results = pass ? 8 + 2 * 4 : 8; /* heads of 64 */
      ga_dist_machine m = machine_of(true);
      m.launch = m.latency = 0, m.bytes_per_second = 1e30;
      const double work = pairs / n * 4 * 64 * (pass ? 2.5 : 1) / m.flops;
      const double copies = 2 * 4096.0 / n * results * 64 * bf16 / m.memory_bytes_per_second;
      assert_true(fabs(of_method("ulysses", n, 4096, pass, &m).seconds / (work + copies) - 1) < 1e-6);
      m.merged_flops *= 0.1;
      assert_true(fabs(of_method("ulysses", n, 4096, pass, &m).seconds / (work + copies) - 1) < 1e-6);
      m.bytes_per_second = 1e9; /* inputs come before, and results go behind */
      const double other = 4096.0 / n * (8.0 / n) * (n - 1), q = other * 64 * bf16,
                   in = pass ? 3 * q + other * 4 + q : q + q, out = pass ? q + q : q + other * 4;
      assert_true(fabs(of_method("ulysses", n, 4096, pass, &m).seconds / (work + copies + (in + out) / 1e9) - 1) <
                  1e-6);
    }
}

/* Gathered keys are plain calls: no memory is passed through forward, and the merged rate is not looked at. */
static void test_gathered_is_plain(void **state) {
  (void)state;
  ga_dist_machine m = machine_of(true);
  m.launch = m.latency = 0, m.bytes_per_second = 1e30;
  const double a = of_method("llama3", 4, 4096, 0, &m).seconds;
  assert_true(fabs(a / (4096.0 * 4097 / 2 * 8 / 4 * 4 * 64 / m.flops) - 1) < 1e-6);
  m.merged_flops *= 0.1, m.memory_bytes_per_second *= 0.1;
  assert_true(of_method("llama3", 4, 4096, 0, &m).seconds == a);
  assert_true(of_method("zigzag", 4, 4096, 0, &m).seconds > 5 * a);
  m = machine_of(true);
  const double back = of_method("llama3", 4, 4096, GA_DIST_BACKWARD, &m).seconds;
  m.memory_bytes_per_second *= 0.5; /* backward sums f32 gradients */
  assert_true(of_method("llama3", 4, 4096, GA_DIST_BACKWARD, &m).seconds > 1.01 * back);
}

/* Short calls are slower by what a tile's start costs: of n ranks a contiguous ring's last rank has n tiles, of which
 * each query of the diagonal one sees half of what the others do. */
static void test_starts(void **state) {
  (void)state;
  ga_dist_machine m = machine_of(true);
  m.launch = m.latency = 0, m.bytes_per_second = 1e30, m.memory_bytes_per_second = 1e30;
  m.merged_flops = m.flops, m.start_keys = 200;
  const double c = 1024, mean = (4096 + 1) / 2.0, seen[] = {(c + 1) / 2, c, c, c};
  double want = 0;
  for (int i = 0; i < 4; i++) /* a query's keys and the start */
    want += c * (seen[i] + m.start_keys) * 8 * 4 * 64 / m.flops * (mean / (mean + m.start_keys));
  assert_true(fabs(of_method("ring", 4, 4096, 0, &m).seconds / want - 1) < 1e-6);
}

/* Two points: at a point its rate, half way between them in logarithms the geometric mean, beyond them the end's. */
static void test_curves(void **state) {
  (void)state;
  const ga_dist_point points[] = {{1024, 1e12}, {16384, 4e12}}, link[] = {{1e4, 1e8}, {1e6, 1e10}};
  ga_dist_machine m = machine_of(false);
  m.launch = m.latency = 0, m.bytes_per_second = 1e30;
  m.plain = points, m.plain_points = 2;
  const struct {
    int64_t tokens;
    double rate;
  } cases[] = {{256, 1e12}, {1023, 1e12}, {4095, 2e12}, {16383, 4e12}, {32768, 4e12}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) { /* causal: a query sees (tokens + 1) / 2 keys */
    const double n = (double)cases[i].tokens;
    const double want = n * (n + 1) / 2 * 8 * 4 * 64 / cases[i].rate;
    assert_true(fabs(of_method("ring", 1, cases[i].tokens, 0, &m).seconds / want - 1) < 1e-3);
  }
  m.flops = 1e30, m.plain = NULL, m.plain_points = 0, m.link = link, m.link_points = 2;
  const double bytes = 100.0 / 2 * 4 * 2 * 64 * 2; /* 51200: K and V of half of 100 tokens in bf16 */
  const double rate = 1e8 * pow(bytes / 1e4, 1);   /* a line of slope 1 */
  assert_true(fabs(of_method("ring", 2, 100, 0, &m).seconds / (bytes / rate) - 1) < 1e-3);
}

static int draws_checked;

static void check_draws(const ga_dist_plan *plan, const dist_setup *s, int32_t ranks) {
  for (int gpus = 0; gpus < 2 && ranks == 3; gpus++) {
    draws_checked++;
    ga_dist_machine m = machine_of(gpus);
    m.spread = 0.05, m.jitter = 0.05, m.link_spread = 0.05, m.draws = 41, m.seed = 7;
    const ga_dist_times a = simulated(plan, &m), b = simulated(plan, &m);
    assert_true(a.low <= a.middle && a.middle <= a.high);
    assert_true(a.low < a.high || a.seconds <= 0);
    assert_true(a.low > 0.7 * a.seconds && a.high < 1.5 * a.seconds);
    assert_memory_equal(&a, &b, sizeof a);
    m.seed = 8;
    const ga_dist_times c = simulated(plan, &m);
    assert_true(c.seconds == a.seconds && (c.high != a.high || a.seconds <= 0));
    m.spread /= 10, m.jitter /= 10, m.link_spread /= 10;
    const ga_dist_times d = simulated(plan, &m);
    /* In a ring; where all send to all, the least disturbance changes who comes first. */
    assert_true(strcmp(s->desc.method, "ring") != 0 || d.high - d.low <= 0.2 * (c.high - c.low));
  }
}

static void test_draws(void **state) {
  (void)state;
  for_plans(check_draws);
  assert_true(draws_checked > 200);
}

/* The band of a normal distribution is 1.645 deviations on either side. Jitter of four calls in a row evens out by
 * half, the speed of their rank does not. */
static void test_band_is_normal(void **state) {
  (void)state;
  const int64_t documents[] = {512, 512, 512, 512};
  for (int jitter = 0; jitter < 2; jitter++)
    for (int32_t n = 1; n <= 4; n += 3) {
      dist_case c = {"documents", GA_DIST_CAUSAL, 0, n, {0}, {0}, true};
      memcpy(c.q, documents, sizeof documents), memcpy(c.kv, documents, sizeof documents);
      dist_setup s = start_dist_case(&c, "ring", 0, 1, 8, 4);
      ga_dist_plan *plan = NULL;
      assert_int_equal(ga_dist_plan_create(&s.desc, &plan), GA_OK);
      ga_dist_machine m = machine_of(false);
      m.launch = 0, m.draws = 5000;
      *(jitter ? &m.jitter : &m.spread) = 0.02;
      const ga_dist_times t = simulated(plan, &m);
      const double deviation = jitter && n > 1 ? 0.01 : 0.02;
      assert_true(fabs(t.middle / t.seconds - 1) < 0.002);
      assert_true(fabs(t.low / t.seconds - exp(-1.645 * deviation)) < 0.002);
      assert_true(fabs(t.high / t.seconds - exp(1.645 * deviation)) < 0.002);
      ga_dist_plan_destroy(plan);
      end_dist_case(&s);
    }
}

/* The simulator as it is: times of every method over all cases above, forward and backward, without and with what
 * merges and memory cost, summed with weights so that times that change places show, too. A change here is one of
 * predictions: print the new table with GA_TEST_SHOW=1, and say in the commit why. */
static const struct {
  const char *method;
  double sums[2][2]; /* [gpus][backward] */
} predicted[] = {
    {"ring", {{209.421690565, 587.087390217}, {264.556785657, 619.814220792}}},
    {"striped", {{197.463374296, 528.519369586}, {246.230326398, 563.543403336}}},
    {"zigzag", {{199.240346265, 543.729976375}, {248.837332511, 584.647455065}}},
    {"zigzag-direct", {{193.627866968, 514.940520937}, {244.935480098, 555.034902388}}},
    {"double-ring", {{199.240346265, 543.729976375}, {248.837332511, 584.647455065}}},
    {"distflash", {{158.065869863, 428.245632559}, {204.774265722, 447.909064608}}},
    {"balanced", {{233.597726668, 568.17604942}, {286.11930339, 617.164293936}}},
    {"llama3", {{206.924466529, 569.257768811}, {218.898628472, 616.498368791}}},
    {"mesh", {{199.240346265, 543.729976375}, {248.837332511, 584.647455065}}},
    {"wallfacer", {{199.240346265, 544.412780646}, {248.837332511, 581.117805111}}},
    {"attention2d", {{206.924466529, 569.257768811}, {218.898628472, 616.498368791}}},
    {"ulysses", {{233.714461071, 572.084291748}, {253.18609426, 593.731476714}}},
    {"usp", {{199.240346265, 543.729976375}, {248.837332511, 584.647455065}}},
    {"burst", {{199.240346265, 544.412780646}, {248.837332511, 583.435128697}}},
    {"tokenring", {{250.915437704, 544.412780646}, {304.95817123, 583.435128697}}},
    {"pass-q", {{267.549211093, 544.412780646}, {324.576368841, 583.435128697}}},
    {"tree", {{280.147194273, 605.543396483}, {312.254791383, 644.274647721}}},
};

static double weighed[2][2];
static int n_weighed;

static void add_prediction(const ga_dist_plan *plan, const dist_setup *s, int32_t ranks) {
  (void)ranks;
  const double weight = 1 + 0.01 * n_weighed++;
  for (int gpus = 0; gpus < 2; gpus++) {
    ga_dist_machine m = machine_of(gpus);
    const ga_dist_times t = simulated(plan, &m);
    weighed[gpus][(s->desc.flags & GA_DIST_BACKWARD) != 0] +=
        weight * 1e3 * (t.seconds + 0.7 * t.mean_busy + 0.5 * t.most_busy + 0.3 * t.most_waiting + 0.1 * t.one_device);
  }
}

static void test_predictions(void **state) {
  (void)state;
  const char *name;
  const bool show = getenv("GA_TEST_SHOW") != NULL;
  for (size_t i = 0; (name = ga_dist_method_name(i)) != NULL; i++) {
    memset(weighed, 0, sizeof weighed);
    n_weighed = 0;
    for_method(name, add_prediction);
    if (show)
      print_message("    {\"%s\", {{%.12g, %.12g}, {%.12g, %.12g}}},\n", name, weighed[0][0], weighed[0][1],
                    weighed[1][0], weighed[1][1]);
    if (show) continue;
    assert_true(i < sizeof predicted / sizeof *predicted);
    assert_string_equal(predicted[i].method, name);
    for (int k = 0; k < 4; k++) {
      const double want = predicted[i].sums[k / 2][k % 2], got = weighed[k / 2][k % 2];
      if (!(fabs(got - want) <= 1e-9 * want)) fail_msg("%s: %.12g; was %.12g", name, got, want);
    }
  }
}

static void test_refused_machines(void **state) {
  (void)state;
  const ga_dist_point falling[] = {{8, 1}, {4, 1}};
  const dist_case c = {"refused", GA_DIST_CAUSAL, 0, 1, {64}, {64}, true};
  dist_setup s = start_dist_case(&c, "ring", 0, 2, 8, 4);
  ga_dist_plan *plan = NULL;
  assert_int_equal(ga_dist_plan_create(&s.desc, &plan), GA_OK);
  ga_dist_times t = GA_DIST_TIMES_INIT;
  for (int i = 0; i < 7; i++) {
    ga_dist_machine m = machine_of(true);
    static const char *const said[] = {"jitter is 1.5", "spread is -1", "start_keys is -1", "-1 draws",
                                       "reserved 1",    "(4, 1)",       "points of link at"};
    if (i == 0) m.jitter = 1.5;
    if (i == 1) m.spread = -1;
    if (i == 2) m.start_keys = -1;
    if (i == 3) m.draws = -1;
    if (i == 4) m.reserved = 1;
    if (i == 5) m.plain = falling, m.plain_points = 2;
    if (i == 6) m.link_points = 2;
    assert_int_equal(ga_dist_plan_simulate(plan, &m, &t), GA_ERR_ARG);
    assert_non_null(strstr(ga_error_text(), said[i]));
  }
  ga_dist_plan_destroy(plan);
  end_dist_case(&s);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_simulated_bounds),
      cmocka_unit_test(test_faster),
      cmocka_unit_test(test_shared_heads),
      cmocka_unit_test(test_split_heads_are_plain),
      cmocka_unit_test(test_gathered_is_plain),
      cmocka_unit_test(test_starts),
      cmocka_unit_test(test_curves),
      cmocka_unit_test(test_draws),
      cmocka_unit_test(test_band_is_normal),
      cmocka_unit_test(test_predictions),
      cmocka_unit_test(test_refused_machines),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
