/* The host application's locale changes nothing: templates, JSON and names of types are read and printed as ever, and
 * the locale is as before afterwards. Locales are made by localedef where its sources are installed (Debian: locales).
 */
#include <locale.h>

#include "file/hf.h"
#include "tests/model_folder.h"

#include "ga/chat.h"
#include "ga/tensor.h"

/* A comma; a point of two bytes; "I" that is not "i" in an 8-bit set. */
static const struct {
  const char *name, *source, *charset, *point;
} locales[] = {{"de_DE.UTF-8", "de_DE", "UTF-8", ","},
               {"ps_AF.UTF-8", "ps_AF", "UTF-8", "\xd9\xab"},
               {"tr_TR.ISO-8859-9", "tr_TR", "ISO-8859-9", ","}};
enum { LOCALES = sizeof locales / sizeof locales[0] };

static int missing; /* locales that are not here and cannot be made */
static char folder[] = "/tmp/ga-locale-XXXXXX";

static bool set_locale(int i) {
  char command[256];
  if (setlocale(LC_ALL, locales[i].name)) return true;
  (void)snprintf(command, sizeof command, "localedef -i %s -f %s %s/%s >/dev/null 2>&1", locales[i].source,
                 locales[i].charset, folder, locales[i].name);
  (void)setenv("LOCPATH", folder, 1);
  const bool made = system(command) >= 0 && setlocale(LC_ALL, locales[i].name);
  (void)unsetenv("LOCPATH");
  return made;
}

static const char source[] =
    "{{ 1.5 }} {{ '2.5'|float + 1 }} {{ x }} {{ y|tojson }} {{ '%.2f|%e|%g' % (3.14159, 0.5, 1e-7) }} {{ "
    "2.675|round(2) }} "
    "{{ '{:8.3f}|{:%}'.format(2.25, 0.125) }} {{ 0.1 + 0.2 }} {{ 1e300 }} {{ 1.25e-3|string }} {{ '1,5'|float(-1) }} "
    "{{ strftime_now('%A %B %p %x %c') }} {{ 'TITLE I'|lower }} {{ 'title i'|upper }} {{ extra }}";

static char *render_locale(void) {
  ga_template *tpl;
  const ga_chat_message message = {"user", "x"};
  const ga_template_limits limits = {.struct_size = sizeof limits, .now = 86400 * 70};
  ga_chat_options o = GA_CHAT_OPTIONS_INIT;
  o.extra_json = "{\"x\":0.25,\"y\":[1.5,-2e-9,[3.125]],\"extra\":1234567.125}";
  o.limits = &limits;
  char *text;
  size_t n;
  assert_ok(ga_template_compile(source, sizeof source - 1, &tpl));
  assert_ok(ga_chat_render(tpl, &message, 1, &o, &text, &n));
  ga_template_destroy(tpl);
  return text;
}

static void check_model(void) {
  ga_model_file *f;
  double x;
  /* given, and by default */
  assert_ok(open_folder("{\"model_type\":\"llama\"," BASE ",\"rms_norm_eps\":1.5e-05}", 0, NULL, &f));
  assert_ok(ga_model_file_float(f, "llama.attention.layer_norm_rms_epsilon", &x));
  assert_true(x > 1.4999e-5 && x < 1.5001e-5);
  ga_model_file_destroy(f);
  assert_ok(open_folder("{\"model_type\":\"llama\"," BASE "}", 0, NULL, &f));
  assert_ok(ga_model_file_float(f, "llama.attention.layer_norm_rms_epsilon", &x));
  assert_true(x > 0.9999e-6 && x < 1.0001e-6);
  ga_model_file_destroy(f);
}

static void test_locales(void **state) {
  (void)state;
  char *want = render_locale();
  missing = 0;
  assert_non_null(strstr(want, "1.5 3.5 0.25 [1.5, -2e-09, [3.125]] 3.14|5.000000e-01|1e-07"));
  for (int i = 0; i < LOCALES; i++) {
    if (!set_locale(i)) {
      (void)fprintf(stderr, "SKIPPED: no locale %s here, and localedef cannot make it (package locales)\n",
                    locales[i].name);
      missing++;
      continue;
    }
    assert_string_equal(localeconv()->decimal_point, locales[i].point);
    char *got = render_locale();
    assert_string_equal(got, want);
    ga_template_text_free(got);
    check_model();
    assert_int_equal(ga_dtype_from_name("iq4_nl"), GA_IQ4_NL);
    assert_int_equal(ga_dtype_from_name("IQ4_NL"), GA_IQ4_NL);
    ga_template *bad; /* errors leave the host's locale too */
    assert_int_equal(ga_template_compile("{% if %}", 8, &bad), GA_ERR_FORMAT);
    assert_string_equal(localeconv()->decimal_point, locales[i].point);
    assert_string_equal(setlocale(LC_ALL, NULL), locales[i].name);
    (void)setlocale(LC_ALL, "C");
  }
  ga_template_text_free(want);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_locales)};
  char command[64];
  if (!mkdtemp(folder)) return 1;
  int failed = cmocka_run_group_tests(tests, make_folder, remove_folder);
  (void)snprintf(command, sizeof command, "rm -rf %s", folder);
  failed += system(command) != 0;
  return failed ? failed : missing == LOCALES ? 77 : 0; /* which ctest calls skipped */
}
