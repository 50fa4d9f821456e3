#include "verify/bench/energy.h"

#include "base/clock.h"
#include "base/status.h"

static ga_status joules_of(const energy_meter *m, double *sum) {
  *sum = 0;
  for (int32_t i = 0; i < m->n; i++) {
    const ga_device *device = m->ctx[i]->device;
    ga_telemetry g = {0};
    if (device->instruments) device->instruments->read(m->ctx[i]->device, &g);
    GA_REQUIRE(g.joules > 0, GA_ERR_UNSUPPORTED,
               "energy: %s shows no energy counter (NVML: a data centre or RTX GPU from Volta on)",
               ga_ctx_device_name(m->ctx[i]));
    *sum += g.joules;
  }
  return GA_OK;
}

ga_status energy_begin(energy_meter *m) {
  GA_TRY(joules_of(m, &m->start_joules));
  m->start_seconds = ga_seconds();
  return GA_OK;
}

double energy_seconds(const energy_meter *m) { return ga_seconds() - m->start_seconds; }

ga_status energy_end(const energy_meter *m, energy_window *out) {
  double joules;
  const double seconds = energy_seconds(m);
  GA_TRY(joules_of(m, &joules));
  GA_REQUIRE(joules > m->start_joules, GA_ERR_STATE,
             "energy: the counter did not move in %.3f s; the window must be longer", seconds);
  *out = (energy_window){.seconds = seconds, .joules = joules - m->start_joules};
  return GA_OK;
}
