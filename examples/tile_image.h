/* Where the images of the example kernels come from. */
#ifndef TILE_IMAGE_H
#define TILE_IMAGE_H

/* What nvcc made of <name>.cu; NULL when there is none. */
void *example_image(const char *name);
void example_image_free(void *image);

#endif
