"""Names of flashcore over gpu_accel."""
